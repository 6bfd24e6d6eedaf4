//! Bugs of gates and budgets, planted between the engine and the store. Compiled for tests only.

use std::sync::Arc;

use plan::completion::CompletedCommand;
use plan::invariant::Gate;
use plan::plan::Approval;
use plan::{
    Decision, DecisionFacts, Event, LandingOptions, Plan, ReceiptOutcome, Refusal, RowWrite, Verb,
};
use store::Submission;
use testkit::edit_plan;

use crate::hooked_store::StoreHooks;

/// A bug of gates or budgets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum GateBug {
    /// The strategize gate ignores its rules
    SkipStrategizeGate,
    /// The execute gate ignores its rules
    SkipExecuteGate,
    /// The result gate ignores its rules
    SkipResultGate,
    /// The apply gate ignores its rules
    SkipApplyGate,
    /// An approval stays valid after result or rules have changed
    StaleApproval,
    /// The usage of a run is not charged
    FreeSpending,
}

/// Adds a bug to a store.
pub struct GateBugHooks(pub GateBug);

impl StoreHooks for GateBugHooks {
    fn edit_submission(&self, mut submission: Submission) -> Submission {
        let mut decide = submission.decide;
        let bug = self.0;
        submission.decide = Box::new(move |facts, now| {
            let decided = decide(facts, now);
            match (bug, decided) {
                (
                    GateBug::StaleApproval,
                    Err(refusal @ (Refusal::ApprovalVoid(_) | Refusal::NeedsApproval)),
                ) => {
                    let verb = Verb::Approve;
                    if !facts.completions.contains_key(&verb) {
                        return Err(Refusal::CompletionNotRead { verb });
                    }
                    match with_renewed_approval(facts).map(|facts| decide(&facts, now)) {
                        Some(Ok(decision)) => Ok(restore_approval(decision, facts)),
                        Some(Err(_)) | None => Err(refusal),
                    }
                }
                (GateBug::FreeSpending, Ok(decision)) => Ok(restore_charges(decision, facts)),
                (_, Ok(decision)) if bug.skips_gate(&decision) => {
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

impl GateBug {
    /// Whether the bug makes the engine ignore the rules in this decision.
    fn skips_gate(self, decision: &Decision) -> bool {
        let blocked_gate = match &decision.receipt.outcome {
            ReceiptOutcome::Blocked(blocked) => Some(blocked.gate),
            ReceiptOutcome::Done | ReceiptOutcome::AlreadyDone => None,
        };
        match self {
            Self::SkipStrategizeGate => blocked_gate == Some(Gate::Strategize),
            Self::SkipExecuteGate => blocked_gate == Some(Gate::Execute),
            Self::SkipApplyGate => blocked_gate == Some(Gate::Apply),
            Self::SkipResultGate => {
                let mut events = decision.plans.iter().flat_map(|change| &change.events);
                events.any(|recorded| matches!(recorded.event, Event::ExecuteCompleted { .. }))
            }
            Self::StaleApproval | Self::FreeSpending => false,
        }
    }
}

/// The facts as if the last approval covered the current result and rules.
fn with_renewed_approval(facts: &DecisionFacts) -> Option<DecisionFacts> {
    let mut facts = facts.clone();
    let CompletedCommand { at, by, .. } = facts.completions.get(&Verb::Approve)?.clone()?;
    let plan = facts.plan.as_ref()?;
    let rules = facts.rules.effective_rules_at(Gate::Apply.judged_gates());
    let approval = Approval {
        content: plan.result()?.digest(&LandingOptions::default()),
        options: LandingOptions::default(),
        rules: rules.iter().map(|rule| rule.reference()).collect(),
        tips: Vec::new(),
        by,
        by_profile: None,
        once: false,
        lands: false,
        at,
    };
    facts.plan = Some(Arc::new(with_approval(plan, Some(&approval))));
    Some(facts)
}

/// The decision with the real approval of the plan.
fn restore_approval(mut decision: Decision, facts: &DecisionFacts) -> Decision {
    let before = facts.plan.as_ref();
    for change in &mut decision.plans {
        let approval = before.and_then(|plan| plan.approval());
        change.plan = Arc::new(with_approval(&change.plan, approval));
    }
    decision
}

fn with_approval(plan: &Plan, approval: Option<&Approval>) -> Plan {
    edit_plan(plan, |fields| {
        fields.insert("approval".to_owned(), serde_json::json!(approval));
    })
}

/// The decision with the charges of before.
fn restore_charges(mut decision: Decision, facts: &DecisionFacts) -> Decision {
    for row in &mut decision.rows {
        if let RowWrite::PutAccount(name, account) = row {
            account.settled = facts.ledger.account(*name).settled;
        }
    }
    decision
}
