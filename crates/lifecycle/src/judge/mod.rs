//! Judging: what the rules in force say about a snapshot of plan and rules.
//!
//! Happens outside of any transaction. The judgement names what it was made on, and `decide` takes
//! it only while that is still so; here is only the asking. A new kind of check is a new variant of
//! [`Check`] and thereby a compile error in this file.

pub(crate) mod expr;

use plan::invariant::{Check, Gate, Rule};
use plan::judgement::{Judgement, RuleOutcome, RuleVerdict};
use plan::{Command, PlanId, Refusal};
use store::{Committed, Snapshot};

use crate::submit::Subject;
use crate::{Call, Error, Lifecycle};

/// How often plan or rules may change under a judgement before the caller is told.
const PATIENCE: u32 = 64;

impl Lifecycle {
    /// Judges a plan at a gate and submits the command with the judgement; again if plan or rules
    /// changed in between.
    pub(crate) fn submit_judged(
        &self,
        plan: PlanId,
        gate: Gate,
        call: &Call,
        command: impl Fn(Judgement) -> Command,
    ) -> Result<Committed, Error> {
        let mut tries = 0;
        loop {
            let snapshot = self
                .store
                .snapshot(plan)?
                .ok_or(Refusal::NoSuchPlan(plan))?;
            let judgement = judge(&snapshot, gate);
            let subject = Subject {
                plan: Some(plan),
                action: snapshot.row.plan.action.clone(),
            };
            tries += 1;
            match self.submit(command(judgement), &subject, call) {
                Err(Error::Refused(Refusal::JudgementStale { .. })) if tries < PATIENCE => {}
                settled => return settled,
            }
        }
    }
}

/// What every rule in force at the gate says.
pub(crate) fn judge(snapshot: &Snapshot, gate: Gate) -> Judgement {
    let verdicts = snapshot
        .rules
        .effective_at(gate.judged_with())
        .into_iter()
        .map(|rule| RuleVerdict {
            rule: rule.reference(),
            outcome: outcome(snapshot, gate, rule),
        })
        .collect();
    Judgement {
        version: snapshot.row.plan.version,
        revisions: snapshot.rules.revisions.clone(),
        verdicts,
    }
}

fn outcome(snapshot: &Snapshot, gate: Gate, rule: &Rule) -> RuleOutcome {
    // A rule about the result that is not about apply too was judged at the end of execute.
    let about_result = gate == Gate::Apply && !rule.draft.at.contains(&Gate::Apply);
    let kept = snapshot
        .evidence
        .iter()
        .find(|evidence| evidence.verdict.rule == rule.reference());
    match (about_result, kept) {
        (true, Some(evidence)) => evidence.verdict.outcome.clone(),
        (true, None) | (false, _) => match &rule.draft.check {
            Check::Expr(source) => expr::judge(source, snapshot),
        },
    }
}
