//! Creates plans: from an action or a goal, or from another plan's result.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::action::{ActionDefinition, ActionState};
use crate::argument;
use crate::authority::CommandAudience;
use crate::command::{CommandDefinition, CommandHeader, LinkedPlan, NewPlan};
use crate::decide::draft::DecisionDraft;
use crate::decide::{DecisionInput, DecisionRequest, project, text};
use crate::decision::{DecisionKind, DecisionNode};
use crate::event::PlanCreated;
use crate::facts::PlanChange;
use crate::permission::UnsupportedToolPolicy;
use crate::plan::{PlanOrigin, ProfileSource};
use crate::reads::{CommandTarget, ProjectReads, ReadSet, RowAccess};
use crate::stage::{ApplyState, ResultTree};
use crate::{
    ActorDefinition, CommandReceipt, Decision, ErasableText, Event, Plan, PlanActors, PlanId,
    PlanResource, PlanStage, PlanVersion, QualifiedName, ReceiptOutcome, RecordedEvent, Refusal,
    RepositoryPolicy, RowWrite, Timestamp, Verb, evolve,
};

/// Create a plan from an action or a goal.
#[derive(Debug, Clone, PartialEq)]
pub struct CreatePlan(pub NewPlan);

impl CommandDefinition for CreatePlan {
    fn header(&self) -> CommandHeader {
        CommandHeader::new(Verb::Use, CommandAudience::Everyone)
    }

    fn reads(&self, _target: &CommandTarget) -> ReadSet {
        let action = self.0.action.clone();
        ReadSet {
            action: action.map(|name| (name, RowAccess::Exclusive)),
            projects: ProjectReads::for_new_plan(&self.0.projects),
            ..ReadSet::default()
        }
    }

    fn arguments(&self) -> Value {
        let new = &self.0;
        json!([
            new.action,
            new.goal,
            new.arguments,
            new.fallback_actors,
            new.profile,
            new.fallback_profile,
            new.limits,
            new.strategy_wanted,
            new.projects,
            // The engine reads the working-tree rules; they are not an argument of the caller.
            RepositoryPolicy {
                rules: Vec::new(),
                ..new.policy.clone()
            },
            new.bases.is_empty()
        ])
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        create_plan(input, &self.0)
    }
}

/// Create a plan that undoes a landed one.
#[derive(Debug, Clone, PartialEq)]
pub struct UndoLanding(pub LinkedPlan);

impl CommandDefinition for UndoLanding {
    fn header(&self) -> CommandHeader {
        CommandHeader::new(Verb::Undo, CommandAudience::People)
    }

    fn reads(&self, target: &CommandTarget) -> ReadSet {
        target.plan_reads_with_projects()
    }

    fn arguments(&self) -> Value {
        json!([self.0.resources, self.0.result])
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        create_undo_plan(input.draft()?, &self.0)
    }
}

fn create_plan(input: DecisionInput<'_>, new: &NewPlan) -> Result<Decision, Refusal> {
    let DecisionInput {
        facts,
        request,
        now,
    } = input;
    let mut rows = Vec::new();
    let definition = match (&new.action, &facts.action) {
        (None, _) => None,
        (Some(name), None) => return Err(Refusal::NoSuchAction(name.clone())),
        (Some(_), Some(action)) => {
            if let ActionState::Archived { at, by } = &action.state {
                return Err(Refusal::ActionArchived {
                    name: action.name().clone(),
                    at: *at,
                    by: by.clone(),
                });
            }
            if let Some(plan) = action.used_by {
                return Err(Refusal::ActionUsedUp {
                    name: action.name().clone(),
                    plan,
                });
            }
            if !action.definition.reusable {
                let mut used = action.clone();
                used.used_by = Some(new.id);
                rows.push(RowWrite::PutAction(used));
            }
            Some(&action.definition)
        }
    };
    let specs = definition
        .map(|action| action.arguments.as_slice())
        .unwrap_or_default();
    let arguments =
        argument::resolve_arguments(specs, &new.arguments).map_err(Refusal::Arguments)?;
    let goal = new
        .goal
        .as_deref()
        .or(definition.map(|action| action.description.as_str()));
    let goal = text::require_text("goal", goal.ok_or(Refusal::NoGoal)?)?;
    let actors = definition
        .and_then(|action| action.actors.clone())
        .or_else(|| new.fallback_actors.clone());
    let action_profile = definition.and_then(|action| action.automation_profile);
    let (profile, profile_source) = new
        .profile
        .or(action_profile.map(|profile| (profile, ProfileSource::Action)))
        .or(new.fallback_profile)
        .unwrap_or((crate::Profile::default(), ProfileSource::Default));
    // Nothing that an agent starts lands without a person.
    if profile == crate::Profile::Auto && matches!(request.caller, crate::Caller::Agent(_)) {
        return Err(Refusal::NotAuthorized {
            verb: request.command.verb(),
            caller: request.caller.clone(),
        });
    }
    let actors = actors.ok_or(Refusal::NoActor)?;
    let definitions = freeze_definitions(&actors, &new.definitions, definition)?;
    let created = PlanCreated {
        goal,
        action: definition.map(|action| action.name.clone()),
        arguments,
        definitions,
        strategy_wanted: new.strategy_wanted,
        actors,
        profile,
        profile_source,
        read_only: definition.is_some_and(|action| action.read_only),
        resources: project::freeze_projects(facts, &new.projects)?,
        bases: new.bases.clone(),
        policy: new.policy.clone(),
        limits: new.limits,
        origin: PlanOrigin::Use,
        result: None,
    };
    let change = record_creation(new.id, request, now, created);
    let receipt = CommandReceipt {
        verb: request.command.verb(),
        outcome: ReceiptOutcome::Done,
        plan: Some(new.id),
        version: Some(change.plan.version()),
        epoch: None,
        changeset: None,
        grant: None,
        at: now,
    };
    Ok(Decision {
        plans: vec![change],
        rows,
        receipt,
    })
}

/// Returns the definitions of the actors that work on a plan, with what its action says about tools.
fn freeze_definitions(
    actors: &PlanActors,
    known: &[ActorDefinition],
    action: Option<&ActionDefinition>,
) -> Result<Vec<ActorDefinition>, Refusal> {
    let works_on_plan = |one: &&ActorDefinition| actors.actor_names().any(|name| *name == one.name);
    let definitions = known.iter().filter(works_on_plan);
    let Some(action) = action.filter(|action| !action.tools.is_empty()) else {
        return Ok(definitions.cloned().collect());
    };
    let refuse = |actor: &QualifiedName, problem| Refusal::ToolPolicyUnsupported {
        action: action.name.clone(),
        actor: actor.clone(),
        problem,
    };
    let is_unknown = |name: &&QualifiedName| !known.iter().any(|one| one.name == **name);
    if let Some(name) = actors.actor_names().find(is_unknown) {
        return Err(refuse(name, UnsupportedToolPolicy::NoDefinition));
    }
    definitions
        .map(|one| {
            let changed = action.tools.add_to_definition(one);
            changed.map_err(|problem| refuse(&one.name, problem))
        })
        .collect()
}

fn create_undo_plan(
    mut draft: DecisionDraft<'_>,
    linked: &LinkedPlan,
) -> Result<Decision, Refusal> {
    let PlanStage::Apply(ApplyState::Applied(_)) = draft.plan.stage() else {
        return draft.answer_not_applicable();
    };
    if !draft.plan.has_targets() {
        return Err(Refusal::NothingToUndo);
    }
    // Without its resources the undo plan could never start.
    project::require_resources_exist(draft.facts, &draft.plan)?;
    let goal = format!("Undo: {}", draft.plan.goal().first_line());
    let change = create_linked_plan(
        &draft,
        linked,
        goal.into(),
        PlanOrigin::UndoOf(draft.plan.id()),
    )?;
    draft.add_new_plan(change);
    let mut decision = draft.finish();
    decision.receipt.plan = Some(linked.id);
    decision.receipt.version = Some(decision.plans[0].plan.version());
    Ok(decision)
}

/// Creates a plan that starts with a result. It inherits actors, profile and limits from its
/// origin.
pub(super) fn create_linked_plan(
    draft: &DecisionDraft<'_>,
    linked: &LinkedPlan,
    goal: ErasableText,
    origin: PlanOrigin,
) -> Result<PlanChange, Refusal> {
    let origin_plan = &draft.plan;
    let mut resources: Vec<PlanResource> = Vec::new();
    for name in &linked.resources {
        let found = origin_plan.resource(name);
        let resource = found.ok_or_else(|| Refusal::ResourceNotInPlan(name.clone()))?;
        if !resources.contains(resource) {
            resources.push(resource.clone());
        }
    }
    let mut policy = origin_plan.policy().clone();
    if let PlanOrigin::UndoOf(_) = origin {
        // An undo reads no working tree. Only the rules of its targets apply.
        policy.rules.clear();
    }
    let created = PlanCreated {
        goal,
        action: origin_plan.action().cloned(),
        arguments: origin_plan.arguments().clone(),
        actors: origin_plan.actors().clone(),
        definitions: origin_plan.definitions().to_vec(),
        strategy_wanted: false,
        profile: origin_plan.profile(),
        profile_source: origin_plan.profile_source(),
        read_only: false,
        resources,
        policy,
        // The result already names its bases.
        bases: linked
            .result
            .trees
            .iter()
            .map(ResultTree::base_commit)
            .collect(),
        limits: origin_plan.limits(),
        origin,
        result: Some(linked.result.clone()),
    };
    Ok(record_creation(
        linked.id,
        draft.request,
        draft.now,
        created,
    ))
}

/// Returns the root of the decision tree: the plan's goal.
pub(super) fn root_decision(goal: &ErasableText) -> DecisionNode {
    DecisionNode {
        number: 1,
        parent: None,
        kind: DecisionKind::PromptDefinition,
        question: "What is this plan for?".into(),
        choice: goal.clone(),
        alternatives: Vec::new(),
        rationale: None,
        confidence: None,
    }
}

/// Records a plan's first events. A plan that starts with a result gets its root decision at once,
/// because its next gate comes before its first claim.
fn record_creation(
    id: PlanId,
    request: &DecisionRequest,
    now: Timestamp,
    created: PlanCreated,
) -> PlanChange {
    let root = created
        .result
        .is_some()
        .then(|| root_decision(&created.goal));
    let mut events = vec![Event::Created(Box::new(created))];
    events.extend(root.map(|root| Event::DecisionsRecorded {
        decisions: vec![root],
    }));
    let mut plan: Option<Plan> = None;
    let mut recorded_events = Vec::new();
    for (version, event) in (1..).zip(events) {
        let recorded = RecordedEvent {
            plan: id,
            version: PlanVersion(version),
            at: now,
            by: request.caller.clone(),
            event,
        };
        plan = Some(evolve(plan, &recorded).expect("BUG: a new plan's events fit"));
        recorded_events.push(recorded);
    }
    PlanChange {
        plan: Arc::new(plan.expect("BUG: a new plan has an event")),
        events: recorded_events,
    }
}
