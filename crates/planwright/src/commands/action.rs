//! `planwright action`.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use plan::Name;
use serde_json::json;

use crate::cli::App;
use crate::commands::{Answer, conditions};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::ui;
use crate::wire::ActionView;
use crate::yaml;

/// Longest file that is read.
const MAX_BYTES: u64 = 256 * 1024;

/// Actions: reusable templates of plans.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Store a new action from a YAML file.
    Create {
        /// The file; - reads from standard input.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// Repeating it with the same key gives the same answer.
        #[arg(long, value_name = "KEY", value_parser = conditions::key)]
        idempotency_key: Option<String>,
    },
    /// List actions by name.
    List {
        /// Go on after this action, the last of the page before.
        #[arg(long, value_name = "NAME")]
        after: Option<Name>,
        /// At most so many.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=500))]
        limit: u16,
    },
    /// Show one action.
    Show {
        /// Its name.
        name: Name,
    },
    /// Take an action out of use; its plans go on.
    Archive {
        /// Its name.
        name: Name,
    },
}

impl Command {
    /// Carries it out.
    pub fn run(self, app: &App) -> Result<Answer, CommandError> {
        match self {
            Self::Create {
                config,
                idempotency_key,
            } => create(&config, idempotency_key.as_deref(), app),
            Self::List { after, limit } => list(after.as_ref(), limit, app),
            Self::Show { name } => show(&name, app),
            Self::Archive { name } => archive(&name, app),
        }
    }
}

fn create(file: &Path, key: Option<&str>, app: &App) -> Result<Answer, CommandError> {
    let source = read(file)?;
    let definition = yaml::action(&source, &file.display().to_string())
        .map_err(|problem| CommandError::malformed(problem, &source))?;
    let mut call = app.call();
    if let Some(key) = key {
        call = call.with_key(key);
    }
    // What is wrong with a rule is wrong with the file.
    let action =
        app.lifecycle()?
            .create_action(definition, &call)
            .map_err(|error| match error {
                lifecycle::Error::Expr(_) => {
                    let error = CommandError::from(error);
                    CommandError {
                        exit: Exit::Error,
                        message: format!("{}: {}", file.display(), error.message),
                        ..error
                    }
                }
                other => other.into(),
            })?;
    let text = format!("Created action {}\n", ui::styled(ui::BOLD, action.name()));
    let hint = format!(
        "planwright use {}{}",
        action.name(),
        required_arguments(&action)
    );
    Ok(Answer::new(ActionView::from(&action), text).hint(hint))
}

fn list(after: Option<&Name>, limit: u16, app: &App) -> Result<Answer, CommandError> {
    let limit = usize::from(limit);
    let mut actions = app.lifecycle()?.list_actions(after, limit + 1)?;
    let more = actions.len() > limit;
    actions.truncate(limit);
    let mut table = ui::Table::new(["ACTION", "STATE", "DESCRIPTION"]);
    for action in &actions {
        table.row([
            (action.name().to_string(), ui::BOLD),
            (action.state.as_str().to_owned(), ui::DIM),
            (
                ui::one_line(&action.definition.description, 80),
                anstyle::Style::new(),
            ),
        ]);
    }
    let next = actions
        .last()
        .filter(|_| more)
        .map(|action| action.name().to_string());
    let views: Vec<ActionView> = actions.iter().map(ActionView::from).collect();
    let text = if actions.is_empty() {
        "No actions.\n".to_owned()
    } else {
        table.to_string()
    };
    let mut answer = Answer::new(json!({ "actions": views, "next": next }), text);
    if let Some(next) = next {
        answer = answer.hint(format!(
            "planwright action list --limit {limit} --after {next}"
        ));
    } else if actions.is_empty() {
        answer = answer.hint("planwright action create --config FILE");
    }
    Ok(answer)
}

fn show(name: &Name, app: &App) -> Result<Answer, CommandError> {
    let action = app.lifecycle()?.get_action(name)?;
    let definition = &action.definition;
    let mut text = format!(
        "{}  {}\n",
        ui::styled(ui::BOLD, action.name()),
        ui::one_line(&definition.description, 100)
    );
    let mut line = |label: &str, value: String| {
        text.push_str(&format!(
            "  {}  {value}\n",
            ui::styled(ui::DIM, format!("{label:<11}"))
        ));
    };
    line("state", action.state.as_str().to_owned());
    if let Some(actors) = &definition.actors {
        line(
            "actors",
            format!(
                "{} strategizes, {} executes",
                actors.strategy, actors.execution
            ),
        );
    }
    for spec in &definition.arguments {
        let required = if spec.required { ", required" } else { "" };
        let mut shown = format!("{} ({}{required})", spec.name, spec.kind);
        if let Some(about) = &spec.description {
            shown.push_str(&format!(" {about}"));
        }
        line("argument", ui::one_line(&shown, 100));
    }
    for rule in &definition.invariants {
        line(
            "invariant",
            ui::one_line(&format!("{}: {}", rule.name, rule.check.source()), 100),
        );
    }
    if let Some(profile) = definition.automation_profile {
        line("profile", profile.to_string());
    }
    line(
        "created",
        format!("{} by {}", action.created_at, action.created_by),
    );
    if let Some(long) = &definition.long_description {
        text.push_str(&format!("\n{}\n", ui::clean(long.trim_end())));
    }
    Ok(Answer::new(ActionView::from(&action), text))
}

fn archive(name: &Name, app: &App) -> Result<Answer, CommandError> {
    let action = app.lifecycle()?.archive_action(name, &app.call())?;
    let text = format!(
        "Archived action {}; its plans go on.\n",
        ui::styled(ui::BOLD, name)
    );
    Ok(Answer::new(ActionView::from(&action), text))
}

fn read(file: &Path) -> Result<String, CommandError> {
    let failed = |error: std::io::Error| {
        let exit = match error.kind() {
            std::io::ErrorKind::NotFound => Exit::NotFound,
            _ => Exit::Error,
        };
        CommandError::new(exit, format!("{} cannot be read: {error}", file.display()))
    };
    let mut bytes = Vec::new();
    if file == Path::new("-") {
        std::io::stdin()
            .take(MAX_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
    } else {
        let opened = std::fs::File::open(file).map_err(failed)?;
        opened
            .take(MAX_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
    }
    if bytes.len() as u64 > MAX_BYTES {
        return Err(CommandError::new(
            Exit::Error,
            format!("{} is longer than 256 KiB.", file.display()),
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        CommandError::new(
            Exit::Error,
            format!("{} is not UTF-8 (at byte {at}).", file.display()),
        )
    })
}

fn required_arguments(action: &plan::Action) -> String {
    let required = action
        .definition
        .arguments
        .iter()
        .filter(|spec| spec.required);
    required
        .map(|spec| format!(" --arg {}=VALUE", spec.name))
        .collect()
}
