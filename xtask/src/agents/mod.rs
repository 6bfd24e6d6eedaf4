//! `cargo xtask agents`: runs real coding agents with the real program.
//!
//! The agents are installed from npm and PyPI below `target/agents`. Each works in a home of its own, confined, with a
//! model server on loopback instead of its provider, and with a proxy that refuses everything else.

mod bench;
mod catalog;
mod docs_table;
mod evidence;
mod findings;
mod install;
mod model_access;
mod model_server;
mod stages;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use clap::builder::PossibleValuesParser;

use self::catalog::{CHECKED_AGENTS, CheckedAgent, PackageRegistry};
use self::docs_table::AgentTable;
use self::findings::AgentFindings;
use self::install::AgentPrograms;
use self::model_server::{ModelServer, ModelTrouble};
use self::stages::{AgentStage, StageSetup};
use crate::signals::StopSignals;
use crate::{cargo, child, signals};

/// Install real coding agents and run each with a model server on loopback
#[derive(clap::Args)]
pub struct AgentsArgs {
    /// The agents to run, by the names of their presets [default: all]
    #[arg(long, value_name = "NAME", num_args = 1.., value_delimiter = ',', value_parser = agent_names())]
    agents: Vec<String>,

    /// The stages to run
    #[arg(long, value_enum, num_args = 1.., value_delimiter = ',',
          default_values = ["plan", "strategy", "failures"])]
    stages: Vec<AgentStage>,

    /// What is wrong with the model in the stage `failures`
    #[arg(long, value_enum, num_args = 1.., value_delimiter = ',',
          default_values = ["500", "401", "midway", "hang", "refused"])]
    troubles: Vec<ModelTrouble>,

    /// Seconds that an agent has to reach a model that fails
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(5..=3600))]
    patience: u64,

    /// Fail if docs/agents.md says anything else than what was found
    #[arg(long, conflicts_with = "write")]
    check: bool,

    /// Put what was found into docs/agents.md
    #[arg(long)]
    write: bool,
}

fn agent_names() -> PossibleValuesParser {
    PossibleValuesParser::new(CHECKED_AGENTS.iter().map(|agent| agent.name))
}

#[expect(clippy::print_stdout, reason = "the table is this command's output")]
pub fn run(arguments: &AgentsArgs) -> anyhow::Result<ExitCode> {
    ensure!(
        cfg!(target_os = "linux"),
        "agents are confined on Linux only"
    );
    let signals = StopSignals::register()?;
    let docs_file = cargo::workspace_root().join("docs/agents.md");
    // Before the long run, so that a document without the table is noticed at once.
    AgentTable::parse(&fs::read_to_string(&docs_file)?)?;
    let found = match arguments.run_agents(&signals) {
        Ok(found) => found,
        Err(error) => match signals.received_signal() {
            Some(signal) => return Ok(signals::signal_exit_code(signal)),
            None => return Err(error),
        },
    };
    let document = fs::read_to_string(&docs_file)?;
    let documented = AgentTable::parse(&document)?;
    let table = documented.with_findings(&found);
    println!("{}", table.to_markdown());
    if arguments.write {
        fs::write(&docs_file, table.write_into(&document)?)?;
    }
    let failures = documented.new_failures(&table);
    for failure in &failures {
        eprintln!("failed, and docs/agents.md does not say so: {failure}");
    }
    let is_outdated = arguments.check && table != documented;
    if is_outdated {
        eprintln!("docs/agents.md differs: run cargo xtask agents --write");
    }
    Ok(match failures.is_empty() && !is_outdated {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

impl AgentsArgs {
    fn run_agents(&self, signals: &StopSignals) -> anyhow::Result<Vec<AgentFindings>> {
        let directory = cargo::target_directory()?.join("agents");
        fs::create_dir_all(&directory)?;
        let selected: Vec<&CheckedAgent> = CHECKED_AGENTS
            .iter()
            .filter(|agent| {
                self.agents.is_empty() || self.agents.iter().any(|name| name == agent.name)
            })
            .collect();
        let programs = AgentPrograms::in_directory(directory.clone(), signals);
        let mut search_paths = Vec::new();
        for agent in &selected {
            let found = find_search_path(&programs, agent);
            if signals.received_signal().is_some() {
                bail!("interrupted");
            }
            // The other agents can be run all the same.
            search_paths.push(found.map_err(|error| format!("{error:#}")));
        }
        let runs = directory.join("runs");
        fs::create_dir_all(&runs)?;
        // Two runs would use the same directories.
        let lock = File::create(runs.join("lock"))?;
        lock.try_lock()
            .map_err(|error| anyhow!("another run of the agents has not ended: {error}"))?;
        let [planwright, fake_model] = build_programs(&runs, signals)?;
        let model = ModelServer::start(&fake_model, runs.join("model.jsonl"))?;
        let mut setup = StageSetup {
            planwright: &planwright,
            model: &model,
            search_path: Vec::new(),
            directory: runs,
            troubles: &self.troubles,
            patience: Duration::from_secs(self.patience),
            signals,
        };
        let mut found: Vec<AgentFindings> = selected
            .iter()
            .map(|agent| AgentFindings::new(agent.name, agent.package().version))
            .collect();
        // One stage after the other, because failing models take the longest.
        for stage in &self.stages {
            for (index, agent) in selected.iter().enumerate() {
                match &search_paths[index] {
                    Ok(search_path) => {
                        setup.search_path.clone_from(search_path);
                        setup.run_stage(agent, *stage, &mut found[index])?;
                    }
                    Err(problem) => found[index].set_not_installed(*stage, problem),
                }
                found[index].print_stage(*stage);
            }
        }
        Ok(found)
    }
}

/// Where the agent and its interpreter are.
fn find_search_path(
    programs: &AgentPrograms<'_>,
    agent: &CheckedAgent,
) -> anyhow::Result<Vec<PathBuf>> {
    let package = agent.package();
    let own = programs.find_or_install(package)?;
    Ok(match package.registry {
        PackageRegistry::Npm => vec![own, programs.find_or_install_node()?],
        PackageRegistry::PyPi => vec![own],
    })
}

/// Returns the program and the model server. They are copies, which a build during the run does not replace.
fn build_programs(directory: &Path, signals: &StopSignals) -> anyhow::Result<[PathBuf; 2]> {
    const NAMES: [&str; 2] = ["planwright", "fake-model"];
    let mut build = cargo::cargo_command();
    build.args([
        "build",
        "--package=planwright",
        "--package=planwright-testkit",
    ]);
    build.args(NAMES.map(|name| format!("--bin={name}")));
    let status = child::run_child(&mut build, signals).context("could not run cargo")?;
    if !status.success() {
        bail!("the programs could not be built");
    }
    let built = cargo::target_directory()?.join("debug");
    for name in NAMES {
        fs::copy(built.join(name), directory.join(name))?;
    }
    Ok(NAMES.map(|name| directory.join(name)))
}
