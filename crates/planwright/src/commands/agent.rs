//! `planwright agent`: manages the agents that work on plans. `planwright actor` is its old name.

use std::path::{Path, PathBuf};

use ::actors::find_preset;
use api::actors::{self, ActorCatalog, DefinitionSource, KnownActor};
use api::view::{ActorListView, ActorView, AddedActorView, RemovedActorView};
use clap::Subcommand;
use plan::{ActorDefinition, QualifiedName};

use crate::cli::App;
use crate::commands::{CommandAnswer, agent_readiness, agent_test};
use crate::error::{CommandError, unknown_actor_error};
use crate::exit::CommandExit;
use crate::{actor_set, completion, current_repository, home, repository_config, ui, yaml};

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
    ///
    /// Shows which are installed, how each is run, and what is missing.
    List,
    /// Print an agent's definition, to copy and change
    Show {
        /// Agent name
        #[arg(add = completion::agents())]
        name: QualifiedName,
    },
    /// Try an agent in a scratch repository, and show what works
    ///
    /// Starts it twice with a small goal, outside of your repositories. It uses your login, and your provider charges for
    /// the two runs.
    Test {
        /// Agent name
        #[arg(add = completion::agents())]
        name: QualifiedName,
    },
    /// Remove one of your agents
    ///
    /// Existing plans keep their definition.
    Remove {
        /// Agent name
        #[arg(add = completion::agents())]
        name: QualifiedName,
    },
}

impl AgentCommand {
    pub fn run(&self, app: &App) -> Result<CommandAnswer, CommandError> {
        match self {
            Self::Add { file } => add_actor(app, file),
            Self::List => list_actors(app),
            Self::Show { name } => show_actor(app, name),
            Self::Test { name } => {
                agent_test::test_agent(app, &find_known_actor(app, name)?.definition)
            }
            Self::Remove { name } => remove_actor(app, name),
        }
    }
}

fn add_actor(app: &App, file: &std::path::Path) -> Result<CommandAnswer, CommandError> {
    let definition = actor_set::read_definition(file)?;
    let path = actor_set::definition_path(&app.settings.home, &definition.name);
    let failed = |error: std::io::Error| CommandError::for_file(&path, "written", &error);
    let replaced = path.exists();
    home::make_private_directory(&actor_set::definitions_dir(&app.settings.home))
        .map_err(failed)?;
    // Written beside the target and renamed, so that a crash cannot leave half a definition.
    let new = path.with_extension("new");
    home::write_private_file(&new, &yaml::format_actor(&definition)).map_err(failed)?;
    std::fs::rename(&new, &path).map_err(failed)?;
    let word = if replaced { "Replaced" } else { "Added" };
    let text = format!(
        "{word} agent {}\n",
        ui::style_text(ui::BOLD, &definition.name)
    );
    let hint = format!("planwright run --agent {} \"GOAL\"", definition.name);
    let view = AddedActorView {
        actor: definition,
        replaced,
    };
    Ok(CommandAnswer::new(view, text).with_hint(hint))
}

/// Lists every agent that can be used here. Fails if one of the user's definitions cannot be read.
fn list_known_actors(app: &App) -> Result<Vec<KnownActor>, CommandError> {
    let defined_here = match current_repository::find_checkout_root() {
        Some(root) => repository_config::read_for_repository(&root)?.actors,
        None => Vec::new(),
    };
    let catalog = ActorCatalog {
        own: actor_set::list_own_definitions(&app.settings.home)?,
        ..actor_set::search_catalog()
    };
    let host_env = actor_set::read_host_env(app);
    Ok(actors::list_actors(&catalog, &defined_here, &host_env))
}

fn list_actors(app: &App) -> Result<CommandAnswer, CommandError> {
    let mut table = ui::TextTable::new(["AGENT", "FROM", "VERSION", "BY", "NEEDS", "RUNS"]);
    let found = list_known_actors(app)?;
    let (missing, usable): (Vec<&KnownActor>, Vec<&KnownActor>) =
        found.iter().partition(|actor| is_missing_preset(actor));
    for actor in &usable {
        let (definition, readiness) = (&actor.definition, &actor.readiness);
        let (runs, style) =
            describe_program(definition, actor.source, readiness.program.as_deref());
        let version = readiness.version.as_deref().unwrap_or_default();
        let version_style = match readiness.is_outdated() {
            true => ui::WARN,
            false => anstyle::Style::new(),
        };
        table.add_row([
            (definition.name.to_string(), ui::BOLD),
            (actor.source.as_str().to_owned(), ui::DIM),
            (ui::truncate_line(version, 20), version_style),
            (
                agent_readiness::word_protocol(readiness.protocol).to_owned(),
                ui::DIM,
            ),
            (agent_readiness::word_missing(&readiness.missing), ui::WARN),
            (ui::truncate_line(&runs, 60), style),
        ]);
    }
    let mut text = match usable.is_empty() {
        true => String::new(),
        false => table.to_string(),
    };
    if !missing.is_empty() {
        let names: Vec<String> = missing
            .iter()
            .map(|actor| actor.definition.name.to_string())
            .collect();
        let line = format!("Not installed: {}", names.join(", "));
        text.push_str(&format!("{}\n", ui::style_text(ui::DIM, line)));
    }
    let answer = CommandAnswer::new(ActorListView::new(&found), text);
    let is_unready = |actor: &KnownActor| !actor.readiness.missing.is_empty();
    Ok(match found.iter().any(is_unready) {
        true => answer.with_hint("planwright doctor"),
        false => answer,
    })
}

/// Returns whether this is a preset whose program is not here. There are many; one line names them.
fn is_missing_preset(actor: &KnownActor) -> bool {
    actor.source == DefinitionSource::Preset
        && actor.readiness.program.is_none()
        && actor.definition.kind.program_words().is_some()
}

/// Describes what an agent runs: a preset by its installed path, any other by its command.
fn describe_program(
    definition: &ActorDefinition,
    from: DefinitionSource,
    found: Option<&Path>,
) -> (String, anstyle::Style) {
    let Some(words) = definition.kind.program_words() else {
        return ("a person".to_owned(), ui::DIM);
    };
    match (from, found) {
        (DefinitionSource::Preset, Some(found)) => (home::display_path(found), ui::GOOD),
        (DefinitionSource::Preset, None) => ("not installed".to_owned(), ui::DIM),
        (DefinitionSource::You | DefinitionSource::Repository, Some(_)) => {
            (words.join(" "), ui::GOOD)
        }
        // The path may be relative to a repository, so whether it exists cannot be checked here.
        (DefinitionSource::You | DefinitionSource::Repository, None) if words[0].contains('/') => {
            (words.join(" "), ui::DIM)
        }
        (DefinitionSource::You | DefinitionSource::Repository, None) => {
            (format!("{} (not installed)", words[0]), ui::DIM)
        }
    }
}

fn find_known_actor(app: &App, name: &QualifiedName) -> Result<KnownActor, CommandError> {
    let mut known = list_known_actors(app)?.into_iter();
    let found = known.find(|one| one.definition.name == *name);
    found.ok_or_else(|| unknown_actor(app, name))
}

fn show_actor(app: &App, name: &QualifiedName) -> Result<CommandAnswer, CommandError> {
    let definition = find_known_actor(app, name)?.definition;
    let text = yaml::format_actor(&definition);
    Ok(CommandAnswer::new(ActorView { actor: definition }, text).with_kept_lines())
}

fn remove_actor(app: &App, name: &QualifiedName) -> Result<CommandAnswer, CommandError> {
    let path = actor_set::definition_path(&app.settings.home, name);
    match std::fs::remove_file(&path) {
        Ok(()) => {
            let text = format!("Removed agent {}\n", ui::style_text(ui::BOLD, name));
            let removed = name.clone();
            Ok(CommandAnswer::new(RemovedActorView { removed }, text))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            if find_preset(&name.to_string()).is_some() {
                return Err(CommandError::usage(format!(
                    "`{name}` is a built-in preset and can't be removed."
                )));
            }
            Err(unknown_actor(app, name))
        }
        Err(error) => Err(CommandError::new(
            CommandExit::Error,
            format!("{} cannot be removed: {error}", home::display_path(&path)),
        )),
    }
}

/// The error for an unknown agent, with the nearest known name.
fn unknown_actor(app: &App, name: &QualifiedName) -> CommandError {
    let catalog = actor_set::read_catalog(&app.settings.home).unwrap_or_default();
    unknown_actor_error(name, &catalog.known_names(&[]))
}
