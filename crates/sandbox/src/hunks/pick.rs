//! Builds the tree of chosen hunks, in the vault's object database. The agent's repository and the
//! user's are not touched.

use std::collections::BTreeSet;

use plan::HunkId;
use plan::changeset::{PathOperation, TreePath};

use super::list::{cut_text, is_among, list_file_changes, read_blobs};
use super::{FileChange, HunkPart};
use crate::compare::PathDifference;
use crate::git::GitCommand;
use crate::inspect::check_objects_present;
use crate::land::SandboxResult;
use crate::step_faults::SandboxStep;
use crate::{Landings, ObjectId, SandboxError, SandboxKey, TreeEntry};

/// The chosen part of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PickedResult {
    pub result: SandboxResult,
    /// Number of paths that still change.
    pub changes: u64,
    /// Paths of which something was left out.
    pub reduced: Vec<TreePath>,
}

impl Landings<'_> {
    /// Reduces a result to the chosen hunks. All of them must be hunks of the result. The tree is
    /// kept in the vault; doing it again gives the same tree.
    pub fn pick_hunks(
        &self,
        key: &SandboxKey<'_>,
        result: &SandboxResult,
        chosen: &BTreeSet<HunkId>,
    ) -> Result<PickedResult, SandboxError> {
        let vault = self.sandboxes.vaults().open_vault(key)?;
        let git = vault.git();
        let repository = key.resource.location.path();
        check_objects_present(&git, repository, &vault, &result.base, &result.tree)?;
        let changes = list_file_changes(
            &git,
            &key.resource.name,
            result.base.as_str(),
            result.tree.as_str(),
        )?;
        let known: BTreeSet<HunkId> = changes
            .iter()
            .flat_map(|change| change.hunks.iter().map(|hunk| hunk.id))
            .collect();
        if let Some(hunk) = chosen.iter().find(|hunk| !known.contains(hunk)) {
            return Err(SandboxError::HunkUnknown { hunk: *hunk });
        }
        let mut differences = Vec::new();
        let (mut changed_paths, mut reduced) = (0, Vec::new());
        for change in &changes {
            let is_chosen = |hunk: &super::Hunk| chosen.contains(&hunk.id);
            if !change.hunks.iter().all(is_chosen) {
                reduced.push(change.path.clone());
            }
            if change.hunks.iter().any(is_chosen) {
                changed_paths += 1;
                differences.extend(apply_chosen(&git, change, chosen)?);
            }
        }
        let tree = crate::land::write_tree_with_changes(&vault, &result.base, &differences)?;
        self.sandboxes
            .capture()
            .complete_step(SandboxStep::PickWritten, vault.path())?;
        vault.keep_result(&tree)?;
        self.sandboxes
            .capture()
            .complete_step(SandboxStep::PickKept, vault.path())?;
        Ok(PickedResult {
            result: SandboxResult {
                base: result.base.clone(),
                tree,
            },
            changes: changed_paths,
            reduced,
        })
    }

    /// The changes of a result with their hunks.
    pub fn list_result_changes(
        &self,
        key: &SandboxKey<'_>,
        result: &SandboxResult,
    ) -> Result<Vec<FileChange>, SandboxError> {
        let vault = self.sandboxes.vaults().open_vault(key)?;
        let git = vault.git();
        let repository = key.resource.location.path();
        check_objects_present(&git, repository, &vault, &result.base, &result.tree)?;
        list_file_changes(
            &git,
            &key.resource.name,
            result.base.as_str(),
            result.tree.as_str(),
        )
    }

    /// The hunks of a result at paths that match these pathspecs. Each pathspec must match.
    pub fn find_hunks_at(
        &self,
        key: &SandboxKey<'_>,
        result: &SandboxResult,
        paths: &[String],
    ) -> Result<BTreeSet<HunkId>, SandboxError> {
        let changes = self.list_result_changes(key, result)?;
        let vault = self.sandboxes.vaults().open_vault(key)?;
        let matching = crate::land::match_result_paths(&vault, result, paths)?;
        Ok(changes
            .iter()
            .filter(|change| is_among(change, &matching))
            .flat_map(|change| change.hunks.iter().map(|hunk| hunk.id))
            .collect())
    }
}

/// What the chosen hunks of one file do to the base.
fn apply_chosen(
    git: &GitCommand,
    change: &FileChange,
    chosen: &BTreeSet<HunkId>,
) -> Result<Vec<PathDifference>, SandboxError> {
    let is_taken = |part: HunkPart| {
        let mut hunks = change.hunks.iter();
        hunks.any(|hunk| hunk.part == part && chosen.contains(&hunk.id))
    };
    let all = change.hunks.iter().all(|hunk| chosen.contains(&hunk.id));
    let after = match (&change.before, &change.after) {
        (Some(before), Some(after)) if !all => {
            let mode = match is_taken(HunkPart::Mode) {
                true => &after.mode,
                false => &before.mode,
            };
            let id = match is_taken(HunkPart::Whole) {
                true => after.id.clone(),
                false => write_chosen_regions(git, change, before, after, |number| {
                    is_taken(HunkPart::Region(number))
                })?,
            };
            Some(TreeEntry {
                mode: mode.clone(),
                id,
            })
        }
        (_, after) => after.clone(),
    };
    let mut differences = Vec::new();
    if let (Some(from), PathOperation::Rename) = (&change.from, change.operation) {
        differences.push(PathDifference {
            path: from.clone(),
            before: change.before.clone(),
            after: None,
        });
    }
    differences.push(PathDifference {
        path: change.path.clone(),
        before: change.before.clone(),
        after,
    });
    Ok(differences)
}

fn write_chosen_regions(
    git: &GitCommand,
    change: &FileChange,
    before: &TreeEntry,
    after: &TreeEntry,
    is_chosen: impl Fn(usize) -> bool,
) -> Result<ObjectId, SandboxError> {
    if !(0..change.regions.len()).any(&is_chosen) {
        return Ok(before.id.clone());
    }
    let contents = read_blobs(git, &[before.id.clone(), after.id.clone()])?;
    let content_of = |entry: &TreeEntry| {
        let content = contents.get(&entry.id);
        content.map(Vec::as_slice).unwrap_or_default()
    };
    let text = cut_text(content_of(before), content_of(after)).apply_regions(is_chosen);
    let output = git.run_with_input(&["hash-object", "-w", "-t", "blob", "--stdin"], &text)?;
    let line = String::from_utf8_lossy(&output);
    line.trim()
        .parse()
        .map_err(|_| crate::git::git_error(&["hash-object"], &line))
}
