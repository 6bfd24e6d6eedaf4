//! `planwright action`.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use plan::{Action, Name};
use serde_json::json;

use crate::actions::Found;
use crate::cli::App;
use crate::commands::{Answer, conditions, status};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::wire::ActionView;
use crate::{actions, ui, wishes, yaml};

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
    let created = app.lifecycle()?.create_action(definition, &call);
    let action = created.map_err(|error| actions::in_file(&file.display().to_string(), error))?;
    let text = format!("Created action {}\n", ui::styled(ui::BOLD, action.name()));
    let hint = format!(
        "planwright use {}{}",
        action.name(),
        required_arguments(&action)
    );
    Ok(Answer::new(ActionView::from(&action), text).hint(hint))
}

/// Those of the repository one is in come first: they are the ones that change.
fn list(after: Option<&Name>, limit: u16, app: &App) -> Result<Answer, CommandError> {
    let limit = usize::from(limit);
    let mut kept = page(app, after, limit + 1)?;
    let more = kept.len() > limit;
    kept.truncate(limit);
    let mut views = match after {
        None => defined(app)?,
        Some(_) => Vec::new(),
    };
    views.extend(kept.iter().map(ActionView::from));
    let mut table = ui::Table::new(["ACTION", "STATE", "FROM", "DESCRIPTION"]);
    for view in &views {
        table.row([
            (view.name.clone(), ui::BOLD),
            (view.state.to_owned(), ui::DIM),
            (origin(view).to_owned(), ui::DIM),
            (ui::one_line(&view.description, 80), anstyle::Style::new()),
        ]);
    }
    let next = kept.last().filter(|_| more);
    let next = next.map(|action| action.name().to_string());
    let text = if views.is_empty() {
        "No actions.\n".to_owned()
    } else {
        table.to_string()
    };
    let empty = views.is_empty();
    let mut answer = Answer::new(json!({ "actions": views, "next": next }), text);
    if let Some(next) = next {
        answer = answer.hint(format!(
            "planwright action list --limit {limit} --after {next}"
        ));
    } else if empty {
        answer = answer.hint("planwright action create --config FILE");
    }
    Ok(answer)
}

/// So many kept actions, without what repositories defined at some time: nobody uses that by name.
fn page(app: &App, after: Option<&Name>, most: usize) -> Result<Vec<Action>, CommandError> {
    let mut found = Vec::new();
    let mut after = after.cloned();
    loop {
        let page = app.lifecycle()?.list_actions(after.as_ref(), most)?;
        let last = page.len() < most;
        after = page.last().map(|action| action.name().clone()).or(after);
        let named = page
            .into_iter()
            .filter(|action| !actions::is_frozen(action.name()));
        found.extend(named);
        if last || found.len() >= most {
            found.truncate(most);
            return Ok(found);
        }
    }
}

/// The actions of the repository one is in.
fn defined(app: &App) -> Result<Vec<ActionView>, CommandError> {
    let mut views = Vec::new();
    for one in actions::defined_here()? {
        let kept = actions::kept(app, &one.definition.name)?;
        let shadowed = kept.as_ref().is_some_and(actions::is_available);
        let state = if shadowed { "shadowed" } else { "available" };
        views.push(ActionView {
            file: Some(one.file),
            ..ActionView::of(&one.definition, state)
        });
    }
    Ok(views)
}

/// Where an action is defined, in a word.
fn origin(view: &ActionView) -> &'static str {
    match view.file {
        Some(_) => wishes::FILE,
        None => "store",
    }
}

fn show(name: &Name, app: &App) -> Result<Answer, CommandError> {
    let kept = actions::kept(app, name)?.filter(actions::is_available);
    let found = match kept {
        Some(action) => Found::Kept(Box::new(action)),
        None => actions::find(app, name, &actions::defined_here()?)?,
    };
    let text = shown(&found);
    let view = match &found {
        Found::Kept(action) => ActionView::from(action.as_ref()),
        Found::Defined(action) => ActionView {
            file: Some(action.file.clone()),
            ..ActionView::of(&action.definition, "available")
        },
    };
    Ok(Answer::new(view, text))
}

fn shown(found: &Found) -> String {
    let definition = found.definition();
    let mut text = format!(
        "{}  {}\n",
        ui::styled(ui::BOLD, &definition.name),
        ui::one_line(&definition.description, 100)
    );
    let mut line = |label: &str, value: String| {
        text.push_str(&format!(
            "  {}  {value}\n",
            ui::styled(ui::DIM, format!("{label:<11}"))
        ));
    };
    if let Found::Kept(action) = found {
        line("state", action.state.as_str().to_owned());
    }
    if let Some(actors) = &definition.actors {
        line("actors", status::actors(actors));
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
    match found {
        Found::Kept(action) => line(
            "created",
            format!("{} by {}", action.created_at, action.created_by),
        ),
        Found::Defined(action) => {
            line("defined in", ui::clean(&action.file.display().to_string()));
        }
    }
    if let Some(long) = &definition.long_description {
        text.push_str(&format!("\n{}\n", ui::clean(long.trim_end())));
    }
    text
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

fn required_arguments(action: &Action) -> String {
    let required = action
        .definition
        .arguments
        .iter()
        .filter(|spec| spec.required);
    required
        .map(|spec| format!(" --arg {}=VALUE", spec.name))
        .collect()
}
