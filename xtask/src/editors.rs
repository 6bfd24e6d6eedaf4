//! `cargo xtask editors`: drives `planwright acp` with the protocol's own client libraries.
//!
//! The libraries are installed below the target directory. The tests have a client of their own; this checks that it
//! understands the protocol as others do.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, ensure};

use crate::signals::StopSignals;
use crate::{cargo, child};

const TYPESCRIPT_LIBRARY: &str = "@agentclientprotocol/sdk@2.4.0";
const PYTHON_LIBRARY: &str = "agent-client-protocol==0.12.1";

const ADVICE: &str = "This needs npm, Node.js 20 and Python 3.10 with venv. On Debian:\n  \
     sudo apt-get install -y npm python3-venv";

/// An agent that adds the goal to a file.
const AGENT: &str = "name: scribe\nkind: command\n\
     command: [sh, -c, 'echo working; echo \"$PLANWRIGHT_GOAL\" >> notes.txt']\n";

/// Drive `planwright acp` with the TypeScript and Python libraries of the Agent Client Protocol
#[derive(clap::Args)]
pub struct EditorsArgs {}

pub fn run(_: &EditorsArgs) -> anyhow::Result<ExitCode> {
    let trial = EditorTrial {
        signals: StopSignals::register()?,
        directory: cargo::target_directory()?.join("editors"),
    };
    std::fs::create_dir_all(&trial.directory)?;
    let program = trial.build_program()?;
    let clients = [trial.typescript_client()?, trial.python_client()?];
    for client in clients {
        trial.run_client(&program, &client)?;
        eprintln!("{}: ok", client.name);
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the libraries are installed and run.
struct EditorTrial {
    signals: StopSignals,
    directory: PathBuf,
}

/// A program that plays the editor.
struct TrialClient {
    name: &'static str,
    words: Vec<PathBuf>,
}

impl EditorTrial {
    fn build_program(&self) -> anyhow::Result<PathBuf> {
        let mut build = cargo::cargo_command();
        build.args(["build", "--quiet", "--package", "planwright"]);
        self.run(&mut build)?;
        Ok(cargo::target_directory()?.join("debug/planwright"))
    }

    fn typescript_client(&self) -> anyhow::Result<TrialClient> {
        let library = "node_modules/@agentclientprotocol/sdk/package.json";
        let installed = std::fs::read_to_string(self.directory.join(library)).unwrap_or_default();
        let version = TYPESCRIPT_LIBRARY.rsplit('@').next().unwrap_or_default();
        if !installed.contains(&format!("\"version\": \"{version}\"")) {
            let mut install = Command::new("npm");
            install.args(["install", "--silent", "--no-save", TYPESCRIPT_LIBRARY]);
            self.run(install.current_dir(&self.directory))
                .context(ADVICE)?;
        }
        // Node finds the library beside the script.
        let script = self.directory.join("client.mjs");
        std::fs::copy(client_source("client.mjs"), &script)?;
        Ok(TrialClient {
            name: "TypeScript",
            words: vec!["node".into(), script],
        })
    }

    fn python_client(&self) -> anyhow::Result<TrialClient> {
        let environment = self.directory.join("python");
        let python = environment.join("bin/python");
        let version_file = environment.join("library");
        let installed = std::fs::read_to_string(&version_file).unwrap_or_default();
        if installed != PYTHON_LIBRARY {
            let mut create = Command::new("python3");
            self.run(create.args(["-m", "venv", "--clear"]).arg(&environment))
                .context(ADVICE)?;
            let mut install = Command::new(&python);
            self.run(install.args(["-m", "pip", "install", "--quiet", PYTHON_LIBRARY]))?;
            std::fs::write(&version_file, PYTHON_LIBRARY)?;
        }
        Ok(TrialClient {
            name: "Python",
            words: vec![python, client_source("client.py")],
        })
    }

    /// Runs a client on a new repository, with a home of its own.
    fn run_client(&self, program: &Path, client: &TrialClient) -> anyhow::Result<()> {
        let place = tempfile::TempDir::with_prefix("planwright-editors-")?;
        let (home, repository) = (place.path().join("home"), place.path().join("shop"));
        std::fs::create_dir(&repository)?;
        std::fs::write(repository.join("notes.txt"), "")?;
        let agent = place.path().join("scribe.yaml");
        std::fs::write(&agent, AGENT)?;
        for words in [
            &["init", "--quiet", "--initial-branch", "main"][..],
            &["config", "user.name", "Ada"],
            &["config", "user.email", "ada@example.org"],
            &["add", "--all"],
            &["commit", "--quiet", "--message", "start"],
        ] {
            let mut git = Command::new("git");
            self.run(git.args(words).current_dir(&repository))?;
        }
        let mut add = Command::new(program);
        add.args(["--format", "json", "agent", "add"])
            .arg(&agent)
            .stdout(std::process::Stdio::null());
        self.run(add.env("PLANWRIGHT_HOME", &home))?;
        let mut set = Command::new(program);
        set.args(["--format", "json", "config", "set", "actor", "scribe"])
            .stdout(std::process::Stdio::null());
        self.run(set.env("PLANWRIGHT_HOME", &home))?;
        let mut drive = Command::new(&client.words[0]);
        drive
            .args(&client.words[1..])
            .args([program, &repository])
            .env("PLANWRIGHT_HOME", &home);
        self.run(&mut drive)
            .with_context(|| format!("the {} client does not get through", client.name))
    }

    fn run(&self, command: &mut Command) -> anyhow::Result<()> {
        let program = command.get_program().to_owned();
        let status = child::run_child(command, &self.signals)
            .with_context(|| format!("could not run {}", program.display()))?;
        ensure!(status.success(), "{} failed", program.display());
        Ok(())
    }
}

fn client_source(name: &str) -> PathBuf {
    cargo::workspace_root().join("xtask/editors").join(name)
}
