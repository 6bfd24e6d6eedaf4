//! Verifies a whole store: every plan's hash chain is intact, and replaying its events yields the
//! stored row.

use plan::evolve::evolve;
use plan::{Digest, PlanId, PlanVersion};

use crate::event_codec::chain_hash;
use crate::{PlanFilter, PlanRow, Store, StoreError};

/// Plans and events are read in pages of this size, so that memory does not grow with the store.
const VERIFY_PAGE_SIZE: usize = 200;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Number of plans checked.
    pub plans: u64,
    /// Number of events checked.
    pub events: u64,
    /// One message per problem; empty if the store is intact.
    pub problems: Vec<String>,
}

/// Checks the database's own files, then every plan.
pub fn verify_store(store: &dyn Store) -> Result<VerifyReport, StoreError> {
    let mut report = VerifyReport {
        problems: store.check_integrity()?,
        ..VerifyReport::default()
    };
    let mut after = None;
    loop {
        let page = store.list_plans(&PlanFilter::default(), after, VERIFY_PAGE_SIZE)?;
        let Some(last) = page.last() else {
            return Ok(report);
        };
        after = Some(last.plan.id());
        for row in &page {
            report.plans += 1;
            verify_plan(store, row, &mut report)?;
        }
    }
}

fn verify_plan(
    store: &dyn Store,
    row: &PlanRow,
    report: &mut VerifyReport,
) -> Result<(), StoreError> {
    let id: PlanId = row.plan.id();
    let mut plan = None;
    let mut head = Digest::ZERO;
    let mut version = PlanVersion(0);
    // Only up to the row's version: the plan may have advanced since the row was read.
    while version < row.plan.version() {
        let events = match store.read_plan_events(id, version, VERIFY_PAGE_SIZE) {
            Ok(events) => events,
            // One unreadable plan must not hide problems of the others.
            Err(StoreError::Corrupt { why, .. }) => {
                report.problems.push(format!("plan {id}: {why}"));
                return Ok(());
            }
            Err(other) => return Err(other),
        };
        if events.is_empty() {
            break;
        }
        for stored_event in events {
            if version == row.plan.version() {
                break;
            }
            report.events += 1;
            version = version.next();
            head = chain_hash(head, &stored_event.body);
            if head != stored_event.hash {
                report.problems.push(format!(
                    "plan {id}: the hash chain is broken at event {version}"
                ));
                return Ok(());
            }
            match evolve(plan, &stored_event.recorded) {
                Ok(next) => plan = Some(next),
                Err(misfit) => {
                    report.problems.push(format!("plan {id}: {misfit}"));
                    return Ok(());
                }
            }
        }
    }
    if head != row.head || plan.as_ref() != Some(&row.plan) {
        report.problems.push(format!(
            "plan {id}: replaying its events does not yield the stored plan"
        ));
    }
    Ok(())
}
