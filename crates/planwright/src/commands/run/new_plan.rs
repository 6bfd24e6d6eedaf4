//! Creates a plan from a goal: resolves project, agent and limits first, and stores nothing until all of
//! them are valid.

use std::io::Write;

use api::plan_config::PlanConfig;
use api::plans::{self, CreatePlanError, CreatePlanRequest};
use plan::actor::ActorIsolation;
use plan::profile::AutomationStep;
use plan::{Plan, PlanId, QualifiedName};

use super::RunArgs;
use crate::cli::{App, CliFormat};
use crate::commands::{CommandAnswer, use_action};
use crate::error::CommandError;
use crate::plan_draft::PlanDraft;
use crate::plan_notices::describe_notices;
use crate::settings::SettingKey;
use crate::{current_repository, ui};

/// Creates a plan and announces it on standard error.
pub fn create_plan(
    args: &RunArgs,
    app: &App,
    goal: Option<String>,
) -> Result<PlanId, CommandError> {
    let arguments = parse_arguments(args)?;
    // An action may need no repository.
    let is_elsewhere = args.action.is_some() && current_repository::find_checkout_root().is_none();
    let request = CreatePlanRequest {
        goal,
        action: args.action.clone(),
        arguments,
        projects: args.project.iter().cloned().collect(),
        actor: args.actor.clone(),
        profile: args.profile,
        limits: args.limits.overrides(),
        strategy_wanted: args.strategy,
        with_uncommitted_changes: args.with_changes,
        ..CreatePlanRequest::default()
    };
    let mut draft = if args.no_project || args.project.is_some() || is_elsewhere {
        PlanDraft::for_projects(app, request)?
    } else {
        let place = current_repository::inspect_repository().map_err(hint_other_projects)?;
        PlanDraft::for_repository(app, place, request)?
    };
    match draft.check_actor() {
        Err(CreatePlanError::SeveralActors(names)) => {
            let actor = ask_for_actor(app, names)?;
            remember_actor(app, &actor, &draft.config);
            draft.request.actor = Some(actor);
            draft.check_actor()?;
        }
        checked => checked?,
    }
    let call = app.new_call();
    let (request, created) = draft.create(app, &call, &call)?;
    let plan = &created.outcome.plan;
    app.remember_plan(plan.id());
    if app.format == CliFormat::Human {
        announce_plan(app, plan, &request)?;
    }
    Ok(plan.id())
}

/// Reads the arguments of an action; none without an action.
fn parse_arguments(args: &RunArgs) -> Result<Vec<(String, String)>, CommandError> {
    let Some(action) = &args.action else {
        return Ok(Vec::new());
    };
    let words = args.positional_words().into_iter();
    let parsed = words.map(|word| {
        use_action::parse_argument(word).map_err(|problem| {
            CommandError::usage(format!("`{word}` is not an argument: {problem}."))
                .with_hint(format!("planwright action show {action}"))
        })
    });
    parsed.collect()
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
    Ok(
        CommandAnswer::new(plans::get_plan_view(app.lifecycle()?, plan_id)?, text)
            .with_hint("planwright work --drain")
            .with_hint(format!("planwright wait {handle}")),
    )
}

/// Prints who works where, and who lands the result: `k3f9 · claude · private copy of main · confined · asks before
/// landing`.
fn announce_plan(app: &App, plan: &Plan, request: &CreatePlanRequest) -> Result<(), CommandError> {
    let handle = app.lifecycle()?.short_handle(plan.id())?;
    let branches = plan.resources().iter();
    let mut branches = branches.filter_map(|resource| resource.target.as_deref());
    let mut parts = vec![plan.actors().execution.to_string()];
    parts.extend(branches.next().map(|branch| {
        let branch = branch.trim_start_matches("refs/heads/");
        format!("private copy of {branch}")
    }));
    parts.push(describe_isolation(plan));
    if plan.has_targets() {
        parts.push(match plan.allows_unattended(AutomationStep::Apply) {
            true => "lands by itself".to_owned(),
            false => "asks before landing".to_owned(),
        });
    }
    let mut stderr = anstream::stderr().lock();
    let line = format!(
        "{} · {}",
        ui::style_text(ui::BOLD, &handle),
        ui::style_text(ui::DIM, ui::escape_controls(&parts.join(" · ")))
    );
    let _ = writeln!(stderr, "{}", wrap_for_stderr(&line));
    let notices = plans::find_source_notices(app.lifecycle()?, request);
    for message in describe_notices(&notices) {
        let line = format!("  {}", ui::escape_controls(&message.text));
        let _ = writeln!(stderr, "{}", wrap_for_stderr(&line));
    }
    Ok(())
}

fn wrap_for_stderr(line: &str) -> String {
    match ui::stderr_width() {
        Some(width) => ui::wrap_hanging(line, 0, 2, width),
        None => line.to_owned(),
    }
}

fn describe_isolation(plan: &Plan) -> String {
    let definition = plan.actor_definition(&plan.actors().execution);
    match definition.and_then(|definition| definition.kind.isolation()) {
        Some(ActorIsolation::Off) => "not confined (isolation is off)".to_owned(),
        None => "by hand".to_owned(),
        Some(ActorIsolation::WherePossible | ActorIsolation::Required) => {
            match sandbox::detect_isolation().to_string() {
                isolation if isolation == "confined (Landlock)" => "confined".to_owned(),
                isolation => isolation,
            }
        }
    }
}

/// Asks which of several agents to run. Without a terminal, fails and names them.
fn ask_for_actor(app: &App, names: Vec<QualifiedName>) -> Result<QualifiedName, CommandError> {
    if !ui::can_ask_person(app.format) {
        return Err(CreatePlanError::SeveralActors(names).into());
    }
    let listed: Vec<String> = names.iter().map(ToString::to_string).collect();
    let question = format!("Which agent ({})? ", listed.join(", "));
    while let Some(answer) = ui::ask_person(&question).filter(|answer| !answer.is_empty()) {
        if let Some(name) = names.iter().find(|name| name.to_string() == answer) {
            return Ok(name.clone());
        }
        let answer = ui::escape_controls(&answer);
        let _ = writeln!(anstream::stderr().lock(), "`{answer}` is not one of them.");
    }
    Err(CreatePlanError::SeveralActors(names).into())
}

/// Makes the agent the default of all plans, unless its name means something only in this repository. If that
/// fails, the person is asked again next time.
fn remember_actor(app: &App, name: &QualifiedName, config: &PlanConfig) {
    let known_elsewhere = config.actors.find_definition(name, &[]);
    if !matches!(known_elsewhere, Ok(Some(_))) {
        return;
    }
    let remembered = app
        .settings
        .write_setting(SettingKey::Actor, &name.to_string());
    if remembered.is_ok() {
        let _ = writeln!(
            anstream::stderr().lock(),
            "From now on, plans use {name}. To change that: planwright config set actor NAME"
        );
    }
}
