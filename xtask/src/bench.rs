//! `cargo xtask bench`: figures for `docs/performance.md`, on a server that really writes to disk.

use std::process::ExitCode;

use anyhow::Context;

use crate::postgres::{Durability, GuardedServer, ServerPrograms};
use crate::signals::{self, StopSignals};
use crate::{cargo, child};

/// Measure Planwright; prints tables for docs/performance.md.
#[derive(clap::Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: BenchCommand,
}

#[derive(clap::Subcommand)]
enum BenchCommand {
    /// The stores against hand-written loops that write the same rows.
    Store {
        /// Only this part of it.
        part: Option<StoreBenchPart>,
    },
    /// Sandboxes, capturing and landing against plain git.
    Sandbox,
    /// Workers: how soon an actor begins, what a plan costs, what waiting costs.
    Work,
    /// Rules: what an expression costs per changed file, and how often many run a slow command.
    Gates,
    /// Whole lives against other programs' and the databases' limits; renders docs/performance.md.
    Peers {
        /// Only this contender or part; repeat it for more. Nothing is kept then.
        #[arg(long, value_name = "NAME")]
        only: Vec<String>,
        /// Runs of which each figure is the median.
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
        runs: u32,
    },
    /// Render docs/performance.md and its charts from the results that were kept; measures nothing.
    Render,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum StoreBenchPart {
    Sqlite,
    Postgres,
    Size,
}

impl BenchCommand {
    /// How the measuring program is called.
    fn to_arguments(&self) -> Vec<String> {
        let mut words = match self {
            Self::Store { .. } => vec!["store".to_owned()],
            Self::Sandbox => vec!["sandbox".to_owned()],
            Self::Work => vec!["work".to_owned()],
            Self::Gates => vec!["gates".to_owned()],
            Self::Peers { runs, .. } => {
                vec!["peers".to_owned(), "--runs".to_owned(), runs.to_string()]
            }
            Self::Render => vec!["render".to_owned()],
        };
        match self {
            Self::Store { part: Some(part) } => words.push(part.as_str().to_owned()),
            Self::Peers { only, .. } => {
                for name in only {
                    words.extend(["--only".to_owned(), name.clone()]);
                }
            }
            Self::Store { part: None }
            | Self::Sandbox
            | Self::Work
            | Self::Gates
            | Self::Render => {}
        }
        words
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

/// Builds everything in release mode, then runs the measuring program.
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
    // In the target directory, because /tmp may be memory and a bench has to wait for a disk.
    bench
        .current_dir(cargo::target_directory()?)
        .args(arguments.what.to_arguments());
    // Held until the bench is over.
    let _cluster = match arguments.what {
        BenchCommand::Sandbox | BenchCommand::Gates | BenchCommand::Render => None,
        BenchCommand::Store { .. } | BenchCommand::Work => {
            let cluster = start_durable_server(&signals)?;
            bench.envs(cluster.environment());
            Some(cluster)
        }
        // Most contenders need no server; those that do are reported with the reason.
        BenchCommand::Peers { .. } => match start_durable_server(&signals) {
            Ok(cluster) => {
                bench.envs(cluster.environment());
                Some(cluster)
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
    fn what_is_asked_for_is_passed_on() {
        let peers = BenchCommand::Peers {
            only: vec!["restate".to_owned(), "growth".to_owned()],
            runs: 2,
        };
        let words = "peers --runs 2 --only restate --only growth";
        assert_eq!(peers.to_arguments().join(" "), words);
        let size = BenchCommand::Store {
            part: Some(StoreBenchPart::Size),
        };
        assert_eq!(size.to_arguments().join(" "), "store size");
        assert_eq!(BenchCommand::Sandbox.to_arguments().join(" "), "sandbox");
        assert_eq!(BenchCommand::Work.to_arguments().join(" "), "work");
        assert_eq!(BenchCommand::Render.to_arguments().join(" "), "render");
    }
}
