//! Creates and archives actions.

use crate::action::ActionDefinition;
use crate::argument::ArgumentProblem;
use crate::decide::{DecisionRequest, rule, text};
use crate::invariant::{Rule, RuleScope};
use crate::{
    Action, ActionState, CommandReceipt, Decision, DecisionFacts, QualifiedName, ReceiptOutcome,
    Refusal, RowWrite, Timestamp,
};

pub(super) fn create_action(
    facts: &DecisionFacts,
    request: &DecisionRequest,
    now: Timestamp,
    definition: &ActionDefinition,
) -> Result<Decision, Refusal> {
    text::require_text("description", &definition.description)?;
    if let Some(long) = &definition.long_description {
        text::require_text("long description", long)?;
    }
    check_arguments(definition)?;
    if let Some(existing) = &facts.action {
        return Err(Refusal::ActionExists {
            name: existing.name().clone(),
            at: existing.created_at,
            by: existing.created_by.clone(),
        });
    }
    let scope = RuleScope::Action(definition.name.clone());
    let revision = facts.rules.revision(&scope) + 1;
    let mut rows = vec![RowWrite::PutAction(Action {
        definition: definition.clone(),
        state: ActionState::Available,
        created_at: now,
        created_by: request.caller.clone(),
        used_by: None,
    })];
    for (index, draft) in definition.invariants.iter().enumerate() {
        if definition.invariants[..index]
            .iter()
            .any(|earlier| earlier.name == draft.name)
        {
            return Err(Refusal::RuleExists {
                scope,
                name: draft.name.clone(),
            });
        }
        rule::require_possible_gates(draft)?;
        rows.push(RowWrite::PutRule(Rule {
            scope: scope.clone(),
            revision,
            draft: draft.clone(),
            added_at: now,
            added_by: request.caller.clone(),
        }));
    }
    Ok(Decision {
        plans: Vec::new(),
        rows,
        receipt: receipt_without_plan(request, now),
    })
}

pub(super) fn archive_action(
    facts: &DecisionFacts,
    request: &DecisionRequest,
    now: Timestamp,
    name: &QualifiedName,
) -> Result<Decision, Refusal> {
    let mut action = facts
        .action
        .clone()
        .ok_or_else(|| Refusal::NoSuchAction(name.clone()))?;
    match &action.state {
        ActionState::Available => {}
        ActionState::Archived { at, by } => {
            return Err(Refusal::ActionArchived {
                name: action.name().clone(),
                at: *at,
                by: by.clone(),
            });
        }
    }
    action.state = ActionState::Archived {
        at: now,
        by: request.caller.clone(),
    };
    Ok(Decision {
        plans: Vec::new(),
        rows: vec![RowWrite::PutAction(action)],
        receipt: receipt_without_plan(request, now),
    })
}

/// Returns the receipt of a command that is not about a plan.
pub(super) fn receipt_without_plan(request: &DecisionRequest, now: Timestamp) -> CommandReceipt {
    CommandReceipt {
        verb: request.command.verb(),
        outcome: ReceiptOutcome::Done,
        plan: None,
        version: None,
        epoch: None,
        changeset: None,
        grant: None,
        at: now,
    }
}

fn check_arguments(definition: &ActionDefinition) -> Result<(), Refusal> {
    let mut problems = Vec::new();
    for (index, spec) in definition.arguments.iter().enumerate() {
        if let Err(problem) = spec.check_declaration() {
            problems.push(problem);
        }
        if definition.arguments[..index]
            .iter()
            .any(|earlier| earlier.name == spec.name)
        {
            problems.push(ArgumentProblem {
                name: spec.name.clone(),
                why: "it is declared twice".to_owned(),
            });
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Refusal::Arguments(problems))
    }
}
