//! Everything that a surface shows about one plan.

use std::path::PathBuf;

use lifecycle::{ClaimObstacle, Lifecycle, LifecycleError};
use plan::changeset::{Changeset, ChangesetEntry};
use plan::ledger::BudgetLedger;
use plan::review::ReviewComment;
use plan::takeover::HolderLiveness;
use plan::{Event, PlanId, Verb};
use sandbox::RunRecord;
use store::PlanRow;

use crate::derived_plans::find_derived_plans;
use crate::plans::find_standing;
use crate::standing::PlanStanding;
use crate::view::PlanView;

/// A plan with what is stored about it, and what is known on this host.
#[derive(Debug)]
pub struct PlanStatus {
    pub row: PlanRow,
    /// Where it stands, without regard to undos.
    pub live_standing: PlanStanding,
    /// The plan that undid it.
    pub undone_by: Option<PlanId>,
    pub changesets: Vec<(Changeset, Vec<ChangesetEntry>)>,
    pub ledger: BudgetLedger,
    /// Whether its holder runs on this host, if it has one.
    pub holder_liveness: Option<HolderLiveness>,
    /// Why it cannot be claimed here.
    pub obstacle: Option<ClaimObstacle>,
    pub has_sandbox: bool,
    /// The newest recorded run on this host.
    pub last_run: Option<RunRecord>,
    /// The comments that the agent was sent and has not answered with a result yet.
    pub sent_comments: Vec<ReviewComment>,
    /// Where ignored files of its removed sandboxes are kept.
    pub archive: Option<PathBuf>,
    /// What programs see.
    pub view: PlanView,
}

impl PlanStatus {
    /// Where the plan stands. A landed plan that was undone counts as undone.
    pub fn standing(&self) -> PlanStanding {
        match self.undone_by {
            Some(_) => PlanStanding::Undone,
            None => self.live_standing,
        }
    }
}

/// Reads everything about a plan. What this host cannot tell is left out.
pub fn read_status(lifecycle: &Lifecycle, plan_id: PlanId) -> Result<PlanStatus, LifecycleError> {
    let row = lifecycle.get_plan(plan_id)?;
    let changesets = lifecycle.history().list_changesets(plan_id)?;
    let ledger = lifecycle.budgets().read_ledger(plan_id)?;
    let completions = lifecycle.history().read_completions(plan_id)?;
    let sent_comments = match completions.contains_key(&Verb::Revise) {
        true => find_sent_comments(lifecycle, plan_id)?,
        false => Vec::new(),
    };
    let live_standing = find_standing(lifecycle, &row)?;
    let sandboxes = lifecycle.local_host().ok().map(|host| &host.sandboxes);
    let runs = sandboxes.and_then(|sandboxes| sandboxes.runs().list_runs(plan_id).ok());
    let has_sandbox = !row.plan.resources().is_empty()
        && lifecycle
            .sandboxes()
            .list_sandboxes(plan_id)
            .is_ok_and(|found| !found.is_empty());
    Ok(PlanStatus {
        view: PlanView::new(&row, live_standing, &changesets, &ledger, &completions),
        live_standing,
        undone_by: find_derived_plans(lifecycle, &row)?.undone_by,
        holder_liveness: lifecycle.leases().holder_liveness(&row)?,
        obstacle: lifecycle.leases().find_claim_obstacle(&row.plan)?,
        has_sandbox,
        last_run: runs.and_then(|runs| runs.into_iter().rev().find_map(|run| run.record)),
        sent_comments,
        archive: sandboxes.and_then(|sandboxes| sandboxes.rescue().find_archive(plan_id)),
        row,
        changesets,
        ledger,
    })
}

/// Returns the comments that the plan was last sent back with, until there is a new result.
fn find_sent_comments(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
) -> Result<Vec<ReviewComment>, LifecycleError> {
    let history = lifecycle.history().read_history(plan_id)?;
    let is_turn = |event: &Event| {
        matches!(
            event,
            Event::Revised { .. }
                | Event::ExecuteCompleted { .. }
                | Event::StrategizeCompleted { .. }
        )
    };
    let mut events = history.into_iter().rev().map(|recorded| recorded.event);
    match events.find(is_turn) {
        Some(Event::Revised { comments, .. }) => Ok(comments),
        Some(_) | None => Ok(Vec::new()),
    }
}
