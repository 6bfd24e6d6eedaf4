//! Gates: a judgement is taken only if it is about this plan and these rules, and complete.

use crate::decide::draft::Draft;
use crate::decide::{ledger, text};
use crate::decision::{DecisionKind, DecisionNode};
use crate::facts::Facts;
use crate::invariant::{Check, Gate, Rule, RuleBook, RuleName, RuleRef, Scope};
use crate::judgement::{Counts, Evidence, FailedRule, Judgement, RuleOutcome, Targets, Verdict};
use crate::ledger::Amount;
use crate::plan::Approval;
use crate::{
    Decision, Digest, Event, Outcome, Phase, Plan, ReconciliationBlocked, Refusal, Row, Text,
};

/// What came of a gate.
#[expect(
    clippy::large_enum_variant,
    reason = "looked at once and taken apart; a box would be an allocation for each"
)]
pub(super) enum Passage<'a> {
    /// It opened; the draft has its event.
    Open(Box<Draft<'a>>),
    /// It did not: the plan stays as it is, the verdict is stored beside it.
    Blocked(Decision),
}

pub(super) fn pass<'a>(
    mut draft: Draft<'a>,
    gate: Gate,
    judgement: &Judgement,
) -> Result<Passage<'a>, Refusal> {
    check_fresh(draft.facts, &draft.plan, gate, judgement)?;
    let (counts, failed) = blocked_by(&draft.plan, &draft.facts.rules, gate, judgement)?;
    if failed.is_empty() {
        // Before the root there is nothing that a decision could hang under.
        let decisions = match draft.plan.decisions {
            0 => Vec::new(),
            made => enforced(&draft, gate, judgement, made + 1),
        };
        draft.emit(Event::GateHeld {
            gate,
            counts,
            decisions,
        });
        return Ok(Passage::Open(Box::new(draft)));
    }
    let verdict = Verdict {
        plan: draft.plan.id,
        gate,
        version: draft.plan.version,
        revisions: judgement.revisions.clone(),
        tips: judgement.targets.tips.clone(),
        failed: failed.clone(),
        at: draft.now,
    };
    let blocked = ReconciliationBlocked {
        plan: draft.plan.id,
        gate,
        failed,
    };
    Ok(Passage::Blocked(draft.beside(
        vec![Row::PutVerdict(verdict)],
        Outcome::Blocked(blocked),
    )))
}

/// Is the judgement about the plan and the rules as they are now?
pub(super) fn check_fresh(
    facts: &Facts,
    plan: &Plan,
    gate: Gate,
    judgement: &Judgement,
) -> Result<(), Refusal> {
    let scopes = plan.scopes();
    let same = |scope: &Scope| {
        judgement.revisions.get(scope).copied().unwrap_or(0) == facts.rules.revision(scope)
    };
    if judgement.version == plan.version && scopes.iter().all(same) {
        Ok(())
    } else {
        Err(Refusal::JudgementStale { gate })
    }
}

/// How the rules in force at a gate came out: the counts, and those that block.
///
/// A rule in force that the judgement does not mention makes it stale: no rule is passed over.
pub fn blocked_by(
    plan: &Plan,
    rules: &RuleBook,
    gate: Gate,
    judgement: &Judgement,
) -> Result<(Counts, Vec<FailedRule>), Refusal> {
    let mut counts = Counts::default();
    let mut failed = Vec::new();
    let rules = rules.clone().of_plan(plan, &judgement.targets);
    for rule in rules.effective_at(gate.judged_with()) {
        let (evidence, waits) = match said_of(rule, judgement, gate)? {
            RuleOutcome::Held => {
                counts.held += 1;
                continue;
            }
            RuleOutcome::Failed(evidence) => (evidence.clone(), None),
            RuleOutcome::Open(waits) => (waits.as_str().to_owned(), Some(*waits)),
        };
        if rule.draft.advisory {
            counts.advised += 1;
        } else if is_waived(plan, rule) {
            counts.waived += 1;
        } else {
            failed.push(FailedRule {
                rule: rule.reference(),
                check: rule.draft.check.source(),
                evidence,
                waivable: !rule.draft.non_overridable,
                waits,
            });
        }
    }
    Ok((counts, failed))
}

/// The rules in force at a gate that are only advice, and do not hold.
pub fn advice(
    plan: &Plan,
    rules: &RuleBook,
    gate: Gate,
    judgement: &Judgement,
) -> Result<Vec<FailedRule>, Refusal> {
    let rules = rules.clone().of_plan(plan, &judgement.targets);
    let mut advice = Vec::new();
    for rule in rules.effective_at(gate.judged_with()) {
        if let (true, RuleOutcome::Failed(evidence)) =
            (rule.draft.advisory, said_of(rule, judgement, gate)?)
        {
            advice.push(FailedRule {
                rule: rule.reference(),
                check: rule.draft.check.source(),
                evidence: evidence.clone(),
                waivable: false,
                waits: None,
            });
        }
    }
    Ok(advice)
}

fn said_of<'a>(
    rule: &Rule,
    judgement: &'a Judgement,
    gate: Gate,
) -> Result<&'a RuleOutcome, Refusal> {
    let reference = rule.reference();
    let mut verdicts = judgement.verdicts.iter();
    let verdict = verdicts.find(|verdict| verdict.rule == reference);
    Ok(&verdict.ok_or(Refusal::JudgementStale { gate })?.outcome)
}

fn is_waived(plan: &Plan, rule: &Rule) -> bool {
    let reference = rule.reference();
    !rule.draft.non_overridable && plan.waivers.iter().any(|waiver| waiver.rule == reference)
}

/// What the rules at an open gate decided, one by one, for the tree of decisions.
pub(super) fn enforced(
    draft: &Draft<'_>,
    gate: Gate,
    judgement: &Judgement,
    first: u32,
) -> Vec<DecisionNode> {
    let plan = &draft.plan;
    let rules = draft.facts.rules.clone();
    let rules = rules.of_plan(plan, &judgement.targets);
    let mut decisions = Vec::new();
    for (number, rule) in (first..).zip(rules.effective_at(gate.judged_with())) {
        let choice = match said_of(rule, judgement, gate) {
            Ok(RuleOutcome::Held) => "it holds".to_owned(),
            Ok(RuleOutcome::Failed(_) | RuleOutcome::Open(_)) if is_waived(plan, rule) => {
                "waived".to_owned()
            }
            Ok(RuleOutcome::Failed(evidence)) => format!("advice only: {evidence}"),
            Ok(RuleOutcome::Open(waits)) => format!("advice only: {}", waits.as_str()),
            Err(_) => continue,
        };
        decisions.push(DecisionNode {
            number,
            parent: Some(1),
            kind: DecisionKind::InvariantEnforced,
            question: Text::from(format!("Does {} hold at the {gate} gate?", rule.draft.name)),
            choice: Text::from(choice),
            alternatives: Vec::new(),
            rationale: None,
            confidence: None,
        });
    }
    decisions
}

/// The wordings of the rules that decide whether a result may land.
pub(super) fn wordings(plan: &Plan, rules: &RuleBook, targets: &Targets) -> Vec<RuleRef> {
    let rules = rules.clone().of_plan(plan, targets);
    let in_force = rules.effective_at(Gate::Apply.judged_with());
    in_force.iter().map(|rule| rule.reference()).collect()
}

/// The signature on the result as it stands, under the rules as they stand.
pub(super) fn signed<'a>(draft: &'a Draft<'_>, targets: &Targets) -> Result<&'a Approval, Refusal> {
    let approval = draft.plan.approval.as_ref();
    let approval = approval.ok_or(Refusal::NeedsApproval)?;
    let now = wordings(&draft.plan, &draft.facts.rules, targets);
    match draft.plan.void_because(&now) {
        None => Ok(approval),
        Some(reason) => Err(Refusal::ApprovalVoid(reason)),
    }
}

/// Keeps what checks said of a subject. A fact about that subject, whatever became of the plan since; once
/// nobody will ask for it any more, only what it took is charged.
pub(super) fn keep_evidence(
    draft: Draft<'_>,
    judgement: &Judgement,
    used: Amount,
) -> Result<Decision, Refusal> {
    let mut rows = ledger::charged(draft.facts, &draft.plan, used);
    if draft.plan.stage.is_final() || draft.plan.is_prepared() {
        return match rows.is_empty() {
            true => draft.not_now(),
            false => Ok(draft.beside(rows, Outcome::Done)),
        };
    }
    let entry = draft.plan.entry(Phase::Execute);
    rows.extend(judgement.verdicts.iter().map(|verdict| {
        Row::PutEvidence(Evidence {
            plan: draft.plan.id,
            entry,
            subject: judgement.subject,
            verdict: verdict.clone(),
            at: draft.now,
        })
    }));
    Ok(draft.beside(rows, Outcome::Done))
}

/// A person says whether a rule that asks holds.
pub(super) fn rule_on(
    mut draft: Draft<'_>,
    name: &RuleName,
    subject: Digest,
    outcome: &RuleOutcome,
    targets: &Targets,
) -> Result<Decision, Refusal> {
    let is_held = draft.plan.stage.holder().is_some();
    if draft.plan.stage.is_final() || draft.plan.is_prepared() || is_held {
        return draft.not_now();
    }
    draft.require_person()?;
    let rules = draft.facts.rules.clone().of_plan(&draft.plan, targets);
    let named = in_force(&rules, &draft.plan, name)?;
    let asks = |rule: &&Rule| matches!(rule.draft.check, Check::Ask(_));
    let asking: Vec<RuleRef> = named
        .iter()
        .copied()
        .filter(asks)
        .map(Rule::reference)
        .collect();
    if asking.is_empty() {
        return Err(Refusal::NotAsking {
            rule: named[0].reference(),
            kind: named[0].draft.check.kind(),
        });
    }
    let outcome = match outcome {
        RuleOutcome::Failed(reason) => {
            RuleOutcome::Failed(text::checked("reason", reason)?.to_string())
        }
        RuleOutcome::Held | RuleOutcome::Open(_) => outcome.clone(),
    };
    for rule in asking {
        draft.emit(Event::RuledOn {
            rule,
            subject,
            outcome: outcome.clone(),
        });
    }
    Ok(draft.done())
}

/// The rules in force of this name, at least one.
fn in_force<'a>(
    rules: &'a RuleBook,
    plan: &Plan,
    name: &RuleName,
) -> Result<Vec<&'a Rule>, Refusal> {
    let mut found = rules.effective();
    found.retain(|rule| &rule.draft.name == name);
    if found.is_empty() {
        return Err(Refusal::NoRuleOnPlan {
            plan: plan.id,
            name: name.clone(),
        });
    }
    Ok(found)
}

pub(super) fn waive(
    mut draft: Draft<'_>,
    name: &RuleName,
    reason: &str,
    targets: &Targets,
) -> Result<Decision, Refusal> {
    if draft.plan.stage.is_final() {
        return draft.not_now();
    }
    if draft.plan.is_prepared() {
        return Err(Refusal::PointOfNoReturn {
            verb: draft.request.command.verb(),
        });
    }
    draft.require_person()?;
    let reason = text::checked("reason", reason)?;
    let rules = draft.facts.rules.clone().of_plan(&draft.plan, targets);
    let named = in_force(&rules, &draft.plan, name)?;
    // One that stays in force would block the plan all the same.
    if let Some(rule) = named.iter().find(|rule| rule.draft.non_overridable) {
        return Err(Refusal::NonOverridable {
            rule: rule.reference(),
        });
    }
    for rule in named.into_iter().map(Rule::reference) {
        draft.emit(Event::Waived {
            rule,
            reason: reason.clone(),
        });
    }
    Ok(draft.done())
}
