//! `planwright actor`.

use std::path::{Path, PathBuf};

use actors::{installed, preset, presets};
use clap::Subcommand;
use plan::actor::ActorKind;
use plan::{ActorDefinition, Name};
use serde_json::{Value, json};

use crate::cli::App;
use crate::commands::Answer;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::wishes::{self, Wishes};
use crate::{crew, here, home, settings, ui, yaml};

/// Actors: who can work on plans.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Keep the definition of an actor. The same name again replaces it; plans keep what they began with.
    Add {
        /// The definition, as YAML.
        file: PathBuf,
    },
    /// List your own actors, those of the repository one is in and the well-known agents.
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
    home::make_private_directory(&crew::directory(app)).map_err(failed)?;
    let new = kept.with_extension("new");
    home::write_private_file(&new, &yaml::actor_text(&definition)).map_err(failed)?;
    std::fs::rename(&new, &kept).map_err(failed)?;
    let word = if replaced { "Replaced" } else { "Added" };
    let text = format!("{word} actor {}\n", ui::styled(ui::BOLD, &definition.name));
    let data = json!({ "actor": definition, "replaced": replaced });
    Ok(Answer::new(data, text).hint(format!(
        "planwright run --actor {} \"GOAL\"",
        definition.name
    )))
}

/// Who defined an actor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    You,
    Repository,
    Planwright,
}

impl From {
    fn as_str(self) -> &'static str {
        match self {
            Self::You => "you",
            Self::Repository => "repository",
            Self::Planwright => "preset",
        }
    }
}

/// Everybody who can be named here; who is named twice is whom the name means.
fn everybody(app: &App) -> Result<Vec<(ActorDefinition, From)>, CommandError> {
    let defined_here = match here::checkout() {
        Some(root) => wishes::of_repository(&root)?.actors,
        None => Vec::new(),
    };
    let own = crew::own(app)?.into_iter().map(|one| (one, From::You));
    let here = defined_here.into_iter().map(|one| (one, From::Repository));
    let known = presets().iter().map(|one| (one.clone(), From::Planwright));
    let mut found: Vec<(ActorDefinition, From)> = Vec::new();
    for (definition, from) in own.chain(here).chain(known) {
        if !found.iter().any(|(other, _)| other.name == definition.name) {
            found.push((definition, from));
        }
    }
    Ok(found)
}

fn list(app: &App) -> Result<Answer, CommandError> {
    let mut table = ui::Table::new(["ACTOR", "FROM", "RUNS", "WHAT"]);
    let mut views = Vec::new();
    let path = settings::surroundings().path.unwrap_or_default();
    for (definition, from) in everybody(app)? {
        let found = installed(&definition, &path);
        let (runs, style) = runs(&definition, from, found.as_deref());
        table.row([
            (definition.name.to_string(), ui::BOLD),
            (from.as_str().to_owned(), ui::DIM),
            (ui::one_line(&runs, 60), style),
            (
                ui::one_line(definition.description.as_deref().unwrap_or_default(), 50),
                anstyle::Style::new(),
            ),
        ]);
        views.push(view(&definition, from, found.as_ref()));
    }
    Ok(Answer::new(json!({ "actors": views }), table.to_string()))
}

/// What is run: of a well-known agent where it is, of any other the command.
fn runs(
    definition: &ActorDefinition,
    from: From,
    found: Option<&Path>,
) -> (String, anstyle::Style) {
    let ActorKind::Command(line) = &definition.kind else {
        return ("a person".to_owned(), ui::DIM);
    };
    match (from, found) {
        (From::Planwright, Some(found)) => (home::shown(found), ui::GOOD),
        (From::Planwright, None) => ("not installed".to_owned(), ui::DIM),
        (From::You | From::Repository, Some(_)) => (line.command.join(" "), ui::GOOD),
        // It may lie in the repository, which is not looked at here.
        (From::You | From::Repository, None) if line.command[0].contains('/') => {
            (line.command.join(" "), ui::DIM)
        }
        (From::You | From::Repository, None) => {
            (format!("{} (not installed)", line.command[0]), ui::DIM)
        }
    }
}

fn view(definition: &ActorDefinition, from: From, found: Option<&PathBuf>) -> Value {
    json!({
        "name": definition.name.to_string(),
        "description": definition.description,
        "preset": from == From::Planwright,
        "from": from.as_str(),
        "installed_at": found,
    })
}

fn show(app: &App, name: &Name) -> Result<Answer, CommandError> {
    let mut known = everybody(app)?.into_iter();
    let found = known.find(|(one, _)| one.name == *name);
    let Some((definition, _)) = found else {
        return Err(crew::unknown(app, name, &Wishes::default()));
    };
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
            Err(crew::unknown(app, name, &Wishes::default()))
        }
        Err(error) => Err(CommandError::new(
            Exit::Error,
            format!("{} cannot be removed: {error}", home::shown(&kept)),
        )),
    }
}
