//! Creating actions and taking them out of use.

use crate::action::ActionDefinition;
use crate::argument::ArgumentProblem;
use crate::decide::{Request, rule, text};
use crate::invariant::{Rule, Scope};
use crate::{
    Action, ActionState, Decision, Facts, Name, Outcome, Receipt, Refusal, Row, Timestamp,
};

pub(super) fn create(
    facts: &Facts,
    request: &Request,
    now: Timestamp,
    definition: &ActionDefinition,
) -> Result<Decision, Refusal> {
    text::checked("description", &definition.description)?;
    if let Some(long) = &definition.long_description {
        text::checked("long description", long)?;
    }
    check_arguments(definition)?;
    if let Some(existing) = &facts.action {
        return Err(Refusal::ActionExists {
            name: existing.name().clone(),
            at: existing.created_at,
            by: existing.created_by.clone(),
        });
    }
    let scope = Scope::Action(definition.name.clone());
    let revision = facts.rules.revision(&scope) + 1;
    let mut rows = vec![Row::PutAction(Action {
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
        rule::require_gates(draft)?;
        rows.push(Row::PutRule(Rule {
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
        receipt: receipt(request, now),
    })
}

pub(super) fn archive(
    facts: &Facts,
    request: &Request,
    now: Timestamp,
    name: &Name,
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
        rows: vec![Row::PutAction(action)],
        receipt: receipt(request, now),
    })
}

/// The answer to a command that is not about a plan.
pub(super) fn receipt(request: &Request, now: Timestamp) -> Receipt {
    Receipt {
        verb: request.command.verb(),
        outcome: Outcome::Done,
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
        if let Err(problem) = spec.check() {
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
