//! Capturing the sandboxes of an execute that ends.
//!
//! May be repeated: a checkpoint of the same files is the same commit, and the entries are stored by
//! the commit that hands the result in.

use plan::changeset::{Node, TreePath};
use plan::command::Captured;
use plan::stage::{IgnoredPaths, PathSummary, ResultContent, ResultTree};
use plan::{Epoch, Phase, Plan, PlanId};
use sandbox::{IgnoredFiles, Room, SandboxError};

use super::enter::object;
use crate::{Error, Lifecycle};

/// What a person may let pass in a result that is handed in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SubmitExceptions {
    /// That nothing changed.
    pub empty: bool,
    /// That conflict markers are left in it.
    pub markers: bool,
}

impl Lifecycle {
    /// What the sandboxes hold, where this holder has any; the result gets their trees.
    pub(crate) fn captured(
        &self,
        plan: PlanId,
        epoch: Epoch,
        result: &ResultContent,
        allowed: SubmitExceptions,
    ) -> Result<(ResultContent, Vec<Captured>), Error> {
        let nothing = || (result.clone(), Vec::new());
        if self.hands.is_none() {
            return Ok(nothing());
        }
        let plan = self.get_plan(plan)?.plan;
        // Whoever may not hand in a result is told so by the decision.
        let working = plan.phase() == Phase::Execute && plan.is_held_by(epoch);
        if !working || plan.resources.is_empty() {
            return Ok(nothing());
        }
        self.capture_all(&plan, epoch, result, allowed)
    }

    fn capture_all(
        &self,
        plan: &Plan,
        epoch: Epoch,
        result: &ResultContent,
        allowed: SubmitExceptions,
    ) -> Result<(ResultContent, Vec<Captured>), Error> {
        let workshop = &self.hands()?.workshop;
        let mut trees = Vec::new();
        let mut captured = Vec::new();
        let sites = self.sites(plan)?;
        for (site, resource) in sites.iter().zip(&plan.resources) {
            let room = Room {
                plan: plan.id,
                site,
            };
            let base = object(plan.base(&site.name).unwrap_or_default())?;
            if !allowed.markers {
                refuse_markers(workshop.unsolved(&room)?)?;
            }
            let seen = workshop.capture(&room, epoch, &base)?;
            if !allowed.markers {
                refuse_markers(workshop.moved_marks(&room, &seen.changes)?)?;
            }
            let node = if sites.len() == 1 {
                Node::main()
            } else {
                Node::of_resource(&site.name)
            };
            trees.push(ResultTree {
                resource: site.name.clone(),
                target: resource.target.clone().unwrap_or_default(),
                base: seen.base.to_string(),
                tree: seen.tree.to_string(),
                changes: Some(seen.changes.len() as u64),
                ignored: ignored_paths(&seen.ignored),
                changes_settings: seen.changes.iter().any(sandbox::Change::is_of_settings),
            });
            captured.push(Captured {
                changeset: self.ids.changeset(),
                node,
                entries: seen
                    .changes
                    .iter()
                    .map(|change| change.entry(&site.name))
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

/// A path that was in conflict and still has its markers is not a result.
fn refuse_markers(paths: Vec<TreePath>) -> Result<(), Error> {
    if paths.is_empty() {
        return Ok(());
    }
    Err(Error::Sandbox(SandboxError::UncapturablePaths {
        paths,
        why: "conflict markers remain; resolve the conflict, or keep them with `revise --by-hand --allow-markers`",
    }))
}

/// What is recorded of ignored files.
pub(super) fn ignored_paths(found: &IgnoredFiles) -> IgnoredPaths {
    IgnoredPaths {
        forced: PathSummary::of(&found.forced),
        withheld: PathSummary::of(&found.withheld),
        left_out: PathSummary::of(&found.left_out),
    }
}
