//! Landing: brings a result into the user's repository exactly once, as a whole or not at all.
//!
//! [`Landings::propose_landing`] merges in the object database and looks for obstacles, without
//! changing branches or files of the user. The caller stores the proposal. From then on,
//! [`Landings::land_proposal`] lands exactly this commit and may be repeated, and
//! [`Landings::observe_target`] reports its state.
//!
//! git cannot move a branch and update the files checked out from it in one step. A journal beside
//! the index, written before the branch moves, lets the next process finish after a crash. The
//! branch shows whether it moved; the staged files show which of them were exchanged.

mod file_exchange;
mod index;
mod journal;
mod landing_lock;
mod merge;
mod message;
mod partial_result;
mod proposal_target;
mod recover;
mod recover_others;
mod working_tree;

use plan::Epoch;
use plan::changeset::TreePath;

use crate::compare::{self, PathDifference};
use crate::error::FileErrorContext;
use crate::file_modes::FileModes;
use crate::git::run_both;
use crate::inspect::check_objects_present;
use crate::local_resource::{ResourceLocation, SandboxKey};
use crate::refs::{self, EpochFence};
use crate::repository::{self, Repository, UserCheckout};
use crate::sandboxes::Sandboxes;
use crate::step_faults::SandboxStep;
use crate::vault::{self, Vault};
use crate::{LandingObstacle, LocationProblem, ObjectId, SandboxError, files};

use index::IndexLock;
use journal::LandingJournal;
use proposal_target::ProposalTarget;

pub(crate) use merge::merge_with_labels;
pub use message::LandingMessage;
pub(crate) use partial_result::{match_result_paths, write_tree_with_changes};

/// What a plan made of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxResult {
    /// The commit it started from.
    pub base: ObjectId,
    pub tree: ObjectId,
}

/// How a result is brought in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LandingMethod {
    /// One commit on the target branch.
    Commit {
        /// Add the plan's own commit as a second parent.
        merge: bool,
    },
    /// One commit on a new branch, which must not exist yet.
    Branch(String),
    /// In the working tree alone, for the user to commit.
    Uncommitted,
}

/// A change of one ref that is ready to land.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandingProposal {
    /// The full ref name.
    pub target: String,
    /// The current commit; the null id if the ref does not exist yet.
    pub old: ObjectId,
    /// The commit to move it to.
    pub new: ObjectId,
    /// The commit the result was merged with. Equals `old`, unless that is the null id.
    pub merged_with: ObjectId,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProposalOutcome {
    Ready(LandingProposal),
    /// Commits since the base changed the same lines.
    Conflict {
        paths: Vec<TreePath>,
        /// The newest of those commits.
        commits: Vec<ObjectId>,
    },
    /// The user's edits or an operation in progress are in the way.
    Blocked(LandingObstacle),
    /// The target already has all changes.
    AlreadyLanded,
}

/// The result of trying to land a proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LandAttempt {
    /// The target contains it.
    Landed {
        /// Files that the user saved during the landing; they keep the user's content.
        kept: Vec<TreePath>,
    },
    /// An obstacle was found; the target is unchanged.
    Blocked(LandingObstacle),
    /// The target moved to another commit and never contained it.
    TargetMoved,
    /// The target contained it once, and the user removed it.
    Removed,
}

/// The state of a target with respect to a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetState {
    /// It contains the change.
    Landed,
    /// It is at the old commit.
    Untouched,
    /// It is at another commit, and never contained the change.
    Moved,
    /// It contained the change once, and does not any more.
    Removed,
}

/// Brings results into repositories and directories, and finishes what a crash interrupted.
#[derive(Clone, Copy)]
pub struct Landings<'a> {
    pub(crate) sandboxes: &'a Sandboxes,
}

impl Sandboxes {
    pub fn landings(&self) -> Landings<'_> {
        Landings { sandboxes: self }
    }
}

impl Landings<'_> {
    /// Merges a result with the target's current commit and copies the commit to land into the
    /// user's repository, pinned and durable. Does not touch the user's branches, index or files.
    pub fn propose_landing(
        &self,
        key: &SandboxKey<'_>,
        epoch: Epoch,
        result: &SandboxResult,
        method: &LandingMethod,
        message: &LandingMessage,
    ) -> Result<ProposalOutcome, SandboxError> {
        let repository = self.sandboxes.open_repository(key.resource)?;
        let vault = self.sandboxes.vaults().create_vault(key, &repository)?;
        let (base, tree) = (&result.base, &result.tree);
        check_objects_present(&vault.git(), repository.path(), &vault, base, tree)?;
        self.sandboxes
            .capture()
            .check_conflicts_resolved(key, tree)?;
        self.recover_other_plans_if_any(&repository)?;
        let git = repository.git();
        let (fence, target) = run_both(
            || EpochFence::raise_without_reading(&git, key.plan_id, epoch),
            || self.resolve_proposal_target(key, &repository, method),
        );
        let fence = fence?;
        self.sandboxes
            .capture()
            .complete_step(SandboxStep::Fenced, repository.path())?;
        let target = target?;
        let merging = matches!(method, LandingMethod::Commit { merge: true });
        let (work, merged) = if result.base == target.tip && !merging {
            (None, merge::MergeResult::without_conflicts(&result.tree))
        } else {
            let work = vault.create_commit(&result.tree, Some(&result.base), "Result")?;
            let merged = merge::merge_onto_tip(&vault, &result.base, &target.tip, &work)?;
            (Some(work), merged)
        };
        if !merged.conflicts.is_empty() {
            return self.describe_conflict(
                key,
                &repository,
                &target,
                &result.base,
                merged.conflicts,
            );
        }
        if merged.tree == target.tip_tree && !message.allow_empty {
            return Ok(ProposalOutcome::AlreadyLanded);
        }
        let second_parent = work.as_ref().filter(|_| merging);
        let (prepared, obstacle) = run_both(
            || {
                self.prepare_landing_commit(
                    &vault,
                    &repository,
                    &target,
                    &merged.tree,
                    second_parent,
                    message,
                )
            },
            || self.find_obstacle(key, &repository, &target, &merged.tree),
        );
        let new = prepared.map_err(|error| error.explain_full_disk(repository.path()))?;
        let pin = refs::RefChange::Set {
            name: refs::pin_ref(key.plan_id, &key.dir_name()),
            new: new.clone(),
        };
        fence.update_refs(&git, "planwright: about to land", &[pin])?;
        self.sandboxes
            .capture()
            .complete_step(SandboxStep::Pinned, repository.path())?;
        if let Some(obstacle) = obstacle? {
            return Ok(ProposalOutcome::Blocked(obstacle));
        }
        Ok(ProposalOutcome::Ready(LandingProposal {
            target: target.target,
            old: target.old,
            new,
            merged_with: target.tip,
        }))
    }

    /// Finds out who changed the same lines: other commits, or uncommitted edits of the user.
    /// Snapshot commits of the engine are not reported, because they mean nothing to the user.
    fn describe_conflict(
        &self,
        key: &SandboxKey<'_>,
        repository: &Repository,
        target: &ProposalTarget,
        base: &ObjectId,
        paths: Vec<TreePath>,
    ) -> Result<ProposalOutcome, SandboxError> {
        let vault = self.sandboxes.vaults().vault_for(key);
        let tip = match &key.resource.location {
            ResourceLocation::Dir { .. } => None,
            ResourceLocation::Git { .. }
                if !working_tree::is_working_tree_landing(key, &target.target) =>
            {
                Some(target.tip.clone())
            }
            ResourceLocation::Git { .. } => {
                let head = working_tree::read_head(repository)?;
                let edited =
                    compare::list_differences(&vault.git(), head.as_str(), target.tip.as_str())?;
                let is_edited = |path: &&TreePath| edited.iter().any(|one| one.path == **path);
                let edited: Vec<TreePath> = paths.iter().filter(is_edited).cloned().collect();
                if !edited.is_empty() {
                    return Ok(ProposalOutcome::Blocked(LandingObstacle::LocalEdits(
                        edited,
                    )));
                }
                Some(head)
            }
        };
        let commits = match tip {
            Some(tip) => merge::list_commits_between(&vault, base, &tip, &paths)?,
            None => Vec::new(),
        };
        Ok(ProposalOutcome::Conflict { paths, commits })
    }

    /// Creates the commit to land and copies it into the user's repository.
    fn prepare_landing_commit(
        &self,
        vault: &Vault,
        repository: &Repository,
        target: &ProposalTarget,
        tree: &ObjectId,
        second_parent: Option<&ObjectId>,
        message: &LandingMessage,
    ) -> Result<ObjectId, SandboxError> {
        let new =
            create_landing_commit(vault, repository, tree, &target.tip, second_parent, message)?;
        self.sandboxes
            .capture()
            .complete_step(SandboxStep::Committed, vault.path())?;
        copy_objects_above(vault, repository, &new, &target.tip, target.is_user_commit)?;
        self.sandboxes
            .capture()
            .complete_step(SandboxStep::ObjectsCopied, repository.path())?;
        Ok(new)
    }

    /// Finds what prevents the target's files from being updated to this tree.
    fn find_obstacle(
        &self,
        key: &SandboxKey<'_>,
        repository: &Repository,
        target: &ProposalTarget,
        tree: &ObjectId,
    ) -> Result<Option<LandingObstacle>, SandboxError> {
        let checkouts = repository.list_checkouts()?;
        if let Some(obstacle) = repository::find_operation_in_progress(&checkouts, &target.target) {
            return Ok(Some(obstacle));
        }
        let Some(checkout) = find_checkout_for(repository, &checkouts, key, &target.target) else {
            return Ok(None);
        };
        let git = self.sandboxes.vaults().vault_for(key).git();
        let touched = compare::list_differences(&git, target.tip_tree.as_str(), tree.as_str())?;
        let edits = self.find_conflicting_edits(
            key,
            repository,
            &checkout,
            &target.target,
            &target.tip,
            &touched,
        )?;
        Ok((!edits.is_empty()).then_some(LandingObstacle::LocalEdits(edits)))
    }

    /// Checks that a result exists and has no conflict markers. Called before a person approves it.
    pub fn check_result(
        &self,
        key: &SandboxKey<'_>,
        result: &SandboxResult,
    ) -> Result<(), SandboxError> {
        self.sandboxes
            .diffs()
            .diff_trees(key, &result.base, &result.tree)?;
        self.sandboxes
            .capture()
            .check_conflicts_resolved(key, &result.tree)
    }

    /// Checks that a result can land by this method. Called before a person approves it.
    pub fn check_landing_method(
        &self,
        key: &SandboxKey<'_>,
        method: &LandingMethod,
    ) -> Result<(), SandboxError> {
        match (&key.resource.location, method) {
            (ResourceLocation::Git { .. }, LandingMethod::Branch(name)) => self
                .sandboxes
                .open_repository(key.resource)?
                .check_new_branch(name),
            (ResourceLocation::Git { .. }, LandingMethod::Uncommitted) => {
                working_tree::check_work_tree(&self.sandboxes.open_repository(key.resource)?)
            }
            (ResourceLocation::Dir { path }, LandingMethod::Branch(_)) => {
                Err(SandboxError::UnusableLocation {
                    path: path.clone(),
                    problem: LocationProblem::NoBranches,
                })
            }
            (ResourceLocation::Git { .. }, LandingMethod::Commit { .. })
            | (
                ResourceLocation::Dir { .. },
                LandingMethod::Commit { .. } | LandingMethod::Uncommitted,
            ) => Ok(()),
        }
    }

    /// Reads the target's state. Read-only.
    pub fn observe_target(
        &self,
        key: &SandboxKey<'_>,
        proposal: &LandingProposal,
    ) -> Result<TargetState, SandboxError> {
        read_target_state(&self.sandboxes.open_repository(key.resource)?, proposal)
    }

    /// Lands a proposal, or finishes a landing that a crash interrupted.
    pub fn land_proposal(
        &self,
        key: &SandboxKey<'_>,
        epoch: Epoch,
        proposal: &LandingProposal,
    ) -> Result<LandAttempt, SandboxError> {
        let repository = self.sandboxes.open_repository(key.resource)?;
        let _lock = landing_lock::lock_repository(&repository)?;
        let git = repository.git();
        let (raised, touched) = run_both(
            || EpochFence::raise_and_read(&git, key.plan_id, epoch, &proposal.target),
            || list_proposal_differences(&repository, proposal),
        );
        let (fence, tip) = raised?;
        let checkouts = repository.list_checkouts()?;
        // An interrupted landing comes first: the target's state says nothing about its files.
        let kept = self.recover_from_journal(key, &repository, &checkouts, proposal)?;
        self.recover_other_plans(&repository, &checkouts)?;
        let kept = kept.unwrap_or_default();
        match classify_target(&repository, proposal, tip.as_ref())? {
            TargetState::Landed => return Ok(LandAttempt::Landed { kept }),
            TargetState::Moved => return Ok(LandAttempt::TargetMoved),
            TargetState::Removed => return Ok(LandAttempt::Removed),
            TargetState::Untouched => {}
        }
        let attempt = match find_checkout_for(&repository, &checkouts, key, &proposal.target) {
            Some(checkout) => {
                let (head, touched) = touched?;
                let landing = CheckoutLanding {
                    repository: &repository,
                    checkout: &checkout,
                    proposal,
                    head: &head,
                    touched: &touched,
                };
                self.land_in_checkout(key, epoch, &fence, &landing)
            }
            None => {
                if let Some(obstacle) =
                    repository::find_operation_in_progress(&checkouts, &proposal.target)
                {
                    return Ok(LandAttempt::Blocked(obstacle));
                }
                move_ref(&repository, &fence, key, proposal)?;
                self.sandboxes
                    .capture()
                    .complete_step(SandboxStep::RefMoved, repository.path())?;
                Ok(LandAttempt::Landed { kept: Vec::new() })
            }
        };
        match attempt {
            Err(SandboxError::TargetMoved { .. }) => Ok(LandAttempt::TargetMoved),
            other => other,
        }
    }

    /// Finishes or undoes a landing that a crash interrupted. Needs only what is in the user's
    /// checkouts.
    pub fn recover_landing(
        &self,
        key: &SandboxKey<'_>,
        proposal: &LandingProposal,
    ) -> Result<(), SandboxError> {
        let repository = self.sandboxes.open_repository(key.resource)?;
        let _lock = landing_lock::lock_repository(&repository)?;
        // A git of the crashed process may still run. It must not move the branch later.
        EpochFence::invalidate(&repository.git(), key.plan_id)?;
        let checkouts = repository.list_checkouts()?;
        self.recover_from_journal(key, &repository, &checkouts, proposal)
            .map(drop)
    }

    /// Removes the pins and the fence of a finished landing.
    pub fn release_pins(&self, key: &SandboxKey<'_>, epoch: Epoch) -> Result<(), SandboxError> {
        let repository = self.sandboxes.open_repository(key.resource)?;
        let git = repository.git();
        let fence = EpochFence::raise_to_epoch(&git, key.plan_id, epoch)?;
        let name = key.dir_name();
        fence.remove_with_refs(
            &git,
            &[
                refs::pin_ref(key.plan_id, &name),
                refs::base_ref(key.plan_id, &name),
            ],
        )?;
        self.sandboxes
            .capture()
            .complete_step(SandboxStep::Unpinned, repository.path())
    }

    fn land_in_checkout(
        &self,
        key: &SandboxKey<'_>,
        epoch: Epoch,
        fence: &EpochFence,
        landing: &CheckoutLanding<'_>,
    ) -> Result<LandAttempt, SandboxError> {
        let CheckoutLanding {
            repository,
            checkout,
            proposal,
            ..
        } = *landing;
        let lock = IndexLock::acquire(&checkout.git_dir, key.plan_id, epoch)?;
        self.sandboxes
            .capture()
            .complete_step(SandboxStep::IndexLocked, &checkout.git_dir)?;
        // Checked again: only under the lock can no other git change branch, index or files.
        match self.recheck_obstacles(key, landing) {
            Ok(None) => {}
            Ok(Some(obstacle)) => {
                lock.release()?;
                return Ok(LandAttempt::Blocked(obstacle));
            }
            Err(error) => {
                lock.release()?;
                return Err(error);
            }
        }
        let landing_dir = journal::landing_dir(key, &checkout.git_dir);
        let staged = FileModes::read_known(self.sandboxes, key, repository).and_then(|modes| {
            let journal = LandingJournal::stage_files(key, landing, &modes)?;
            modes.save_for_directory(key, repository, landing.touched)?;
            Ok(journal)
        });
        let staged = staged.and_then(|journal| {
            self.sandboxes
                .capture()
                .complete_step(SandboxStep::Staged, &checkout.git_dir)?;
            // The order matters for recovery: staged files, then the journal, then the index, and
            // the branch last. Until the branch moves, everything can be undone.
            journal.write(key, checkout)?;
            self.sandboxes
                .capture()
                .complete_step(SandboxStep::Journalled, &checkout.git_dir)?;
            if !journal.keeps_index() {
                lock.install_new_index(&landing_dir)?;
            }
            self.sandboxes
                .capture()
                .complete_step(SandboxStep::IndexPlaced, &checkout.git_dir)?;
            move_ref(repository, fence, key, proposal)?;
            Ok(journal)
        });
        let journal = match staged {
            Ok(journal) => journal,
            Err(error) => {
                // Checked before the staged files are removed and free the space.
                let error = error.explain_full_disk(&checkout.work_tree);
                if read_target_state(repository, proposal)? == TargetState::Landed {
                    // The branch has moved already: the next process rolls forward.
                    return Err(error);
                }
                // Undo the preparations. If that fails, the journal stays and the next process
                // undoes them.
                lock.restore_old_index(&landing_dir)?;
                LandingJournal::remove_landing_files(key, checkout)?;
                lock.release()?;
                return Err(error);
            }
        };
        self.sandboxes
            .capture()
            .complete_step(SandboxStep::RefMoved, repository.path())?;
        let kept = file_exchange::exchange_files(self.sandboxes, key, checkout, &journal)?;
        self.sandboxes
            .capture()
            .complete_step(SandboxStep::AllExchanged, &checkout.work_tree)?;
        // The lock was held all the time, so the index is still the one that was installed.
        self.finish_landing(key, repository, checkout, &journal, lock)?;
        Ok(LandAttempt::Landed { kept })
    }
}

impl Landings<'_> {
    /// Checks for obstacles again. A checkout that switched to another branch counts as a moved
    /// target.
    fn recheck_obstacles(
        &self,
        key: &SandboxKey<'_>,
        landing: &CheckoutLanding<'_>,
    ) -> Result<Option<LandingObstacle>, SandboxError> {
        let CheckoutLanding {
            repository,
            checkout,
            proposal,
            head,
            touched,
        } = *landing;
        let target = &proposal.target;
        let checkouts = repository.list_checkouts()?;
        if let Some(obstacle) = repository::find_operation_in_progress(&checkouts, target) {
            return Ok(Some(obstacle));
        }
        let current = find_checkout_for(repository, &checkouts, key, target);
        if current.is_none_or(|current| current.git_dir != checkout.git_dir) {
            return Err(SandboxError::TargetMoved {
                target: target.clone(),
            });
        }
        let edits =
            self.find_conflicting_edits(key, repository, checkout, target, head, touched)?;
        Ok((!edits.is_empty()).then_some(LandingObstacle::LocalEdits(edits)))
    }
}

/// The checkout whose files follow the ref.
fn find_checkout_for(
    repository: &Repository,
    checkouts: &[UserCheckout],
    key: &SandboxKey<'_>,
    target: &str,
) -> Option<UserCheckout> {
    if working_tree::is_working_tree_landing(key, target) {
        return repository.own_checkout();
    }
    repository::find_checkout_of(checkouts, target).cloned()
}

#[derive(Clone, Copy)]
struct CheckoutLanding<'a> {
    repository: &'a Repository,
    checkout: &'a UserCheckout,
    proposal: &'a LandingProposal,
    /// The parent of the commit that lands.
    head: &'a ObjectId,
    /// The differences between that and the commit that lands.
    touched: &'a [PathDifference],
}

/// The commit a proposal was made on, and the differences that it lands.
fn list_proposal_differences(
    repository: &Repository,
    proposal: &LandingProposal,
) -> Result<(ObjectId, Vec<PathDifference>), SandboxError> {
    let head = find_proposal_parent(repository, proposal)?;
    let touched = repository.list_differences(&head, &proposal.new)?;
    Ok((head, touched))
}

/// The commit a proposal was made on: the first parent of its commit.
fn find_proposal_parent(
    repository: &Repository,
    proposal: &LandingProposal,
) -> Result<ObjectId, SandboxError> {
    // Older proposals do not record it if the target did not exist.
    if !proposal.merged_with.is_null() {
        return Ok(proposal.merged_with.clone());
    }
    let first = refs::resolve_name(&repository.git(), &format!("{}^1", proposal.new))?;
    first.ok_or_else(|| SandboxError::ObjectMissing {
        path: repository.path().to_owned(),
        object: proposal.new.to_string(),
    })
}

fn move_ref(
    repository: &Repository,
    fence: &EpochFence,
    key: &SandboxKey<'_>,
    proposal: &LandingProposal,
) -> Result<(), SandboxError> {
    let message = format!("planwright: land {}", key.plan_id);
    let change = refs::RefChange::Move {
        name: proposal.target.clone(),
        new: proposal.new.clone(),
        old: proposal.old.clone(),
    };
    fence.update_refs(&repository.git(), &message, &[change])?;
    let file = repository.common_dir().join(&proposal.target);
    match file.parent().filter(|parent| parent.is_dir()) {
        Some(parent) => files::sync_directory(parent),
        None => Ok(()),
    }
}

/// Reads where the target is, and whether it ever contained the change.
fn read_target_state(
    repository: &Repository,
    proposal: &LandingProposal,
) -> Result<TargetState, SandboxError> {
    let tip = refs::resolve_name(&repository.git(), &proposal.target)?;
    classify_target(repository, proposal, tip.as_ref())
}

/// Like [`read_target_state`], with the target's tip already known.
fn classify_target(
    repository: &Repository,
    proposal: &LandingProposal,
    tip: Option<&ObjectId>,
) -> Result<TargetState, SandboxError> {
    let git = repository.git();
    if let Some(tip) = tip {
        let ancestor = [
            "merge-base",
            "--is-ancestor",
            proposal.new.as_str(),
            tip.as_str(),
        ];
        let known = *tip == proposal.old;
        if *tip == proposal.new || (!known && git.try_run(&ancestor)?.exit_code == 0) {
            return Ok(TargetState::Landed);
        }
    }
    // A target at its old commit may have been reset to it: the user removed the change.
    let was_landed = repository.was_ref_at(&proposal.target, &proposal.new)?;
    let expected = Some(&proposal.old).filter(|old| !old.is_null());
    Ok(if was_landed {
        TargetState::Removed
    } else if tip == expected {
        TargetState::Untouched
    } else {
        TargetState::Moved
    })
}

fn create_landing_commit(
    vault: &Vault,
    repository: &Repository,
    tree: &ObjectId,
    tip: &ObjectId,
    second_parent: Option<&ObjectId>,
    message: &LandingMessage,
) -> Result<ObjectId, SandboxError> {
    let (name, email) = match repository.identity() {
        Some((name, email)) => (name.as_str(), email.as_str()),
        None => ("Planwright", "planwright@localhost"),
    };
    let mut arguments = vec!["commit-tree", tree.as_str(), "-p", tip.as_str()];
    if let Some(second) = second_parent {
        arguments.extend(["-p", second.as_str()]);
    }
    arguments.extend(["-F", "-"]);
    let git = vault::with_author(vault.git(), name, email, message.unix_seconds);
    let output = git.run_with_input(&arguments, message.to_text().as_bytes())?;
    let text = String::from_utf8_lossy(&output);
    text.trim().parse().map_err(|_| SandboxError::GitFailed {
        command: "commit-tree".to_owned(),
        said: format!("unexpected output `{}`", text.trim()),
    })
}

/// Copies objects that the user's repository lacks as one pack. The pack is durable before any ref
/// points to it.
pub(crate) fn copy_objects(
    vault: &Vault,
    repository: &Repository,
    new: &ObjectId,
    tip: &ObjectId,
) -> Result<(), SandboxError> {
    copy_objects_above(vault, repository, new, tip, has_object(repository, tip)?)
}

fn has_object(repository: &Repository, object: &ObjectId) -> Result<bool, SandboxError> {
    let arguments = ["cat-file", "-e", object.as_str()];
    Ok(repository.git().try_run(&arguments)?.exit_code == 0)
}

/// Like [`copy_objects`], if it is known whether the user's repository has the tip.
fn copy_objects_above(
    vault: &Vault,
    repository: &Repository,
    new: &ObjectId,
    tip: &ObjectId,
    has_tip: bool,
) -> Result<(), SandboxError> {
    // A snapshot of uncommitted changes is only in the vault. Its first parent is the user's.
    let exclusion_suffix = if has_tip { "" } else { "^1" };
    let wanted = format!("{new}\n^{tip}{exclusion_suffix}\n");
    let pack = [
        "pack-objects",
        "--revs",
        "--stdout",
        "--quiet",
        "--delta-base-offset",
    ];
    let index = ["index-pack", "--stdin"];
    let git = repository.git();
    vault
        .git()
        .pipe_into(&pack, wanted.as_bytes(), &git, &index)?;
    let packs = repository.common_dir().join("objects/pack");
    std::fs::File::open(&packs)
        .and_then(|directory| directory.sync_all())
        .while_being("synced", &packs)
}
