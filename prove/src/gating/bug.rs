//! Bugs of gates and budgets, planted between the engine and the store. Compiled for tests only.

use std::sync::Arc;

use plan::invariant::Gate;
use plan::plan::{Approval, CompletedCommand};
use plan::{
    Decision, DecisionFacts, Event, LandingOptions, ReceiptOutcome, Refusal, RowWrite, Verb,
};
use store::Submission;

use crate::wrapped::Doors;

/// Sorts of bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Bug {
    /// Rules do not keep anybody from beginning to think.
    SkipStrategizeGate,
    /// Rules do not keep a strategy from being carried out.
    SkipExecuteGate,
    /// Rules about a result are not asked when it is handed in.
    SkipResultGate,
    /// Rules do not keep a result from landing.
    SkipApplyGate,
    /// A signature counts whatever became of what was signed.
    StaleApproval,
    /// What a run used is not charged.
    FreeSpending,
}

/// A store with a bug.
pub struct Broken(pub Bug);

impl Doors for Broken {
    fn submission(&self, mut submission: Submission) -> Submission {
        let mut decide = submission.decide;
        let bug = self.0;
        submission.decide = Box::new(move |facts, now| {
            let decided = decide(facts, now);
            match (bug, decided) {
                (
                    Bug::StaleApproval,
                    Err(refusal @ (Refusal::ApprovalVoid(_) | Refusal::NeedsApproval)),
                ) => match signed_anew(facts).map(|facts| decide(&facts, now)) {
                    Some(Ok(decision)) => Ok(signed_as_before(decision, facts)),
                    Some(Err(_)) | None => Err(refusal),
                },
                (Bug::FreeSpending, Ok(decision)) => Ok(for_nothing(decision, facts)),
                (_, Ok(decision)) if bug.skips(&decision) => {
                    let mut facts = facts.clone();
                    facts.rules.rules.clear();
                    decide(&facts, now)
                }
                (_, decided) => decided,
            }
        });
        submission
    }
}

impl Bug {
    /// Is this what it is about?
    fn skips(self, decision: &Decision) -> bool {
        let shut = match &decision.receipt.outcome {
            ReceiptOutcome::Blocked(blocked) => Some(blocked.gate),
            ReceiptOutcome::Done | ReceiptOutcome::AlreadyDone => None,
        };
        match self {
            Self::SkipStrategizeGate => shut == Some(Gate::Strategize),
            Self::SkipExecuteGate => shut == Some(Gate::Execute),
            Self::SkipApplyGate => shut == Some(Gate::Apply),
            Self::SkipResultGate => {
                let mut events = decision.plans.iter().flat_map(|change| &change.events);
                events.any(|one| matches!(one.event, Event::ExecuteCompleted { .. }))
            }
            Self::StaleApproval | Self::FreeSpending => false,
        }
    }
}

/// The facts, if the last signature were on what is there now.
fn signed_anew(facts: &DecisionFacts) -> Option<DecisionFacts> {
    let mut facts = facts.clone();
    let plan = Arc::make_mut(facts.plan.as_mut()?);
    let CompletedCommand { at, by, .. } = plan.done.get(&Verb::Approve)?.clone();
    let rules = facts.rules.effective_rules_at(Gate::Apply.judged_gates());
    plan.approval = Some(Approval {
        content: plan.result.as_ref()?.digest(&LandingOptions::default()),
        how: LandingOptions::default(),
        rules: rules.iter().map(|rule| rule.reference()).collect(),
        tips: Vec::new(),
        by,
        by_profile: None,
        once: false,
        at,
    });
    Some(facts)
}

/// The decision, with the signature that there really is.
fn signed_as_before(mut decision: Decision, facts: &DecisionFacts) -> Decision {
    let before = facts.plan.as_ref();
    for change in &mut decision.plans {
        let plan = Arc::make_mut(&mut change.plan);
        plan.approval = before.and_then(|plan| plan.approval.clone());
    }
    decision
}

/// The decision, with accounts charged as before.
fn for_nothing(mut decision: Decision, facts: &DecisionFacts) -> Decision {
    for row in &mut decision.rows {
        if let RowWrite::PutAccount(name, account) = row {
            account.settled = facts.ledger.account(*name).settled;
        }
    }
    decision
}
