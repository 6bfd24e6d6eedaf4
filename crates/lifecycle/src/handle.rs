//! Handles: how people name plans. A full id, an unambiguous beginning or end of one, or `@`.

use plan::PlanId;
use store::{PlanFilter, StoreError};

use crate::Lifecycle;

/// Shortest end of an id that is shown to people.
const SHORTEST: usize = 4;
/// Length of an id.
const FULL: usize = 26;

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
    pub fn resolve(&self, handle: &str) -> Result<PlanId, HandleError> {
        if handle == "@" {
            let newest = self.store.plans(&PlanFilter::default(), None, 1)?;
            return newest
                .first()
                .map(|row| row.plan.id)
                .ok_or(HandleError::NoPlans);
        }
        let fragment = handle.to_ascii_uppercase();
        let possible = (1..=FULL).contains(&fragment.len())
            && fragment
                .bytes()
                .all(|b| b.is_ascii_digit() || (b.is_ascii_uppercase() && !b"ILOU".contains(&b)));
        if !possible {
            return Err(HandleError::NotAHandle(handle.chars().take(80).collect()));
        }
        // A whole id needs no looking for; whoever uses it will say if there is no such plan.
        if let Ok(id) = fragment.parse() {
            return Ok(id);
        }
        let plans = self.store.plans_like(&fragment, 6)?;
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
    pub fn short_name(&self, plan: PlanId) -> Result<String, StoreError> {
        let full = plan.to_string();
        for length in SHORTEST..FULL {
            let end = &full[FULL - length..];
            if self.store.plans_like(end, 2)?.len() <= 1 {
                return Ok(end.to_lowercase());
            }
        }
        Ok(full)
    }
}
