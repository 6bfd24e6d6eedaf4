//! `planwright action`: creates, lists and archives plan templates.

use std::io::Read;
use std::path::{Path, PathBuf};

use api::actions::{self, FoundAction};
use api::view::{ActionListView, ActionView};
use clap::Subcommand;
use plan::{Action, QualifiedName, Timestamp};

use crate::cli::App;
use crate::commands::{CommandAnswer, conditions, status};
use crate::error::{CommandError, invalid_rule_in_file};
use crate::exit::CommandExit;
use crate::{completion, current_repository, repository_config, ui, yaml};

const MAX_ACTION_FILE_BYTES: u64 = 256 * 1024;

/// Manage actions: reusable plan templates
#[derive(Debug, Subcommand)]
pub enum ActionCommand {
    /// Create an action from a YAML file
    Create {
        /// YAML file; - reads standard input
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// Return the first answer if repeated with the same key
        #[arg(long, value_name = "KEY", value_parser = conditions::parse_idempotency_key)]
        idempotency_key: Option<String>,
    },
    /// List actions by name
    List {
        /// Start after this action, the last one on the previous page
        #[arg(long, value_name = "NAME")]
        after: Option<QualifiedName>,
        /// Maximum number of actions to list
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=500))]
        limit: u16,
    },
    /// Show an action
    Show {
        /// Action name
        #[arg(add = completion::actions())]
        name: QualifiedName,
    },
    /// Archive an action, so that it cannot be used for new plans
    ///
    /// Existing plans continue.
    Archive {
        /// Action name
        #[arg(add = completion::actions())]
        name: QualifiedName,
    },
}

impl ActionCommand {
    pub fn run(self, app: &App) -> Result<CommandAnswer, CommandError> {
        match self {
            Self::Create {
                config,
                idempotency_key,
            } => create_action(&config, idempotency_key.as_deref(), app),
            Self::List { after, limit } => list_actions(after.as_ref(), limit, app),
            Self::Show { name } => show_action(&name, app),
            Self::Archive { name } => archive_action(&name, app),
        }
    }
}

fn create_action(file: &Path, key: Option<&str>, app: &App) -> Result<CommandAnswer, CommandError> {
    let source = read_action_file(file)?;
    let definition = yaml::parse_action(&source, &file.display().to_string())
        .map_err(|problem| CommandError::malformed_file(problem, &source))?;
    let mut call = app.new_call();
    if let Some(key) = key {
        call = call.with_key(key);
    }
    let created = actions::create_action(app.lifecycle()?, &definition, &call);
    let action =
        created.map_err(|error| invalid_rule_in_file(&file.display().to_string(), error))?;
    let text = format!(
        "Created action {}\n",
        ui::style_text(ui::BOLD, action.name())
    );
    let hint = format!(
        "planwright run --action {}{}",
        action.name(),
        required_arguments(&action)
    );
    Ok(CommandAnswer::new(ActionView::from(&action), text).with_hint(hint))
}

/// Lists the current repository's actions first, then the stored ones. Only stored actions are paged.
fn list_actions(
    after: Option<&QualifiedName>,
    limit: u16,
    app: &App,
) -> Result<CommandAnswer, CommandError> {
    let limit = usize::from(limit);
    let in_repository = match after {
        None => current_repository::list_actions()?,
        Some(_) => Vec::new(),
    };
    let page = actions::list_actions(app.lifecycle()?, &in_repository, after, limit)?;
    let view = ActionListView::from(&page);
    let mut table = ui::TextTable::new(["ACTION", "STATE", "FROM", "DESCRIPTION"]);
    for view in &view.actions {
        table.add_row([
            (view.name.clone(), ui::BOLD),
            (view.state.to_owned(), ui::DIM),
            (action_origin(view).to_owned(), ui::DIM),
            (
                ui::truncate_line(&view.description, 80),
                anstyle::Style::new(),
            ),
        ]);
    }
    let empty = view.actions.is_empty();
    let text = if empty {
        "No actions.\n".to_owned()
    } else {
        table.to_string()
    };
    let mut answer = CommandAnswer::new(view, text);
    if let Some(next) = page.next {
        answer = answer.with_hint(format!(
            "planwright action list --limit {limit} --after {next}"
        ));
    } else if empty {
        answer = answer.with_hint("planwright action create --config FILE");
    }
    Ok(answer)
}

fn action_origin(view: &ActionView) -> &'static str {
    match view.file {
        Some(_) => repository_config::REPOSITORY_CONFIG_FILE,
        None => "store",
    }
}

fn show_action(name: &QualifiedName, app: &App) -> Result<CommandAnswer, CommandError> {
    let stored = actions::find_stored_action(app.lifecycle()?, name)?.filter(actions::is_available);
    let found = match stored {
        Some(action) => FoundAction::Stored(Box::new(action)),
        None => actions::find_action(app.lifecycle()?, name, &current_repository::list_actions()?)?,
    };
    let text = describe_action(&found, app.clock.now());
    Ok(CommandAnswer::new(ActionView::from(&found), text))
}

fn describe_action(found: &FoundAction, now: Timestamp) -> String {
    let definition = found.definition();
    let mut text = format!(
        "{}  {}\n",
        ui::style_text(ui::BOLD, &definition.name),
        ui::truncate_line(&definition.description, 100)
    );
    let mut line = |label: &str, value: String| {
        text.push_str(&format!(
            "  {}  {value}\n",
            ui::style_text(ui::DIM, format!("{label:<11}"))
        ));
    };
    if let FoundAction::Stored(action) = found {
        line("state", action.state.as_str().to_owned());
    }
    if let Some(actors) = &definition.actors {
        line("agents", status::describe_actors(actors));
    }
    for spec in &definition.arguments {
        let required = if spec.required { ", required" } else { "" };
        let mut shown = format!("{} ({}{required})", spec.name, spec.kind);
        if let Some(about) = &spec.description {
            shown.push_str(&format!(" {about}"));
        }
        line("argument", ui::truncate_line(&shown, 100));
    }
    for rule in &definition.invariants {
        line(
            "rule",
            ui::truncate_line(&format!("{}: {}", rule.name, rule.check.source()), 100),
        );
    }
    if let Some(profile) = definition.automation_profile {
        line("profile", profile.to_string());
    }
    match found {
        FoundAction::Stored(action) => line(
            "created",
            format!(
                "{} by {}",
                ui::format_age(now, action.created_at),
                action.created_by
            ),
        ),
        FoundAction::InRepository(action) => {
            line(
                "defined in",
                ui::escape_controls(&action.file.display().to_string()),
            );
        }
    }
    if let Some(long) = &definition.long_description {
        text.push_str(&format!("\n{}\n", ui::escape_controls(long.trim_end())));
    }
    text
}

fn archive_action(name: &QualifiedName, app: &App) -> Result<CommandAnswer, CommandError> {
    let action = actions::archive_action(app.lifecycle()?, name, &app.new_call())?;
    let text = format!(
        "Archived action {}. Existing plans continue.\n",
        ui::style_text(ui::BOLD, name)
    );
    Ok(CommandAnswer::new(ActionView::from(&action), text))
}

fn read_action_file(file: &Path) -> Result<String, CommandError> {
    let failed = |error: std::io::Error| {
        let exit = match error.kind() {
            std::io::ErrorKind::NotFound => CommandExit::NotFound,
            _ => CommandExit::Error,
        };
        CommandError::new(exit, format!("{} cannot be read: {error}", file.display()))
    };
    let mut bytes = Vec::new();
    if file == Path::new("-") {
        std::io::stdin()
            .take(MAX_ACTION_FILE_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
    } else {
        let opened = std::fs::File::open(file).map_err(failed)?;
        opened
            .take(MAX_ACTION_FILE_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
    }
    if bytes.len() as u64 > MAX_ACTION_FILE_BYTES {
        return Err(CommandError::new(
            CommandExit::Error,
            format!("{} is longer than 256 KiB.", file.display()),
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        CommandError::new(
            CommandExit::Error,
            format!("{} is not UTF-8 (at byte {at}).", file.display()),
        )
    })
}

fn required_arguments(action: &Action) -> String {
    let required = action
        .definition
        .arguments
        .iter()
        .filter(|spec| spec.required);
    required
        .map(|spec| format!(" {}=VALUE", spec.name))
        .collect()
}
