//! Creates a plan from a goal: resolves project, agent and limits first, and stores nothing until all of
//! them are valid.

use std::io::Write;

use actors::{find_installed_program, find_preset};
use lifecycle::UseRequest;
use plan::actor::ActorKind;
use plan::{ActorDefinition, Plan, PlanActors, PlanId, QualifiedName};
use serde_json::json;

use super::RunArgs;
use crate::cli::{App, CliFormat};
use crate::commands::CommandAnswer;
use crate::commands::use_action::{self, StartingPoint};
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::repository_config::{self, RepositoryConfig};
use crate::{actor_set, current_repository, settings, ui};

/// Creates a plan and announces it on standard error.
pub fn create_plan(args: &RunArgs, app: &App, goal: String) -> Result<PlanId, CommandError> {
    let here = if args.no_project || args.project.is_some() {
        None
    } else {
        Some(current_repository::inspect_repository().map_err(hint_other_projects)?)
    };
    let registered = match (&here, &args.project) {
        (Some(place), _) => current_repository::find_project(app, place)?,
        (None, project) => project.clone(),
    };
    let config = match (&registered, &here) {
        (Some(project), _) => {
            repository_config::read_for_projects(app, std::slice::from_ref(project))?
        }
        // The repository is registered below, once the agent and the limits are valid.
        (None, Some(place)) => repository_config::read_for_repository(&place.path)?,
        (None, None) => RepositoryConfig::default(),
    };
    let defaults = config.resolve_defaults(&app.settings);
    let requested = args.actor.clone().or(defaults.actor);
    let (actor, definition) = choose_actor(args, app, &config, requested)?;
    let limits = args.limits.overrides().or(defaults.limits).with_defaults();
    let project = match (registered, &here) {
        (Some(project), _) => Some(project),
        (None, Some(place)) => Some(current_repository::register_project(app, place)?),
        (None, None) => None,
    };
    let projects: Vec<QualifiedName> = project.into_iter().collect();
    // Read again: the policy refers to resources by name, and a new project has them only now.
    let policy = repository_config::read_for_projects(app, &projects)?.policy;
    let request = UseRequest {
        goal: Some(goal),
        fallback_actors: Some(PlanActors::for_both_phases(actor)),
        definitions: vec![definition],
        strategy_wanted: args.strategy,
        profile: args.profile,
        fallback_profile: defaults.profile,
        limits,
        projects: projects.clone(),
        with_uncommitted_changes: args.with_changes,
        policy,
        ..UseRequest::default()
    };
    let done = app.lifecycle()?.use_action(request, &app.new_call())?;
    app.remember_plan(done.plan.id());
    if app.format == CliFormat::Human {
        announce_plan(
            app,
            &done.plan,
            &projects,
            StartingPoint::from_flag(args.with_changes),
        )?;
    }
    Ok(done.plan.id())
}

fn hint_other_projects(error: CommandError) -> CommandError {
    error
        .with_hint("In another project: planwright run --project NAME \"GOAL\"")
        .with_hint("Without a repository: planwright run --no-project \"GOAL\"")
}

/// Answers `run --detach`.
pub fn answer_detached(app: &App, plan_id: PlanId) -> Result<CommandAnswer, CommandError> {
    let handle = app.lifecycle()?.short_handle(plan_id)?;
    let text = format!(
        "{} is queued for a worker.\n",
        ui::style_text(ui::BOLD, &handle)
    );
    Ok(CommandAnswer::new(
        json!(api::plans::get_plan_view(app.lifecycle()?, plan_id)?),
        text,
    )
    .with_hint("planwright work --drain")
    .with_hint(format!("planwright wait {handle}")))
}

/// Prints goal, agent, limits and isolation before work starts.
fn announce_plan(
    app: &App,
    plan: &Plan,
    projects: &[QualifiedName],
    start: StartingPoint,
) -> Result<(), CommandError> {
    let handle = app.lifecycle()?.short_handle(plan.id())?;
    let mut parts = vec![
        plan.actors().execution.to_string(),
        format!("profile {}", plan.profile()),
        ui::format_limits(plan.limits()),
        describe_isolation(plan),
    ];
    if let Some(project) = projects.first() {
        parts.insert(1, format!("on {project}"));
    }
    let mut stderr = anstream::stderr().lock();
    let _ = writeln!(
        stderr,
        "{}  {}\n  {}",
        ui::style_text(ui::BOLD, &handle),
        ui::truncate_line(plan.goal().as_str(), 70),
        ui::style_text(ui::DIM, parts.join(" · "))
    );
    for message in use_action::warn_uncommitted(app, projects, start) {
        let _ = writeln!(stderr, "  {}", ui::escape_controls(&message.text));
    }
    Ok(())
}

fn describe_isolation(plan: &Plan) -> String {
    let definition = plan.actor_definition(&plan.actors().execution);
    match definition.map(|definition| &definition.kind) {
        Some(ActorKind::Command(line)) if line.isolation == plan::actor::ActorIsolation::Off => {
            "not confined (isolation is off)".to_owned()
        }
        Some(ActorKind::Human { .. }) | None => "by hand".to_owned(),
        Some(ActorKind::Command(_)) => sandbox::detect_isolation().to_string(),
    }
}

/// Returns the requested agent, or the only available one, with its definition. Fails if its program is not
/// installed.
fn choose_actor(
    args: &RunArgs,
    app: &App,
    config: &RepositoryConfig,
    requested: Option<QualifiedName>,
) -> Result<(QualifiedName, ActorDefinition), CommandError> {
    let name = match requested {
        Some(name) => name,
        None => find_only_actor(app, config)?,
    };
    let definition = actor_set::find_definition(app, &name, config)?
        .ok_or_else(|| actor_set::unknown_actor_error(app, &name, config))?;
    let path = settings::read_git_env().path.unwrap_or_default();
    let definition = match find_preset(&name.to_string()) {
        Some(preset) if preset == definition && !args.strategy => disable_strategy(definition),
        Some(_) | None => definition,
    };
    if let ActorKind::Command(line) = &definition.kind
        && !line.command[0].contains('/')
        && find_installed_program(&definition, &path).is_none()
    {
        return Err(CommandError::new(
            CommandExit::NotFound,
            format!(
                "`{}`, which runs agent `{name}`, is not installed.",
                line.command[0]
            ),
        )
        .with_hint("Install it, or put its directory on the PATH.")
        .with_hint("planwright agent list"));
    }
    Ok((name, definition))
}

/// Turns off the strategize run of a preset: it costs another run, and a plain goal did not ask for one.
/// Your own definitions are used unchanged.
fn disable_strategy(mut definition: ActorDefinition) -> ActorDefinition {
    if let ActorKind::Command(line) = &mut definition.kind {
        line.strategize = None;
    }
    definition
}

/// Returns the only agent that is defined or installed. Asks on a terminal if there are several.
fn find_only_actor(app: &App, config: &RepositoryConfig) -> Result<QualifiedName, CommandError> {
    let own = actor_set::list_own_definitions(app)?;
    let defined = own.iter().chain(&config.actors);
    let mut names: Vec<QualifiedName> = defined.map(|one| one.name.clone()).collect();
    names.extend(
        actor_set::installed_presets()
            .into_iter()
            .map(|(one, _)| one.name.clone()),
    );
    names.sort();
    names.dedup();
    match names.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(
            CommandError::new(CommandExit::NotFound, "No known agent is installed.")
                .with_hint("Any command can be an agent: planwright help agents")
                .with_hint("planwright agent list"),
        ),
        several => ask_for_actor(app, several),
    }
}

fn ask_for_actor(app: &App, names: &[QualifiedName]) -> Result<QualifiedName, CommandError> {
    let listed: Vec<String> = names.iter().map(ToString::to_string).collect();
    let listed = listed.join(", ");
    let ambiguous = || {
        CommandError::usage(format!("Several agents are available: {listed}."))
            .with_hint(format!("planwright run --agent {} \"GOAL\"", names[0]))
            .with_hint(format!("planwright config set actor {}", names[0]))
    };
    if !ui::can_ask_person(app.format) {
        return Err(ambiguous());
    }
    let answer = ui::ask_person(&format!("Which agent ({listed})? "));
    let chosen = names.iter().find(|name| Some(name.to_string()) == answer);
    chosen.cloned().ok_or_else(ambiguous)
}
