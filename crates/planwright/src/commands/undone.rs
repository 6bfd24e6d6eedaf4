//! Which landed plans were taken back. A plan does not know it of itself: the one that takes it back does,
//! and that one is newer.

use std::collections::BTreeMap;

use plan::plan::Origin;
use plan::stage::{Landing, StateName};
use plan::{Name, Phase, PlanId, Stage};
use store::{PlanFilter, PlanRow};

use crate::cli::App;
use crate::error::CommandError;

/// How many newer plans are looked at.
const MOST: usize = 500;

/// Plans that were taken back, each with the one that did.
#[derive(Debug, Default)]
pub struct Undone(BTreeMap<PlanId, PlanId>);

impl Undone {
    /// What the newest of these plans took back.
    pub fn by_the_newest(
        app: &App,
        filter: &PlanFilter,
        of: Option<&[Name]>,
    ) -> Result<Self, CommandError> {
        let landed = PlanFilter {
            phase: Some(Phase::Apply),
            state: Some(StateName::Applied),
            needs_person: false,
            ..filter.clone()
        };
        let rows = app.plans(&landed, of, None, MOST)?;
        let mut undone = Self::default();
        undone.look_at(&rows);
        Ok(undone)
    }

    /// What these took back, newest first: what was taken back itself takes nothing back any more.
    pub fn look_at(&mut self, rows: &[PlanRow]) {
        for row in rows {
            if let Origin::UndoOf(of) = row.plan.origin
                && is_landed(row)
                && self.by(row.plan.id).is_none()
            {
                self.0.insert(of, row.plan.id);
            }
        }
    }

    /// The plan that took this one back.
    pub fn by(&self, plan: PlanId) -> Option<PlanId> {
        self.0.get(&plan).copied()
    }
}

/// Can it have been taken back?
pub fn is_landed(row: &PlanRow) -> bool {
    matches!(row.plan.stage, Stage::Apply(Landing::Applied(_)))
}
