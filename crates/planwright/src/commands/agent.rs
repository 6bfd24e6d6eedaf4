//! `planwright agent`: manages the agents that work on plans. `planwright actor` is its old name.

use std::path::{Path, PathBuf};

use actors::{all_presets, find_installed_program, find_preset};
use clap::Subcommand;
use plan::actor::ActorKind;
use plan::{ActorDefinition, QualifiedName};
use serde_json::{Value, json};

use crate::cli::App;
use crate::commands::CommandAnswer;
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::repository_config::{self, RepositoryConfig};
use crate::{actor_set, current_repository, home, settings, ui, yaml};

/// Manage the agents that work on plans
#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// Add an agent, or replace the one with that name
    ///
    /// Existing plans keep the definition they started with.
    Add {
        /// YAML file with the definition
        file: PathBuf,
    },
    /// List your agents, this repository's agents and the built-in presets
    List,
    /// Print an agent's definition, to copy and change
    Show {
        /// Agent name
        name: QualifiedName,
    },
    /// Remove one of your agents
    ///
    /// Existing plans keep their definition.
    Remove {
        /// Agent name
        name: QualifiedName,
    },
}

impl AgentCommand {
    pub fn run(&self, app: &App) -> Result<CommandAnswer, CommandError> {
        match self {
            Self::Add { file } => add_actor(app, file),
            Self::List => list_actors(app),
            Self::Show { name } => show_actor(app, name),
            Self::Remove { name } => remove_actor(app, name),
        }
    }
}

fn add_actor(app: &App, file: &std::path::Path) -> Result<CommandAnswer, CommandError> {
    let definition = actor_set::read_definition(file)?;
    let path = actor_set::definition_path(app, &definition.name);
    let failed = |error: std::io::Error| {
        CommandError::new(
            CommandExit::Error,
            format!("{} cannot be written: {error}", home::display_path(&path)),
        )
    };
    let replaced = path.exists();
    home::make_private_directory(&actor_set::definitions_dir(app)).map_err(failed)?;
    // Written beside the target and renamed, so that a crash cannot leave half a definition.
    let new = path.with_extension("new");
    home::write_private_file(&new, &yaml::format_actor(&definition)).map_err(failed)?;
    std::fs::rename(&new, &path).map_err(failed)?;
    let word = if replaced { "Replaced" } else { "Added" };
    let text = format!(
        "{word} agent {}\n",
        ui::style_text(ui::BOLD, &definition.name)
    );
    let data = json!({ "actor": definition, "replaced": replaced });
    Ok(CommandAnswer::new(data, text).with_hint(format!(
        "planwright run --agent {} \"GOAL\"",
        definition.name
    )))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DefinitionSource {
    You,
    Repository,
    Planwright,
}

impl DefinitionSource {
    fn as_str(self) -> &'static str {
        match self {
            Self::You => "you",
            Self::Repository => "repository",
            Self::Planwright => "preset",
        }
    }
}

/// Returns every agent that can be used here. Of several with the same name, yours wins, then the
/// repository's, then the preset.
fn list_known_actors(app: &App) -> Result<Vec<(ActorDefinition, DefinitionSource)>, CommandError> {
    let defined_here = match current_repository::find_checkout_root() {
        Some(root) => repository_config::read_for_repository(&root)?.actors,
        None => Vec::new(),
    };
    let own = actor_set::list_own_definitions(app)?
        .into_iter()
        .map(|one| (one, DefinitionSource::You));
    let here = defined_here
        .into_iter()
        .map(|one| (one, DefinitionSource::Repository));
    let presets = all_presets()
        .iter()
        .map(|one| (one.clone(), DefinitionSource::Planwright));
    let mut found: Vec<(ActorDefinition, DefinitionSource)> = Vec::new();
    for (definition, from) in own.chain(here).chain(presets) {
        if !found.iter().any(|(other, _)| other.name == definition.name) {
            found.push((definition, from));
        }
    }
    Ok(found)
}

fn list_actors(app: &App) -> Result<CommandAnswer, CommandError> {
    let mut table = ui::TextTable::new(["AGENT", "FROM", "RUNS", "DESCRIPTION"]);
    let mut views = Vec::new();
    let path = settings::read_git_env().path.unwrap_or_default();
    for (definition, from) in list_known_actors(app)? {
        let found = find_installed_program(&definition, &path);
        let (runs, style) = describe_program(&definition, from, found.as_deref());
        table.add_row([
            (definition.name.to_string(), ui::BOLD),
            (from.as_str().to_owned(), ui::DIM),
            (ui::truncate_line(&runs, 60), style),
            (
                ui::truncate_line(definition.description.as_deref().unwrap_or_default(), 50),
                anstyle::Style::new(),
            ),
        ]);
        views.push(actor_view(&definition, from, found.as_ref()));
    }
    Ok(CommandAnswer::new(
        json!({ "actors": views }),
        table.to_string(),
    ))
}

/// Describes what an agent runs: a preset by its installed path, any other by its command.
fn describe_program(
    definition: &ActorDefinition,
    from: DefinitionSource,
    found: Option<&Path>,
) -> (String, anstyle::Style) {
    let ActorKind::Command(line) = &definition.kind else {
        return ("a person".to_owned(), ui::DIM);
    };
    match (from, found) {
        (DefinitionSource::Planwright, Some(found)) => (home::display_path(found), ui::GOOD),
        (DefinitionSource::Planwright, None) => ("not installed".to_owned(), ui::DIM),
        (DefinitionSource::You | DefinitionSource::Repository, Some(_)) => {
            (line.command.join(" "), ui::GOOD)
        }
        // The path may be relative to a repository, so whether it exists cannot be checked here.
        (DefinitionSource::You | DefinitionSource::Repository, None)
            if line.command[0].contains('/') =>
        {
            (line.command.join(" "), ui::DIM)
        }
        (DefinitionSource::You | DefinitionSource::Repository, None) => {
            (format!("{} (not installed)", line.command[0]), ui::DIM)
        }
    }
}

fn actor_view(
    definition: &ActorDefinition,
    from: DefinitionSource,
    found: Option<&PathBuf>,
) -> Value {
    json!({
        "name": definition.name.to_string(),
        "description": definition.description,
        "preset": from == DefinitionSource::Planwright,
        "from": from.as_str(),
        "installed_at": found,
    })
}

fn show_actor(app: &App, name: &QualifiedName) -> Result<CommandAnswer, CommandError> {
    let mut known = list_known_actors(app)?.into_iter();
    let found = known.find(|(one, _)| one.name == *name);
    let Some((definition, _)) = found else {
        return Err(actor_set::unknown_actor_error(
            app,
            name,
            &RepositoryConfig::default(),
        ));
    };
    let text = yaml::format_actor(&definition);
    Ok(CommandAnswer::new(json!({ "actor": definition }), text))
}

fn remove_actor(app: &App, name: &QualifiedName) -> Result<CommandAnswer, CommandError> {
    let path = actor_set::definition_path(app, name);
    match std::fs::remove_file(&path) {
        Ok(()) => {
            let text = format!("Removed agent {}\n", ui::style_text(ui::BOLD, name));
            Ok(CommandAnswer::new(json!({ "removed": name }), text))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            if find_preset(&name.to_string()).is_some() {
                return Err(CommandError::usage(format!(
                    "`{name}` is a built-in preset and can't be removed."
                )));
            }
            Err(actor_set::unknown_actor_error(
                app,
                name,
                &RepositoryConfig::default(),
            ))
        }
        Err(error) => Err(CommandError::new(
            CommandExit::Error,
            format!("{} cannot be removed: {error}", home::display_path(&path)),
        )),
    }
}
