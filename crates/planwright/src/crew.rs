//! Who can work here: actors that repositories, the user and Planwright itself define, and how they are
//! started from this process.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use actors::{Actor, Ambient, installed, preset, presets};
use lifecycle::{Crew, Inspectors};
use plan::{ActorDefinition, Actors, Name};
use sandbox::{CommandReach, Supervisor};

use crate::cli::App;
use crate::error::{CommandError, did_you_mean};
use crate::exit::Exit;
use crate::wishes::Wishes;
use crate::{home, reading, settings, yaml};

/// The words after the program's own name that make it a supervisor.
pub const SUPERVISE: &str = "supervise";

/// This program, started anew to supervise what it runs.
pub fn supervisor() -> Result<Supervisor, CommandError> {
    let program = std::env::current_exe().map_err(|error| {
        CommandError::new(
            Exit::Error,
            format!("This program cannot find itself to start actors: {error}"),
        )
    })?;
    Ok(Supervisor::new(vec![
        OsString::from(program),
        SUPERVISE.into(),
    ]))
}

/// Everybody that a plan's definitions describe.
pub fn crew(app: &App) -> Result<Crew, CommandError> {
    Ok(Crew::default().hiring(hire(app, supervisor()?)))
}

/// The same for somebody who starts one after the other.
pub fn standing_crew(app: &App) -> Result<Crew, CommandError> {
    let supervisor = supervisor()?.keeping_one_ready();
    Ok(Crew::default().hiring(hire(app, supervisor)))
}

/// Whoever runs the commands of rules and reads the rules of repositories.
pub fn inspectors(app: &App) -> Result<Inspectors, CommandError> {
    let read_rules = |text: &str| {
        let file = yaml::repository(text, "planwright.yaml");
        let file = file.map_err(|problem| problem.to_string())?;
        Ok(file.invariants)
    };
    let inspectors = Inspectors::new(hire(app, supervisor()?), read_rules);
    Ok(inspectors.with_reach(app.settings.writable(), app.settings.readable()))
}

/// What the set-up commands of repositories reach here.
pub fn command_reach(app: &App) -> CommandReach {
    let ambient = ambient(app);
    let (writable, readable) = (app.settings.writable(), app.settings.readable());
    let unconfined = app.settings.unconfined(ambient.home.as_deref());
    CommandReach::new(
        move || actors::command_reach(&ambient, &writable, &readable),
        unconfined,
    )
}

/// How actors are made of their definitions here.
fn hire(
    app: &App,
    supervisor: Supervisor,
) -> impl Fn(&ActorDefinition) -> Arc<dyn Actor> + Send + Sync + use<> {
    let ambient = ambient(app);
    move |definition| actors::actor(definition, &ambient, &supervisor)
}

/// What surrounds actors that are started from here.
fn ambient(app: &App) -> Ambient {
    let mut out_of_reach = vec![app.settings.home.clone()];
    if let Ok(settings::StorePlace::Sqlite(path)) = app.settings.store() {
        out_of_reach.push(path);
    }
    Ambient {
        environment: settings::environment(),
        home: settings::surroundings().home.map(PathBuf::from),
        out_of_reach,
    }
}

/// The directory of the user's own definitions.
pub fn directory(app: &App) -> PathBuf {
    app.settings.home.join("actors")
}

/// Where the user's definition of a name is kept. A name has no character that a file's could not have.
pub fn kept_as(app: &App, name: &Name) -> PathBuf {
    directory(app).join(format!("{}.yaml", name.full().replace('/', "+")))
}

/// The user's own definitions, by name.
pub fn own(app: &App) -> Result<Vec<ActorDefinition>, CommandError> {
    let directory = directory(app);
    let unreadable = |error: std::io::Error| {
        CommandError::new(
            Exit::Error,
            format!("{} cannot be read: {error}", home::shown(&directory)),
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
            found.push(read(&path)?);
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// The definition in a file.
pub fn read(path: &std::path::Path) -> Result<ActorDefinition, CommandError> {
    let shown = home::shown(path);
    let source = reading::text(path).map_err(|error| {
        let exit = match error.kind() {
            std::io::ErrorKind::NotFound => Exit::NotFound,
            _ => Exit::Error,
        };
        CommandError::new(exit, format!("{shown} cannot be read: {error}"))
    })?;
    yaml::actor(&source, &shown).map_err(|problem| CommandError::malformed(problem, &source))
}

/// How an actor is started, if anybody says so: the user first, then the repository, then Planwright. What
/// a person calls by a name must not become something else by cloning a repository.
pub fn definition(
    app: &App,
    name: &Name,
    wishes: &Wishes,
) -> Result<Option<ActorDefinition>, CommandError> {
    let kept = kept_as(app, name);
    if kept.exists() {
        return read(&kept).map(Some);
    }
    if let Some(found) = wishes.actors.iter().find(|one| one.name == *name) {
        return Ok(Some(found.clone()));
    }
    Ok(preset(&name.to_string()))
}

/// There is nobody of that name; perhaps of one like it.
pub fn unknown(app: &App, name: &Name, wishes: &Wishes) -> CommandError {
    let error = CommandError::new(Exit::NotFound, format!("There is no actor `{name}`."))
        .hint("planwright actor list")
        .hint("planwright actor add FILE");
    let own = own(app).unwrap_or_default();
    let known: Vec<String> = own
        .iter()
        .chain(&wishes.actors)
        .chain(presets())
        .map(|one| one.name.to_string())
        .collect();
    did_you_mean(error, &name.to_string(), &known)
}

/// How those are started who would work on a plan, as far as anybody says so.
pub fn definitions(
    app: &App,
    actors: &Actors,
    wishes: &Wishes,
) -> Result<Vec<ActorDefinition>, CommandError> {
    let mut found = Vec::new();
    for name in actors.all() {
        let known = found.iter().any(|one: &ActorDefinition| one.name == *name);
        if !known {
            found.extend(definition(app, name, wishes)?);
        }
    }
    Ok(found)
}

/// The well-known agents that are installed here, with where.
pub fn installed_presets() -> Vec<(&'static ActorDefinition, PathBuf)> {
    let path = settings::surroundings().path.unwrap_or_default();
    presets()
        .iter()
        .filter_map(|definition| Some((definition, installed(definition, &path)?)))
        .collect()
}
