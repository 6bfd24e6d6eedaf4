//! Lands in the working tree alone: merges the result with the current files, committed or not. The
//! only way for directories that are not repositories.

use std::collections::BTreeSet;

use plan::changeset::TreePath;

use crate::compare::{self, PathDifference};
use crate::git::GitCommand;
use crate::local_resource::{ResourceLocation, SandboxKey};
use crate::repository::{Repository, UserCheckout};
use crate::{Landings, LocationProblem, ObjectId, SandboxError, files, refs, snapshot};

/// Does a landing on this ref change the working tree alone?
pub(super) fn is_working_tree_landing(key: &SandboxKey<'_>, target: &str) -> bool {
    target == refs::landed_ref(key.plan_id, &key.dir_name())
}

/// Fails if the repository is bare.
pub(super) fn check_work_tree(repository: &Repository) -> Result<(), SandboxError> {
    match repository.work_tree() {
        Some(_) => Ok(()),
        None => Err(SandboxError::UnusableLocation {
            path: repository.path().to_owned(),
            problem: LocationProblem::NoWorkTree,
        }),
    }
}

pub(super) fn read_head(repository: &Repository) -> Result<ObjectId, SandboxError> {
    let git = GitCommand::at_git_dir(repository.git_env(), repository.git_dir());
    refs::resolve_name(&git, "HEAD^{commit}")?.ok_or_else(|| SandboxError::NoBranch {
        path: repository.path().to_owned(),
        branch: "HEAD".to_owned(),
    })
}

impl Landings<'_> {
    /// Commits the current files of the working tree, without touching a branch.
    pub(super) fn snapshot_working_tree(
        &self,
        key: &SandboxKey<'_>,
        repository: &Repository,
    ) -> Result<ObjectId, SandboxError> {
        check_work_tree(repository)?;
        if matches!(key.resource.location, ResourceLocation::Dir { .. }) {
            return snapshot::take_directory_snapshot(repository);
        }
        self.sandboxes
            .snapshot_uncommitted_changes(key, &read_head(repository)?)
    }

    /// Edits of the user in the touched paths that the result was not merged with.
    pub(super) fn find_conflicting_edits(
        &self,
        key: &SandboxKey<'_>,
        repository: &Repository,
        checkout: &UserCheckout,
        target: &str,
        head: &ObjectId,
        touched: &[PathDifference],
    ) -> Result<Vec<TreePath>, SandboxError> {
        // Report missing permissions before anything moves.
        for one in touched {
            files::check_directory_writable(&checkout.work_tree, &one.path)?;
        }
        if !is_working_tree_landing(key, target) {
            return repository.find_local_edits(checkout, head, touched);
        }
        let now = self.snapshot_working_tree(key, repository)?;
        let git = match key.resource.location {
            ResourceLocation::Dir { .. } => repository.git(),
            ResourceLocation::Git { .. } => self.sandboxes.vaults().vault_for(key).git(),
        };
        let differences = compare::list_differences(&git, head.as_str(), now.as_str())?;
        let changed: BTreeSet<&TreePath> = differences.iter().map(|one| &one.path).collect();
        let removed_paths: BTreeSet<&TreePath> = touched
            .iter()
            .filter(|one| one.after.is_none())
            .map(|one| &one.path)
            .collect();
        let mut edits: BTreeSet<TreePath> = touched
            .iter()
            .filter(|one| changed.contains(&one.path))
            .map(|one| one.path.clone())
            .collect();
        for one in touched.iter().filter(|one| one.after.is_some()) {
            let tracked = one.before.is_some();
            let obstruction =
                files::find_obstruction(&checkout.work_tree, &one.path, tracked, &removed_paths)?;
            edits.extend(obstruction);
        }
        edits.extend(repository.find_hidden_edits(checkout, touched)?);
        Ok(edits.into_iter().collect())
    }
}
