//! Which landed plans were taken back. A plan does not know it of itself: the one that takes it back does,
//! and that one is newer.

use std::collections::BTreeMap;

use plan::plan::PlanOrigin;
use plan::stage::{ApplyState, StateName};
use plan::{Phase, PlanId, PlanStage, QualifiedName};
use store::{PlanFilter, PlanRow};

use crate::cli::App;
use crate::error::CommandError;

/// How many newer plans are looked at.
const MAX_NEWER_PLANS: usize = 500;

/// Plans that were taken back, each with the one that did.
#[derive(Debug, Default)]
pub struct UndonePlans(BTreeMap<PlanId, PlanId>);

impl UndonePlans {
    /// What the newest of these plans took back.
    pub fn from_newest_plans(
        app: &App,
        filter: &PlanFilter,
        projects: Option<&[QualifiedName]>,
    ) -> Result<Self, CommandError> {
        let landed = PlanFilter {
            phase: Some(Phase::Apply),
            state: Some(StateName::Applied),
            needs_person: false,
            ..filter.clone()
        };
        let rows = app.list_plans(&landed, projects, None, MAX_NEWER_PLANS)?;
        let mut undone = Self::default();
        undone.add_rows(&rows);
        Ok(undone)
    }

    /// What these took back, newest first: what was taken back itself takes nothing back any more.
    pub fn add_rows(&mut self, rows: &[PlanRow]) {
        for row in rows {
            if let PlanOrigin::UndoOf(of) = row.plan.origin
                && is_landed(row)
                && self.undoing_plan(row.plan.id).is_none()
            {
                self.0.insert(of, row.plan.id);
            }
        }
    }

    /// The plan that took this one back.
    pub fn undoing_plan(&self, plan_id: PlanId) -> Option<PlanId> {
        self.0.get(&plan_id).copied()
    }
}

/// Can it have been taken back?
pub fn is_landed(row: &PlanRow) -> bool {
    matches!(row.plan.stage, PlanStage::Apply(ApplyState::Applied(_)))
}
