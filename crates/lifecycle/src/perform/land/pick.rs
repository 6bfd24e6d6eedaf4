//! Reduces a result to a part of it, for a person. Builds the picked trees in the vaults, then submits them.
//! Repeatable: the same choice gives the same trees.

use std::collections::BTreeSet;

use plan::command::PickResult;
use plan::stage::{ResultContent, ResultTree};
use plan::{Digest, HunkId, LandingOptions, Plan, PlanId, Refusal};
use sandbox::{FileChange, SandboxError, SandboxKey};

use super::parse_result_tree;
use crate::{Call, Landing, LifecycleError, OperationOutcome};

/// Which parts of a result a person means: these hunks, and everything at these paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartSelection {
    pub hunks: BTreeSet<HunkId>,
    /// Git pathspecs. Each must match a changed path.
    pub paths: Vec<String>,
}

/// What happens to the selected parts, and to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PickMode {
    /// Keep only the selected parts. What is left out is dropped.
    TakeSelected,
    /// Keep only the selected parts. What is left out becomes a plan of its own, once they have landed.
    TakeSelectedKeepRest,
    /// Drop the selected parts.
    DropSelected,
}

/// The outcome of a pick.
#[derive(Debug, Clone, PartialEq)]
pub enum PickOutcome {
    /// The result was replaced. `reduced` are the paths of which something was taken out.
    Picked {
        done: Box<OperationOutcome>,
        reduced: Vec<plan::changeset::TreePath>,
    },
    /// Everything was selected: the result stays as it is.
    Unchanged,
}

impl Landing<'_> {
    /// Replaces the result of a plan by a part of it. `shown` is the digest of the result that the person
    /// looked at; without it, the selection must name hunks or paths of the current one.
    pub fn pick_parts(
        &self,
        plan_id: PlanId,
        shown: Option<Digest>,
        selection: &PartSelection,
        mode: PickMode,
        call: &Call,
    ) -> Result<PickOutcome, LifecycleError> {
        let plan = self.lifecycle.get_plan(plan_id)?.plan;
        let Some(result) = plan.result().filter(|_| plan.has_targets()) else {
            return Err(Refusal::EmptyResult.into());
        };
        let current = result.digest(&LandingOptions::default());
        if shown.is_some_and(|shown| shown != current) {
            return Err(Refusal::ResultChanged.into());
        }
        let (picked, reduced) = self.build_picked_result(&plan, result, selection, mode)?;
        if reduced.is_empty() {
            return Ok(PickOutcome::Unchanged);
        }
        let pick = PickResult {
            shown: current,
            result: picked,
            reduced: reduced.clone(),
            keeps_rest: mode == PickMode::TakeSelectedKeepRest,
        };
        let done = Box::new(self.lifecycle.submit_for_plan(plan_id, pick, call)?);
        Ok(PickOutcome::Picked { done, reduced })
    }

    /// Brings back what picks left out to become a plan of its own: the result is the whole one again.
    pub fn restore_whole_result(
        &self,
        plan_id: PlanId,
        call: &Call,
    ) -> Result<PickOutcome, LifecycleError> {
        let plan = self.lifecycle.get_plan(plan_id)?.plan;
        let Some(result) = plan.result().filter(|_| plan.has_targets()) else {
            return Err(Refusal::EmptyResult.into());
        };
        let Some(whole) = whole_result_of(&plan) else {
            return Ok(PickOutcome::Unchanged);
        };
        let pick = PickResult {
            shown: result.digest(&LandingOptions::default()),
            result: ResultContent {
                report: result.report.clone(),
                trees: whole.to_vec(),
            },
            reduced: Vec::new(),
            // The rest that waits becomes empty.
            keeps_rest: true,
        };
        let done = Box::new(self.lifecycle.submit_for_plan(plan_id, pick, call)?);
        let reduced = Vec::new();
        Ok(PickOutcome::Picked { done, reduced })
    }

    fn build_picked_result(
        &self,
        plan: &Plan,
        result: &ResultContent,
        selection: &PartSelection,
        mode: PickMode,
    ) -> Result<(ResultContent, Vec<plan::changeset::TreePath>), LifecycleError> {
        let landings = self.lifecycle.local_host()?.sandboxes.landings();
        let mut unknown = selection.hunks.clone();
        let mut unmatched = None;
        let mut selected_anything = false;
        let mut parts = Vec::new();
        for tree in &result.trees {
            let location = self
                .lifecycle
                .projects()
                .locate_resource_named(plan, &tree.resource)?;
            let key = SandboxKey {
                plan_id: plan.id(),
                resource: &location,
            };
            let whole = parse_result_tree(tree)?;
            let all = hunk_ids(&landings.list_result_changes(&key, &whole)?);
            let mut selected: BTreeSet<HunkId> = &selection.hunks & &all;
            unknown = &unknown - &all;
            if !selection.paths.is_empty() {
                match landings.find_hunks_at(&key, &whole, &selection.paths) {
                    Ok(found) => selected.extend(found),
                    // With several resources, a path need not exist in each.
                    Err(error @ SandboxError::NoPathMatches { .. }) => unmatched = Some(error),
                    Err(error) => return Err(error.into()),
                }
            }
            selected_anything |= !selected.is_empty();
            parts.push((tree, location.clone(), all, selected));
        }
        if let Some(hunk) = unknown.first() {
            return Err(SandboxError::HunkUnknown { hunk: *hunk }.into());
        }
        if let Some(error) = unmatched.filter(|_| !selected_anything || result.trees.len() == 1) {
            return Err(error.into());
        }
        let mut trees = Vec::new();
        let mut reduced = Vec::new();
        for (tree, location, all, selected) in parts {
            let key = SandboxKey {
                plan_id: plan.id(),
                resource: &location,
            };
            let chosen = match mode {
                PickMode::TakeSelected | PickMode::TakeSelectedKeepRest => selected,
                PickMode::DropSelected => &all - &selected,
            };
            if chosen == all {
                trees.push(tree.clone());
                continue;
            }
            let picked = landings.pick_hunks(&key, &parse_result_tree(tree)?, &chosen)?;
            reduced.extend(picked.reduced);
            trees.push(ResultTree {
                tree: picked.result.tree.to_string(),
                changes: Some(picked.changes),
                ..tree.clone()
            });
        }
        let picked = ResultContent {
            report: result.report.clone(),
            trees,
        };
        Ok((picked, reduced))
    }
}

/// The trees from which the plan's result was picked, if the parts that were left out still wait for it to land.
pub fn whole_result_of(plan: &Plan) -> Option<&[ResultTree]> {
    let current = &plan.result()?.trees;
    let rest = plan
        .unpicked_rest()
        .filter(|rest| rest.picked == *current)?;
    (rest.whole != *current).then_some(rest.whole.as_slice())
}

fn hunk_ids(changes: &[FileChange]) -> BTreeSet<HunkId> {
    let hunks = changes.iter().flat_map(|change| &change.hunks);
    hunks.map(|hunk| hunk.id).collect()
}
