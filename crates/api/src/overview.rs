//! Finds what needs the viewer, what runs, and what waits for something else.

use lifecycle::{CrashRemnant, Lifecycle, LifecycleError};
use plan::stage::StateName;
use plan::{Caller, PlanId};
use store::PlanFilter;

use crate::plan_list::summarize_plan;
use crate::plans;
use crate::view::{PlanOverview, PlanSummary, WaitReason, WaitingPlan};

/// The most plans listed in each group.
pub const MAX_LISTED_PLANS: usize = 20;

/// Held plans that are checked for dead holders.
const MAX_HELD_PLANS: usize = 500;

/// Lists what needs the viewer.
pub fn get_overview(
    lifecycle: &Lifecycle,
    viewer: &Caller,
) -> Result<PlanOverview, LifecycleError> {
    let filter = PlanFilter {
        needs_person: true,
        ..PlanFilter::default()
    };
    let rows = lifecycle.list_plans(&filter, None, MAX_LISTED_PLANS + 1)?;
    let mut needs_me = Vec::new();
    for row in rows.iter().take(MAX_LISTED_PLANS) {
        // If the agent that waited for a person ended, nobody waits for the answer.
        if !plans::is_interrupted(lifecycle, row)? {
            needs_me.push(summarize_plan(lifecycle, row, viewer)?);
        }
    }
    let unfinished = list_unfinished_landings(lifecycle);
    let held = list_held_plans(lifecycle, &unfinished, viewer)?;
    let has_plans = !rows.is_empty()
        || !lifecycle
            .list_plans(&PlanFilter::default(), None, 1)?
            .is_empty();
    Ok(PlanOverview {
        needs_me,
        more: rows.len() > MAX_LISTED_PLANS,
        interrupted: held.interrupted,
        running: held.running,
        waiting: list_waiting_plans(lifecycle, viewer)?,
        unfinished_landings: unfinished
            .into_iter()
            .map(|plan_id| summarize_plan(lifecycle, &lifecycle.get_plan(plan_id)?, viewer))
            .collect::<Result<_, _>>()?,
        has_plans,
    })
}

/// Returns queued plans that do not need a person.
fn list_waiting_plans(
    lifecycle: &Lifecycle,
    viewer: &Caller,
) -> Result<Vec<WaitingPlan>, LifecycleError> {
    let filter = PlanFilter {
        state: Some(StateName::Queued),
        ..PlanFilter::default()
    };
    let rows = lifecycle.list_plans(&filter, None, MAX_LISTED_PLANS)?;
    let mut waiting = Vec::new();
    for row in rows.iter().filter(|row| !row.needs_person()) {
        waiting.push(WaitingPlan {
            summary: summarize_plan(lifecycle, row, viewer)?,
            reason: WaitReason::of_obstacle(lifecycle.leases().find_claim_obstacle(&row.plan)?),
        });
    }
    Ok(waiting)
}

/// Plans that a process holds, or held when it ended.
#[derive(Default)]
struct HeldPlans {
    running: Vec<PlanSummary>,
    /// Their process ended without releasing them. A running worker takes them over.
    interrupted: Vec<PlanSummary>,
}

fn list_held_plans(
    lifecycle: &Lifecycle,
    unfinished: &[PlanId],
    viewer: &Caller,
) -> Result<HeldPlans, LifecycleError> {
    let filter = PlanFilter {
        state: Some(StateName::Processing),
        ..PlanFilter::default()
    };
    let rows = lifecycle.list_plans(&filter, None, MAX_HELD_PLANS)?;
    let mut held = HeldPlans::default();
    for row in rows
        .iter()
        .filter(|row| !unfinished.contains(&row.plan.id()))
    {
        let group = match plans::is_interrupted(lifecycle, row)? {
            true => &mut held.interrupted,
            // Its agent waits for a person, so it is among what needs the viewer.
            false if row.needs_person() => continue,
            false => &mut held.running,
        };
        if group.len() < MAX_LISTED_PLANS {
            group.push(summarize_plan(lifecycle, row, viewer)?);
        }
    }
    Ok(held)
}

/// Returns landings that a crash interrupted on this host; none if this host cannot land.
fn list_unfinished_landings(lifecycle: &Lifecycle) -> Vec<PlanId> {
    let found = lifecycle
        .sandboxes()
        .find_crash_remnants()
        .unwrap_or_default();
    let landings = found.into_iter().filter_map(|one| match one {
        CrashRemnant::UnfinishedLanding(plan_id) => Some(plan_id),
        CrashRemnant::LeftoverSandboxes(_) => None,
    });
    landings.collect()
}
