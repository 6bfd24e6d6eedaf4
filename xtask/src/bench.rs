//! `cargo xtask bench`: runs the benchmarks for `docs/performance.md`, with a PostgreSQL server that syncs to disk.

use std::process::ExitCode;

use anyhow::Context;

use crate::postgres::{Durability, GuardedServer, ServerPrograms};
use crate::signals::{self, StopSignals};
use crate::{cargo, child};

/// Measure Planwright; prints tables for docs/performance.md.
#[derive(clap::Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(clap::Subcommand)]
enum BenchCommand {
    /// Compare the stores with hand-written loops that write the same rows
    Store {
        /// Measure only this part
        part: Option<StoreBenchPart>,
    },
    /// Compare sandboxes, capturing and landing with plain git
    Sandbox,
    /// Measure workers: start latency, CPU time per plan, cost of an idle worker, sessions of agents
    Work {
        /// Measure only this part
        part: Option<WorkBenchPart>,
    },
    /// Measure rules: cost of an expression per changed file, and how often a slow command runs for many processes
    Gates,
    /// Compare complete workflows with other engines and the bare databases; renders docs/performance.md
    Peers {
        /// Measure only this system or part; can be repeated. Does not save the results
        #[arg(long, value_name = "NAME")]
        only: Vec<String>,
        /// Take the median of this many runs
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
        runs: u32,
    },
    /// Render docs/performance.md and its charts from the saved results, without measuring
    Render,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum StoreBenchPart {
    Sqlite,
    Postgres,
    Size,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum WorkBenchPart {
    /// Agents that speak the Agent Client Protocol, and `planwright mcp`
    Acp,
}

impl BenchCommand {
    /// The arguments for `planwright-bench`.
    fn to_arguments(&self) -> Vec<String> {
        let mut arguments = match self {
            Self::Store { .. } => vec!["store".to_owned()],
            Self::Sandbox => vec!["sandbox".to_owned()],
            Self::Work { .. } => vec!["work".to_owned()],
            Self::Gates => vec!["gates".to_owned()],
            Self::Peers { runs, .. } => {
                vec!["peers".to_owned(), "--runs".to_owned(), runs.to_string()]
            }
            Self::Render => vec!["render".to_owned()],
        };
        match self {
            Self::Store { part: Some(part) } => arguments.push(part.as_str().to_owned()),
            Self::Work {
                part: Some(WorkBenchPart::Acp),
            } => arguments.push("acp".to_owned()),
            Self::Peers { only, .. } => {
                for name in only {
                    arguments.extend(["--only".to_owned(), name.clone()]);
                }
            }
            Self::Store { part: None }
            | Self::Sandbox
            | Self::Work { part: None }
            | Self::Gates
            | Self::Render => {}
        }
        arguments
    }
}

impl StoreBenchPart {
    fn as_str(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Size => "size",
        }
    }
}

/// Builds everything in release mode, then runs `planwright-bench`.
pub fn run(arguments: &BenchArgs) -> anyhow::Result<ExitCode> {
    let signals = StopSignals::register()?;
    let mut build = cargo::cargo_command();
    build.args([
        "build",
        "--release",
        "-p",
        "planwright",
        "-p",
        "planwright-bench",
    ]);
    let built = child::run_child(&mut build, &signals).context("could not run cargo")?;
    if !built.success() {
        return Ok(child::exit_code(built));
    }
    let mut bench = cargo::command_without_cargo_env(
        cargo::target_directory()?
            .join("release")
            .join("planwright-bench"),
    );
    // In the target directory, because /tmp may be in memory and benchmarks must wait for a disk.
    bench
        .current_dir(cargo::target_directory()?)
        .args(arguments.command.to_arguments());
    // Dropped, and thereby stopped, after the benchmark.
    let _server = match arguments.command {
        BenchCommand::Sandbox | BenchCommand::Gates | BenchCommand::Render => None,
        BenchCommand::Store { .. } | BenchCommand::Work { .. } => {
            let server = start_durable_server(&signals)?;
            bench.envs(server.environment());
            Some(server)
        }
        // Most systems need no server. Those that do are reported as not measured, with the reason.
        BenchCommand::Peers { .. } => match start_durable_server(&signals) {
            Ok(server) => {
                bench.envs(server.environment());
                Some(server)
            }
            Err(error) => {
                bench.env("PLANWRIGHT_BENCH_NO_POSTGRES", format!("{error:#}"));
                None
            }
        },
    };
    if let Some(signal) = signals.received_signal() {
        return Ok(signals::signal_exit_code(signal));
    }
    let status =
        child::run_child(&mut bench, &signals).context("could not run planwright-bench")?;
    Ok(child::exit_code(status))
}

fn start_durable_server(signals: &StopSignals) -> anyhow::Result<GuardedServer> {
    GuardedServer::start(&ServerPrograms::find_or_install(signals)?, Durability::Full)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_passed_on() {
        let peers = BenchCommand::Peers {
            only: vec!["restate".to_owned(), "growth".to_owned()],
            runs: 2,
        };
        let expected = "peers --runs 2 --only restate --only growth";
        assert_eq!(peers.to_arguments().join(" "), expected);
        let size = BenchCommand::Store {
            part: Some(StoreBenchPart::Size),
        };
        assert_eq!(size.to_arguments().join(" "), "store size");
        assert_eq!(BenchCommand::Sandbox.to_arguments().join(" "), "sandbox");
        let work = |part| BenchCommand::Work { part }.to_arguments().join(" ");
        assert_eq!(work(None), "work");
        assert_eq!(work(Some(WorkBenchPart::Acp)), "work acp");
        assert_eq!(BenchCommand::Render.to_arguments().join(" "), "render");
    }
}
