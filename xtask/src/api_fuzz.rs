//! `cargo xtask api-fuzz`: sends generated requests to a server, and checks every answer against the OpenAPI document.
//!
//! schemathesis makes the requests. It is installed below the target directory; the product does not use it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::signals::StopSignals;
use crate::{cargo, child};

const SCHEMATHESIS: &str = "schemathesis==4.32.5";

const ADVICE: &str = "This needs curl, and Python 3.10 with venv. On Debian:\n  \
     sudo apt-get install -y curl python3-venv";

/// No server error, no undocumented status, and bodies of the documented form.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
     response_schema_conformance,response_headers_conformance";

/// Streams do not end, and a session that ends itself ends the run.
const EXCLUDED: &str = "^/v1/events$|^/v1/sessions/";

const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Send generated requests to the HTTP API and check every answer against its OpenAPI document
#[derive(clap::Args)]
pub struct ApiFuzzArgs {
    /// Requests per route and phase
    #[arg(long, value_name = "N", default_value_t = 15)]
    examples: u32,
    /// Start of the random choices, to repeat a run
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u32,
}

pub fn run(arguments: &ApiFuzzArgs) -> anyhow::Result<ExitCode> {
    let signals = StopSignals::register()?;
    let target = cargo::target_directory()?;
    let directory = target.join("api-fuzz");
    std::fs::create_dir_all(&directory)?;
    let fuzzer = install_schemathesis(&directory, &signals)?;
    let mut build = cargo::cargo_command();
    build.args(["build", "--quiet", "--package", "planwright"]);
    run_command(&mut build, &signals)?;

    let home = tempfile::TempDir::with_prefix("planwright-api-fuzz-")?;
    let program = target.join("debug/planwright");
    let plans = make_plans(&program, home.path(), &signals)?;
    std::fs::write(
        home.path().join("schemathesis.toml"),
        format!("[parameters]\n\"path.id\" = {plans:?}\n"),
    )?;
    let server = FuzzedServer::start(&program, home.path(), &directory)?;
    let (address, secret) = server.sign_in(&signals)?;
    let mut fuzz = Command::new(fuzzer);
    fuzz.args(["run", &format!("{address}/openapi.json")])
        .args(["--header", &format!("Planwright-Session: {secret}")])
        .args(["--checks", CHECKS, "--exclude-path-regex", EXCLUDED])
        .args(["--phases", "examples,coverage,fuzzing"])
        .args(["--max-examples", &arguments.examples.to_string()])
        .args(["--seed", &arguments.seed.to_string()])
        .args(["--request-timeout", "30", "--no-color"])
        .current_dir(home.path());
    let status = child::run_child(&mut fuzz, &signals)?;
    if !status.success() {
        let log = std::fs::read_to_string(directory.join("server.log")).unwrap_or_default();
        let errors: Vec<&str> = log.lines().filter(|line| line.contains(" WARN ")).collect();
        bail!(
            "the API did not answer as documented\n{}",
            errors.join("\n")
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// An agent that adds the goal to a file.
const AGENT: &str = "name: scribe\nkind: command\n\
     command: [sh, -c, 'echo \"$PLANWRIGHT_GOAL\" >> notes.txt']\n";

/// The exit code of a run that waits for a review.
const NEEDS_REVIEW: i32 = 6;

/// Makes plans with results, so that requests reach more than the check whether a plan exists. Returns their ids.
fn make_plans(program: &Path, home: &Path, signals: &StopSignals) -> anyhow::Result<Vec<String>> {
    let repository = home.join("shop");
    std::fs::create_dir(&repository)?;
    std::fs::write(repository.join("notes.txt"), "one\n")?;
    let agent = home.join("scribe.yaml");
    std::fs::write(&agent, AGENT)?;
    for words in [
        &["init", "--quiet", "--initial-branch", "main"][..],
        &["config", "user.name", "Ada"],
        &["config", "user.email", "ada@example.org"],
        &["add", "--all"],
        &["commit", "--quiet", "--message", "start"],
    ] {
        let mut git = Command::new("git");
        run_command(git.args(words).current_dir(&repository), signals)?;
    }
    let answer = home.join("answer");
    let planwright = |words: &[&str]| -> anyhow::Result<Option<i32>> {
        let mut command = Command::new(program);
        command
            .args(["--format", "json"])
            .args(words)
            .current_dir(&repository)
            .env("PLANWRIGHT_HOME", home)
            .stdout(File::create(&answer)?);
        Ok(child::run_child(&mut command, signals)?.code())
    };
    let agent = agent
        .to_str()
        .context("the path of a scratch file is text")?;
    ensure!(planwright(&["agent", "add", agent])? == Some(0), "no agent");
    let mut plans = Vec::new();
    for goal in ["Write a line", "Write another line", "Write one more line"] {
        let code = planwright(&["run", "--agent", "scribe", goal])?;
        let text = std::fs::read_to_string(&answer)?;
        ensure!(code == Some(NEEDS_REVIEW), "the plan has no result: {text}");
        let (_, id) = text.split_once("\"plan_id\":\"").context("no plan id")?;
        plans.push(id.chars().take_while(|letter| *letter != '"').collect());
    }
    Ok(plans)
}

/// A server on a store of its own. Killed when dropped.
struct FuzzedServer<'a> {
    program: &'a Path,
    home: &'a Path,
    process: Child,
}

impl<'a> FuzzedServer<'a> {
    fn start(program: &'a Path, home: &'a Path, logs: &Path) -> anyhow::Result<Self> {
        let log = File::create(logs.join("server.log"))?;
        let process = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .env("PLANWRIGHT_HOME", home)
            .current_dir(home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("could not start the server")?;
        Ok(Self {
            program,
            home,
            process,
        })
    }

    /// Returns the server's address and the secret of a session.
    fn sign_in(&self, signals: &StopSignals) -> anyhow::Result<(String, String)> {
        let answer = self.home.join("answer");
        let running = self.home.join("server/running");
        let deadline = Instant::now() + START_TIMEOUT;
        while std::fs::read_dir(&running).map_or(0, Iterator::count) == 0 {
            ensure!(Instant::now() < deadline, "the server did not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        let mut open = Command::new(self.program);
        open.args(["open", "--print"])
            .env("PLANWRIGHT_HOME", self.home)
            .stdout(File::create(&answer)?);
        run_command(&mut open, signals)?;
        let link = std::fs::read_to_string(&answer)?;
        let (address, code) = link
            .trim()
            .split_once("/enter#code=")
            .context("`open --print` printed no link")?;
        let mut curl = Command::new("curl");
        curl.args([
            "--silent",
            "--fail",
            "--header",
            "Content-Type: application/json",
        ])
        .args(["--data", &format!("{{\"code\": \"{code}\"}}")])
        .arg(format!("{address}/v1/sessions"))
        .stdout(File::create(&answer)?);
        run_command(&mut curl, signals).context(ADVICE)?;
        let started = std::fs::read_to_string(&answer)?;
        let secret = started
            .split_once("\"secret\":\"")
            .and_then(|(_, rest)| rest.split_once('"'));
        let (secret, _) = secret.context("the server started no session")?;
        Ok((address.to_owned(), secret.to_owned()))
    }
}

impl Drop for FuzzedServer<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn install_schemathesis(directory: &Path, signals: &StopSignals) -> anyhow::Result<PathBuf> {
    let environment = directory.join("python");
    let version_file = directory.join("version");
    let program = environment.join("bin/schemathesis");
    let installed = std::fs::read_to_string(&version_file).unwrap_or_default();
    if installed == SCHEMATHESIS && program.is_file() {
        return Ok(program);
    }
    let mut create = Command::new("python3");
    create.args(["-m", "venv", "--clear"]).arg(&environment);
    run_command(&mut create, signals).context(ADVICE)?;
    let mut install = Command::new(environment.join("bin/python"));
    install.args(["-m", "pip", "install", "--quiet", SCHEMATHESIS]);
    run_command(&mut install, signals)?;
    std::fs::write(version_file, SCHEMATHESIS)?;
    Ok(program)
}

fn run_command(command: &mut Command, signals: &StopSignals) -> anyhow::Result<()> {
    let program = command.get_program().to_owned();
    let status = child::run_child(command, signals)
        .with_context(|| format!("could not run {}", program.display()))?;
    ensure!(status.success(), "{} failed", program.display());
    Ok(())
}
