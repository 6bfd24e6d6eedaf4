//! Did every reader of the log see every event once, those of one plan in their order?

use std::collections::BTreeMap;

use plan::PlanId;

use super::stored::Stored;
use super::{Kind, Violation};
use crate::history::History;

/// Every reader against every log.
pub fn check(history: &History, stored: &Stored) -> Vec<Violation> {
    let mut found = Vec::new();
    for (reader, events) in &history.readers {
        let mut seen: BTreeMap<PlanId, u64> = BTreeMap::new();
        let mut wrong = |plan, version: u64, what| {
            found.push(Violation {
                kind: Kind::Reader,
                what: format!("reader {reader} {what}"),
                plan: Some(plan),
                calls: Vec::new(),
                versions: Some(version.saturating_sub(1)..=version + 1),
            });
        };
        for (plan, version) in events {
            let last = seen.entry(*plan).or_default();
            if *version <= *last {
                wrong(
                    *plan,
                    *version,
                    format!("saw event {version} after event {last}"),
                );
            } else if *version != *last + 1 {
                let missed = *last + 1;
                wrong(
                    *plan,
                    missed,
                    format!("saw event {version}, and event {missed} never"),
                );
            }
            *last = (*version).max(*last);
        }
        for plan in stored.plans.values() {
            let last = seen.remove(&plan.id()).unwrap_or(0);
            let there = plan.events.len() as u64;
            if last < there {
                let missed = last + 1;
                wrong(
                    plan.id(),
                    missed,
                    format!("never saw event {missed} of {there}"),
                );
            } else if last > there {
                wrong(
                    plan.id(),
                    last,
                    format!("saw event {last}, and there are {there}"),
                );
            }
        }
        for (plan, last) in seen {
            wrong(
                plan,
                last,
                "saw events of a plan that is not there".to_owned(),
            );
        }
    }
    found
}
