//! Finds landed plans that were undone. Only the undoing plan, which is newer, records the relation.

use std::collections::BTreeMap;

use plan::plan::PlanOrigin;
use plan::stage::{ApplyState, StateName};
use plan::{Phase, PlanId, PlanStage, QualifiedName};
use store::{PlanFilter, PlanRow};

use crate::cli::App;
use crate::error::CommandError;

/// Newer plans that are searched for undos.
const MAX_NEWER_PLANS: usize = 500;

/// Maps an undone plan to the plan that undid it.
#[derive(Debug, Default)]
pub struct UndonePlans(BTreeMap<PlanId, PlanId>);

impl UndonePlans {
    /// Collects the undos among the newest landed plans.
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

    /// Adds the undos among these rows, which must be newest first: an undo that was itself undone does not
    /// count.
    pub fn add_rows(&mut self, rows: &[PlanRow]) {
        for row in rows {
            if let PlanOrigin::UndoOf(of) = row.plan.origin()
                && is_landed(row)
                && self.undoing_plan(row.plan.id()).is_none()
            {
                self.0.insert(of, row.plan.id());
            }
        }
    }

    pub fn undoing_plan(&self, plan_id: PlanId) -> Option<PlanId> {
        self.0.get(&plan_id).copied()
    }
}

pub fn is_landed(row: &PlanRow) -> bool {
    matches!(row.plan.stage(), PlanStage::Apply(ApplyState::Applied(_)))
}
