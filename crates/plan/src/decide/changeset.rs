//! Changesets: opened, recorded into and sealed by the holder of the execute phase only.

use std::collections::{BTreeMap, BTreeSet};

use crate::changeset::{Changeset, Entry, Node, Seal, TreePath};
use crate::command::{Captured, Into};
use crate::decide::draft::Draft;
use crate::stage::Work;
use crate::{ChangesetId, Decision, Epoch, Event, Refusal, Row, Stage};

pub(super) fn open(
    mut draft: Draft<'_>,
    epoch: Epoch,
    id: ChangesetId,
    node: &Node,
) -> Result<Decision, Refusal> {
    let Stage::Execute(Work::Processing(_)) = draft.plan.stage else {
        return draft.not_now();
    };
    draft.require_holder(epoch)?;
    if draft.plan.read_only {
        return Err(Refusal::ReadOnly("anything".to_owned()));
    }
    if let Some(open) = open_of_this_epoch(&draft, epoch).find(|open| &open.node == node) {
        return Err(Refusal::NodeHasOpenChangeset { open: open.clone() });
    }
    let changeset = Changeset {
        id,
        plan: draft.plan.id,
        node: node.clone(),
        epoch,
        opened_at: draft.now,
        seal: None,
    };
    draft.rows.push(Row::PutChangeset(changeset));
    draft.changeset = Some(id);
    Ok(draft.done())
}

pub(super) fn record(
    mut draft: Draft<'_>,
    epoch: Epoch,
    into: &Into,
    entry: &Entry,
) -> Result<Decision, Refusal> {
    let Stage::Execute(Work::Processing(_)) = draft.plan.stage else {
        return draft.not_now();
    };
    draft.require_holder(epoch)?;
    if draft.plan.read_only {
        return Err(Refusal::ReadOnly(entry.path.to_string()));
    }
    let changeset = resolve(&draft, epoch, into)?;
    let earlier = draft
        .facts
        .entries
        .iter()
        .find(|(of, earlier)| *of == changeset && earlier.path == entry.path);
    let folded = match earlier {
        Some((_, earlier)) => earlier.clone().then(entry.clone()),
        None => Some(entry.clone()),
    };
    draft.rows.push(match folded {
        Some(entry) => Row::PutEntry(changeset, entry),
        None => Row::DropEntry(changeset, entry.path.clone()),
    });
    draft.changeset = Some(changeset);
    Ok(draft.done())
}

pub(super) fn seal(
    mut draft: Draft<'_>,
    epoch: Epoch,
    id: ChangesetId,
) -> Result<Decision, Refusal> {
    let Stage::Execute(Work::Processing(_)) = draft.plan.stage else {
        return draft.not_now();
    };
    draft.require_holder(epoch)?;
    let Some(changeset) = open_of_this_epoch(&draft, epoch)
        .find(|open| open.id == id)
        .cloned()
    else {
        return Err(Refusal::NoSuchChangeset {
            plan: draft.plan.id,
            changeset: id,
        });
    };
    seal_one(&mut draft, changeset);
    draft.changeset = Some(id);
    Ok(draft.done())
}

/// Closes every open changeset of the plan, whoever opened it.
pub(super) fn seal_all(draft: &mut Draft<'_>) {
    for changeset in draft.facts.changesets.clone() {
        seal_one(draft, changeset);
    }
}

/// Takes in what was read from the sandboxes, and closes every open changeset.
///
/// The tree is the truth; what tools reported adds who did it. A path that one unit of work
/// reported is that unit's; one that nobody or several reported is its sandbox's. A report that the
/// tree does not show stays, flagged.
pub(super) fn take_in(draft: &mut Draft<'_>, epoch: Epoch, captured: &[Captured]) {
    let mut changesets = draft.facts.changesets.clone();
    let mut entries: BTreeMap<(ChangesetId, TreePath), Entry> = BTreeMap::new();
    let mut reporters: BTreeMap<&TreePath, Vec<ChangesetId>> = BTreeMap::new();
    for (of, report) in &draft.facts.entries {
        entries.insert((*of, report.path.clone()), report.clone());
        reporters.entry(&report.path).or_default().push(*of);
    }
    let mut seen: BTreeSet<&TreePath> = BTreeSet::new();
    for one in captured.iter().filter(|one| !one.entries.is_empty()) {
        let of_sandbox = changeset_of(draft, &mut changesets, epoch, one);
        for entry in &one.entries {
            let of = match reporters.get(&entry.path).map(Vec::as_slice) {
                Some([only]) => *only,
                Some([] | [_, ..]) | None => of_sandbox,
            };
            let mut entry = entry.clone();
            if let Some(report) = entries.get(&(of, entry.path.clone())) {
                entry.actor.clone_from(&report.actor);
                entry.tool.clone_from(&report.tool);
            }
            draft.rows.push(Row::PutEntry(of, entry.clone()));
            entries.insert((of, entry.path.clone()), entry);
        }
        let paths = one.entries.iter().map(|entry| &entry.path);
        seen.extend(paths.chain(one.entries.iter().filter_map(|entry| entry.from.as_ref())));
    }
    for ((of, path), entry) in &mut entries {
        if !captured.is_empty() && !seen.contains(path) {
            entry.unseen = true;
            draft.rows.push(Row::PutEntry(*of, entry.clone()));
        }
    }
    let entries: Vec<(ChangesetId, Entry)> = entries
        .into_iter()
        .map(|((of, _), entry)| (of, entry))
        .collect();
    for changeset in changesets {
        seal_as(draft, changeset, &entries);
    }
}

/// The open changeset of a unit of work, opened if there is none.
fn changeset_of(
    draft: &mut Draft<'_>,
    changesets: &mut Vec<Changeset>,
    epoch: Epoch,
    one: &Captured,
) -> ChangesetId {
    let open = changesets.iter().find(|changeset| {
        changeset.epoch == epoch && changeset.seal.is_none() && changeset.node == one.node
    });
    if let Some(open) = open {
        return open.id;
    }
    let changeset = Changeset {
        id: one.changeset,
        plan: draft.plan.id,
        node: one.node.clone(),
        epoch,
        opened_at: draft.now,
        seal: None,
    };
    draft.rows.push(Row::PutChangeset(changeset.clone()));
    changesets.push(changeset);
    one.changeset
}

fn seal_one(draft: &mut Draft<'_>, changeset: Changeset) {
    let entries = draft.facts.entries.clone();
    seal_as(draft, changeset, &entries);
}

fn seal_as(draft: &mut Draft<'_>, mut changeset: Changeset, all: &[(ChangesetId, Entry)]) {
    let entries: Vec<Entry> = all
        .iter()
        .filter(|(of, _)| *of == changeset.id)
        .map(|(_, entry)| entry.clone())
        .collect();
    let seal = Seal::of(&entries, draft.now);
    draft.emit(Event::ChangesetSealed {
        changeset: changeset.id,
        node: changeset.node.clone(),
        entries: seal.entries,
        digest: seal.digest,
    });
    changeset.seal = Some(seal);
    draft.rows.push(Row::PutChangeset(changeset));
}

/// The changeset that is meant; ambiguity is refused, never guessed.
fn resolve(draft: &Draft<'_>, epoch: Epoch, into: &Into) -> Result<ChangesetId, Refusal> {
    let open: Vec<&Changeset> = open_of_this_epoch(draft, epoch).collect();
    match into {
        Into::Changeset(id) => match open.iter().find(|open| open.id == *id) {
            Some(_) => Ok(*id),
            None => Err(Refusal::NoSuchChangeset {
                plan: draft.plan.id,
                changeset: *id,
            }),
        },
        Into::Node(node) => match open.iter().find(|open| &open.node == node) {
            Some(open) => Ok(open.id),
            None => Err(Refusal::NoOpenChangeset {
                node: Some(node.clone()),
            }),
        },
        Into::OnlyOpen => match open.as_slice() {
            [] => Err(Refusal::NoOpenChangeset { node: None }),
            [only] => Ok(only.id),
            several => Err(Refusal::AmbiguousChangeset {
                open: several.iter().map(|open| (*open).clone()).collect(),
            }),
        },
    }
}

fn open_of_this_epoch<'a>(draft: &Draft<'a>, epoch: Epoch) -> impl Iterator<Item = &'a Changeset> {
    draft
        .facts
        .changesets
        .iter()
        .filter(move |changeset| changeset.epoch == epoch && changeset.seal.is_none())
}
