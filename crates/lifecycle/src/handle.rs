//! Handles, the names of plans for people: a full id, a unique prefix or suffix of one, or `@` for the newest plan.

use plan::PlanId;
use store::{PlanFilter, StoreError};

use crate::Lifecycle;

/// The shortest suffix of an id that is shown to people.
const MIN_HANDLE_LENGTH: usize = 4;
const PLAN_ID_LENGTH: usize = 26;

/// Why a handle does not identify a plan.
#[derive(Debug, thiserror::Error)]
pub enum HandleError {
    /// The text cannot be part of an id.
    #[error("there is no plan `{0}`: use an id from `planwright list`, or `@`")]
    NotAHandle(String),
    #[error("no plan id begins or ends with `{0}`")]
    Unknown(String),
    /// The handle is `@`, but the store has no plans.
    #[error("there are no plans yet")]
    NoPlans,
    #[error("`{handle}` matches several plans")]
    Ambiguous {
        handle: String,
        /// Handles of at most six of the matching plans.
        candidates: Vec<String>,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Lifecycle {
    /// Finds the plan that a handle identifies. Does not check whether a full id exists.
    pub fn resolve_handle(&self, handle: &str) -> Result<PlanId, HandleError> {
        if handle == "@" {
            let newest = self.store.list_plans(&PlanFilter::default(), None, 1)?;
            return newest
                .first()
                .map(|row| row.plan.id())
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
        // A full id needs no lookup. The operation that uses it reports a missing plan.
        if let Ok(plan_id) = fragment.parse() {
            return Ok(plan_id);
        }
        let plans = self.store.find_plan_ids(&fragment, 6)?;
        match plans.as_slice() {
            [] => Err(HandleError::Unknown(handle.to_owned())),
            [only] => Ok(*only),
            several => {
                let candidates = several.iter().map(|plan_id| self.short_handle(*plan_id));
                Err(HandleError::Ambiguous {
                    handle: handle.to_owned(),
                    candidates: candidates.collect::<Result<_, _>>()?,
                })
            }
        }
    }

    /// The shortest unique suffix of a plan's id, to show to people.
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
