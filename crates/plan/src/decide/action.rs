//! Creates and archives actions.

use serde_json::{Value, json};

use crate::action::ActionDefinition;
use crate::argument::ArgumentProblem;
use crate::authority::CommandAudience;
use crate::command::{CommandDefinition, CommandHeader};
use crate::decide::{DecisionInput, DecisionRequest, rule, text};
use crate::invariant::{Rule, RuleScope};
use crate::reads::{CommandTarget, ReadSet, RowAccess};
use crate::{
    Action, ActionState, CommandReceipt, Decision, QualifiedName, ReceiptOutcome, Refusal,
    RowWrite, Timestamp, Verb,
};

/// Store a new action.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateAction(pub ActionDefinition);

impl CommandDefinition for CreateAction {
    fn header(&self) -> CommandHeader {
        CommandHeader::new(Verb::CreateAction, CommandAudience::Workers)
    }

    fn reads(&self, _target: &CommandTarget) -> ReadSet {
        let scope = RuleScope::Action(self.0.name.clone());
        ReadSet {
            rules: vec![(scope, RowAccess::Exclusive)],
            ..ReadSet::for_action(&self.0.name)
        }
    }

    fn arguments(&self) -> Value {
        json!(self.0)
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        create_action(input, &self.0)
    }
}

/// Archive an action. Existing plans are not affected.
#[derive(Debug, Clone, PartialEq)]
pub struct ArchiveAction(pub QualifiedName);

impl CommandDefinition for ArchiveAction {
    fn header(&self) -> CommandHeader {
        CommandHeader::new(Verb::ArchiveAction, CommandAudience::Workers)
    }

    fn reads(&self, _target: &CommandTarget) -> ReadSet {
        ReadSet::for_action(&self.0)
    }

    fn arguments(&self) -> Value {
        json!(self.0)
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        archive_action(input, &self.0)
    }
}

fn create_action(
    input: DecisionInput<'_>,
    definition: &ActionDefinition,
) -> Result<Decision, Refusal> {
    let DecisionInput {
        facts,
        request,
        now,
    } = input;
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

fn archive_action(input: DecisionInput<'_>, name: &QualifiedName) -> Result<Decision, Refusal> {
    let DecisionInput {
        facts,
        request,
        now,
    } = input;
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
