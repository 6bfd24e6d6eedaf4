//! Checks that every log reader saw every event once, and the events of one plan in order.

use std::collections::BTreeMap;

use plan::PlanId;

use super::store_contents::StoreContents;
use super::{Violation, ViolationKind};
use crate::history::CallHistory;

/// Compares what each reader saw with the stored events.
pub fn check_log_readers(history: &CallHistory, stored: &StoreContents) -> Vec<Violation> {
    let mut found = Vec::new();
    for (reader, events) in &history.readers {
        let mut last_versions: BTreeMap<PlanId, u64> = BTreeMap::new();
        let mut report = |plan_id, version: u64, problem| {
            found.push(Violation {
                kind: ViolationKind::InconsistentLogRead,
                message: format!("reader {reader} {problem}"),
                plan_id: Some(plan_id),
                calls: Vec::new(),
                versions: Some(version.saturating_sub(1)..=version + 1),
            });
        };
        for (plan_id, version) in events {
            let last = last_versions.entry(*plan_id).or_default();
            if *version <= *last {
                report(
                    *plan_id,
                    *version,
                    format!("saw event {version} after event {last}"),
                );
            } else if *version != *last + 1 {
                let missed = *last + 1;
                report(
                    *plan_id,
                    missed,
                    format!("saw event {version} without event {missed}"),
                );
            }
            *last = (*version).max(*last);
        }
        for plan in stored.plans.values() {
            let last = last_versions.remove(&plan.id()).unwrap_or(0);
            let event_count = plan.events.len() as u64;
            if last < event_count {
                let missed = last + 1;
                report(
                    plan.id(),
                    missed,
                    format!("never saw event {missed} of {event_count}"),
                );
            } else if last > event_count {
                report(
                    plan.id(),
                    last,
                    format!("saw event {last}, but only {event_count} are stored"),
                );
            }
        }
        for (plan_id, last) in last_versions {
            report(
                plan_id,
                last,
                "saw events of a plan that is not stored".to_owned(),
            );
        }
    }
    found
}
