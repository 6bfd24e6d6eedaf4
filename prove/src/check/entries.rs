//! Is every recorded change in the changeset of its node, exactly once? Each call records its own path, so
//! that every entry tells which call made it.

use std::collections::BTreeMap;

use plan::changeset::{Changeset, ChangesetSeal};
use plan::event::Event;

use super::stored::{Stored, StoredPlan};
use super::{Kind, Violation};
use crate::history::{History, Made};
use crate::operation::{Answer, CallId, Operation};

/// Every entry against every call.
pub fn check(history: &History, stored: &Stored) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut places: BTreeMap<String, Vec<&Changeset>> = BTreeMap::new();
    for plan in stored.plans.values() {
        for (changeset, entries) in &plan.changesets {
            for entry in entries {
                places
                    .entry(entry.path.to_string())
                    .or_default()
                    .push(changeset);
            }
        }
        found.extend(check_seals(plan));
    }
    for made in history.calls.values() {
        found.extend(check_opened(made, stored));
    }
    let mut groups: BTreeMap<String, Vec<&Made>> = BTreeMap::new();
    for made in history.calls.values() {
        if matches!(made.call.operation, Operation::RecordChange { .. }) {
            groups.entry(made.call.label()).or_default().push(made);
        }
    }
    for (label, changesets) in &places {
        if !groups.contains_key(label) {
            let what = format!("there is a change `{label}` that nobody recorded");
            found.push(wrong(what, Vec::new(), changesets[0]));
        }
    }
    for (label, group) in &groups {
        let none = Vec::new();
        let there = places.get(label).unwrap_or(&none);
        found.extend(check_group(group, there));
    }
    found
}

/// A changeset that was told as opened is there, and of whoever opened it.
fn check_opened(made: &Made, stored: &Stored) -> Option<Violation> {
    let Operation::OpenChangeset { plan, epoch, node } = &made.call.operation else {
        return None;
    };
    let Some(Answer::Done(receipt)) = made.answer() else {
        return None;
    };
    let changesets = stored.plans.get(plan).map(|plan| plan.changesets.iter());
    let is_it = |changeset: &Changeset| {
        let of = (changeset.node.as_str(), changeset.epoch.0);
        Some(changeset.id) == receipt.changeset && of == (node.as_str(), *epoch)
    };
    if changesets.into_iter().flatten().any(|(one, _)| is_it(one)) {
        return None;
    }
    Some(Violation {
        kind: Kind::Entry,
        what: "its caller was told that a changeset is open, and it is not there".to_owned(),
        plan: Some(*plan),
        calls: vec![made.call.id],
        versions: None,
    })
}

fn check_group(group: &[&Made], there: &[&Changeset]) -> Option<Violation> {
    let ids: Vec<CallId> = group.iter().map(|made| made.call.id).collect();
    let Operation::RecordChange { plan, epoch, node } = &group[0].call.operation else {
        return None;
    };
    let told = group.iter().find_map(|made| match made.answer() {
        Some(Answer::Done(receipt)) => Some(receipt),
        _ => None,
    });
    let (what, shown) = match (told, there) {
        (_, [first, _, ..]) => ("it is there more than once", Some(*first)),
        (Some(_), []) => ("its caller was told `done`, and it is not there", None),
        (Some(receipt), [only]) if receipt.changeset != Some(only.id) => (
            "it is in another changeset than its caller was told",
            Some(*only),
        ),
        (None, [only]) if !group.iter().any(|made| made.is_open()) => (
            "its caller was told that nothing happened, and it is there",
            Some(*only),
        ),
        (_, [only])
            if only.plan != *plan || only.epoch.0 != *epoch || only.node.as_str() != node =>
        {
            (
                "it is in the changeset of another node or holder",
                Some(*only),
            )
        }
        (Some(_) | None, [_]) | (None, []) => return None,
    };
    Some(Violation {
        kind: Kind::Entry,
        what: match shown {
            Some(changeset) => format!(
                "{what} (changeset {} of node {}, epoch {})",
                changeset.id, changeset.node, changeset.epoch
            ),
            None => what.to_owned(),
        },
        plan: Some(*plan),
        calls: ids,
        versions: None,
    })
}

/// A sealed changeset holds exactly what its seal and its event say.
fn check_seals(plan: &StoredPlan) -> Vec<Violation> {
    let mut told = BTreeMap::new();
    for recorded in &plan.events {
        if let Event::ChangesetSealed {
            changeset, digest, ..
        } = &recorded.event
        {
            told.insert(*changeset, *digest);
        }
    }
    plan.changesets
        .iter()
        .filter_map(|(changeset, entries)| {
            let event = told.get(&changeset.id).copied();
            let sealed = changeset.seal.as_ref().map(|seal| seal.digest);
            let is = ChangesetSeal::from_entries(entries, changeset.opened_at).digest;
            if event == sealed && sealed.is_none_or(|sealed| sealed == is) {
                return None;
            }
            let what = format!(
                "changeset {} does not hold what was sealed: sealed {sealed:?}, told {event:?}, \
                 holds {is:?}",
                changeset.id
            );
            Some(wrong(what, Vec::new(), changeset))
        })
        .collect()
}

fn wrong(what: String, calls: Vec<CallId>, changeset: &Changeset) -> Violation {
    Violation {
        kind: Kind::Entry,
        what,
        plan: Some(changeset.plan),
        calls,
        versions: None,
    }
}
