//! `planwright agent test`: tries an agent in a scratch repository, and says what works.

use std::path::{Path, PathBuf};

use ::actors::Stop;
use plan::actor::ActorKind;
use plan::{ActorDefinition, QualifiedName};
use sandbox::create_demo_repository;
use serde::Serialize;
use serde_json::Value;

use crate::cli::{App, CliFormat};
use crate::commands::CommandAnswer;
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::nested_run::NestedProgram;
use crate::{home, settings, signals, ui, yaml};

/// How long each of the two runs may take.
const RUN_TIMEOUT: &str = "10m";
const GOAL: &str =
    "Create the file hello.txt with the single line `hello`. Change nothing else and run nothing.";
const FEEDBACK: &str =
    "Add a second line to hello.txt: `world`. Change nothing else and run nothing.";
const FILE_NAME: &str = "hello.txt";

/// What the runs of an agent showed.
#[derive(Debug, Default, Serialize)]
struct AgentTestView {
    agent: String,
    /// It started and finished its first run.
    started: bool,
    isolation: Option<String>,
    /// It changed the file that it was asked to change, and no other.
    edited: bool,
    /// After feedback, it changed the file again.
    revised: bool,
    /// It continued its conversation after feedback.
    resumed: bool,
    tokens: u64,
    cost_micros: u64,
    seconds: u64,
    /// Why a run failed.
    problem: Option<String>,
}

impl AgentTestView {
    fn works(&self) -> bool {
        self.started && self.edited && self.revised
    }
}

/// Runs the agent twice, on a new plan and after feedback.
pub fn test_agent(app: &App, definition: &ActorDefinition) -> Result<CommandAnswer, CommandError> {
    let name = &definition.name;
    if let ActorKind::Human { .. } = definition.kind {
        return Err(CommandError::usage(format!(
            "`{name}` is a person. Only programs can be tested."
        )));
    }
    let stop = Stop::default();
    signals::stop_on_signals(&stop)?;
    let scratch = ScratchRepository::create(&app.settings.home)?;
    scratch.expect_ok(&["agent", "add", &scratch.write_definition(definition)?])?;
    let mut found = AgentTestView {
        agent: name.to_string(),
        ..AgentTestView::default()
    };
    announce(app, &format!("1 of 2: {name} works on a small goal"));
    let agent = name.to_string();
    let words = ["run", "--agent", &agent, "--profile", "review"];
    let goal = ["--timeout", RUN_TIMEOUT, "--", GOAL];
    let ran = scratch.run_json(&[&words[..], &goal].concat())?;
    require_not_stopped(&stop)?;
    if found.read_first_run(&scratch, ran)? {
        announce(app, &format!("2 of 2: {name} continues after feedback"));
        let ran = scratch.run_json(&["revise", "@", FEEDBACK])?;
        require_not_stopped(&stop)?;
        found.read_second_run(&scratch, ran)?;
    }
    found.read_usage(&scratch)?;
    Ok(describe_test(name, &found))
}

impl AgentTestView {
    /// Returns whether there is a result to give feedback on.
    fn read_first_run(
        &mut self,
        scratch: &ScratchRepository,
        (code, envelope): (Option<i32>, Value),
    ) -> Result<bool, CommandError> {
        self.problem = find_problem(&envelope);
        self.started = code == Some(i32::from(CommandExit::NeedsPerson.code()));
        if !self.started {
            return Ok(false);
        }
        self.edited = scratch.read_changed_paths()? == [FILE_NAME]
            && scratch.read_result()?.contains("+hello");
        Ok(true)
    }

    fn read_second_run(
        &mut self,
        scratch: &ScratchRepository,
        (code, envelope): (Option<i32>, Value),
    ) -> Result<(), CommandError> {
        let ended = code == Some(i32::from(CommandExit::NeedsPerson.code()));
        self.problem = find_problem(&envelope);
        self.revised = ended && scratch.read_result()?.contains("+world");
        let runs = scratch.read_runs()?;
        let sessions: Vec<&str> = runs
            .iter()
            .filter_map(|run| run["run"]["session"].as_str())
            .collect();
        self.resumed = matches!(sessions[..], [first, second] if first == second);
        Ok(())
    }

    fn read_usage(&mut self, scratch: &ScratchRepository) -> Result<(), CommandError> {
        let (_, status) = scratch.run_json(&["status", "@"])?;
        let used = &status["data"]["used"];
        self.tokens = used["tokens"].as_u64().unwrap_or_default();
        self.cost_micros = used["cost_micros"].as_u64().unwrap_or_default();
        self.seconds = used["seconds"].as_u64().unwrap_or_default();
        let runs = scratch.read_runs()?;
        let isolation = runs
            .first()
            .and_then(|run| run["run"]["isolation"].as_str());
        self.isolation = isolation.map(str::to_owned);
        Ok(())
    }
}

/// Why a plan failed, or why the command did.
fn find_problem(envelope: &Value) -> Option<String> {
    let failure = envelope["data"]["error"]["message"].as_str();
    let refused = || {
        let messages = envelope["messages"].as_array()?;
        let error = messages
            .iter()
            .find(|message| message["level"] == "error")?;
        error["text"].as_str()
    };
    failure.or_else(refused).map(str::to_owned)
}

fn describe_test(name: &QualifiedName, found: &AgentTestView) -> CommandAnswer {
    let mut text = String::new();
    let mut add = |mark: TestMark, check: &str, says: &str| {
        let (word, style) = match mark {
            TestMark::Good => ("ok  ", ui::GOOD),
            TestMark::Note => ("note", ui::WARN),
            TestMark::Bad => ("bad ", ui::BAD),
        };
        let says = ui::escape_controls(says);
        text.push_str(&format!(
            "{}  {check:<7}  {says}\n",
            ui::style_text(style, word)
        ));
    };
    let problem = found.problem.as_deref();
    let isolation = found.isolation.as_deref().unwrap_or("not started");
    match found.started {
        true => add(TestMark::Good, "start", isolation),
        false => add(TestMark::Bad, "start", problem.unwrap_or(isolation)),
    }
    if found.started {
        match found.edited {
            true => add(TestMark::Good, "edit", FILE_NAME),
            false => add(
                TestMark::Bad,
                "edit",
                "it did not change hello.txt alone, as it was asked to",
            ),
        }
        match (found.revised, found.resumed) {
            (true, true) => add(TestMark::Good, "revise", "it continued its conversation"),
            (true, false) => add(TestMark::Note, "revise", "it began a new conversation"),
            (false, _) => {
                let says = problem.unwrap_or("it did not change hello.txt after feedback");
                add(TestMark::Bad, "revise", says);
            }
        }
        let usage = describe_usage(found);
        match found.tokens + found.cost_micros {
            0 => add(
                TestMark::Note,
                "usage",
                "it reports none, so limits on tokens and cost cannot stop it",
            ),
            _ => add(TestMark::Good, "usage", &usage),
        }
    }
    let mut answer = CommandAnswer::new(found, text);
    if found.works() {
        answer.with_hint(format!("planwright run --agent {name} \"GOAL\""))
    } else {
        answer.exit = CommandExit::Error;
        answer.with_hint(format!("planwright agent show {name}"))
    }
}

enum TestMark {
    Good,
    Note,
    Bad,
}

fn describe_usage(found: &AgentTestView) -> String {
    let mut parts = vec![format!("{} tokens", found.tokens)];
    if found.cost_micros > 0 {
        parts.push(ui::format_money(found.cost_micros));
    }
    parts.push(ui::format_seconds(found.seconds));
    parts.join(" · ")
}

fn announce(app: &App, line: &str) {
    if app.format == CliFormat::Human {
        anstream::eprintln!("{line}…");
    }
}

fn require_not_stopped(stop: &Stop) -> Result<(), CommandError> {
    match stop.is_requested() {
        true => Err(CommandError::new(
            CommandExit::Interrupted,
            "Interrupted. The scratch repository was removed.",
        )),
        false => Ok(()),
    }
}

/// A repository with a home of its own. Removed when dropped.
struct ScratchRepository {
    directory: PathBuf,
    program: NestedProgram,
}

impl ScratchRepository {
    fn create(home: &Path) -> Result<Self, CommandError> {
        let directory = home.join("agent-test").join(std::process::id().to_string());
        let program = NestedProgram {
            home: directory.join("home"),
            directory: directory.join("repository"),
        };
        let scratch = Self { directory, program };
        // A killed process with the same id may have left one.
        let _ = std::fs::remove_dir_all(&scratch.directory);
        home::make_private_directory(&scratch.directory)
            .map_err(|error| scratch.file_error(&error))?;
        let readme = [("README.md", "# A scratch repository\n")];
        create_demo_repository(
            &settings::read_git_env(),
            &scratch.program.directory,
            &readme,
        )
        .map_err(lifecycle::LifecycleError::Sandbox)?;
        Ok(scratch)
    }

    fn write_definition(&self, definition: &ActorDefinition) -> Result<String, CommandError> {
        let file = self.directory.join("agent.yaml");
        std::fs::write(&file, yaml::format_actor(definition))
            .map_err(|error| self.file_error(&error))?;
        Ok(file.display().to_string())
    }

    fn run_json(&self, words: &[&str]) -> Result<(Option<i32>, Value), CommandError> {
        self.program
            .run_json(words)
            .map_err(|error| self.file_error(&error))
    }

    fn expect_ok(&self, words: &[&str]) -> Result<Value, CommandError> {
        match self.run_json(words)? {
            (Some(0), envelope) => Ok(envelope),
            (_, envelope) => Err(CommandError::new(
                CommandExit::Error,
                find_problem(&envelope)
                    .unwrap_or_else(|| format!("planwright {} failed", words.join(" "))),
            )),
        }
    }

    /// The paths that the result changes.
    fn read_changed_paths(&self) -> Result<Vec<String>, CommandError> {
        let shown = self.program.run(&["diff", "@", "--name-only"]);
        let shown = shown.map_err(|error| self.file_error(&error))?;
        let text = String::from_utf8_lossy(&shown.stdout);
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// The result as a patch.
    fn read_result(&self) -> Result<String, CommandError> {
        let shown = self.program.run(&["diff", "@", "--patch"]);
        let shown = shown.map_err(|error| self.file_error(&error))?;
        Ok(String::from_utf8_lossy(&shown.stdout).into_owned())
    }

    fn read_runs(&self) -> Result<Vec<Value>, CommandError> {
        let (_, log) = self.run_json(&["log", "@", "--transcript"])?;
        Ok(log["data"]["runs"].as_array().cloned().unwrap_or_default())
    }

    fn file_error(&self, error: &std::io::Error) -> CommandError {
        CommandError::new(
            CommandExit::Error,
            format!(
                "Cannot use the scratch directory {}: {error}",
                home::display_path(&self.directory)
            ),
        )
    }
}

impl Drop for ScratchRepository {
    fn drop(&mut self) {
        // What cannot be removed is in the home, which is private.
        let _ = std::fs::remove_dir_all(&self.directory);
        let _ = self.directory.parent().map(std::fs::remove_dir);
    }
}
