//! Adds and removes stored rules.

use serde_json::{Value, json};

use crate::authority::CommandAudience;
use crate::command::{CommandDefinition, CommandHeader};
use crate::decide::DecisionInput;
use crate::decide::action::receipt_without_plan;
use crate::invariant::{Rule, RuleDraft, RuleName, RuleScope};
use crate::reads::{CommandTarget, ProjectReads, ReadSet, RowAccess};
use crate::{Decision, DecisionFacts, Refusal, RowWrite, Verb};

/// Add a rule to a scope.
#[derive(Debug, Clone, PartialEq)]
pub struct AddRule {
    pub scope: RuleScope,
    pub draft: RuleDraft,
}

impl CommandDefinition for AddRule {
    fn header(&self) -> CommandHeader {
        CommandHeader::new(Verb::AddRule, CommandAudience::People)
    }

    fn reads(&self, target: &CommandTarget) -> ReadSet {
        rule_reads(&self.scope, target)
    }

    fn arguments(&self) -> Value {
        json!([self.scope, self.draft])
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        add_rule(input, &self.scope, &self.draft)
    }
}

/// Remove a rule from its scope.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoveRule {
    pub scope: RuleScope,
    pub name: RuleName,
}

impl CommandDefinition for RemoveRule {
    fn header(&self) -> CommandHeader {
        CommandHeader::new(Verb::RemoveRule, CommandAudience::People)
    }

    fn reads(&self, target: &CommandTarget) -> ReadSet {
        rule_reads(&self.scope, target)
    }

    fn arguments(&self) -> Value {
        json!([self.scope, self.name])
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        remove_rule(input, &self.scope, &self.name)
    }
}

fn add_rule(
    input: DecisionInput<'_>,
    scope: &RuleScope,
    draft: &RuleDraft,
) -> Result<Decision, Refusal> {
    let DecisionInput {
        facts,
        request,
        now,
    } = input;
    require_scope_exists(facts, scope)?;
    require_possible_gates(draft)?;
    if let Some(plan) = &facts.plan
        && let Some(ending) = plan.stage().ending()
    {
        let state = plan.stage().state_name().as_str();
        return Err(Refusal::Final {
            verb: request.command.verb(),
            state,
            ending: ending.clone(),
        });
    }
    if facts.rules.find_rule(scope, &draft.name).is_some() {
        return Err(Refusal::RuleExists {
            scope: scope.clone(),
            name: draft.name.clone(),
        });
    }
    // A wider non-overridable rule would hide this one, so it would be stored and never judged.
    let overruling = |rule: &&Rule| {
        scope.is_narrower_than(&rule.scope)
            && rule.draft.name == draft.name
            && rule.draft.non_overridable
    };
    if let Some(rule) = facts.rules.rules.iter().find(overruling) {
        return Err(Refusal::NonOverridable {
            rule: rule.reference(),
        });
    }
    let rule = Rule {
        scope: scope.clone(),
        revision: facts.rules.revision(scope) + 1,
        draft: draft.clone(),
        added_at: now,
        added_by: request.caller.clone(),
    };
    Ok(Decision {
        plans: Vec::new(),
        rows: vec![RowWrite::PutRule(rule)],
        receipt: receipt_without_plan(request, now),
    })
}

fn remove_rule(
    input: DecisionInput<'_>,
    scope: &RuleScope,
    name: &RuleName,
) -> Result<Decision, Refusal> {
    let DecisionInput {
        facts,
        request,
        now,
    } = input;
    if facts.rules.find_rule(scope, name).is_none() {
        return Err(Refusal::NoSuchRule {
            scope: scope.clone(),
            name: name.clone(),
        });
    }
    let revision = facts.rules.revision(scope) + 1;
    let row = RowWrite::DropRule {
        scope: scope.clone(),
        name: name.clone(),
        revision,
    };
    Ok(Decision {
        plans: Vec::new(),
        rows: vec![row],
        receipt: receipt_without_plan(request, now),
    })
}

/// Refuses gates where the check has nothing to judge. Such a rule would look as if it held.
pub(super) fn require_possible_gates(draft: &RuleDraft) -> Result<(), Refusal> {
    let possible = draft.check.possible_gates();
    match draft.at.iter().find(|gate| !possible.contains(gate)) {
        Some(gate) => Err(Refusal::NothingToJudge {
            rule: draft.name.clone(),
            kind: draft.check.kind(),
            gate: *gate,
        }),
        None => Ok(()),
    }
}

/// Refuses a scope that does not exist: its rule would never be judged.
fn require_scope_exists(facts: &DecisionFacts, scope: &RuleScope) -> Result<(), Refusal> {
    match scope {
        RuleScope::Action(name) if facts.action.is_none() => {
            Err(Refusal::NoSuchAction(name.clone()))
        }
        RuleScope::Plan(id) if facts.plan.is_none() => Err(Refusal::NoSuchPlan(*id)),
        RuleScope::Project(name) if !facts.projects.iter().any(|one| one.name == *name) => {
            Err(Refusal::NoSuchProject(name.clone()))
        }
        RuleScope::Repository(_) | RuleScope::WorkingTree(_) => Err(Refusal::RuleOfRepository),
        RuleScope::Global | RuleScope::Project(_) | RuleScope::Action(_) | RuleScope::Plan(_) => {
            Ok(())
        }
    }
}

/// Returns the reads for changing a scope's rules: locks the scope's owner, and sees the rules of wider
/// scopes.
fn rule_reads(scope: &RuleScope, target: &CommandTarget) -> ReadSet {
    let wider = |scope: RuleScope| (scope, RowAccess::Shared);
    let own = (scope.clone(), RowAccess::Exclusive);
    match scope {
        // Repository and working-tree rules are not stored, so there is no owner row to lock.
        RuleScope::Global | RuleScope::Repository(_) | RuleScope::WorkingTree(_) => ReadSet {
            rules: vec![own],
            ..ReadSet::default()
        },
        RuleScope::Project(name) => ReadSet {
            projects: ProjectReads::Named(vec![(name.clone(), RowAccess::Shared)]),
            rules: vec![wider(RuleScope::Global), own],
            ..ReadSet::default()
        },
        RuleScope::Action(name) => ReadSet {
            rules: vec![wider(RuleScope::Global), own],
            ..ReadSet::for_action(name)
        },
        RuleScope::Plan(id) => {
            let scopes = target.rule_scopes().into_iter();
            let mut rules: Vec<_> = scopes.filter(|other| other != scope).map(wider).collect();
            rules.push(own);
            let action = target.action.clone();
            ReadSet {
                plan: Some((*id, RowAccess::Exclusive)),
                action: action.map(|name| (name, RowAccess::Shared)),
                rules,
                ..ReadSet::default()
            }
        }
    }
}
