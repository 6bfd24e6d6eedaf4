//! Landing in the working tree alone: the result is merged with the files as they are, committed or
//! not. Directories that are no repository know no other way.

use std::collections::BTreeSet;

use plan::changeset::TreePath;

use crate::compare::{self, Difference};
use crate::git::Git;
use crate::repository::{Checkout, Repository};
use crate::room::{Room, SitePlace, Workshop};
use crate::{ObjectId, SandboxError, files, refs, snapshot};

/// Does a landing on this ref change the working tree alone?
pub(super) fn is_in_tree(room: &Room<'_>, target: &str) -> bool {
    target == refs::landed(room.plan, &room.name())
}

/// Are there files that a result could land in?
pub(super) fn check_work_tree(repository: &Repository) -> Result<(), SandboxError> {
    match repository.work_tree() {
        Some(_) => Ok(()),
        None => Err(SandboxError::BadPlace {
            path: repository.path().to_owned(),
            why: "has no working tree".to_owned(),
            hint: "Land it as a commit or on a branch: --as commit, or --as branch NAME."
                .to_owned(),
        }),
    }
}

/// The commit that is checked out.
pub(super) fn head(repository: &Repository) -> Result<ObjectId, SandboxError> {
    let git = Git::at(repository.surroundings(), repository.git_dir());
    refs::read(&git, "HEAD^{commit}")?.ok_or_else(|| SandboxError::NoBranch {
        path: repository.path().to_owned(),
        branch: "HEAD".to_owned(),
    })
}

impl Workshop {
    /// The working tree as it is, as a commit.
    pub(super) fn working_tree(
        &self,
        room: &Room<'_>,
        repository: &Repository,
    ) -> Result<ObjectId, SandboxError> {
        check_work_tree(repository)?;
        if matches!(room.site.place, SitePlace::Dir { .. }) {
            return snapshot::take(repository);
        }
        self.snapshot_changes(room, &head(repository)?)
    }

    /// What the person has in the paths a landing touches, that it was not merged with.
    pub(super) fn edits_in_the_way(
        &self,
        room: &Room<'_>,
        repository: &Repository,
        checkout: &Checkout,
        target: &str,
        head: &ObjectId,
        touched: &[Difference],
    ) -> Result<Vec<TreePath>, SandboxError> {
        // Said before anything moves.
        for one in touched {
            files::check_writable(&checkout.work_tree, &one.path)?;
        }
        if !is_in_tree(room, target) {
            return repository.local_edits(checkout, head, touched);
        }
        let now = self.working_tree(room, repository)?;
        let git = match room.site.place {
            SitePlace::Dir { .. } => repository.git(),
            SitePlace::Git { .. } => self.vault(room).git(),
        };
        let since = compare::differences(&git, head.as_str(), now.as_str())?;
        let changed: BTreeSet<&TreePath> = since.iter().map(|one| &one.path).collect();
        let gone: BTreeSet<&TreePath> = touched
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
            let in_the_way = files::in_the_way(&checkout.work_tree, &one.path, tracked, &gone)?;
            edits.extend(in_the_way);
        }
        edits.extend(repository.hidden_edits(checkout, touched)?);
        Ok(edits.into_iter().collect())
    }
}
