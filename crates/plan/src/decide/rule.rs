//! Adding and removing rules.

use crate::decide::Request;
use crate::decide::action::receipt;
use crate::invariant::{Rule, RuleDraft, RuleName, Scope};
use crate::{Decision, Facts, Refusal, Row, Timestamp};

pub(super) fn add(
    facts: &Facts,
    request: &Request,
    now: Timestamp,
    scope: &Scope,
    draft: &RuleDraft,
) -> Result<Decision, Refusal> {
    require_subject(facts, scope)?;
    require_gates(draft)?;
    if let Some(plan) = &facts.plan
        && let Some(ending) = plan.stage.ending()
    {
        let state = plan.stage.state().as_str();
        return Err(Refusal::Final {
            verb: request.command.verb(),
            state,
            ending: ending.clone(),
        });
    }
    if facts.rules.find(scope, &draft.name).is_some() {
        return Err(Refusal::RuleExists {
            scope: scope.clone(),
            name: draft.name.clone(),
        });
    }
    // A rule that a wider one overrules would be stored and never judged.
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
        rows: vec![Row::PutRule(rule)],
        receipt: receipt(request, now),
    })
}

pub(super) fn remove(
    facts: &Facts,
    request: &Request,
    now: Timestamp,
    scope: &Scope,
    name: &RuleName,
) -> Result<Decision, Refusal> {
    if facts.rules.find(scope, name).is_none() {
        return Err(Refusal::NoSuchRule {
            scope: scope.clone(),
            name: name.clone(),
        });
    }
    let revision = facts.rules.revision(scope) + 1;
    let row = Row::DropRule {
        scope: scope.clone(),
        name: name.clone(),
        revision,
    };
    Ok(Decision {
        plans: Vec::new(),
        rows: vec![row],
        receipt: receipt(request, now),
    })
}

/// A rule that is judged where it has nothing to judge would be believed to hold.
pub(super) fn require_gates(draft: &RuleDraft) -> Result<(), Refusal> {
    let possible = draft.check.gates();
    match draft.at.iter().find(|gate| !possible.contains(gate)) {
        Some(gate) => Err(Refusal::NothingToJudge {
            rule: draft.name.clone(),
            kind: draft.check.kind(),
            gate: *gate,
        }),
        None => Ok(()),
    }
}

/// A rule for something that does not exist would never be judged.
fn require_subject(facts: &Facts, scope: &Scope) -> Result<(), Refusal> {
    match scope {
        Scope::Action(name) if facts.action.is_none() => Err(Refusal::NoSuchAction(name.clone())),
        Scope::Plan(id) if facts.plan.is_none() => Err(Refusal::NoSuchPlan(*id)),
        Scope::Project(name) if !facts.projects.iter().any(|one| one.name == *name) => {
            Err(Refusal::NoSuchProject(name.clone()))
        }
        Scope::Repository(_) | Scope::WorkingTree(_) => Err(Refusal::RuleOfRepository),
        Scope::Global | Scope::Project(_) | Scope::Action(_) | Scope::Plan(_) => Ok(()),
    }
}
