//! Checks that every recorded change is in the changeset of its node, exactly once. Each call records a path of its own,
//! so every entry shows which call wrote it.

use std::collections::BTreeMap;

use plan::changeset::{Changeset, ChangesetSeal};
use plan::event::Event;

use super::store_contents::{StoreContents, StoredPlan};
use super::{Violation, ViolationKind};
use crate::history::{CallHistory, RecordedCall};
use crate::operation::{CallAnswer, CallId, Operation};

/// Compares all entries with all calls.
pub fn check_changesets(history: &CallHistory, stored: &StoreContents) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut changesets_by_path: BTreeMap<String, Vec<&Changeset>> = BTreeMap::new();
    for plan in stored.plans.values() {
        for (changeset, entries) in &plan.changesets {
            for entry in entries {
                changesets_by_path
                    .entry(entry.path.to_string())
                    .or_default()
                    .push(changeset);
            }
        }
        found.extend(check_seals(plan));
    }
    for recorded in history.calls.values() {
        found.extend(check_opened(recorded, stored));
    }
    let mut groups: BTreeMap<String, Vec<&RecordedCall>> = BTreeMap::new();
    for recorded in history.calls.values() {
        if matches!(recorded.call.operation, Operation::RecordChange { .. }) {
            groups
                .entry(recorded.call.label())
                .or_default()
                .push(recorded);
        }
    }
    for (label, changesets) in &changesets_by_path {
        if !groups.contains_key(label) {
            let message = format!("there is a change `{label}` that no client recorded");
            found.push(new_violation(message, Vec::new(), changesets[0]));
        }
    }
    for (label, group) in &groups {
        let none = Vec::new();
        let changesets = changesets_by_path.get(label).unwrap_or(&none);
        found.extend(check_group(group, changesets));
    }
    found
}

/// An opened changeset is stored, with the node and epoch of the call that opened it.
fn check_opened(recorded: &RecordedCall, stored: &StoreContents) -> Option<Violation> {
    let Operation::OpenChangeset {
        plan_id,
        epoch,
        node,
    } = &recorded.call.operation
    else {
        return None;
    };
    let Some(CallAnswer::Done(receipt)) = recorded.answer() else {
        return None;
    };
    let changesets = stored.plans.get(plan_id).map(|plan| plan.changesets.iter());
    let matches_call = |changeset: &Changeset| {
        let owner = (changeset.node.as_str(), changeset.epoch.0);
        Some(changeset.id) == receipt.changeset && owner == (node.as_str(), *epoch)
    };
    if changesets
        .into_iter()
        .flatten()
        .any(|(changeset, _)| matches_call(changeset))
    {
        return None;
    }
    Some(Violation {
        kind: ViolationKind::MisplacedChange,
        message: "it opened a changeset that is not stored".to_owned(),
        plan_id: Some(*plan_id),
        calls: vec![recorded.call.id],
        versions: None,
    })
}

fn check_group(group: &[&RecordedCall], changesets: &[&Changeset]) -> Option<Violation> {
    let ids: Vec<CallId> = group.iter().map(|recorded| recorded.call.id).collect();
    let Operation::RecordChange {
        plan_id,
        epoch,
        node,
    } = &group[0].call.operation
    else {
        return None;
    };
    let receipt = group.iter().find_map(|recorded| match recorded.answer() {
        Some(CallAnswer::Done(receipt)) => Some(receipt),
        _ => None,
    });
    let (problem, changeset) = match (receipt, changesets) {
        (_, [first, _, ..]) => ("the change is stored more than once", Some(*first)),
        (Some(_), []) => ("it was answered `done`, but the change is not stored", None),
        (Some(receipt), [only]) if receipt.changeset != Some(only.id) => (
            "the change is in another changeset than the answer says",
            Some(*only),
        ),
        (None, [only]) if !group.iter().any(|recorded| recorded.is_outcome_unknown()) => (
            "its answer says that nothing was written, but the change is stored",
            Some(*only),
        ),
        (_, [only])
            if only.plan != *plan_id || only.epoch.0 != *epoch || only.node.as_str() != node =>
        {
            (
                "the change is in the changeset of another node or holder",
                Some(*only),
            )
        }
        (Some(_) | None, [_]) | (None, []) => return None,
    };
    Some(Violation {
        kind: ViolationKind::MisplacedChange,
        message: match changeset {
            Some(changeset) => format!(
                "{problem} (changeset {} of node {}, epoch {})",
                changeset.id, changeset.node, changeset.epoch
            ),
            None => problem.to_owned(),
        },
        plan_id: Some(*plan_id),
        calls: ids,
        versions: None,
    })
}

/// A sealed changeset contains exactly what its seal and its event say.
fn check_seals(plan: &StoredPlan) -> Vec<Violation> {
    let mut digests_in_events = BTreeMap::new();
    for recorded in &plan.events {
        if let Event::ChangesetSealed {
            changeset, digest, ..
        } = &recorded.event
        {
            digests_in_events.insert(*changeset, *digest);
        }
    }
    plan.changesets
        .iter()
        .filter_map(|(changeset, entries)| {
            let in_event = digests_in_events.get(&changeset.id).copied();
            let in_seal = changeset.seal.as_ref().map(|seal| seal.digest);
            let actual = ChangesetSeal::from_entries(entries, changeset.opened_at).digest;
            if in_event == in_seal && in_seal.is_none_or(|digest| digest == actual) {
                return None;
            }
            let message = format!(
                "changeset {} does not match its seal: sealed {in_seal:?}, event {in_event:?}, \
                 contents {actual:?}",
                changeset.id
            );
            Some(new_violation(message, Vec::new(), changeset))
        })
        .collect()
}

fn new_violation(message: String, calls: Vec<CallId>, changeset: &Changeset) -> Violation {
    Violation {
        kind: ViolationKind::MisplacedChange,
        message,
        plan_id: Some(changeset.plan),
        calls,
        versions: None,
    }
}
