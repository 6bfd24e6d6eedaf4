//! What a landing is aimed at: the ref that moves, and the commit the result is merged with.

use crate::git;
use crate::repository::{self, Repository};
use crate::room::{Room, SitePlace, Workshop};
use crate::{ObjectId, SandboxError, refs};

use super::{How, has};

/// What a landing is aimed at.
pub(super) struct Aim {
    /// The ref that moves.
    pub target: String,
    /// What it points to.
    pub old: ObjectId,
    /// The commit the result is merged with.
    pub tip: ObjectId,
    /// Its tree.
    pub tip_tree: ObjectId,
    /// Is that commit in the user's repository? A snapshot of what they did not commit is not.
    pub is_theirs: bool,
}

impl Workshop {
    pub(super) fn aim(
        &self,
        room: &Room<'_>,
        repository: &Repository,
        how: &How,
    ) -> Result<Aim, SandboxError> {
        let target = match (&room.site.place, how) {
            (SitePlace::Git { target, .. }, How::Commit { .. } | How::Branch(_)) => target,
            (SitePlace::Git { .. }, How::Uncommitted) | (SitePlace::Dir { .. }, _) => {
                let tip = self.working_tree(room, repository)?;
                return Ok(Aim {
                    target: refs::landed(room.plan, &room.name()),
                    old: tip.nothing_like(),
                    tip_tree: self.vault(room).tree_of(&tip)?,
                    is_theirs: has(repository, &tip)?,
                    tip,
                });
            }
        };
        let (tip, tip_tree) = tip_and_tree(repository, &repository.git(), target)?;
        let (target, old) = match how {
            How::Branch(name) => {
                repository.check_new_branch(name)?;
                (format!("refs/heads/{name}"), tip.nothing_like())
            }
            How::Commit { .. } | How::Uncommitted => (target.clone(), tip.clone()),
        };
        Ok(Aim {
            target,
            old,
            tip,
            tip_tree,
            is_theirs: true,
        })
    }
}

/// The commit a name stands for, and its tree.
fn tip_and_tree(
    repository: &Repository,
    git: &git::Git,
    name: &str,
) -> Result<(ObjectId, ObjectId), SandboxError> {
    let (commit, tree) = (format!("{name}^{{commit}}"), format!("{name}^{{tree}}"));
    let [commit, tree] = refs::read_all(git, [&commit, &tree])?;
    commit.zip(tree).ok_or_else(|| SandboxError::NoBranch {
        path: repository.path().to_owned(),
        branch: repository::short(name).to_owned(),
    })
}
