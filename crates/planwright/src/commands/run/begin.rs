//! Beginning a plan from a goal: where, by whom, under which limits. Everything is looked at before
//! anything is stored.

use std::io::Write;

use actors::{installed, preset};
use lifecycle::UseRequest;
use plan::actor::ActorKind;
use plan::{ActorDefinition, Actors, Name, Plan, PlanId};
use serde_json::json;

use super::Args;
use crate::cli::{App, Format};
use crate::commands::Answer;
use crate::commands::use_action::{self, Start};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::wishes::{self, Wishes};
use crate::{crew, here, settings, ui};

/// Makes a plan of a goal, and says what it will be worked on with.
pub fn begin(args: &Args, app: &App, goal: String) -> Result<PlanId, CommandError> {
    let here = if args.no_project || args.project.is_some() {
        None
    } else {
        Some(here::repository().map_err(other_places)?)
    };
    let registered = match (&here, &args.project) {
        (Some(place), _) => here::project_of(app, place)?,
        (None, project) => project.clone(),
    };
    let wishes = match (&registered, &here) {
        (Some(project), _) => wishes::of_projects(app, std::slice::from_ref(project))?,
        // It is registered once everything else is known to be well.
        (None, Some(place)) => wishes::of_repository(&place.path)?,
        (None, None) => Wishes::default(),
    };
    let preferred = wishes.preferred(&app.settings);
    let said = args.actor.clone().or(preferred.actor);
    let (actor, definition) = who(args, app, &wishes, said)?;
    let limits = args.limits.said().or(preferred.limits).settled();
    let project = match (registered, &here) {
        (Some(project), _) => Some(project),
        (None, Some(place)) => Some(here::register(app, place)?),
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
        fallback_profile: preferred.profile,
        limits,
        projects: projects.clone(),
        with_changes: args.with_changes,
        ways,
        ..UseRequest::default()
    };
    let done = app.lifecycle()?.use_action(request, &app.call())?;
    app.remember(done.plan.id);
    if app.format == Format::Human {
        announce(app, &done.plan, &projects, Start::of(args.with_changes))?;
    }
    Ok(done.plan.id)
}

/// Where else one could work.
fn other_places(error: CommandError) -> CommandError {
    error
        .hint("Another one: planwright run --project NAME \"GOAL\"")
        .hint("None at all: planwright run --no-project \"GOAL\"")
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
fn announce(app: &App, plan: &Plan, projects: &[Name], start: Start) -> Result<(), CommandError> {
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
    for message in use_action::what_is_not_committed(app, projects, start) {
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

/// Who works, the one that was said or the only one there is, and how they are started.
fn who(
    args: &Args,
    app: &App,
    wishes: &Wishes,
    said: Option<Name>,
) -> Result<(Name, ActorDefinition), CommandError> {
    let name = match said {
        Some(name) => name,
        None => the_only_one(app, wishes)?,
    };
    let definition =
        crew::definition(app, &name, wishes)?.ok_or_else(|| crew::unknown(app, &name, wishes))?;
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

/// The agent that is defined or installed, if it is one; on a terminal, the one that is chosen.
fn the_only_one(app: &App, wishes: &Wishes) -> Result<Name, CommandError> {
    let own = crew::own(app)?;
    let defined = own.iter().chain(&wishes.actors);
    let mut names: Vec<Name> = defined.map(|one| one.name.clone()).collect();
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
        .hint("Any command can be one: planwright help actors")
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
