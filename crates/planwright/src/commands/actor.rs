//! `planwright actor`.

use std::path::PathBuf;

use actors::{installed, preset, presets};
use clap::Subcommand;
use plan::actor::ActorKind;
use plan::{ActorDefinition, Name};
use serde_json::{Value, json};

use crate::cli::App;
use crate::commands::Answer;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::{crew, home, settings, ui, yaml};

/// Actors: who can work on plans.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Keep the definition of an actor. The same name again replaces it; plans keep what they began with.
    Add {
        /// The definition, as YAML.
        file: PathBuf,
    },
    /// List your own actors and the well-known agents, and which of them are installed.
    List,
    /// Show a definition, to be copied and changed.
    Show {
        /// Its name.
        name: Name,
    },
    /// Remove an actor of your own; plans that were begun with it go on.
    Remove {
        /// Its name.
        name: Name,
    },
}

impl Command {
    /// Carries it out.
    pub fn run(&self, app: &App) -> Result<Answer, CommandError> {
        match self {
            Self::Add { file } => add(app, file),
            Self::List => list(app),
            Self::Show { name } => show(app, name),
            Self::Remove { name } => remove(app, name),
        }
    }
}

fn add(app: &App, file: &std::path::Path) -> Result<Answer, CommandError> {
    let definition = crew::read(file)?;
    let kept = crew::kept_as(app, &definition.name);
    let failed = |error: std::io::Error| {
        CommandError::new(
            Exit::Error,
            format!("{} cannot be written: {error}", home::shown(&kept)),
        )
    };
    let replaced = kept.exists();
    std::fs::create_dir_all(crew::directory(app)).map_err(failed)?;
    let new = kept.with_extension("new");
    std::fs::write(&new, yaml::actor_text(&definition)).map_err(failed)?;
    std::fs::rename(&new, &kept).map_err(failed)?;
    let word = if replaced { "Replaced" } else { "Added" };
    let text = format!("{word} actor {}\n", ui::styled(ui::BOLD, &definition.name));
    let data = json!({ "actor": definition, "replaced": replaced });
    Ok(Answer::new(data, text).hint(format!(
        "planwright run --actor {} \"GOAL\"",
        definition.name
    )))
}

fn list(app: &App) -> Result<Answer, CommandError> {
    let own = crew::own(app)?;
    let mut table = ui::Table::new(["ACTOR", "KIND", "STARTED BY", "WHAT"]);
    let mut views = Vec::new();
    let path = settings::surroundings().path.unwrap_or_default();
    let shadowed = |preset: &&ActorDefinition| !own.iter().any(|one| one.name == preset.name);
    let known = presets().iter().filter(shadowed).map(|one| (one, true));
    for (definition, is_preset) in own.iter().map(|one| (one, false)).chain(known) {
        let (kind, found) = match &definition.kind {
            ActorKind::Command(_) => ("command", installed(definition, &path)),
            ActorKind::Human { .. } => ("human", None),
        };
        let by = match (&definition.kind, &found) {
            (ActorKind::Human { .. }, _) => ("a person".to_owned(), ui::DIM),
            (_, Some(found)) => (home::shown(found), ui::GOOD),
            (_, None) => ("not installed".to_owned(), ui::DIM),
        };
        table.row([
            (definition.name.to_string(), ui::BOLD),
            (kind.to_owned(), ui::DIM),
            by,
            (
                ui::one_line(definition.description.as_deref().unwrap_or_default(), 50),
                anstyle::Style::new(),
            ),
        ]);
        views.push(view(definition, is_preset, found.as_ref()));
    }
    Ok(Answer::new(json!({ "actors": views }), table.to_string()))
}

fn view(definition: &ActorDefinition, is_preset: bool, found: Option<&PathBuf>) -> Value {
    json!({
        "name": definition.name.to_string(),
        "description": definition.description,
        "preset": is_preset,
        "installed_at": found,
    })
}

fn show(app: &App, name: &Name) -> Result<Answer, CommandError> {
    let own = crew::own(app)?.into_iter().find(|one| one.name == *name);
    let found = own.or_else(|| preset(&name.to_string()));
    let definition = found.ok_or_else(|| unknown(name))?;
    let text = yaml::actor_text(&definition);
    Ok(Answer::new(json!({ "actor": definition }), text))
}

fn remove(app: &App, name: &Name) -> Result<Answer, CommandError> {
    let kept = crew::kept_as(app, name);
    match std::fs::remove_file(&kept) {
        Ok(()) => {
            let text = format!("Removed actor {}\n", ui::styled(ui::BOLD, name));
            Ok(Answer::new(json!({ "removed": name }), text))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            if preset(&name.to_string()).is_some() {
                return Err(CommandError::usage(format!(
                    "`{name}` is a preset; there is nothing of yours to remove."
                )));
            }
            Err(unknown(name))
        }
        Err(error) => Err(CommandError::new(
            Exit::Error,
            format!("{} cannot be removed: {error}", home::shown(&kept)),
        )),
    }
}

fn unknown(name: &Name) -> CommandError {
    CommandError::new(Exit::NotFound, format!("There is no actor `{name}`."))
        .hint("planwright actor list")
}
