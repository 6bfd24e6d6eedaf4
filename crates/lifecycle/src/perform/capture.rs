//! Captures the sandboxes when execute ends.
//!
//! Idempotent: the same files always give the same checkpoint commit, and the entries are stored in the
//! same transaction as the result.

use plan::changeset::Node;
use plan::command::CapturedNodeChanges;
use plan::stage::{IgnoredPaths, PathSummary, ResultContent, ResultTree};
use plan::{Epoch, Phase, Plan, PlanId};
use sandbox::{IgnoredFiles, SandboxError, SandboxKey};

use super::enter::parse_object_id;
use crate::{LifecycleError, PlanSandboxes};

/// Problems in a result that a person accepts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SubmitExceptions {
    /// Accept a result without changes.
    pub empty_result: bool,
    /// Accept remaining conflict markers.
    pub conflict_markers: bool,
}

impl PlanSandboxes<'_> {
    /// Captures the sandboxes if this holder is executing in any, and adds their trees to the result.
    pub(crate) fn capture_if_held(
        &self,
        plan_id: PlanId,
        epoch: Epoch,
        result: &ResultContent,
        exceptions: SubmitExceptions,
    ) -> Result<(ResultContent, Vec<CapturedNodeChanges>), LifecycleError> {
        let uncaptured = || (result.clone(), Vec::new());
        if self.lifecycle.local_host.is_none() {
            return Ok(uncaptured());
        }
        let plan = self.lifecycle.get_plan(plan_id)?.plan;
        // If the caller may not submit a result, the decision refuses it.
        let is_executing = plan.phase() == Phase::Execute && plan.is_held_by(epoch);
        if !is_executing || plan.resources().is_empty() {
            return Ok(uncaptured());
        }
        self.capture_sandboxes(&plan, epoch, result, exceptions)
    }

    fn capture_sandboxes(
        &self,
        plan: &Plan,
        epoch: Epoch,
        result: &ResultContent,
        exceptions: SubmitExceptions,
    ) -> Result<(ResultContent, Vec<CapturedNodeChanges>), LifecycleError> {
        let sandboxes = &self.lifecycle.local_host()?.sandboxes;
        let mut trees = Vec::new();
        let mut captured = Vec::new();
        let locations = self.lifecycle.projects().locate_resources(plan)?;
        for (location, resource) in locations.iter().zip(plan.resources()) {
            let sandbox_key = SandboxKey {
                plan_id: plan.id(),
                resource: location,
            };
            let base = parse_object_id(plan.base_commit(&location.name).unwrap_or_default())?;
            if exceptions.conflict_markers {
                sandboxes.capture().allow_conflict_markers(&sandbox_key)?;
            } else {
                SandboxError::refuse_conflict_markers(
                    sandboxes
                        .capture()
                        .list_unresolved_conflicts(&sandbox_key)?,
                )?;
            }
            let capture = sandboxes
                .capture()
                .capture_sandbox(&sandbox_key, epoch, &base)?;
            if !exceptions.conflict_markers {
                SandboxError::refuse_conflict_markers(
                    sandboxes
                        .capture()
                        .find_moved_markers(&sandbox_key, &capture.changes)?,
                )?;
            }
            let node = if locations.len() == 1 {
                Node::main()
            } else {
                Node::for_resource(&location.name)
            };
            trees.push(ResultTree {
                resource: location.name.clone(),
                target: resource.target.clone().unwrap_or_default(),
                base: capture.base.to_string(),
                tree: capture.tree.to_string(),
                changes: Some(capture.changes.len() as u64),
                ignored: summarize_ignored(&capture.ignored),
                changes_settings: capture
                    .changes
                    .iter()
                    .any(sandbox::CapturedChange::touches_config_file),
            });
            captured.push(CapturedNodeChanges {
                changeset: self.lifecycle.ids.new_changeset_id(),
                node,
                entries: capture
                    .changes
                    .iter()
                    .map(|change| change.to_changeset_entry(&location.name))
                    .collect(),
            });
        }
        let result = ResultContent {
            report: result.report.clone(),
            trees,
        };
        Ok((result, captured))
    }
}

pub(super) fn summarize_ignored(ignored: &IgnoredFiles) -> IgnoredPaths {
    IgnoredPaths {
        forced: PathSummary::from_paths(&ignored.force_added),
        withheld: PathSummary::from_paths(&ignored.withheld),
        left_out: PathSummary::from_paths(&ignored.left_out),
    }
}
