//! What is judged: a plan, the result of its execute, or what would come of landing it now.

use plan::changeset::{Operation, TreePath, digest_of_open};
use plan::invariant::Gate;
use plan::stage::{RefMove, ResultContent};
use plan::{Digest, Phase, Plan};
use sandbox::{ObjectId, Room};
use serde_json::json;

use super::Case;
use crate::perform::object;
use crate::{Error, Lifecycle};

/// What is judged.
#[derive(Debug, Clone)]
pub(crate) enum Matter<'a> {
    /// The plan alone: there is no result yet.
    Plan,
    /// Whatever result the plan has.
    Stored,
    /// This result, which is about to be handed in or was.
    Result(&'a ResultContent),
    /// What is about to be done to the targets, and the trees they would have then.
    Merged(&'a [RefMove], Vec<ObjectId>),
}

/// From what to what one resource changes.
pub(super) struct Step {
    /// The plan's resource.
    pub resource: String,
    /// What it changes.
    pub from: String,
    /// What it becomes.
    pub to: String,
}

/// Everything that changed.
#[derive(Debug, Clone, Default)]
pub(super) struct Changes(pub Vec<Change>);

/// One changed path, as rules see it.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub resource: String,
    pub path: TreePath,
    pub from: Option<TreePath>,
    pub operation: Operation,
    pub insertions: u64,
    pub deletions: u64,
    pub size: u64,
    pub binary: bool,
    pub mode: String,
}

impl<'a> Matter<'a> {
    /// The matter, with the plan's own result where that is meant.
    pub(super) fn of<'p: 'a>(&self, plan: &'p Plan) -> Matter<'a> {
        match (self, &plan.result) {
            (Self::Stored, Some(result)) => Matter::Result(result),
            (Self::Stored, None) | (Self::Plan, _) => Matter::Plan,
            (Self::Result(result), _) => Matter::Result(result),
            (Self::Merged(moves, trees), _) => Matter::Merged(moves, trees.clone()),
        }
    }

    /// What it is, exactly. Judged twice with the same digest, it would be the same: what would land on a
    /// target that has not moved is the result itself.
    pub(crate) fn digest(&self, plan: &Plan, gate: Gate) -> Digest {
        let of = |value: serde_json::Value| Digest::of(value.to_string().as_bytes());
        let steps = self.steps();
        if !steps.is_empty() {
            let steps: Vec<_> = steps
                .iter()
                .map(|step| (&step.resource, &step.from, &step.to))
                .collect();
            return of(json!(["trees", steps]));
        }
        let report = match self {
            Self::Result(result) => result.report.as_ref().map(plan::Text::as_str),
            Self::Plan | Self::Stored | Self::Merged(..) => None,
        };
        let entries = [plan.entry(Phase::Strategize), plan.entry(Phase::Execute)];
        // The end of execute and landing are about the same result.
        let about = if gate.has_result() {
            "result"
        } else {
            gate.as_str()
        };
        of(json!(["plan", plan.id, about, entries, report]))
    }

    /// What it changes, resource by resource.
    pub(super) fn steps(&self) -> Vec<Step> {
        match self {
            Self::Plan | Self::Stored => Vec::new(),
            Self::Result(result) => result
                .trees
                .iter()
                .map(|tree| Step {
                    resource: tree.resource.clone(),
                    from: tree.base.clone(),
                    to: tree.tree.clone(),
                })
                .collect(),
            Self::Merged(moves, trees) => moves
                .iter()
                .zip(trees)
                .map(|(step, tree)| Step {
                    resource: step.resource.clone(),
                    from: step.merged_with().to_owned(),
                    to: tree.to_string(),
                })
                .collect(),
        }
    }
}

impl Lifecycle {
    /// What would come of these moves.
    pub(crate) fn merged<'a>(
        &self,
        plan: &Plan,
        moves: &'a [RefMove],
    ) -> Result<Matter<'a>, Error> {
        let mut trees = Vec::new();
        if let Some(hands) = &self.hands {
            for step in moves {
                let site = self.site_named(plan, &step.resource)?;
                let room = Room {
                    plan: plan.id,
                    site: &site,
                };
                trees.push(hands.workshop.tree_of(&room, &object(&step.new)?)?);
            }
        }
        Ok(Matter::Merged(moves, trees))
    }
}

impl Case<'_> {
    /// Each resource that changes, where it lies, from what and to what.
    pub(super) fn look_at_each<T>(
        &self,
        mut look: impl FnMut(&Room<'_>, &ObjectId, &ObjectId) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let plan = &self.snapshot.row.plan;
        let mut looked = Vec::new();
        for step in self.matter.steps() {
            let site = self.lifecycle.site_named(plan, &step.resource)?;
            let room = Room {
                plan: plan.id,
                site: &site,
            };
            looked.push(look(&room, &object(&step.from)?, &object(&step.to)?)?);
        }
        Ok(looked)
    }

    /// Everything that changed: read from the trees, or, of a plan that works on nothing, as recorded.
    pub(super) fn changes(&self) -> Result<Changes, Error> {
        let plan = &self.snapshot.row.plan;
        if plan.resources.is_empty() {
            return self.recorded();
        }
        if self.matter.steps().is_empty() {
            return Ok(Changes::default());
        }
        let workshop = &self.lifecycle.hands()?.workshop;
        let changed = self.look_at_each(|room, from, to| {
            let seen = workshop.look(room, from, to)?.seen()?;
            let changes = seen.into_iter().map(|one| Change {
                resource: room.site.name.clone(),
                path: one.path,
                from: one.from,
                operation: one.operation,
                insertions: one.insertions,
                deletions: one.deletions,
                size: one.size,
                binary: one.binary,
                mode: one.mode,
            });
            Ok(changes.collect::<Vec<_>>())
        })?;
        Ok(Changes(changed.into_iter().flatten().collect()))
    }

    fn recorded(&self) -> Result<Changes, Error> {
        let changesets = self.lifecycle.store.changesets(self.snapshot.row.plan.id)?;
        let open = changesets.iter().filter(|(one, _)| one.seal.is_none());
        let open = open.flat_map(|(one, entries)| entries.iter().map(|entry| (one.id, entry)));
        let _first = self.recorded.set(digest_of_open(open));
        let entries = changesets.into_iter().flat_map(|(_, entries)| entries);
        let changes = entries.map(|entry| Change {
            resource: entry.resource.unwrap_or_default(),
            path: entry.path,
            from: entry.from,
            operation: entry.operation,
            insertions: 0,
            deletions: 0,
            size: 0,
            binary: false,
            mode: entry.mode.unwrap_or_default(),
        });
        Ok(Changes(changes.collect()))
    }
}
