//! Reducing a result to a part of it.

use serde_json::{Value, json};

use crate::authority::CommandAudience;
use crate::changeset::TreePath;
use crate::command::{CommandDefinition, CommandHeader};
use crate::decide::DecisionInput;
use crate::decide::draft::DecisionDraft;
use crate::reads::{CommandTarget, ReadSet};
use crate::stage::{ApplyState, ResultContent, WorkState};
use crate::{Decision, Digest, Event, LandingOptions, PlanStage, Refusal, Verb};

/// Replace the result by a part of it.
#[derive(Debug, Clone, PartialEq)]
pub struct PickResult {
    /// Digest of the result that was shown, without landing options.
    pub shown: Digest,
    /// The picked part: the trees of the same resources, on the same bases.
    pub result: ResultContent,
    /// Paths of which something is taken out.
    pub reduced: Vec<TreePath>,
    /// Keep what is taken out, as a plan of its own once the picked part has landed.
    pub keeps_rest: bool,
}

impl CommandDefinition for PickResult {
    fn header(&self) -> CommandHeader {
        CommandHeader::new(Verb::Pick, CommandAudience::People)
    }

    fn reads(&self, target: &CommandTarget) -> ReadSet {
        target.plan_reads_with_ledger()
    }

    fn arguments(&self) -> Value {
        json!([self.shown, self.result.trees, self.keeps_rest])
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        pick_result(input.draft()?, self)
    }
}

fn pick_result(mut draft: DecisionDraft<'_>, pick: &PickResult) -> Result<Decision, Refusal> {
    if draft.plan.is_prepared() {
        return draft.answer_not_applicable();
    }
    match draft.plan.stage() {
        PlanStage::Execute(WorkState::Complete)
        | PlanStage::Apply(
            ApplyState::Queued(..) | ApplyState::Errored(_) | ApplyState::Constrained(_),
        ) => {}
        PlanStage::Strategize(_) | PlanStage::Execute(_) | PlanStage::Apply(_) => {
            return draft.answer_not_applicable();
        }
    }
    let Some(current) = draft.plan.result().filter(|_| draft.plan.has_targets()) else {
        return Err(Refusal::NothingPicked);
    };
    if current.digest(&LandingOptions::default()) != pick.shown {
        return Err(Refusal::ResultChanged);
    }
    if pick.result.is_empty() {
        return Err(Refusal::NothingPicked);
    }
    if !is_part_of(&pick.result, current) {
        return Err(Refusal::PickMismatch);
    }
    // A rest is what one picked part leaves of one result. After a pick without a rest, or a new
    // result, it is no longer known what the two leave together.
    let rest_grows_from_here = draft
        .plan
        .unpicked_rest()
        .is_none_or(|rest| rest.picked == current.trees);
    if pick.keeps_rest && !rest_grows_from_here {
        return Err(Refusal::RestWaits);
    }
    // A new epoch fences any holder of the replaced result.
    let epoch = draft.plan.epoch().next();
    let result = ResultContent {
        report: current.report.clone(),
        trees: pick.result.trees.clone(),
    };
    draft.emit_event(Event::ResultPicked {
        epoch,
        result,
        reduced: pick.reduced.clone(),
        keeps_rest: pick.keeps_rest,
    });
    Ok(draft.finish())
}

/// Returns whether both results are about the same resources, from the same bases to the same
/// targets.
fn is_part_of(picked: &ResultContent, current: &ResultContent) -> bool {
    let pairs = picked.trees.iter().zip(&current.trees);
    picked.trees.len() == current.trees.len()
        && pairs.into_iter().all(|(picked, current)| {
            picked.resource == current.resource
                && picked.target == current.target
                && picked.base == current.base
        })
}
