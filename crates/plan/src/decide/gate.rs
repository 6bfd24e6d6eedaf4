//! Gates: a judgement is taken only if it is about this plan and these rules, and complete.

use crate::decide::draft::Draft;
use crate::decide::text;
use crate::facts::Facts;
use crate::invariant::{Gate, RuleBook, RuleName, Scope};
use crate::judgement::{Counts, FailedRule, Judgement, RuleOutcome, Verdict};
use crate::{Decision, Event, Outcome, Plan, ReconciliationBlocked, Refusal, Row};

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
        draft.emit(Event::GateHeld { gate, counts });
        return Ok(Passage::Open(Box::new(draft)));
    }
    let verdict = Verdict {
        plan: draft.plan.id,
        gate,
        version: draft.plan.version,
        revisions: judgement.revisions.clone(),
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
    let scopes = crate::invariant::scopes_of(plan.id, plan.action.as_ref());
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
    for rule in rules.effective_at(gate.judged_with()) {
        let reference = rule.reference();
        let verdict = judgement
            .verdicts
            .iter()
            .find(|verdict| verdict.rule == reference);
        let waived = plan.waivers.iter().any(|waiver| waiver.rule == reference);
        match &verdict.ok_or(Refusal::JudgementStale { gate })?.outcome {
            RuleOutcome::Held => counts.held += 1,
            RuleOutcome::Failed(_) if rule.draft.advisory => counts.advised += 1,
            RuleOutcome::Failed(_) if waived && !rule.draft.non_overridable => counts.waived += 1,
            RuleOutcome::Failed(evidence) => failed.push(FailedRule {
                rule: reference,
                check: rule.draft.check.source().to_owned(),
                evidence: evidence.clone(),
                waivable: !rule.draft.non_overridable,
            }),
        }
    }
    Ok((counts, failed))
}

pub(super) fn waive(
    mut draft: Draft<'_>,
    name: &RuleName,
    reason: &str,
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
    let effective = draft.facts.rules.effective();
    let Some(rule) = effective.into_iter().find(|rule| &rule.draft.name == name) else {
        return Err(Refusal::NoRuleOnPlan {
            plan: draft.plan.id,
            name: name.clone(),
        });
    };
    if rule.draft.non_overridable {
        return Err(Refusal::NonOverridable {
            rule: rule.reference(),
        });
    }
    draft.emit(Event::Waived {
        rule: rule.reference(),
        reason,
    });
    Ok(draft.done())
}
