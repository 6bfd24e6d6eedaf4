//! Resolves the target of a landing: the ref that moves, and the commit the result is merged with.

use crate::git;
use crate::local_resource::{ResourceLocation, SandboxKey};
use crate::repository::{self, Repository};
use crate::{Landings, ObjectId, SandboxError, refs};

use super::{LandingMethod, has_object};

pub(super) struct ProposalTarget {
    /// The ref that moves.
    pub target: String,
    /// Its current commit; the null id if it does not exist.
    pub old: ObjectId,
    /// The commit that the result is merged with.
    pub tip: ObjectId,
    pub tip_tree: ObjectId,
    /// Is `tip` in the user's repository? A snapshot of uncommitted changes is not.
    pub is_user_commit: bool,
}

impl Landings<'_> {
    pub(super) fn resolve_proposal_target(
        &self,
        key: &SandboxKey<'_>,
        repository: &Repository,
        method: &LandingMethod,
    ) -> Result<ProposalTarget, SandboxError> {
        let target = match (&key.resource.location, method) {
            (
                ResourceLocation::Git { target, .. },
                LandingMethod::Commit { .. } | LandingMethod::Branch(_),
            ) => target,
            (ResourceLocation::Git { .. }, LandingMethod::Uncommitted)
            | (ResourceLocation::Dir { .. }, _) => {
                let tip = self.snapshot_working_tree(key, repository)?;
                return Ok(ProposalTarget {
                    target: refs::landed_ref(key.plan_id, &key.dir_name()),
                    old: tip.null_id(),
                    tip_tree: self.sandboxes.vaults().vault_for(key).read_tree_of(&tip)?,
                    is_user_commit: has_object(repository, &tip)?,
                    tip,
                });
            }
        };
        let (tip, tip_tree) = read_tip_and_tree(repository, &repository.git(), target)?;
        let (target, old) = match method {
            LandingMethod::Branch(name) => {
                repository.check_new_branch(name)?;
                (format!("refs/heads/{name}"), tip.null_id())
            }
            LandingMethod::Commit { .. } | LandingMethod::Uncommitted => {
                (target.clone(), tip.clone())
            }
        };
        Ok(ProposalTarget {
            target,
            old,
            tip,
            tip_tree,
            is_user_commit: true,
        })
    }
}

/// Resolves a ref to its commit and tree.
fn read_tip_and_tree(
    repository: &Repository,
    git: &git::GitCommand,
    name: &str,
) -> Result<(ObjectId, ObjectId), SandboxError> {
    let (commit, tree) = (format!("{name}^{{commit}}"), format!("{name}^{{tree}}"));
    let [commit, tree] = refs::resolve_names(git, [&commit, &tree])?;
    commit.zip(tree).ok_or_else(|| SandboxError::NoBranch {
        path: repository.path().to_owned(),
        branch: repository::short_branch_name(name).to_owned(),
    })
}
