//! Is a store what its log says? Walks every plan: the chain unbroken, replay equal to the row.

use plan::evolve::evolve;
use plan::{Digest, PlanId, Version};

use crate::record::chain;
use crate::{PlanFilter, PlanRow, Store, StoreError};

/// Plans and events are read in pages of this size, so that memory does not grow with the store.
const PAGE: usize = 200;

/// What a check of the whole store found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// Plans that were walked.
    pub plans: u64,
    /// Events that were walked.
    pub events: u64,
    /// What is wrong, for people; nothing if all is well.
    pub problems: Vec<String>,
}

/// Checks the database's own files, then every plan.
pub fn verify(store: &dyn Store) -> Result<Verified, StoreError> {
    let mut verified = Verified {
        problems: store.check()?,
        ..Verified::default()
    };
    let mut after = None;
    loop {
        let page = store.plans(&PlanFilter::default(), after, PAGE)?;
        let Some(last) = page.last() else {
            return Ok(verified);
        };
        after = Some(last.plan.id);
        for row in &page {
            verified.plans += 1;
            verify_plan(store, row, &mut verified)?;
        }
    }
}

fn verify_plan(
    store: &dyn Store,
    row: &PlanRow,
    verified: &mut Verified,
) -> Result<(), StoreError> {
    let id: PlanId = row.plan.id;
    let mut plan = None;
    let mut head = Digest::ZERO;
    let mut version = Version(0);
    // Only up to the version of the row: the plan may have moved on while we read.
    while version < row.plan.version {
        let events = match store.plan_events(id, version, PAGE) {
            Ok(events) => events,
            // One plan that cannot be read must not hide what is wrong with the others.
            Err(StoreError::Corrupt { why, .. }) => {
                verified.problems.push(format!("plan {id}: {why}"));
                return Ok(());
            }
            Err(other) => return Err(other),
        };
        if events.is_empty() {
            break;
        }
        for stored in events {
            if version == row.plan.version {
                break;
            }
            verified.events += 1;
            version = version.next();
            head = chain(head, &stored.body);
            if head != stored.hash {
                verified
                    .problems
                    .push(format!("plan {id}: the chain breaks at event {version}"));
                return Ok(());
            }
            match evolve(plan, &stored.recorded) {
                Ok(next) => plan = Some(next),
                Err(misfit) => {
                    verified.problems.push(format!("plan {id}: {misfit}"));
                    return Ok(());
                }
            }
        }
    }
    if head != row.head || plan.as_ref() != Some(&row.plan) {
        verified.problems.push(format!(
            "plan {id}: its events do not add up to the stored plan"
        ));
    }
    Ok(())
}
