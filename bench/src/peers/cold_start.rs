//! The time of a command from start to end: Planwright against a Python program with typical imports.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::child::run_with_timeout;
use super::driver_install;
use super::results::{ColdStartTimes, ValueSpread};

const ROUNDS: usize = 20;
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// The directory of the Python program under `bench/peers`.
const PYTHON_CLI: &str = "python-cli";
const ACTION_YAML: &str = "name: tidy\ndescription: Tidy up\nactor: bench\n";

/// Times both commands of both programs. They alternate, so that other load on the machine affects both.
pub fn measure_cold_start(
    installed: &Path,
    directory: &Path,
) -> Result<Vec<ColdStartTimes>, String> {
    driver_install::install_packages(&installed.join(PYTHON_CLI))?;
    let programs = ColdStartPrograms::locate(installed, directory)?;
    let config = directory.join("tidy.yaml");
    std::fs::write(&config, ACTION_YAML).map_err(|error| error.to_string())?;
    let mut create_action = programs.planwright_command();
    create_action
        .args(["action", "create", "--config"])
        .arg(&config);
    run_with_timeout(&mut create_action, COMMAND_TIMEOUT)?;
    // Full ids, because resolving a shorter handle is extra work that depends on the current directory.
    let mut create_plan = programs.planwright_command();
    create_plan.args(["--format", "json", "use", "tidy"]);
    let planwright_id = parse_plan_id(&run_with_timeout(&mut create_plan, COMMAND_TIMEOUT)?)?;
    let python_id = run_with_timeout(&mut programs.python_use_command(), COMMAND_TIMEOUT)?;
    let python_id = python_id.trim();
    let (mut planwright_use, mut python_use) = (Vec::new(), Vec::new());
    let (mut planwright_status, mut python_status) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        planwright_use.push(time_command(
            programs.planwright_command().args(["use", "tidy"]),
        )?);
        python_use.push(time_command(&mut programs.python_use_command())?);
        planwright_status.push(time_command(
            programs
                .planwright_command()
                .args(["status", &planwright_id]),
        )?);
        python_status.push(time_command(
            programs.python_command().args(["status", python_id]),
        )?);
    }
    let row = |command: &str, planwright: &[f64], python: &[f64]| ColdStartTimes {
        command: command.to_owned(),
        planwright_ms: ValueSpread::of(planwright),
        python_ms: ValueSpread::of(python),
    };
    Ok(vec![
        row("create a plan, durably", &planwright_use, &python_use),
        row("show a plan", &planwright_status, &python_status),
    ])
}

struct ColdStartPrograms {
    planwright: PathBuf,
    python: PathBuf,
    script: PathBuf,
    directory: PathBuf,
}

impl ColdStartPrograms {
    fn locate(installed: &Path, directory: &Path) -> Result<Self, String> {
        let own_program = std::env::current_exe().map_err(|error| error.to_string())?;
        let home = installed.join(PYTHON_CLI);
        Ok(Self {
            planwright: own_program.with_file_name("planwright"),
            python: home.join("venv/bin/python"),
            script: home.join("cli.py"),
            directory: directory.to_owned(),
        })
    }

    fn planwright_command(&self) -> Command {
        let mut command = Command::new(&self.planwright);
        let store = format!("sqlite:{}", self.directory.join("planwright.db").display());
        command
            .env("PLANWRIGHT_HOME", &self.directory)
            .args(["--store", &store]);
        command
    }

    fn python_command(&self) -> Command {
        let mut command = Command::new(&self.python);
        command
            // Python keeps using the bytecode that pip compiled.
            .env_remove("PYTHONDONTWRITEBYTECODE")
            .env("PLANS", self.directory.join("python.db"))
            .arg(&self.script);
        command
    }

    fn python_use_command(&self) -> Command {
        let mut command = self.python_command();
        command.args(["use", "Tidy up"]);
        command
    }
}

fn parse_plan_id(output: &str) -> Result<String, String> {
    let envelope: Value = serde_json::from_str(output).map_err(|error| error.to_string())?;
    let plan_id = envelope["data"]["plan_id"].as_str();
    plan_id
        .map(str::to_owned)
        .ok_or(format!("no plan was created: {output}"))
}

/// Milliseconds from start to exit.
fn time_command(command: &mut Command) -> Result<f64, String> {
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
        Err(format!("{program} failed: {status}"))
    }
}
