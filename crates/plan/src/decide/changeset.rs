//! Opens, fills and seals changesets. Only the holder of the execute phase may.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::changeset::{Changeset, ChangesetEntry, ChangesetSeal, Node, TreePath};
use crate::command::{
    CapturedNodeChanges, ChangesetSelector, CommandDefinition, CommandHeader, PlainCommand,
};
use crate::decide::DecisionInput;
use crate::decide::draft::DecisionDraft;
use crate::reads::{ChangesetReads, CommandTarget, ReadSet, RowAccess};
use crate::stage::WorkState;
use crate::{ChangesetId, Decision, Epoch, Event, PlanStage, Refusal, RowWrite, Verb};

/// Open a changeset.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenChangeset {
    pub epoch: Epoch,
    pub id: ChangesetId,
    pub node: Node,
}

impl CommandDefinition for OpenChangeset {
    fn header(&self) -> CommandHeader {
        CommandHeader::for_holder(Verb::OpenChangeset, self.epoch)
    }

    fn reads(&self, target: &CommandTarget) -> ReadSet {
        ReadSet {
            changesets: ChangesetReads::EntriesAt(Vec::new()),
            ..target.plan_reads()
        }
    }

    fn arguments(&self) -> Value {
        json!([self.epoch, self.node])
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        open_changeset(input.draft()?, self.epoch, self.id, &self.node)
    }
}

/// Record one change.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordChange {
    pub epoch: Epoch,
    pub into: ChangesetSelector,
    pub entry: ChangesetEntry,
}

impl RecordChange {
    pub fn new(epoch: Epoch, into: ChangesetSelector, entry: ChangesetEntry) -> Self {
        Self { epoch, into, entry }
    }
}

impl CommandDefinition for RecordChange {
    fn header(&self) -> CommandHeader {
        CommandHeader::for_holder(Verb::RecordChange, self.epoch)
    }

    fn reads(&self, target: &CommandTarget) -> ReadSet {
        ReadSet {
            // A shared lock: recorders of one plan do not block each other, but they and a command
            // that moves the plan do.
            plan: target.plan_id.map(|id| (id, RowAccess::Shared)),
            changesets: ChangesetReads::EntriesAt(vec![self.entry.path.clone()]),
            ..ReadSet::default()
        }
    }

    fn arguments(&self) -> Value {
        json!([self.epoch, format!("{:?}", self.into), self.entry])
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        record_change(input.draft()?, self.epoch, &self.into, &self.entry)
    }
}

impl PlainCommand for RecordChange {}

/// Seal a changeset. It cannot be reopened.
#[derive(Debug, Clone, PartialEq)]
pub struct SealChangeset {
    pub epoch: Epoch,
    pub changeset: ChangesetId,
}

impl SealChangeset {
    pub fn new(epoch: Epoch, changeset: ChangesetId) -> Self {
        Self { epoch, changeset }
    }
}

impl CommandDefinition for SealChangeset {
    fn header(&self) -> CommandHeader {
        CommandHeader::for_holder(Verb::SealChangeset, self.epoch)
    }

    fn reads(&self, target: &CommandTarget) -> ReadSet {
        ReadSet {
            changesets: ChangesetReads::All,
            ..target.plan_reads()
        }
    }

    fn arguments(&self) -> Value {
        json!([self.epoch, self.changeset])
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        seal_changeset(input.draft()?, self.epoch, self.changeset)
    }
}

impl PlainCommand for SealChangeset {}

fn open_changeset(
    mut draft: DecisionDraft<'_>,
    epoch: Epoch,
    id: ChangesetId,
    node: &Node,
) -> Result<Decision, Refusal> {
    let PlanStage::Execute(WorkState::Processing(_)) = draft.plan.stage() else {
        return draft.answer_not_applicable();
    };
    draft.require_holder(epoch)?;
    if draft.plan.read_only() {
        return Err(Refusal::ReadOnly("anything".to_owned()));
    }
    if let Some(open) = open_changesets_of_epoch(&draft, epoch).find(|open| &open.node == node) {
        return Err(Refusal::NodeHasOpenChangeset { open: open.clone() });
    }
    let changeset = Changeset {
        id,
        plan: draft.plan.id(),
        node: node.clone(),
        epoch,
        opened_at: draft.now,
        seal: None,
    };
    draft.rows.push(RowWrite::PutChangeset(changeset));
    draft.changeset = Some(id);
    Ok(draft.finish())
}

fn record_change(
    mut draft: DecisionDraft<'_>,
    epoch: Epoch,
    into: &ChangesetSelector,
    entry: &ChangesetEntry,
) -> Result<Decision, Refusal> {
    let PlanStage::Execute(WorkState::Processing(_)) = draft.plan.stage() else {
        return draft.answer_not_applicable();
    };
    draft.require_holder(epoch)?;
    if draft.plan.read_only() {
        return Err(Refusal::ReadOnly(entry.path.to_string()));
    }
    let changeset = resolve_changeset(&draft, epoch, into)?;
    let earlier = draft
        .facts
        .entries
        .iter()
        .find(|(of, earlier)| *of == changeset && earlier.path == entry.path);
    let folded = match earlier {
        Some((_, earlier)) => earlier.clone().fold_with(entry.clone()),
        None => Some(entry.clone()),
    };
    draft.rows.push(match folded {
        Some(entry) => RowWrite::PutEntry(changeset, entry),
        None => RowWrite::DropEntry(changeset, entry.path.clone()),
    });
    draft.changeset = Some(changeset);
    Ok(draft.finish())
}

fn seal_changeset(
    mut draft: DecisionDraft<'_>,
    epoch: Epoch,
    id: ChangesetId,
) -> Result<Decision, Refusal> {
    let PlanStage::Execute(WorkState::Processing(_)) = draft.plan.stage() else {
        return draft.answer_not_applicable();
    };
    draft.require_holder(epoch)?;
    let Some(changeset) = open_changesets_of_epoch(&draft, epoch)
        .find(|open| open.id == id)
        .cloned()
    else {
        return Err(Refusal::NoSuchChangeset {
            plan: draft.plan.id(),
            changeset: id,
        });
    };
    seal_with_stored_entries(&mut draft, changeset);
    draft.changeset = Some(id);
    Ok(draft.finish())
}

/// Seals every open changeset of the plan, including those of earlier holders.
pub(super) fn seal_open_changesets(draft: &mut DecisionDraft<'_>) {
    for changeset in draft.facts.changesets.clone() {
        seal_with_stored_entries(draft, changeset);
    }
}

/// Merges the captured changes into the changesets, and seals every open changeset.
///
/// The captured tree decides what changed; reports of tools add who did it. A path that exactly one
/// unit of work reported goes to that unit. A path reported by none or several goes to the unit of
/// its sandbox. A report that the tree does not confirm is kept and marked `unseen`.
pub(super) fn merge_captured_changes(
    draft: &mut DecisionDraft<'_>,
    epoch: Epoch,
    captured: &[CapturedNodeChanges],
) {
    let mut changesets = draft.facts.changesets.clone();
    let mut entries: BTreeMap<(ChangesetId, TreePath), ChangesetEntry> = BTreeMap::new();
    let mut reporters: BTreeMap<&TreePath, Vec<ChangesetId>> = BTreeMap::new();
    for (of, report) in &draft.facts.entries {
        entries.insert((*of, report.path.clone()), report.clone());
        reporters.entry(&report.path).or_default().push(*of);
    }
    let mut seen: BTreeSet<&TreePath> = BTreeSet::new();
    for one in captured.iter().filter(|one| !one.entries.is_empty()) {
        let of_sandbox = find_or_open_changeset(draft, &mut changesets, epoch, one);
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
            draft.rows.push(RowWrite::PutEntry(of, entry.clone()));
            entries.insert((of, entry.path.clone()), entry);
        }
        let paths = one.entries.iter().map(|entry| &entry.path);
        seen.extend(paths.chain(one.entries.iter().filter_map(|entry| entry.from.as_ref())));
    }
    for ((of, path), entry) in &mut entries {
        if !captured.is_empty() && !seen.contains(path) {
            entry.unseen = true;
            draft.rows.push(RowWrite::PutEntry(*of, entry.clone()));
        }
    }
    let entries: Vec<(ChangesetId, ChangesetEntry)> = entries
        .into_iter()
        .map(|((of, _), entry)| (of, entry))
        .collect();
    for changeset in changesets {
        seal_with_entries(draft, changeset, &entries);
    }
}

/// Returns the open changeset of a unit of work, and opens one if there is none.
fn find_or_open_changeset(
    draft: &mut DecisionDraft<'_>,
    changesets: &mut Vec<Changeset>,
    epoch: Epoch,
    one: &CapturedNodeChanges,
) -> ChangesetId {
    let open = changesets.iter().find(|changeset| {
        changeset.epoch == epoch && changeset.seal.is_none() && changeset.node == one.node
    });
    if let Some(open) = open {
        return open.id;
    }
    let changeset = Changeset {
        id: one.changeset,
        plan: draft.plan.id(),
        node: one.node.clone(),
        epoch,
        opened_at: draft.now,
        seal: None,
    };
    draft.rows.push(RowWrite::PutChangeset(changeset.clone()));
    changesets.push(changeset);
    one.changeset
}

fn seal_with_stored_entries(draft: &mut DecisionDraft<'_>, changeset: Changeset) {
    let entries = draft.facts.entries.clone();
    seal_with_entries(draft, changeset, &entries);
}

fn seal_with_entries(
    draft: &mut DecisionDraft<'_>,
    mut changeset: Changeset,
    all: &[(ChangesetId, ChangesetEntry)],
) {
    let entries: Vec<ChangesetEntry> = all
        .iter()
        .filter(|(of, _)| *of == changeset.id)
        .map(|(_, entry)| entry.clone())
        .collect();
    let seal = ChangesetSeal::from_entries(&entries, draft.now);
    draft.emit_event(Event::ChangesetSealed {
        changeset: changeset.id,
        node: changeset.node.clone(),
        entries: seal.entries,
        digest: seal.digest,
    });
    changeset.seal = Some(seal);
    draft.rows.push(RowWrite::PutChangeset(changeset));
}

/// Resolves a selector to an open changeset. Refuses an ambiguous one.
fn resolve_changeset(
    draft: &DecisionDraft<'_>,
    epoch: Epoch,
    into: &ChangesetSelector,
) -> Result<ChangesetId, Refusal> {
    let open: Vec<&Changeset> = open_changesets_of_epoch(draft, epoch).collect();
    match into {
        ChangesetSelector::Changeset(id) => match open.iter().find(|open| open.id == *id) {
            Some(_) => Ok(*id),
            None => Err(Refusal::NoSuchChangeset {
                plan: draft.plan.id(),
                changeset: *id,
            }),
        },
        ChangesetSelector::Node(node) => match open.iter().find(|open| &open.node == node) {
            Some(open) => Ok(open.id),
            None => Err(Refusal::NoOpenChangeset {
                node: Some(node.clone()),
            }),
        },
        ChangesetSelector::OnlyOpen => match open.as_slice() {
            [] => Err(Refusal::NoOpenChangeset { node: None }),
            [only] => Ok(only.id),
            several => Err(Refusal::AmbiguousChangeset {
                open: several.iter().map(|open| (*open).clone()).collect(),
            }),
        },
    }
}

fn open_changesets_of_epoch<'a>(
    draft: &DecisionDraft<'a>,
    epoch: Epoch,
) -> impl Iterator<Item = &'a Changeset> {
    draft
        .facts
        .changesets
        .iter()
        .filter(move |changeset| changeset.epoch == epoch && changeset.seal.is_none())
}
