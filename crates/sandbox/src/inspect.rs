//! Computes a plan's diff, even while an agent is working. Records nothing about the plan.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::compare::{ScratchDir, TreeDiff};
use crate::git::GitCommand;
use crate::local_resource::SandboxKey;
use crate::sandboxes::Sandboxes;
use crate::vault::{self, Vault};
use crate::{ObjectId, SandboxError, files, refs, repository};

/// Compares what plans started from, what they changed, and what landed.
#[derive(Clone, Copy)]
pub struct SandboxDiffs<'a> {
    sandboxes: &'a Sandboxes,
}

/// Tells the looks of this process apart.
static NEXT_LOOK: AtomicU64 = AtomicU64::new(0);

impl Sandboxes {
    pub fn diffs(&self) -> SandboxDiffs<'_> {
        SandboxDiffs { sandboxes: self }
    }
}

impl SandboxDiffs<'_> {
    /// Compares a base with a tree. Their objects may be in the vault or in the user's repository.
    pub fn diff_trees(
        &self,
        key: &SandboxKey<'_>,
        base: &ObjectId,
        tree: &ObjectId,
    ) -> Result<TreeDiff, SandboxError> {
        let repository = self.sandboxes.open_repository(key.resource)?;
        let vault = self.sandboxes.vaults().vault_for(key);
        let git = match vault.path().is_dir() {
            true => vault.git_with_repository_objects(&repository),
            false => repository.git(),
        };
        check_objects_present(&git, repository.path(), &vault, base, tree)?;
        Ok(TreeDiff {
            git,
            old: base.to_string(),
            new: tree.to_string(),
            ignored: None,
            _scratch: None,
        })
    }

    /// The changes of a landed commit, against its first parent.
    pub fn diff_landed_commit(
        &self,
        key: &SandboxKey<'_>,
        new: &ObjectId,
    ) -> Result<TreeDiff, SandboxError> {
        let repository = self.sandboxes.open_repository(key.resource)?;
        let git = repository.git();
        let parent = refs::resolve_name(&git, &format!("{new}^1"))?;
        let old = parent.ok_or_else(|| SandboxError::ObjectMissing {
            path: repository.path().to_owned(),
            object: new.to_string(),
        })?;
        Ok(TreeDiff {
            git,
            old: old.to_string(),
            new: new.to_string(),
            ignored: None,
            _scratch: None,
        })
    }

    /// The current changes in a sandbox, if there is one. Writes objects to a scratch directory
    /// that is removed with the returned diff.
    pub fn diff_sandbox(&self, key: &SandboxKey<'_>) -> Result<Option<TreeDiff>, SandboxError> {
        let Some(sandbox) = self.sandboxes.current_sandbox(key)? else {
            return Ok(None);
        };
        if !sandbox.exists() {
            return Err(SandboxError::SandboxMissing { path: sandbox.path });
        }
        let vault = self.sandboxes.vaults().vault_for(key);
        // The vault's alternates may still name the repository's old path.
        let user_objects = self
            .sandboxes
            .open_repository(key.resource)?
            .common_dir()
            .join("objects");
        // A server looks at the same sandbox for many clients at once.
        let number = NEXT_LOOK.fetch_add(1, Ordering::Relaxed);
        let scratch = self
            .sandboxes
            .home()
            .plan_directory(key.plan_id)
            .join(format!("look-{}-{number}", std::process::id()));
        files::make_private_directory(&scratch)?;
        let scratch = ScratchDir(scratch);
        let index = scratch.0.join("index");
        repository::copy_index(&sandbox.index_path, &index)?;
        let git = vault
            .git()
            .with_variable("GIT_OBJECT_DIRECTORY", &scratch.0)
            .with_variable(
                "GIT_ALTERNATE_OBJECT_DIRECTORIES",
                vault::format_alternates(&[&vault.objects_dir(), &user_objects]),
            );
        let on_tree = git.clone().with_work_tree(&sandbox.path).with_index(&index);
        let on_tree = on_tree.with_settings(&["core.fsync=none".to_owned()]);
        let (tree, ignored) = self
            .sandboxes
            .capture()
            .write_current_tree(key, &sandbox, &on_tree)?;
        Ok(Some(TreeDiff {
            git,
            old: sandbox.base.to_string(),
            new: tree.to_string(),
            ignored: Some(ignored),
            _scratch: Some(scratch),
        }))
    }

    /// The tree before a landed commit and the number of paths the commit changed, for undoing it.
    pub fn read_state_before_landing(
        &self,
        key: &SandboxKey<'_>,
        new: &ObjectId,
    ) -> Result<(ObjectId, u64), SandboxError> {
        let diff = self.diff_landed_commit(key, new)?;
        let tree = refs::resolve_name(&diff.git, &format!("{}^{{tree}}", diff.old))?;
        let tree = tree.ok_or_else(|| SandboxError::ObjectMissing {
            path: key.resource.location.path().to_owned(),
            object: diff.old.clone(),
        })?;
        let differences = crate::compare::list_differences(&diff.git, &diff.old, &diff.new)?;
        Ok((tree, differences.len() as u64))
    }
}

/// Checks that both sides of a result exist. The base is in the user's repository, the result in
/// the plan's vault.
pub(crate) fn check_objects_present(
    git: &GitCommand,
    repository: &Path,
    vault: &Vault,
    base: &ObjectId,
    tree: &ObjectId,
) -> Result<(), SandboxError> {
    let (commit, content) = (format!("{base}^{{tree}}"), format!("{tree}^{{tree}}"));
    let [base_tree, result_tree] = refs::resolve_names(git, [&commit, &content])?;
    if result_tree.is_none() {
        return Err(SandboxError::ResultMissing {
            path: vault.path().to_owned(),
        });
    }
    if base_tree.is_none() {
        return Err(SandboxError::ObjectMissing {
            path: repository.to_owned(),
            object: base.to_string(),
        });
    }
    Ok(())
}
