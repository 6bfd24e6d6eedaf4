//! Handles: how people name plans. A full id, an unambiguous beginning or end of one, or `@`.

use plan::PlanId;
use store::{PlanFilter, StoreError};

use crate::Lifecycle;

/// Shortest end of an id that is shown to people.
const MIN_HANDLE_LENGTH: usize = 4;
/// Length of an id.
const PLAN_ID_LENGTH: usize = 26;

/// Why a handle names no plan.
#[derive(Debug, thiserror::Error)]
pub enum HandleError {
    /// It cannot be part of an id.
    #[error("`{0}` is no plan: a plan is named by its id, the beginning or end of it, or `@`")]
    NotAHandle(String),
    /// No id begins or ends with it.
    #[error("no plan begins or ends with `{0}`")]
    Unknown(String),
    /// `@`, and there is no plan.
    #[error("there is no plan yet")]
    NoPlans,
    /// Several do.
    #[error("`{handle}` names several plans")]
    Ambiguous {
        /// The handle.
        handle: String,
        /// Some of them.
        plans: Vec<PlanId>,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Lifecycle {
    /// The plan a handle names. A whole id is taken at its word.
    pub fn resolve_handle(&self, handle: &str) -> Result<PlanId, HandleError> {
        if handle == "@" {
            let newest = self.store.list_plans(&PlanFilter::default(), None, 1)?;
            return newest
                .first()
                .map(|row| row.plan.id)
                .ok_or(HandleError::NoPlans);
        }
        let fragment = handle.to_ascii_uppercase();
        let is_possible_id = (1..=PLAN_ID_LENGTH).contains(&fragment.len())
            && fragment
                .bytes()
                .all(|b| b.is_ascii_digit() || (b.is_ascii_uppercase() && !b"ILOU".contains(&b)));
        if !is_possible_id {
            return Err(HandleError::NotAHandle(handle.chars().take(80).collect()));
        }
        // A whole id needs no looking for; whoever uses it will say if there is no such plan.
        if let Ok(plan_id) = fragment.parse() {
            return Ok(plan_id);
        }
        let plans = self.store.find_plan_ids(&fragment, 6)?;
        match plans.as_slice() {
            [] => Err(HandleError::Unknown(handle.to_owned())),
            [only] => Ok(*only),
            _ => Err(HandleError::Ambiguous {
                handle: handle.to_owned(),
                plans,
            }),
        }
    }

    /// The shortest end of a plan's id that names only it; what people are shown.
    pub fn short_handle(&self, plan_id: PlanId) -> Result<String, StoreError> {
        let full = plan_id.to_string();
        for length in MIN_HANDLE_LENGTH..PLAN_ID_LENGTH {
            let suffix = &full[PLAN_ID_LENGTH - length..];
            if self.store.find_plan_ids(suffix, 2)?.len() <= 1 {
                return Ok(suffix.to_lowercase());
            }
        }
        Ok(full)
    }
}
