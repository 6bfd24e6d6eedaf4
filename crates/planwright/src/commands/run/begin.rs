//! Beginning a plan from a goal: where, by whom, under which limits. Everything is looked at before
//! anything is stored.

use std::io::Write;
use std::path::Path;

use actors::{installed, preset};
use lifecycle::UseRequest;
use plan::actor::ActorKind;
use plan::project::{Place, Resource, ResourceName};
use plan::{ActorDefinition, Actors, Name, Plan, PlanId};
use sandbox::{GitPlace, look_at_git};
use serde_json::json;

use super::Args;
use crate::cli::{App, Format};
use crate::commands::{Answer, use_action};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::wishes::{self, Wishes};
use crate::{crew, host, settings, ui};

/// Makes a plan of a goal, and says what it will be worked on with.
pub fn begin(args: &Args, app: &App, goal: String) -> Result<PlanId, CommandError> {
    let here = if args.no_project || args.project.is_some() {
        None
    } else {
        Some(repository_here()?)
    };
    let registered = match (&here, &args.project) {
        (Some(place), _) => project_of(app, place)?,
        (None, project) => project.clone(),
    };
    let wishes = match (&registered, &here) {
        (Some(project), _) => wishes::of_projects(app, std::slice::from_ref(project))?,
        // It is registered once everything else is known to be well.
        (None, Some(place)) => wishes_of(&place.path)?,
        (None, None) => Wishes::default(),
    };
    let (actor, definition) = who(args, app, &wishes)?;
    let said = args.limits.said().or(wishes.limits);
    let limits = said.or(app.settings.limits()).settled();
    let project = match (registered, &here) {
        (Some(project), _) => Some(project),
        (None, Some(place)) => Some(register(app, place)?),
        (None, None) => None,
    };
    let projects: Vec<Name> = project.into_iter().collect();
    // Looked at anew: now the resources have their names.
    let ways = wishes::of_projects(app, &projects)?.ways;
    let request = UseRequest {
        goal: Some(goal),
        fallback_actors: Some(Actors::both(actor)),
        definitions: vec![definition],
        strategy_wanted: args.strategy,
        profile: args.profile,
        fallback_profile: use_action::fallback_profile(app, wishes.profile),
        limits,
        projects: projects.clone(),
        with_changes: args.with_changes,
        ways,
        ..UseRequest::default()
    };
    let done = app.lifecycle()?.use_action(request, &app.call())?;
    if app.format == Format::Human {
        announce(app, &done.plan, &projects, args.with_changes)?;
    }
    Ok(done.plan.id)
}

/// What is said of a plan that somebody else shall work on.
pub fn leave_to_a_worker(app: &App, plan: PlanId) -> Result<Answer, CommandError> {
    let handle = app.lifecycle()?.short_name(plan)?;
    let text = format!("{} waits for a worker.\n", ui::styled(ui::BOLD, &handle));
    Ok(Answer::new(json!(app.view(plan)?), text)
        .hint("planwright work --drain")
        .hint(format!("planwright wait {handle}")))
}

/// The first lines: what, by whom, within which limits, confined how.
fn announce(
    app: &App,
    plan: &Plan,
    projects: &[Name],
    with_changes: bool,
) -> Result<(), CommandError> {
    let handle = app.lifecycle()?.short_name(plan.id)?;
    let mut parts = vec![
        plan.actors.execution.to_string(),
        format!("profile {}", plan.profile),
        ui::limits(plan.limits),
        isolation(plan),
    ];
    if let Some(project) = projects.first() {
        parts.insert(1, format!("on {project}"));
    }
    let mut stderr = anstream::stderr().lock();
    let _ = writeln!(
        stderr,
        "{}  {}\n  {}",
        ui::styled(ui::BOLD, &handle),
        ui::one_line(plan.goal.as_str(), 70),
        ui::styled(ui::DIM, parts.join(" · "))
    );
    for message in use_action::what_is_not_committed(app, projects, with_changes) {
        let _ = writeln!(stderr, "  {}", ui::clean(&message.text));
    }
    Ok(())
}

/// How the actor of a plan will be confined on this system.
fn isolation(plan: &Plan) -> String {
    let definition = plan.definition(&plan.actors.execution);
    match definition.map(|definition| &definition.kind) {
        Some(ActorKind::Command(line)) if line.isolation == plan::actor::Isolation::Off => {
            "not confined: its definition says so".to_owned()
        }
        Some(ActorKind::Human { .. }) | None => "by hand".to_owned(),
        Some(ActorKind::Command(_)) => sandbox::offered().to_string(),
    }
}

/// The repository one is in.
fn repository_here() -> Result<GitPlace, CommandError> {
    let here = Path::new(".");
    look_at_git(&settings::surroundings(), here, None).map_err(|error| {
        let error = CommandError::from(lifecycle::Error::Sandbox(error));
        error
            .hint("Another one: planwright run --project NAME \"GOAL\"")
            .hint("None at all: planwright run --no-project \"GOAL\"")
    })
}

/// The project that is this repository with this branch.
fn project_of(app: &App, here: &GitPlace) -> Result<Option<Name>, CommandError> {
    const MOST: usize = 500;
    let lifecycle = app.lifecycle()?;
    let host = &lifecycle.hands()?.host;
    let is_here = |resource: &Resource| match &resource.place {
        Place::Git { path, branch } => {
            Path::new(path) == here.path && *branch == here.branch && resource.host == *host
        }
        Place::Dir { .. } => false,
    };
    let found = lifecycle.list_projects(None, MOST)?.into_iter();
    let mut found = found.filter(|project| project.resources.iter().all(is_here));
    Ok(found.next().map(|project| project.name))
}

fn wishes_of(repository: &Path) -> Result<Wishes, CommandError> {
    let file = wishes::read(&repository.join("planwright.yaml"))?.unwrap_or_default();
    Ok(Wishes {
        actor: file.actor,
        actors: file.actors,
        profile: file.profile,
        limits: file.limits,
        ..Wishes::default()
    })
}

/// Registers a repository under the name of its directory, or one like it that is free.
fn register(app: &App, here: &GitPlace) -> Result<Name, CommandError> {
    const MOST_TRIES: u32 = 100;
    let branch = here
        .branch
        .strip_prefix("refs/heads/")
        .unwrap_or(&here.branch);
    let directory = here.path.file_name().unwrap_or_default().to_string_lossy();
    let plain = as_name(&directory);
    let resource = Resource {
        name: resource_name(&plain)?,
        host: host::register(&app.settings.home)?,
        place: Place::Git {
            path: as_text(&here.path)?,
            branch: here.branch.clone(),
        },
    };
    let lifecycle = app.lifecycle()?;
    let with_branch = format!("{plain}.{}", as_name(branch));
    let numbered = (2..MOST_TRIES).map(|number| format!("{plain}-{number}"));
    for candidate in [plain.clone(), with_branch].into_iter().chain(numbered) {
        let Ok(name) = candidate.parse::<Name>() else {
            continue;
        };
        let free = match lifecycle.get_project(&name) {
            Ok(project) => project.resources == [resource.clone()],
            Err(lifecycle::Error::Refused(plan::Refusal::NoSuchProject(_))) => true,
            Err(error) => return Err(error.into()),
        };
        if free {
            lifecycle.create_project(&name, vec![resource], &app.call())?;
            return Ok(name);
        }
    }
    Err(CommandError::new(
        Exit::Conflict,
        format!("Every name like `{plain}` is taken by another project."),
    )
    .hint("planwright project create NAME --git ."))
}

fn as_text(path: &Path) -> Result<String, CommandError> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        CommandError::usage(format!("{} is not valid UTF-8.", path.display()))
            .hint("Rename the directory.")
    })
}

fn resource_name(plain: &str) -> Result<ResourceName, CommandError> {
    let name = plain.parse::<ResourceName>();
    name.or_else(|_| "repository".parse())
        .map_err(|error| CommandError::usage(error.to_string()))
}

/// What can be a name, of a text that may not be one.
fn as_name(text: &str) -> String {
    let kept: String = text
        .to_lowercase()
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '-'
            }
        })
        .collect();
    let kept = kept.trim_matches(['-', '.', '_']);
    let kept: String = kept.chars().take(40).collect();
    let kept = kept.trim_end_matches(['-', '.', '_']).to_owned();
    if kept.is_empty() {
        "repository".to_owned()
    } else {
        kept
    }
}

/// Who works, and how they are started.
fn who(args: &Args, app: &App, wishes: &Wishes) -> Result<(Name, ActorDefinition), CommandError> {
    let said = args.actor.clone().or_else(|| wishes.actor.clone());
    let said = said.or_else(|| app.settings.actors().map(|actors| actors.execution));
    let name = match said {
        Some(name) => name,
        None => the_only_one(app)?,
    };
    let definition = crew::definition(app, &name, wishes)?.ok_or_else(|| {
        CommandError::new(Exit::NotFound, format!("There is no actor `{name}`."))
            .hint("planwright actor list")
            .hint("planwright actor add FILE")
    })?;
    let path = settings::surroundings().path.unwrap_or_default();
    let definition = match preset(&name.to_string()) {
        Some(known) if known == definition && !args.strategy => without_strategy(definition),
        Some(_) | None => definition,
    };
    if let ActorKind::Command(line) = &definition.kind
        && !line.command[0].contains('/')
        && installed(&definition, &path).is_none()
    {
        return Err(CommandError::new(
            Exit::NotFound,
            format!(
                "`{}`, which starts actor `{name}`, is not installed.",
                line.command[0]
            ),
        )
        .hint("Install it, or put its directory on the PATH.")
        .hint("planwright actor list"));
    }
    Ok((name, definition))
}

/// The well-known agents could all make a strategy first, at the price of another run; whoever gives a
/// plain goal has not asked for one. A definition of one's own is taken at its word.
fn without_strategy(mut definition: ActorDefinition) -> ActorDefinition {
    if let ActorKind::Command(line) = &mut definition.kind {
        line.strategize = None;
    }
    definition
}

/// The agent that is installed, if it is one; on a terminal, the one that is chosen.
fn the_only_one(app: &App) -> Result<Name, CommandError> {
    let mut names: Vec<Name> = crew::own(app)?.into_iter().map(|one| one.name).collect();
    names.extend(
        crew::installed_presets()
            .into_iter()
            .map(|(one, _)| one.name.clone()),
    );
    names.sort();
    names.dedup();
    match names.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(CommandError::new(
            Exit::NotFound,
            "No agent is installed here that Planwright knows.",
        )
        .hint("Any command can be one; docs/actors.md tells how: planwright actor add FILE")
        .hint("planwright actor list")),
        several => choose(app, several),
    }
}

fn choose(app: &App, names: &[Name]) -> Result<Name, CommandError> {
    let listed: Vec<String> = names.iter().map(ToString::to_string).collect();
    let listed = listed.join(", ");
    let several = || {
        CommandError::usage(format!("Several agents could work on this: {listed}."))
            .hint(format!("planwright run --actor {} \"GOAL\"", names[0]))
            .hint(format!("planwright config set actor {}", names[0]))
    };
    if !ui::can_be_asked(app.format) {
        return Err(several());
    }
    let answer = ui::ask(&format!("Who shall work on it ({listed})? "));
    let chosen = names.iter().find(|name| Some(name.to_string()) == answer);
    chosen.cloned().ok_or_else(several)
}
