//! `planwright mcp install`: makes Planwright known to an agent as an MCP server, after showing what that changes.

mod client_settings;
mod json_settings;
mod settings_file;
mod toml_settings;

use std::process::{Command, Stdio};

use plan::Caller;
use serde_json::json;

use crate::cli::App;
use crate::commands::{CommandAnswer, serve};
use crate::current_repository;
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::invocation::{contains_password, quote_word};
use crate::settings::{self, SettingKey, SettingOrigin};
use crate::{home, host, ui};

use client_settings::{InstallMethod, McpClient};
use settings_file::SettingsFile;

/// The name of the server in the agents' settings.
const SERVER_NAME: &str = "planwright";

/// Set up an agent as a client: claude, codex or gemini
///
/// Shows what it changes and asks first. Also registers the current repository, so that agents can start plans in
/// it. Safe to repeat.
#[derive(Debug, clap::Args)]
pub struct InstallArgs {
    /// Agent to set up
    #[arg(value_enum, value_name = "AGENT")]
    client: McpClient,
    /// Change the settings without asking
    #[arg(long)]
    yes: bool,
    /// Only show what would change
    #[arg(long, conflicts_with = "yes")]
    print: bool,
}

/// How a client starts the server.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ServerEntry {
    command: String,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
}

/// What is to be changed. Nothing is written before the person agrees.
struct InstallPlan {
    /// `None` if the client knows the server already.
    method: Option<InstallMethod>,
    repository: Option<sandbox::GitLocation>,
}

pub fn run(args: &InstallArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    refuse_agents()?;
    if !args.print {
        host::register_host(&app.settings.home)?;
    }
    let entry = make_entry(args.client, app)?;
    let plan = InstallPlan {
        method: client_settings::find_method(args.client, &entry)?,
        repository: find_unregistered_repository(app)?,
    };
    let name = args.client.name();
    let changes = plan.describe();
    let data = |done: bool| json!({ "client": name, "changes": changes, "done": done });
    if changes.is_empty() {
        let text = format!("{name} is set up already; nothing changed.\n");
        return Ok(CommandAnswer::new(data(true), text));
    }
    let text: String = changes.iter().map(|change| format!("{change}\n")).collect();
    if args.print {
        return Ok(CommandAnswer::new(data(false), text));
    }
    if !args.yes {
        if !ui::can_ask_person(app.format) {
            let message = format!("This would change the settings of {name}:\n{text}");
            let error = CommandError::new(CommandExit::NeedsPerson, message.trim_end());
            return Err(error.with_hint(format!("planwright mcp install {name} --yes")));
        }
        let answer = ui::ask_person(&format!("{text}Do this? [y/N] "));
        if !matches!(answer.as_deref(), Some("y" | "Y" | "yes")) {
            return Ok(CommandAnswer::new(data(false), "Nothing changed.\n"));
        }
    }
    plan.carry_out(app)?;
    let mut done = match args.yes {
        true => text,
        false => String::new(),
    };
    done.push_str(&format!(
        "{name} can now start plans. Restart it if it is running.\n"
    ));
    Ok(CommandAnswer::new(data(true), done))
}

/// Agents must not change what other agents may use.
fn refuse_agents() -> Result<(), CommandError> {
    match home::current_caller() {
        Caller::Person(_) => Ok(()),
        Caller::Agent(_) | Caller::Worker(_) => Err(CommandError::new(
            CommandExit::NeedsPerson,
            "An agent cannot change the settings of agents.",
        )
        .with_hint("Ask a person to do this.")),
    }
}

/// The command with the store and home of this invocation, so that the client's plans are kept in the same place.
fn make_entry(client: McpClient, app: &App) -> Result<ServerEntry, CommandError> {
    let program = std::env::current_exe().map_err(|error| {
        CommandError::new(
            CommandExit::Error,
            format!("Cannot find the path of this program: {error}"),
        )
    })?;
    let mut arguments = Vec::new();
    let store = app.settings.get(SettingKey::Store);
    let is_given = matches!(
        store.origin,
        SettingOrigin::Flag | SettingOrigin::Environment(_)
    );
    if is_given {
        // Agents start the server in other directories.
        let store = serve::store_text(app).map_err(|error| {
            let message = format!("Cannot resolve the store's path: {error}");
            CommandError::new(CommandExit::Error, message)
        })?;
        if contains_password(&store) {
            return Err(CommandError::usage(
                "The store's address contains a password, which does not belong into the settings of agents.",
            )
            .with_hint("planwright config set store ADDRESS"));
        }
        arguments.extend(["--store".to_owned(), store]);
    }
    arguments.extend(["mcp", "--name", client.name()].map(str::to_owned));
    let home = &app.settings.home;
    let is_default_home = home::default_home().is_ok_and(|default| default == *home);
    let variables = (!is_default_home).then(|| {
        let home = std::path::absolute(home).unwrap_or_else(|_| home.clone());
        ("PLANWRIGHT_HOME".to_owned(), home.display().to_string())
    });
    Ok(ServerEntry {
        command: program.display().to_string(),
        arguments,
        variables: variables.into_iter().collect(),
    })
}

/// The current repository, if it is not a project yet. Agents cannot register it.
fn find_unregistered_repository(app: &App) -> Result<Option<sandbox::GitLocation>, CommandError> {
    if current_repository::find_checkout_root().is_none() {
        return Ok(None);
    }
    // A repository without a branch or a commit cannot be registered.
    let Ok(place) = current_repository::inspect_repository() else {
        return Ok(None);
    };
    let project = current_repository::find_project(app, &place)?;
    Ok(project.is_none().then_some(place))
}

impl InstallPlan {
    /// Describes each change, exactly as it is made.
    fn describe(&self) -> Vec<String> {
        let mut changes = Vec::new();
        match &self.method {
            None => {}
            Some(InstallMethod::Commands(commands)) => {
                changes.extend(commands.iter().map(|words| {
                    let words: Vec<String> = words.iter().map(|word| quote_word(word)).collect();
                    format!("Run: {}", words.join(" "))
                }));
            }
            Some(InstallMethod::EditFile { file, shown, .. }) => {
                let path = ui::escape_controls(&file.path.display().to_string());
                let lines: String = shown
                    .lines()
                    .map(|line| format!("  {}\n", ui::escape_controls(line)))
                    .collect();
                changes.push(format!("In {path}:\n{}", lines.trim_end()));
            }
        }
        if let Some(place) = &self.repository {
            let path = ui::escape_controls(&place.path.display().to_string());
            changes.push(format!("Register the repository {path} with Planwright"));
        }
        changes
    }

    fn carry_out(self, app: &App) -> Result<(), CommandError> {
        match self.method {
            None => {}
            Some(InstallMethod::Commands(commands)) => {
                for words in &commands {
                    run_client_command(words)?;
                }
            }
            Some(InstallMethod::EditFile { file, text, .. }) => file.replace(&text)?,
        }
        if let Some(place) = &self.repository {
            current_repository::register_project(app, place, &app.new_call())?;
        }
        Ok(())
    }
}

/// Runs a command of the client itself, such as `claude mcp add-json`.
#[expect(
    clippy::disallowed_methods,
    reason = "runs the person's agent, not a program of a plan"
)]
fn run_client_command(words: &[String]) -> Result<(), CommandError> {
    let failed = |why: String| {
        CommandError::new(CommandExit::Error, format!("`{}` failed: {why}", words[0]))
            .with_hint("Run it yourself: planwright mcp install shows the command with --print")
    };
    let output = Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(failed(ui::truncate_line(said.trim(), 500)))
}
