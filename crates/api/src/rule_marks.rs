//! What is stored about the rules of a plan's result, for lists. No rule is judged for it: a page that shows many
//! plans must not run anybody's checks. [`crate::diagnosis`] tells the whole story of one plan.

use std::collections::BTreeMap;

use lifecycle::{Lifecycle, LifecycleError};
use plan::Phase;
use plan::judgement::{RuleEvidence, RuleOutcome};
use serde::Serialize;
use store::PlanRow;

/// The rules of a plan's current result, as far as they are known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RuleMarks {
    /// Rules that failed or could not run.
    pub failed: Vec<String>,
    /// Rules that hold.
    pub held: Vec<String>,
    /// Rules that wait for a person or a check.
    pub open: Vec<String>,
}

impl RuleMarks {
    pub fn is_empty(&self) -> bool {
        self.failed.is_empty() && self.held.is_empty() && self.open.is_empty()
    }
}

/// Returns what is stored about a plan's rules. A plan without a result to decide about has none.
pub fn read_rule_marks(lifecycle: &Lifecycle, row: &PlanRow) -> Result<RuleMarks, LifecycleError> {
    let plan = &row.plan;
    if plan.result().is_none() || plan.stage().is_final() {
        return Ok(marks_of_verdict(row, BTreeMap::new()));
    }
    let entry = plan.entry_number(Phase::Execute);
    let snapshot = lifecycle.store().read_snapshot(plan.id())?;
    let evidence = snapshot.map(|snapshot| snapshot.evidence);
    let mut latest: BTreeMap<String, RuleEvidence> = BTreeMap::new();
    for one in evidence.unwrap_or_default() {
        let name = one.verdict.rule.name.to_string();
        let is_newer = latest.get(&name).is_none_or(|known| known.at <= one.at);
        if one.entry == entry && is_newer {
            latest.insert(name, one);
        }
    }
    let outcomes = latest.into_iter();
    let outcomes = outcomes.map(|(name, evidence)| (name, evidence.verdict.outcome));
    Ok(marks_of_verdict(row, outcomes.collect()))
}

/// Combines the last verdict of a gate with the evidence of single rules. The verdict is newer.
fn marks_of_verdict(row: &PlanRow, mut outcomes: BTreeMap<String, RuleOutcome>) -> RuleMarks {
    for unmet in row.plan.unmet_rules() {
        let outcome = RuleOutcome::Failed(String::new());
        outcomes.insert(unmet.rule.name.to_string(), outcome);
    }
    let verdict = row.current_verdict();
    for failed in verdict.into_iter().flat_map(|verdict| &verdict.failed) {
        let outcome = match failed.waits {
            Some(reason) => RuleOutcome::Open(reason),
            None => RuleOutcome::Failed(String::new()),
        };
        outcomes.insert(failed.rule.name.to_string(), outcome);
    }
    for waiver in row.plan.waivers() {
        outcomes.remove(&waiver.rule.name.to_string());
    }
    let mut marks = RuleMarks::default();
    for (name, outcome) in outcomes {
        match outcome {
            RuleOutcome::Held => marks.held.push(name),
            RuleOutcome::Failed(_) | RuleOutcome::Broken(_) => marks.failed.push(name),
            RuleOutcome::Open(_) => marks.open.push(name),
        }
    }
    marks
}
