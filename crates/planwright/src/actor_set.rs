//! Finds actor definitions (the user's, the repository's, built-in presets) and makes actors from them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use actors::{Actor, HostEnv, all_presets, find_installed_program, find_preset};
use lifecycle::{ActorSet, RuleCheckConfig};
use plan::{ActorDefinition, PlanActors, QualifiedName};
use sandbox::{CommandReach, Supervisor};

use crate::cli::App;
use crate::error::{CommandError, did_you_mean};
use crate::exit::CommandExit;
use crate::repository_config::RepositoryConfig;
use crate::{file_reader, home, settings, yaml};

/// The hidden first argument that makes this program run as a supervisor.
pub const SUPERVISE_ARGUMENT: &str = "supervise";

/// Makes a supervisor that runs this same executable in supervise mode.
pub fn make_supervisor() -> Result<Supervisor, CommandError> {
    let program = std::env::current_exe().map_err(|error| {
        CommandError::new(
            CommandExit::Error,
            format!("Cannot find the planwright program to start agents: {error}"),
        )
    })?;
    Ok(Supervisor::new(vec![
        OsString::from(program),
        SUPERVISE_ARGUMENT.into(),
    ]))
}

/// Makes the actors that a plan's definitions describe.
pub fn make_actor_set(app: &App) -> Result<ActorSet, CommandError> {
    Ok(ActorSet::default().with_factory(make_actor_factory(app, make_supervisor()?)))
}

/// Like [`make_actor_set`], for a worker that starts many runs: keeps a supervisor process idle for the next one.
pub fn make_worker_actor_set(app: &App) -> Result<ActorSet, CommandError> {
    let supervisor = make_supervisor()?.with_idle_process();
    Ok(ActorSet::default().with_factory(make_actor_factory(app, supervisor)))
}

/// Configures rule checks: how to run rule commands and how to read a repository's rules.
pub fn make_inspectors(app: &App) -> Result<RuleCheckConfig, CommandError> {
    let read_rules = |text: &str| {
        let file = yaml::parse_repository(text, "planwright.yaml");
        let file = file.map_err(|problem| problem.to_string())?;
        Ok(file.invariants)
    };
    let inspectors = RuleCheckConfig::new(make_actor_factory(app, make_supervisor()?), read_rules);
    Ok(inspectors.with_allowed_paths(app.settings.writable_paths(), app.settings.readable_paths()))
}

/// The paths that set-up commands of repositories may reach.
pub fn command_reach(app: &App) -> CommandReach {
    let host_env = read_host_env(app);
    let (writable, readable) = (app.settings.writable_paths(), app.settings.readable_paths());
    let unconfined = app
        .settings
        .unconfined_repositories(host_env.home.as_deref());
    CommandReach::new(
        move || actors::reachable_command_paths(&host_env, &writable, &readable),
        unconfined,
    )
}

fn make_actor_factory(
    app: &App,
    supervisor: Supervisor,
) -> impl Fn(&ActorDefinition) -> Arc<dyn Actor> + Send + Sync + use<> {
    let host_env = read_host_env(app);
    move |definition| actors::make_actor(definition, &host_env, &supervisor)
}

/// The host environment of actors. Planwright's home and the SQLite store are out of their reach.
fn read_host_env(app: &App) -> HostEnv {
    let mut out_of_reach = vec![app.settings.home.clone()];
    if let Ok(settings::StoreAddress::Sqlite(path)) = app.settings.store_address() {
        out_of_reach.push(path);
    }
    HostEnv {
        environment: settings::read_environment(),
        home: settings::read_git_env().home.map(PathBuf::from),
        out_of_reach,
    }
}

/// The directory of the user's own actor definitions.
pub fn definitions_dir(app: &App) -> PathBuf {
    app.settings.home.join("actors")
}

/// The file of the user's definition of a name. `/` becomes `+`; all other characters are valid in file names.
pub fn definition_path(app: &App, name: &QualifiedName) -> PathBuf {
    definitions_dir(app).join(format!("{}.yaml", name.full_name().replace('/', "+")))
}

/// The user's own definitions, sorted by name.
pub fn list_own_definitions(app: &App) -> Result<Vec<ActorDefinition>, CommandError> {
    let directory = definitions_dir(app);
    let unreadable = |error: std::io::Error| {
        CommandError::new(
            CommandExit::Error,
            format!("{} cannot be read: {error}", home::display_path(&directory)),
        )
    };
    let entries = match std::fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(unreadable)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            found.push(read_definition(&path)?);
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// Reads one definition file.
pub fn read_definition(path: &std::path::Path) -> Result<ActorDefinition, CommandError> {
    let origin = home::display_path(path);
    let source = file_reader::read_text(path).map_err(|error| {
        let exit = match error.kind() {
            std::io::ErrorKind::NotFound => CommandExit::NotFound,
            _ => CommandExit::Error,
        };
        CommandError::new(exit, format!("{origin} cannot be read: {error}"))
    })?;
    yaml::parse_actor(&source, &origin)
        .map_err(|problem| CommandError::malformed_file(problem, &source))
}

/// Finds an actor's definition: the user's first, then the repository's, then a preset. Cloning a repository
/// must not change what a name means.
pub fn find_definition(
    app: &App,
    name: &QualifiedName,
    config: &RepositoryConfig,
) -> Result<Option<ActorDefinition>, CommandError> {
    let path = definition_path(app, name);
    if path.exists() {
        return read_definition(&path).map(Some);
    }
    if let Some(found) = config.actors.iter().find(|one| one.name == *name) {
        return Ok(Some(found.clone()));
    }
    Ok(find_preset(&name.to_string()))
}

/// The error for an unknown agent, with the nearest known name.
pub fn unknown_actor_error(
    app: &App,
    name: &QualifiedName,
    config: &RepositoryConfig,
) -> CommandError {
    let error = CommandError::new(CommandExit::NotFound, format!("Unknown agent `{name}`."))
        .with_hint("planwright agent list")
        .with_hint("planwright agent add FILE");
    let own = list_own_definitions(app).unwrap_or_default();
    let known: Vec<String> = own
        .iter()
        .chain(&config.actors)
        .chain(all_presets())
        .map(|one| one.name.to_string())
        .collect();
    did_you_mean(error, &name.to_string(), &known)
}

/// Finds the definitions of a plan's actors, each once. Skips actors that have none.
pub fn find_definitions(
    app: &App,
    actors: &PlanActors,
    config: &RepositoryConfig,
) -> Result<Vec<ActorDefinition>, CommandError> {
    let mut found = Vec::new();
    for name in actors.actor_names() {
        let known = found.iter().any(|one: &ActorDefinition| one.name == *name);
        if !known {
            found.extend(find_definition(app, name, config)?);
        }
    }
    Ok(found)
}

/// The presets whose program is on the PATH, with the program's path.
pub fn installed_presets() -> Vec<(&'static ActorDefinition, PathBuf)> {
    let path = settings::read_git_env().path.unwrap_or_default();
    all_presets()
        .iter()
        .filter_map(|definition| Some((definition, find_installed_program(definition, &path)?)))
        .collect()
}
