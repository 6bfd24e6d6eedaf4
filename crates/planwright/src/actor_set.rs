//! Reads the user's definitions of agents, and makes actors from definitions.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use actors::{Actor, HostEnv};
use api::actors::{ActorCatalog, UnreadableActor};
use lifecycle::{ActorSet, RuleCheckConfig};
use plan::{ActorDefinition, QualifiedName};
use sandbox::{CommandReach, Supervisor};

use crate::cli::App;
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::{file_reader, home, settings, yaml};

/// The hidden first argument that makes this program run as a supervisor.
pub const SUPERVISE_ARGUMENT: &str = "supervise";

/// The hidden first argument that makes this program run as the relay to the tools of a run.
pub const TOOL_RELAY_ARGUMENT: &str = "relay-tools";

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
pub fn read_host_env(app: &App) -> HostEnv {
    let mut out_of_reach = vec![app.settings.home.clone()];
    if let Ok(settings::StoreAddress::Sqlite(path)) = app.settings.store_address() {
        out_of_reach.push(path);
    }
    let relay =
        std::env::current_exe().map(|program| vec![program.into(), TOOL_RELAY_ARGUMENT.into()]);
    HostEnv {
        environment: settings::read_environment(),
        home: settings::read_git_env().home.map(PathBuf::from),
        out_of_reach,
        tool_relay: relay.unwrap_or_default(),
    }
}

/// The directory of the user's own actor definitions.
pub fn definitions_dir(home: &Path) -> PathBuf {
    home.join("actors")
}

/// The file of the user's definition of a name. `/` becomes `+`; all other characters are valid in file names.
pub fn definition_path(home: &Path, name: &QualifiedName) -> PathBuf {
    definitions_dir(home).join(format!("{}.yaml", name.full_name().replace('/', "+")))
}

/// Reads the agents of this host. A definition that cannot be read only matters to plans that use it.
pub fn read_catalog(home: &Path) -> Result<ActorCatalog, CommandError> {
    let mut catalog = search_catalog();
    for path in list_definition_files(home)? {
        match read_definition(&path) {
            Ok(definition) => catalog.own.push(definition),
            Err(error) => {
                let name = name_of_definition(&path);
                catalog.unreadable.extend(name.map(|name| UnreadableActor {
                    name,
                    problem: error.message,
                }));
            }
        }
    }
    catalog.own.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(catalog)
}

/// Reads the user's own definitions, sorted by name. Fails if one cannot be read.
pub fn list_own_definitions(home: &Path) -> Result<Vec<ActorDefinition>, CommandError> {
    let files = list_definition_files(home)?.into_iter();
    let definitions = files.map(|path| read_definition(&path));
    let mut definitions = definitions.collect::<Result<Vec<_>, CommandError>>()?;
    definitions.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(definitions)
}

/// The presets whose program is on the PATH, with the program's path.
pub fn installed_presets() -> Vec<(&'static ActorDefinition, PathBuf)> {
    search_catalog().installed_presets()
}

/// A catalog without definitions, which searches programs on the PATH.
pub fn search_catalog() -> ActorCatalog {
    ActorCatalog {
        search_path: settings::read_git_env().path.unwrap_or_default(),
        ..ActorCatalog::default()
    }
}

/// The files of the user's own definitions.
fn list_definition_files(home: &Path) -> Result<Vec<PathBuf>, CommandError> {
    let directory = definitions_dir(home);
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
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(unreadable)?.path();
        let extension = path.extension();
        if extension.is_some_and(|extension| extension == "yaml") {
            paths.push(path);
        }
    }
    Ok(paths)
}

/// The inverse of [`definition_path`].
fn name_of_definition(path: &Path) -> Option<QualifiedName> {
    let stem = path.file_stem()?.to_str()?;
    stem.replace('+', "/").parse().ok()
}

/// Reads one definition file.
pub fn read_definition(path: &Path) -> Result<ActorDefinition, CommandError> {
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
