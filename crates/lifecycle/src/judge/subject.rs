//! The subject of a gate: a plan, the result of its execute, or the merge that would land.

use plan::changeset::{PathOperation, TreePath, digest_open_entries};
use plan::invariant::Gate;
use plan::stage::{RefMove, ResultContent};
use plan::{Digest, Phase, Plan};
use sandbox::{ObjectId, SandboxKey};
use serde_json::json;

use super::GateEvaluation;
use crate::perform::parse_object_id;
use crate::{Gates, LifecycleError};

/// What the rules of a gate check.
#[derive(Debug, Clone)]
pub(crate) enum GateSubject<'a> {
    /// The plan alone; there is no result yet.
    Plan,
    /// The plan's stored result, if it has one.
    StoredResult,
    /// This result, submitted or about to be.
    Result(&'a ResultContent),
    /// The intended moves of the targets, and the resulting trees.
    Merged(&'a [RefMove], Vec<ObjectId>),
}

/// The change to one resource, as commits or trees before and after.
pub(super) struct TreeChange {
    pub resource: String,
    pub from: String,
    pub to: String,
}

#[derive(Debug, Clone, Default)]
pub(super) struct PathChangeList(pub Vec<PathChange>);

/// One changed path, with the fields that rules can use.
#[derive(Debug, Clone)]
pub(super) struct PathChange {
    pub resource: String,
    pub path: TreePath,
    pub from: Option<TreePath>,
    pub operation: PathOperation,
    pub insertions: u64,
    pub deletions: u64,
    pub size: u64,
    pub binary: bool,
    pub mode: String,
}

impl<'a> GateSubject<'a> {
    /// Replaces `StoredResult` with the plan's result.
    pub(super) fn resolve_result<'p: 'a>(&self, plan: &'p Plan) -> GateSubject<'a> {
        match (self, plan.result()) {
            (Self::StoredResult, Some(result)) => GateSubject::Result(result),
            (Self::StoredResult, None) | (Self::Plan, _) => GateSubject::Plan,
            (Self::Result(result), _) => GateSubject::Result(result),
            (Self::Merged(moves, trees), _) => GateSubject::Merged(moves, trees.clone()),
        }
    }

    /// Identifies the subject: verdicts on subjects with the same digest are the same. A merge onto an unmoved
    /// target has the same digest as the result.
    pub(crate) fn compute_digest(&self, plan: &Plan, gate: Gate) -> Digest {
        let digest_json =
            |value: serde_json::Value| Digest::hash_bytes(value.to_string().as_bytes());
        let steps = self.tree_changes();
        if !steps.is_empty() {
            let steps: Vec<_> = steps
                .iter()
                .map(|step| (&step.resource, &step.from, &step.to))
                .collect();
            return digest_json(json!(["trees", steps]));
        }
        let report = match self {
            Self::Result(result) => result.report.as_ref().map(plan::ErasableText::as_str),
            Self::Plan | Self::StoredResult | Self::Merged(..) => None,
        };
        let entries = [
            plan.entry_number(Phase::Strategize),
            plan.entry_number(Phase::Execute),
        ];
        // The result and apply gates judge the same result.
        let topic = if gate.has_result() {
            "result"
        } else {
            gate.as_str()
        };
        digest_json(json!(["plan", plan.id(), topic, entries, report]))
    }

    /// The changes per resource. Empty if the subject has no trees.
    pub(super) fn tree_changes(&self) -> Vec<TreeChange> {
        match self {
            Self::Plan | Self::StoredResult => Vec::new(),
            Self::Result(result) => result
                .trees
                .iter()
                .map(|tree| TreeChange {
                    resource: tree.resource.clone(),
                    from: tree.base.clone(),
                    to: tree.tree.clone(),
                })
                .collect(),
            Self::Merged(moves, trees) => moves
                .iter()
                .zip(trees)
                .map(|(step, tree)| TreeChange {
                    resource: step.resource.clone(),
                    from: step.merge_parent().to_owned(),
                    to: tree.to_string(),
                })
                .collect(),
        }
    }
}

impl Gates<'_> {
    /// Reads the trees that these moves would give the targets.
    pub(crate) fn read_merged_trees<'a>(
        &self,
        plan: &Plan,
        moves: &'a [RefMove],
    ) -> Result<GateSubject<'a>, LifecycleError> {
        let mut trees = Vec::new();
        if let Some(local_host) = &self.lifecycle.local_host {
            for step in moves {
                let location = self
                    .lifecycle
                    .projects()
                    .locate_resource_named(plan, &step.resource)?;
                let sandbox_key = SandboxKey {
                    plan_id: plan.id(),
                    resource: &location,
                };
                trees.push(
                    local_host
                        .sandboxes
                        .checks()
                        .read_tree_of(&sandbox_key, &parse_object_id(&step.new)?)?,
                );
            }
        }
        Ok(GateSubject::Merged(moves, trees))
    }
}

impl GateEvaluation<'_> {
    /// Calls `visit` for each changed resource, with its state before and after.
    pub(super) fn visit_changed_resources<T>(
        &self,
        mut visit: impl FnMut(&SandboxKey<'_>, &ObjectId, &ObjectId) -> Result<T, LifecycleError>,
    ) -> Result<Vec<T>, LifecycleError> {
        let plan = &self.snapshot.row.plan;
        let mut visited = Vec::new();
        for step in self.gate_subject.tree_changes() {
            let location = self
                .lifecycle
                .projects()
                .locate_resource_named(plan, &step.resource)?;
            let sandbox_key = SandboxKey {
                plan_id: plan.id(),
                resource: &location,
            };
            visited.push(visit(
                &sandbox_key,
                &parse_object_id(&step.from)?,
                &parse_object_id(&step.to)?,
            )?);
        }
        Ok(visited)
    }

    /// Reads all changes: from the trees or, for a plan without resources, from its changesets.
    pub(super) fn read_changes(&self) -> Result<PathChangeList, LifecycleError> {
        let plan = &self.snapshot.row.plan;
        if plan.resources().is_empty() {
            return self.read_recorded_changes();
        }
        if self.gate_subject.tree_changes().is_empty() {
            return Ok(PathChangeList::default());
        }
        let sandboxes = &self.lifecycle.local_host()?.sandboxes;
        let changed = self.visit_changed_resources(|sandbox_key, from, to| {
            let seen = sandboxes
                .diffs()
                .diff_trees(sandbox_key, from, to)?
                .list_path_stats()?;
            let changes = seen.into_iter().map(|one| PathChange {
                resource: sandbox_key.resource.name.clone(),
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
        Ok(PathChangeList(changed.into_iter().flatten().collect()))
    }

    fn read_recorded_changes(&self) -> Result<PathChangeList, LifecycleError> {
        let changesets = self
            .lifecycle
            .store
            .list_changesets(self.snapshot.row.plan.id())?;
        let open = changesets.iter().filter(|(one, _)| one.seal.is_none());
        let open = open.flat_map(|(one, entries)| entries.iter().map(|entry| (one.id, entry)));
        let _already_set = self.recorded_digest.set(digest_open_entries(open));
        let entries = changesets.into_iter().flat_map(|(_, entries)| entries);
        let changes = entries.map(|entry| PathChange {
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
        Ok(PathChangeList(changes.collect()))
    }
}
