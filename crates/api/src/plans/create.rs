//! Creates plans.

use actors::has_preset_strategy;
use lifecycle::{Call, Lifecycle, LifecycleError, OperationOutcome, UseRequest};
use plan::actor::ActorKind;
use plan::{ActorDefinition, PlanActors, PlanId, Profile, QualifiedName};
use serde::Deserialize;

use crate::actions::{self, ActionError, FoundAction};
use crate::actors::UnreadableActor;
use crate::plan_config::{LimitOverrides, PlanConfig};

/// A new plan, as a person, a program or a page asks for it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CreatePlanRequest {
    /// An id that the engine made for this plan before its goal was known. Never part of a request that is read.
    #[serde(skip)]
    pub plan_id: Option<PlanId>,
    /// Defaults to the action's description.
    pub goal: Option<String>,
    /// The template. Without one, the plan has only a goal.
    pub action: Option<QualifiedName>,
    /// Arguments of the action: pairs of name and value. Repeat a name for list items.
    pub arguments: Vec<(String, String)>,
    /// Registered projects to work on.
    pub projects: Vec<QualifiedName>,
    /// The agent, unless the action names its own. Defaults to the configured one; for a plan without an action,
    /// to the only one available.
    pub actor: Option<QualifiedName>,
    pub profile: Option<Profile>,
    pub limits: LimitOverrides,
    /// Have the agent write a strategy first, for a person to review.
    pub strategy_wanted: bool,
    /// Include uncommitted changes in the sandboxes.
    pub with_uncommitted_changes: bool,
}

/// A plan that was created, and where its action came from.
#[derive(Debug)]
pub struct CreatedPlan {
    pub outcome: OperationOutcome,
    pub action: Option<FoundAction>,
}

/// Why a plan cannot be created. Nothing was stored, except a copy of a repository's action.
#[derive(Debug, thiserror::Error)]
pub enum CreatePlanError {
    #[error("agent `{name}` does not exist")]
    UnknownActor {
        name: QualifiedName,
        /// All names that exist, to suggest one of them.
        known: Vec<QualifiedName>,
    },
    #[error(transparent)]
    UnreadableActor(#[from] UnreadableActor),
    #[error("no known agent is installed")]
    NoActorInstalled,
    /// The request has to name one of these.
    #[error("several agents are available")]
    SeveralActors(Vec<QualifiedName>),
    #[error("`{program}`, which runs agent `{actor}`, is not installed")]
    ProgramMissing {
        actor: QualifiedName,
        program: String,
    },
    #[error(transparent)]
    Action(#[from] ActionError),
    #[error(transparent)]
    Engine(#[from] LifecycleError),
}

/// Creates a plan. `config` is what it inherits: read for the request's projects, because the repositories
/// define agents, actions, limits and how results land.
pub fn create_plan(
    lifecycle: &Lifecycle,
    request: &CreatePlanRequest,
    config: &PlanConfig,
    call: &Call,
) -> Result<CreatedPlan, CreatePlanError> {
    let in_repository = &config.repository.actions;
    let action = match &request.action {
        Some(name) => Some(actions::find_action(lifecycle, name, in_repository)?),
        None => None,
    };
    let chosen = match &action {
        None => choose_actor_for_goal(request, config)?,
        Some(action) => choose_actors_for_action(request, config, action)?,
    };
    let action_name = match &action {
        None => None,
        Some(FoundAction::Stored(action)) => Some(action.name().clone()),
        Some(FoundAction::InRepository(action)) => {
            Some(actions::freeze_action(lifecycle, action, call)?)
        }
    };
    let use_request = UseRequest {
        plan_id: request.plan_id,
        action: action_name,
        goal: request.goal.clone(),
        arguments: request.arguments.clone(),
        fallback_actors: chosen.fallback,
        definitions: chosen.definitions,
        strategy_wanted: request.strategy_wanted,
        profile: request.profile,
        fallback_profile: config.default_profile(),
        limits: config.resolve_limits(request.limits),
        projects: request.projects.clone(),
        with_uncommitted_changes: request.with_uncommitted_changes,
        policy: config.repository.policy.clone(),
    };
    let outcome = lifecycle.use_action(use_request, call)?;
    Ok(CreatedPlan { outcome, action })
}

/// Checks that an agent for a plan without an action is known and installed. For callers that first register a
/// project, or that can ask which of several agents to use.
pub fn check_actor(
    request: &CreatePlanRequest,
    config: &PlanConfig,
) -> Result<(), CreatePlanError> {
    // An action may name its own agents, and then nothing has to be chosen.
    match request.action {
        Some(_) => Ok(()),
        None => choose_actor_for_goal(request, config).map(drop),
    }
}

/// The agents of a new plan.
struct ChosenActors {
    /// Used if the action names none.
    fallback: Option<PlanActors>,
    definitions: Vec<ActorDefinition>,
}

/// Without an action, somebody is about to run the plan here: its agent must be known and installed.
fn choose_actor_for_goal(
    request: &CreatePlanRequest,
    config: &PlanConfig,
) -> Result<ChosenActors, CreatePlanError> {
    let (catalog, in_repository) = (&config.actors, &config.repository.actors);
    let name = match request.actor.as_ref().or(config.default_actor()) {
        Some(name) => name.clone(),
        None => match catalog.available_names(in_repository).as_slice() {
            [only] => only.clone(),
            [] => return Err(CreatePlanError::NoActorInstalled),
            several => return Err(CreatePlanError::SeveralActors(several.to_vec())),
        },
    };
    let Some(definition) = catalog.find_definition(&name, in_repository)? else {
        let known = catalog.known_names(in_repository);
        return Err(CreatePlanError::UnknownActor { name, known });
    };
    let definition = match has_preset_strategy(&definition) && !request.strategy_wanted {
        true => disable_strategy(definition),
        false => definition,
    };
    if let Some(program) = catalog.missing_program(&definition) {
        let program = program.to_owned();
        let actor = name;
        return Err(CreatePlanError::ProgramMissing { actor, program });
    }
    Ok(ChosenActors {
        fallback: Some(PlanActors::for_both_phases(name)),
        definitions: vec![definition],
    })
}

/// An action may name agents that only exist elsewhere: the plan then waits for whoever has them.
fn choose_actors_for_action(
    request: &CreatePlanRequest,
    config: &PlanConfig,
    action: &FoundAction,
) -> Result<ChosenActors, CreatePlanError> {
    let fallback = request.actor.as_ref().or(config.default_actor()).cloned();
    let fallback = fallback.map(PlanActors::for_both_phases);
    let named = action.definition().actors.as_ref().or(fallback.as_ref());
    let definitions = match named {
        Some(actors) => config
            .actors
            .find_definitions(actors, &config.repository.actors)?,
        None => Vec::new(),
    };
    Ok(ChosenActors {
        fallback,
        definitions,
    })
}

/// Turns off the strategize run of a preset or its copy: it costs another run, and a plain goal did not ask
/// for one. A strategize command of the user's own is used.
fn disable_strategy(mut definition: ActorDefinition) -> ActorDefinition {
    if let ActorKind::Command(line) = &mut definition.kind {
        line.strategize = None;
    }
    definition
}
