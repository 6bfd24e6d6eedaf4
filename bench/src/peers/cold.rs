//! How long a command takes from nothing: Planwright's against a Python program with the usual imports.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::child;
use super::results::{ColdStart, Spread};
use super::setup;

/// Starts of each command.
const ROUNDS: usize = 20;
const LIMIT: Duration = Duration::from_secs(60);
/// What the Python program is called under `bench/peers`.
const PYTHON: &str = "python-cli";
const ACTION: &str = "name: tidy\ndescription: Tidy up\nactor: bench\n";

/// Both commands of both programs, by turns: whatever else the machine does falls on both.
pub fn measure(installed: &Path, directory: &Path) -> Result<Vec<ColdStart>, String> {
    setup::install(&installed.join(PYTHON))?;
    let programs = Programs::at(installed, directory)?;
    let config = directory.join("tidy.yaml");
    std::fs::write(&config, ACTION).map_err(|error| error.to_string())?;
    let mut create = programs.planwright();
    create.args(["action", "create", "--config"]).arg(&config);
    child::output(&mut create, LIMIT)?;
    // By its id, as the other program is asked: which plan is meant by less depends on where one is.
    let mut made = programs.planwright();
    let made = child::output(made.args(["--format", "json", "use", "tidy"]), LIMIT)?;
    let own = id_of(&made)?;
    let plan = child::output(&mut programs.python_use(), LIMIT)?;
    let plan = plan.trim();
    let mut writing = (Vec::new(), Vec::new());
    let mut reading = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        writing
            .0
            .push(time(programs.planwright().args(["use", "tidy"]))?);
        writing.1.push(time(&mut programs.python_use())?);
        reading
            .0
            .push(time(programs.planwright().args(["status", &own]))?);
        reading
            .1
            .push(time(programs.python().args(["status", plan]))?);
    }
    let row = |what: &str, (planwright, python): (Vec<f64>, Vec<f64>)| ColdStart {
        what: what.to_owned(),
        planwright_ms: Spread::of(&planwright),
        python_ms: Spread::of(&python),
    };
    Ok(vec![
        row("make a plan, durably", writing),
        row("show a plan", reading),
    ])
}

struct Programs {
    planwright: PathBuf,
    python: PathBuf,
    script: PathBuf,
    directory: PathBuf,
}

impl Programs {
    fn at(installed: &Path, directory: &Path) -> Result<Self, String> {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let home = installed.join(PYTHON);
        Ok(Self {
            planwright: own.with_file_name("planwright"),
            python: home.join("venv/bin/python"),
            script: home.join("cli.py"),
            directory: directory.to_owned(),
        })
    }

    fn planwright(&self) -> Command {
        let mut command = Command::new(&self.planwright);
        let store = format!("sqlite:{}", self.directory.join("planwright.db").display());
        command
            .env("PLANWRIGHT_HOME", &self.directory)
            .args(["--store", &store]);
        command
    }

    fn python(&self) -> Command {
        let mut command = Command::new(&self.python);
        command
            // Its modules were compiled when they were installed; they shall stay so.
            .env_remove("PYTHONDONTWRITEBYTECODE")
            .env("PLANS", self.directory.join("python.db"))
            .arg(&self.script);
        command
    }

    fn python_use(&self) -> Command {
        let mut command = self.python();
        command.args(["use", "Tidy up"]);
        command
    }
}

/// The id in what Planwright said of a new plan.
fn id_of(made: &str) -> Result<String, String> {
    let answer: Value = serde_json::from_str(made).map_err(|error| error.to_string())?;
    let id = answer["data"]["plan_id"].as_str();
    id.map(str::to_owned)
        .ok_or(format!("no plan was made: {made}"))
}

/// Milliseconds from starting it to its end.
fn time(command: &mut Command) -> Result<f64, String> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let stopwatch = Instant::now();
    let status = command.status().map_err(|error| error.to_string())?;
    let elapsed = stopwatch.elapsed();
    if status.success() {
        Ok(elapsed.as_secs_f64() * 1e3)
    } else {
        let program = command.get_program().to_string_lossy();
        Err(format!("{program} ended with {status}"))
    }
}
