//! `planwright init`: creates the store and proposes a `planwright.yaml`.

mod config_text;
mod detect;

use std::io::Write;
use std::path::Path;

use sandbox::{GitLocation, LocalResource, ResourceLocation, locate_git_repository};
use serde_json::json;

use crate::cli::{App, CliFormat};
use crate::commands::CommandAnswer;
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::{home, repository_config, settings, ui};

/// Create the store and, in a repository, a planwright.yaml
///
/// Safe to repeat: an existing planwright.yaml is checked, never overwritten.
#[derive(Debug, clap::Args)]
pub struct InitArgs {
    /// Write planwright.yaml without asking for confirmation
    #[arg(long)]
    yes: bool,
    /// Run the test command that was found first, and leave it out if it fails
    ///
    /// It runs here, with your rights. On a terminal, you are asked.
    #[arg(long = "try")]
    try_tests: bool,
}

pub fn run(args: &InitArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    // Read an existing file first: if it is invalid, fail before the store is created.
    let inspected = locate_git_repository(&settings::read_git_env(), Path::new("."), None);
    let (repository, skip_reason) = match inspected {
        Ok(place) if !place.path.join(".git").exists() => (
            None,
            Some("the repository is bare and has no working tree".to_owned()),
        ),
        Ok(place) => (Some(place), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let existing = match &repository {
        Some(place) => repository_config::read_file(&place.path.join("planwright.yaml"))?,
        None => None,
    };
    let (mut data, mut text) = create_store(app)?;
    let Some(place) = repository else {
        let mut answer = CommandAnswer::new(data, text);
        if let Some(skip_reason) = skip_reason {
            answer.messages.push(crate::wire::UserMessage {
                level: "info",
                text: format!("No planwright.yaml written: {skip_reason}."),
            });
        }
        return Ok(answer.with_hint("In a repository with a commit: planwright init"));
    };
    let mut detected = detect::detect_setup(&place.path);
    data["repository"] = json!(place.path.display().to_string());
    data["detected"] = json!({
        "agents": detected.agents,
        "test": detected.test,
        "setup": detected.setup,
        "not_installed": detected.not_installed,
        "include": detected.include,
    });
    let path = place.path.join("planwright.yaml");
    let next = next_command(&detected);
    if existing.is_some() {
        data["written"] = json!(false);
        text.push_str(&format!(
            "{} already exists and is valid.\n",
            home::display_path(&path)
        ));
        text.push_str(&warn_uncommitted_rules(app, place));
        return Ok(CommandAnswer::new(data, text).with_hint(next));
    }
    for command in &detected.not_installed {
        text.push_str(&format!(
            "Not proposed: `{command}`, which is not installed here\n"
        ));
    }
    if let Some(trial) = try_tests(args, app, &mut detected, &place.path)? {
        data["tried"] = json!({ "command": trial.command, "exit_code": trial.exit_code });
        match ui::can_ask_person(app.format) {
            // Before the next question, which depends on it.
            true => anstream::eprint!("{}", trial.describe()),
            false => text.push_str(&trial.describe()),
        }
    }
    let content = config_text::render_config(&detected);
    if !args.yes {
        if app.format == CliFormat::Human {
            show_proposal(&path, &content);
        }
        data["proposed"] = json!(content);
        if !ask_to_write(app) {
            let mut answer = CommandAnswer::new(data, text).with_hint("planwright init --yes");
            answer.exit = CommandExit::NeedsPerson;
            answer.messages.insert(
                0,
                crate::wire::UserMessage {
                    level: "info",
                    text: "planwright.yaml was not written.".to_owned(),
                },
            );
            return Ok(answer);
        }
    }
    write_new_file(&path, &content)?;
    data["written"] = json!(true);
    text.push_str(&format!("Wrote {}\n", home::display_path(&path)));
    if args.yes && app.format == CliFormat::Human {
        for line in content.lines() {
            text.push_str(&format!("  {line}\n"));
        }
    }
    text.push_str(&warn_uncommitted_rules(app, place));
    Ok(CommandAnswer::new(data, text).with_hint(next))
}

/// Returns a note if the rules in the file differ from those on the target branch; otherwise empty.
fn warn_uncommitted_rules(app: &App, place: GitLocation) -> String {
    let branch = place.branch.clone();
    let branch = branch.strip_prefix("refs/heads/").unwrap_or(&branch);
    let location = LocalResource {
        name: "here".to_owned(),
        location: ResourceLocation::Git {
            path: place.path,
            target: place.branch,
        },
    };
    let differ = app.lifecycle().is_ok_and(|lifecycle| {
        lifecycle
            .gates()
            .rules_differ_from_target(&location)
            .unwrap_or(false)
    });
    match differ {
        true => format!(
            "Its rules apply to plans that you start here. Commit it to {branch}, and they apply to every plan.\n"
        ),
        false => String::new(),
    }
}

/// A run of the proposed test command.
struct TestTrial {
    command: String,
    /// `None` if a signal ended it.
    exit_code: Option<i32>,
}

impl TestTrial {
    fn describe(&self) -> String {
        let command = ui::escape_controls(&self.command);
        match self.exit_code {
            Some(0) => format!("`{command}` passed\n"),
            Some(code) => format!("Not proposed: `{command}`, which ended with exit code {code}\n"),
            None => format!("Not proposed: `{command}`, which was ended by a signal\n"),
        }
    }
}

/// Runs the proposed test command if the person agrees. A rule that fails from the start would block every plan, so a
/// command that fails is no longer proposed.
fn try_tests(
    args: &InitArgs,
    app: &App,
    detected: &mut detect::DetectedSetup,
    root: &Path,
) -> Result<Option<TestTrial>, CommandError> {
    let Some(command) = detected.test.clone() else {
        return Ok(None);
    };
    let is_wanted = args.try_tests || {
        let may_ask = !args.yes && ui::can_ask_person(app.format);
        let question = format!(
            "Run `{}` here to try it? [Y/n] ",
            ui::escape_controls(&command)
        );
        let answer = may_ask.then(|| ui::ask_person(&question)).flatten();
        let answer = answer.map(|answer| answer.to_lowercase());
        matches!(answer.as_deref(), Some("" | "y" | "yes"))
    };
    if !is_wanted {
        return Ok(None);
    }
    let exit_code =
        sandbox::run_in_directory(root, &command).map_err(lifecycle::LifecycleError::Sandbox)?;
    if exit_code != Some(0) {
        detected.test = None;
    }
    Ok(Some(TestTrial { command, exit_code }))
}

/// Finds the command that runs a repository's tests. Runs nothing of it.
pub fn find_test_command(root: &Path) -> Option<String> {
    detect::detect_setup(root).test
}

fn next_command(found: &detect::DetectedSetup) -> String {
    match found.agents.as_slice() {
        [] => "planwright agent list".to_owned(),
        // Of several agents, `run` asks for one.
        [_, ..] => "planwright run \"GOAL\"".to_owned(),
    }
}

fn create_store(app: &App) -> Result<(serde_json::Value, String), CommandError> {
    let store = app.lifecycle()?.store();
    let existed = store.read_info()?.schema_version.is_some();
    let (_, schema) = store.migrate_schema()?;
    let info = store.read_info()?;
    let place = home::display_path(Path::new(&info.place));
    let place = ui::style_text(ui::BOLD, place);
    let text = match existed {
        true => format!("The store is ready: {place}\n"),
        false => format!("Created the store: {place}\n"),
    };
    let data = json!({
        "home": app.settings.home,
        "store": { "kind": info.kind, "place": info.place, "schema": schema },
        "created": !existed,
    });
    Ok((data, text))
}

fn show_proposal(path: &Path, content: &str) {
    let mut stderr = anstream::stderr().lock();
    let _ = writeln!(
        stderr,
        "{}:",
        ui::style_text(ui::BOLD, home::display_path(path))
    );
    for line in content.lines() {
        let style = if line.trim_start().starts_with('#') {
            ui::DIM
        } else {
            anstyle::Style::new()
        };
        let _ = writeln!(stderr, "  {}", ui::style_text(style, line));
    }
}

/// Asks whether to write the file; false if there is no terminal.
fn ask_to_write(app: &App) -> bool {
    let answer = ui::can_ask_person(app.format).then(|| ui::ask_person("Write it? [Y/n] "));
    let answer = answer.flatten().map(|answer| answer.to_lowercase());
    matches!(answer.as_deref(), Some("" | "y" | "yes"))
}

/// Writes a new file. Fails if it exists by now, so that nothing is overwritten.
fn write_new_file(path: &Path, content: &str) -> Result<(), CommandError> {
    let written = std::fs::File::create_new(path).and_then(|mut file| {
        file.write_all(content.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|error| CommandError::for_file(path, "written", &error))
}
