//! Lands a part of a result: selects changes by pathspec and computes the rest.
//!
//! Everything is computed in the vault, with a separate index. The user's repository gets only the
//! objects of the rest and a ref that keeps them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use plan::PlanId;
use plan::changeset::TreePath;

use crate::compare::{self, PathDifference};
use crate::inspect::check_objects_present;
use crate::local_resource::SandboxKey;
use crate::step_faults::SandboxStep;
use crate::vault::Vault;
use crate::{Landings, ObjectId, SandboxError, refs};

use super::{SandboxResult, copy_objects, index, merge};

impl Landings<'_> {
    /// Limits a result to changes that match these pathspecs. If a file replaces a directory or the
    /// reverse, selecting one selects both.
    pub fn restrict_result(
        &self,
        key: &SandboxKey<'_>,
        result: &SandboxResult,
        paths: &[String],
    ) -> Result<SandboxResult, SandboxError> {
        let vault = self.sandboxes.vaults().open_vault(key)?;
        let repository = key.resource.location.path();
        let (base, tree) = (&result.base, &result.tree);
        check_objects_present(&vault.git(), repository, &vault, base, tree)?;
        for pathspec in paths.iter().filter(|pathspec| !is_exclusion(pathspec)) {
            let single = std::slice::from_ref(pathspec);
            if list_chosen_differences(&vault, result, single)?.is_empty() {
                return Err(SandboxError::NoPathMatches {
                    pathspec: pathspec.clone(),
                });
            }
        }
        let chosen = list_chosen_differences(&vault, result, paths)?;
        if chosen.is_empty() {
            return Err(SandboxError::NoPathMatches {
                pathspec: paths.join(" "),
            });
        }
        Ok(SandboxResult {
            base: result.base.clone(),
            tree: write_tree_with_changes(&vault, &result.base, &chosen)?,
        })
    }

    /// The changes of a result that are not in the landed commit, as a result based on that commit;
    /// `None` if all of them landed. A base ref for `for_plan`, which continues the work, keeps
    /// them in the user's repository. `picked` is the tree of the part that was to land, if it was picked
    /// by hunks: the rest then merges even if a hunk beside it landed. If they conflict with other commits, the result keeps its old
    /// base, so that proposing it reports the conflict.
    pub fn compute_rest(
        &self,
        key: &SandboxKey<'_>,
        for_plan: PlanId,
        whole: &SandboxResult,
        picked: Option<&ObjectId>,
        landed: &ObjectId,
    ) -> Result<Option<SandboxResult>, SandboxError> {
        let repository = self.sandboxes.open_repository(key.resource)?;
        let vault = self.sandboxes.vaults().create_vault(key, &repository)?;
        let common = match picked {
            Some(picked) => vault.create_commit(picked, Some(&whole.base), "Picked part")?,
            None => whole.base.clone(),
        };
        let work = vault.create_commit(&whole.tree, Some(&common), "Result")?;
        let merged = merge::merge_onto_tip(&vault, &common, landed, &work)?;
        let rest = if !merged.conflicts.is_empty() {
            whole.clone()
        } else if merged.tree == vault.read_tree_of(landed)? {
            return Ok(None);
        } else {
            SandboxResult {
                base: landed.clone(),
                tree: merged.tree,
            }
        };
        let rest_commit =
            vault.create_commit(&rest.tree, Some(&rest.base), "The rest of a result")?;
        copy_objects(&vault, &repository, &rest_commit, landed)?;
        self.sandboxes
            .capture()
            .complete_step(SandboxStep::ObjectsCopied, repository.path())?;
        let name = refs::base_ref(for_plan, &key.dir_name());
        repository
            .git()
            .run(&["update-ref", &name, rest_commit.as_str()])?;
        self.sandboxes
            .capture()
            .complete_step(SandboxStep::Pinned, repository.path())?;
        Ok(Some(rest))
    }
}

fn list_chosen_differences(
    vault: &Vault,
    result: &SandboxResult,
    paths: &[String],
) -> Result<Vec<PathDifference>, SandboxError> {
    let (base, tree) = (result.base.as_str(), result.tree.as_str());
    compare::list_differences_in(&vault.git(), base, tree, paths)
}

/// An exclusion need not match anything by itself.
fn is_exclusion(pathspec: &str) -> bool {
    let Some(magic) = pathspec.strip_prefix(':') else {
        return false;
    };
    match magic
        .strip_prefix('(')
        .and_then(|long| long.split_once(')'))
    {
        Some((words, _)) => words.split(',').any(|word| word == "exclude"),
        None => magic.starts_with(['!', '^']),
    }
}

/// The paths of a result that match these pathspecs. Each must match, unless it excludes paths.
pub(crate) fn match_result_paths(
    vault: &Vault,
    result: &SandboxResult,
    paths: &[String],
) -> Result<BTreeSet<TreePath>, SandboxError> {
    for pathspec in paths.iter().filter(|pathspec| !is_exclusion(pathspec)) {
        let single = std::slice::from_ref(pathspec);
        if list_chosen_differences(vault, result, single)?.is_empty() {
            return Err(SandboxError::NoPathMatches {
                pathspec: pathspec.clone(),
            });
        }
    }
    let chosen = list_chosen_differences(vault, result, paths)?;
    if chosen.is_empty() {
        return Err(SandboxError::NoPathMatches {
            pathspec: paths.join(" "),
        });
    }
    Ok(chosen
        .into_iter()
        .map(|difference| difference.path)
        .collect())
}

/// Applies changes to the tree of a base.
pub(crate) fn write_tree_with_changes(
    vault: &Vault,
    base: &ObjectId,
    changes: &[PathDifference],
) -> Result<ObjectId, SandboxError> {
    let index_path = private_index_path(vault);
    let git = vault.git().with_index(&index_path);
    let script = index::format_index_info(changes.iter(), &base.null_id());
    let update = ["update-index", "--add", "--replace", "-z", "--index-info"];
    let tree = git
        .run(&["read-tree", base.as_str()])
        .and_then(|_| git.run_with_input(&update, &script))
        .and_then(|_| git.read_object_id(&["write-tree"]));
    let _ = std::fs::remove_file(&index_path);
    tree
}

/// A path for an index that no other process uses.
fn private_index_path(vault: &Vault) -> PathBuf {
    static NEXT_INDEX_NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NEXT_INDEX_NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("index.part-{}-{number}", std::process::id());
    vault.path().join(name)
}
