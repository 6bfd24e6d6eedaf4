//! Invariants of every plan at every version. Shared by the random walks and the model.

use planwright_plan as plan;

use plan::plan::MAX_AUTOMATIC_REVERSIONS;
use plan::stage::{ApplyState, WorkState};
use plan::{Event, Phase, Plan, PlanStage};

use crate::world::PlanWorld;

/// Panics with the broken invariant.
pub fn check_invariants(world: &PlanWorld) {
    check_invariants_without_log(world);
    check_log(world);
}

/// Checks the invariants that need no event log.
pub fn check_invariants_without_log(world: &PlanWorld) {
    let plan = world.plan();
    check_epochs(plan);
    check_counts(plan);
    check_stage_contents(plan);
    check_lease(world);
}

/// The current or last holder has the plan's epoch.
fn check_epochs(plan: &Plan) {
    let stage = plan.stage();
    let constraint = match stage {
        PlanStage::Apply(ApplyState::Constrained(constraint)) => Some(constraint.epoch),
        PlanStage::Strategize(_) | PlanStage::Execute(_) | PlanStage::Apply(_) => None,
    };
    let epochs = [
        stage.holder().map(|holder| holder.epoch),
        stage.question().map(|question| question.epoch),
        stage.failure().map(|failure| failure.epoch),
        constraint,
    ];
    for epoch in epochs.into_iter().flatten() {
        assert_eq!(epoch, plan.epoch(), "{stage} under another epoch");
    }
}

fn check_counts(plan: &Plan) {
    let (attempt, unattended) = (plan.attempt(), plan.unattended_attempts());
    assert!(attempt >= 1, "attempt {attempt}");
    assert!(
        (1..=attempt).contains(&unattended),
        "{unattended} of {attempt} attempts unattended"
    );
    assert!(plan.automatic_reversions() <= plan.reversions());
    assert!(plan.automatic_reversions() <= MAX_AUTOMATIC_REVERSIONS);
    assert!(plan.entry_number(plan.phase()) >= 1);
    assert!(plan.updated_at() >= plan.created_at());
}

/// An intent only in apply, a result only after execute, an approval only of that result.
fn check_stage_contents(plan: &Plan) {
    let stage = plan.stage();
    if let Some(intent) = stage.intent() {
        assert_eq!(stage.phase(), Phase::Apply);
        assert_eq!(plan.has_targets(), !intent.moves.is_empty());
        for step in &intent.moves {
            assert!(plan.resource(&step.resource).is_some());
        }
    }
    let complete = matches!(stage, PlanStage::Execute(WorkState::Complete));
    match stage.phase() {
        Phase::Strategize => {
            assert_eq!((plan.result(), plan.approval()), (None, None), "{stage}")
        }
        // `cancelled` can follow any state.
        Phase::Execute if !complete && !stage.is_final() => {
            assert_eq!(plan.approval(), None, "{stage}");
        }
        Phase::Execute => {}
        Phase::Apply => {
            let signed = plan.valid_approval().is_some();
            assert!(signed || !plan.has_targets(), "{stage} without a signature");
        }
    }
    if complete || stage.phase() == Phase::Apply {
        assert!(plan.result().is_some(), "{stage} without a result");
    }
    if stage.is_final() {
        let undo = plan::decide::available_verbs(plan)
            .iter()
            .all(|verb| *verb == plan::Verb::Undo);
        assert!(undo, "{stage} is final");
    } else {
        assert!(!plan::decide::available_verbs(plan).is_empty(), "no way on");
    }
}

/// Every `processing` has a lease, and nothing else has one.
fn check_lease(world: &PlanWorld) {
    let holder = world.plan().stage().holder();
    let lease = world.facts.lease.as_ref();
    assert_eq!(
        holder.map(|holder| (&holder.owner, holder.epoch)),
        lease.map(|lease| (&lease.owner, lease.epoch)),
        "the lease is the holder's"
    );
    for open in &world.facts.changesets {
        assert!(open.epoch <= world.plan().epoch());
    }
}

/// The plan's counters match its log.
fn check_log(world: &PlanWorld) {
    let plan = world.plan();
    assert_eq!(plan.version().0, world.log.len() as u64);
    let mut decisions = 0;
    let (mut strategize, mut execute, mut apply) = (0, 0, 0);
    let (mut waivers, mut reversions) = (0, 0);
    for (index, recorded) in world.log.iter().enumerate() {
        assert_eq!(recorded.version.0, index as u64 + 1);
        assert!(index == 0 || world.log[index - 1].at <= recorded.at);
        match &recorded.event {
            Event::Created(created) if created.result.is_some() => execute += 1,
            Event::Created(_) => strategize += 1,
            Event::ExecuteEntered { .. } => execute += 1,
            Event::ApplyEntered { .. } => apply += 1,
            Event::Revised { to, .. } => match to {
                Phase::Strategize => strategize += 1,
                Phase::Execute => execute += 1,
                Phase::Apply => panic!("nothing is revised into apply"),
            },
            Event::Retried {
                restarts_execute: Some(_),
                ..
            } => execute += 1,
            Event::Reverted { .. } => {
                strategize += 1;
                reversions += 1;
            }
            Event::DecisionsRecorded { decisions: nodes }
            | Event::GateHeld {
                decisions: nodes, ..
            } => {
                for node in nodes {
                    decisions += 1;
                    assert_eq!(node.number, decisions, "numbered without a gap");
                    assert_eq!(node.parent.is_none(), node.number == 1, "one root");
                    assert!(node.parent.is_none_or(|parent| parent < node.number));
                }
            }
            Event::Waived { .. } => waivers += 1,
            Event::RuledOn { .. }
            | Event::Claimed { .. }
            | Event::BasesRecorded { .. }
            | Event::StrategizeCompleted { .. }
            | Event::ChangesetSealed { .. }
            | Event::ExecuteCompleted { .. }
            | Event::ResultPicked { .. }
            | Event::Approved { .. }
            | Event::ApplyPrepared { .. }
            | Event::ApplyWithdrawn { .. }
            | Event::Landed { .. }
            | Event::Constrained { .. }
            | Event::Failed { .. }
            | Event::RetryScheduled { .. }
            | Event::Retried { .. }
            | Event::Asked { .. }
            | Event::Answered { .. }
            | Event::QuestionExpired
            | Event::PermissionAsked { .. }
            | Event::PermissionAnswered { .. }
            | Event::Released { .. }
            | Event::Reclaimed { .. }
            | Event::Cancelled { .. } => {}
        }
    }
    let entries = Phase::ALL.map(|phase| plan.entry_number(phase));
    assert_eq!(entries, [strategize, execute, apply], "entries by the log");
    assert_eq!(plan.decisions(), decisions, "decisions by the log");
    assert_eq!(plan.reversions(), reversions, "reversions by the log");
    assert_eq!(plan.waivers().len(), waivers, "waivers by the log");
}
