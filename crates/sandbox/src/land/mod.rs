//! Landing: bringing a result into the user's repository whole, exactly once or not at all.
//!
//! [`Workshop::propose`] merges in the object database and looks for obstacles; nothing of the
//! user's changes. What it proposes is stored by whoever asked: from then on it is
//! [`Workshop::land`], as often as it takes, that brings exactly this commit in, and
//! [`Workshop::observe`] that tells what became of it.
//!
//! What git cannot do by itself is to move a branch and the files checked out from it as one. A
//! journal beside the index, written before the branch moves, lets whoever comes after a crash
//! finish: the branch tells whether it moved, the staged files tell which of them were exchanged.

mod aim;
mod exchange;
mod in_tree;
mod index;
mod journal;
mod merge;
mod message;
mod others;
mod part;
mod settle;
mod turn;

use plan::Epoch;
use plan::changeset::TreePath;

use crate::compare::{self, Difference};
use crate::error::Doing;
use crate::fault::Step;
use crate::git::at_once;
use crate::inside::check_reachable;
use crate::modes::Modes;
use crate::refs::{self, Fence};
use crate::repository::{self, Checkout, Repository};
use crate::room::{Room, SitePlace, Workshop};
use crate::vault::{self, Vault};
use crate::{ObjectId, Obstacle, SandboxError, files};

use aim::Aim;
use index::IndexLock;
use journal::Journal;

pub(crate) use merge::merge_named;
pub use message::Message;

/// What a plan made of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The commit it started from.
    pub base: ObjectId,
    /// The tree it ended in.
    pub tree: ObjectId,
}

/// How a result arrives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// As one commit on the branch; with a second parent if merging was asked for.
    Commit {
        /// Keep the plan's own commit as a second parent.
        merge: bool,
    },
    /// As one commit on a branch of its own, which must not exist yet.
    Branch(String),
    /// In the working tree alone, for the person to commit.
    Uncommitted,
}

/// What is about to happen to one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// The full name of the ref.
    pub target: String,
    /// What it points to; nothing if it does not exist yet.
    pub old: ObjectId,
    /// What it shall point to.
    pub new: ObjectId,
    /// The commit the result was merged with; `old`, unless that is nothing.
    pub onto: ObjectId,
}

/// What came of merging and looking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proposed {
    /// It can land.
    Ready(Proposal),
    /// Somebody else changed the same lines.
    Conflict {
        /// Where.
        paths: Vec<TreePath>,
        /// By which commits.
        commits: Vec<ObjectId>,
    },
    /// Something of the person's is in the way.
    Hindered(Obstacle),
    /// The target has it all already.
    Nothing,
}

/// What became of a proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Landed {
    /// The target contains it. Files the person saved meanwhile were left as they saved them.
    Yes {
        /// Those files.
        kept: Vec<TreePath>,
    },
    /// Something is in the way; the target is untouched.
    Hindered(Obstacle),
    /// The target moved elsewhere and never contained it.
    Moved,
    /// The target contained it once, and somebody removed it.
    Removed,
}

/// What a look at the target shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// It contains the change.
    Landed,
    /// It is where it was.
    Untouched,
    /// It is elsewhere, and never contained the change.
    Moved,
    /// It contained the change, and does not any more.
    Removed,
}

impl Workshop {
    /// Merges a result with where its target is now, and copies what would land into the user's
    /// repository, pinned and durable. No branch, index or file of theirs is touched.
    pub fn propose(
        &self,
        room: &Room<'_>,
        epoch: Epoch,
        result: &Outcome,
        how: &How,
        message: &Message,
    ) -> Result<Proposed, SandboxError> {
        let repository = self.repository(room.site)?;
        let vault = self.make_vault(room, &repository)?;
        let (base, tree) = (&result.base, &result.tree);
        check_reachable(&vault.git(), repository.path(), &vault, base, tree)?;
        self.settle_leftovers(&repository)?;
        let git = repository.git();
        let (fence, aim) = at_once(
            || Fence::raise_anew(&git, room.plan, epoch),
            || self.aim(room, &repository, how),
        );
        let fence = fence?;
        self.after(Step::Fenced, repository.path())?;
        let aim = aim?;
        let merging = matches!(how, How::Commit { merge: true });
        let (work, merged) = if result.base == aim.tip && !merging {
            (None, merge::Merged::clean(&result.tree))
        } else {
            let work = vault.commit(&result.tree, Some(&result.base), "Result")?;
            let merged = merge::merge(&vault, &result.base, &aim.tip, &work)?;
            (Some(work), merged)
        };
        if !merged.conflicts.is_empty() {
            return self.conflict(room, &repository, &aim, &result.base, merged.conflicts);
        }
        if merged.tree == aim.tip_tree && !message.even_if_empty {
            return Ok(Proposed::Nothing);
        }
        let second = work.as_ref().filter(|_| merging);
        let (brought, obstacle) = at_once(
            || self.bring(&vault, &repository, &aim, &merged.tree, second, message),
            || self.obstacle(room, &repository, &aim, &merged.tree),
        );
        let new = brought.map_err(|error| error.explained_by_space(repository.path()))?;
        let pin = refs::Change::Put {
            name: refs::pin(room.plan, &room.name()),
            new: new.clone(),
        };
        fence.change(&git, "planwright: about to land", &[pin])?;
        self.after(Step::Pinned, repository.path())?;
        if let Some(obstacle) = obstacle? {
            return Ok(Proposed::Hindered(obstacle));
        }
        Ok(Proposed::Ready(Proposal {
            target: aim.target,
            old: aim.old,
            new,
            onto: aim.tip,
        }))
    }

    /// Who changed the same lines: others by their commits, or the person by edits that are in no commit. The
    /// commits of ours that a working tree or a directory was looked at with are of no use to anybody.
    fn conflict(
        &self,
        room: &Room<'_>,
        repository: &Repository,
        aim: &Aim,
        base: &ObjectId,
        paths: Vec<TreePath>,
    ) -> Result<Proposed, SandboxError> {
        let vault = self.vault(room);
        let tip = match &room.site.place {
            SitePlace::Dir { .. } => None,
            SitePlace::Git { .. } if !in_tree::is_in_tree(room, &aim.target) => {
                Some(aim.tip.clone())
            }
            SitePlace::Git { .. } => {
                let head = in_tree::head(repository)?;
                let edited = compare::differences(&vault.git(), head.as_str(), aim.tip.as_str())?;
                let is_edited = |path: &&TreePath| edited.iter().any(|one| one.path == **path);
                let edited: Vec<TreePath> = paths.iter().filter(is_edited).cloned().collect();
                if !edited.is_empty() {
                    return Ok(Proposed::Hindered(Obstacle::LocalEdits(edited)));
                }
                Some(head)
            }
        };
        let commits = match tip {
            Some(tip) => merge::commits_between(&vault, base, &tip, &paths)?,
            None => Vec::new(),
        };
        Ok(Proposed::Conflict { paths, commits })
    }

    /// The commit that would land, in the user's repository.
    fn bring(
        &self,
        vault: &Vault,
        repository: &Repository,
        aim: &Aim,
        tree: &ObjectId,
        second: Option<&ObjectId>,
        message: &Message,
    ) -> Result<ObjectId, SandboxError> {
        let new = commit(vault, repository, tree, &aim.tip, second, message)?;
        self.after(Step::Committed, vault.path())?;
        copy_objects_on(vault, repository, &new, &aim.tip, aim.is_theirs)?;
        self.after(Step::ObjectsCopied, repository.path())?;
        Ok(new)
    }

    /// What is in the way of a target's files becoming those of this tree.
    fn obstacle(
        &self,
        room: &Room<'_>,
        repository: &Repository,
        aim: &Aim,
        tree: &ObjectId,
    ) -> Result<Option<Obstacle>, SandboxError> {
        let checkouts = repository.checkouts()?;
        if let Some(obstacle) = repository::in_progress(&checkouts, &aim.target) {
            return Ok(Some(obstacle));
        }
        let Some(checkout) = checkout_for(repository, &checkouts, room, &aim.target) else {
            return Ok(None);
        };
        let git = self.vault(room).git();
        let touched = compare::differences(&git, aim.tip_tree.as_str(), tree.as_str())?;
        let edits =
            self.edits_in_the_way(room, repository, &checkout, &aim.target, &aim.tip, &touched)?;
        Ok((!edits.is_empty()).then_some(Obstacle::LocalEdits(edits)))
    }

    /// Is everything of a result there, so that it can be shown and landed? Asked before somebody signs it.
    pub fn check_result(&self, room: &Room<'_>, result: &Outcome) -> Result<(), SandboxError> {
        self.look(room, &result.base, &result.tree).map(drop)
    }

    /// Can a result arrive like this at all? Asked before somebody signs it.
    pub fn check_arrival(&self, room: &Room<'_>, how: &How) -> Result<(), SandboxError> {
        match (&room.site.place, how) {
            (SitePlace::Git { .. }, How::Branch(name)) => {
                self.repository(room.site)?.check_new_branch(name)
            }
            (SitePlace::Git { .. }, How::Uncommitted) => {
                in_tree::check_work_tree(&self.repository(room.site)?)
            }
            (SitePlace::Dir { path }, How::Branch(_)) => Err(SandboxError::BadPlace {
                path: path.clone(),
                why: "is not a git repository: it has no branches".to_owned(),
                hint: "Land it in the directory: leave out --as branch.".to_owned(),
            }),
            (SitePlace::Git { .. }, How::Commit { .. })
            | (SitePlace::Dir { .. }, How::Commit { .. } | How::Uncommitted) => Ok(()),
        }
    }

    /// Where the target stands. Only looks.
    pub fn observe(&self, room: &Room<'_>, proposal: &Proposal) -> Result<Seen, SandboxError> {
        observe(&self.repository(room.site)?, proposal)
    }

    /// Brings a proposal in, or finishes what a crash left of bringing it in.
    pub fn land(
        &self,
        room: &Room<'_>,
        epoch: Epoch,
        proposal: &Proposal,
    ) -> Result<Landed, SandboxError> {
        let repository = self.repository(room.site)?;
        let _turn = turn::take(&repository)?;
        let git = repository.git();
        let (raised, touched) = at_once(
            || Fence::raise_and_read(&git, room.plan, epoch, &proposal.target),
            || touched_by(&repository, proposal),
        );
        let (fence, tip) = raised?;
        let checkouts = repository.checkouts()?;
        let kept = self.settle_journal(room, &repository, &checkouts, proposal)?;
        self.settle_others(&repository, &checkouts)?;
        let kept = kept.unwrap_or_default();
        match judge(&repository, proposal, tip.as_ref())? {
            Seen::Landed => return Ok(Landed::Yes { kept }),
            Seen::Moved => return Ok(Landed::Moved),
            Seen::Removed => return Ok(Landed::Removed),
            Seen::Untouched => {}
        }
        let landed = match checkout_for(&repository, &checkouts, room, &proposal.target) {
            Some(checkout) => {
                let (head, touched) = touched?;
                let journey = Journey {
                    repository: &repository,
                    checkout: &checkout,
                    proposal,
                    head: &head,
                    touched: &touched,
                };
                self.land_in(room, epoch, &fence, &journey)
            }
            None => {
                if let Some(obstacle) = repository::in_progress(&checkouts, &proposal.target) {
                    return Ok(Landed::Hindered(obstacle));
                }
                move_ref(&repository, &fence, room, proposal)?;
                self.after(Step::RefMoved, repository.path())?;
                Ok(Landed::Yes { kept: Vec::new() })
            }
        };
        match landed {
            Err(SandboxError::TargetMoved { .. }) => Ok(Landed::Moved),
            other => other,
        }
    }

    /// Finishes, or takes back, what a crash left of a landing. What is in the user's checkouts
    /// tells; nothing else is needed.
    pub fn settle(&self, room: &Room<'_>, proposal: &Proposal) -> Result<(), SandboxError> {
        let repository = self.repository(room.site)?;
        let _turn = turn::take(&repository)?;
        // As in settling what others left: nothing moves the branch late.
        Fence::void(&repository.git(), room.plan)?;
        let checkouts = repository.checkouts()?;
        self.settle_journal(room, &repository, &checkouts, proposal)
            .map(drop)
    }

    /// Removes what only kept the landing safe.
    pub fn release_pins(&self, room: &Room<'_>, epoch: Epoch) -> Result<(), SandboxError> {
        let repository = self.repository(room.site)?;
        let git = repository.git();
        let fence = Fence::raise(&git, room.plan, epoch)?;
        let name = room.name();
        fence.take_down(
            &git,
            &[refs::pin(room.plan, &name), refs::base(room.plan, &name)],
        )?;
        self.after(Step::Unpinned, repository.path())
    }

    fn land_in(
        &self,
        room: &Room<'_>,
        epoch: Epoch,
        fence: &Fence,
        journey: &Journey<'_>,
    ) -> Result<Landed, SandboxError> {
        let Journey {
            repository,
            checkout,
            proposal,
            ..
        } = *journey;
        let lock = IndexLock::take(&checkout.git_dir, room.plan, epoch)?;
        self.after(Step::IndexLocked, &checkout.git_dir)?;
        // Looked at again: only now can no other git change branch, index or files.
        match self.look_again(room, journey) {
            Ok(None) => {}
            Ok(Some(obstacle)) => {
                lock.remove()?;
                return Ok(Landed::Hindered(obstacle));
            }
            Err(error) => {
                lock.remove()?;
                return Err(error);
            }
        }
        let yard = journal::yard(room, &checkout.git_dir);
        let staged = Modes::known(self, room, repository).and_then(|modes| {
            let journal = Journal::stage(room, journey, &modes)?;
            modes.remember(room, repository, journey.touched)?;
            Ok(journal)
        });
        let staged = staged.and_then(|journal| {
            self.after(Step::Staged, &checkout.git_dir)?;
            journal.write(room, checkout)?;
            self.after(Step::Journalled, &checkout.git_dir)?;
            if !journal.keeps_index() {
                lock.exchange(&yard)?;
            }
            self.after(Step::IndexPlaced, &checkout.git_dir)?;
            move_ref(repository, fence, room, proposal)?;
            Ok(journal)
        });
        let journal = match staged {
            Ok(journal) => journal,
            Err(error) => {
                // Asked before what was laid ready is removed again.
                let error = error.explained_by_space(&checkout.work_tree);
                if observe(repository, proposal)? == Seen::Landed {
                    // It failed after the branch had moved: whoever comes next rolls forward.
                    return Err(error);
                }
                // What was prepared for it goes away again. If even that fails, the journal stays and
                // whoever comes next does it.
                lock.put_back(&yard)?;
                Journal::forget(room, checkout)?;
                lock.remove()?;
                return Err(error);
            }
        };
        self.after(Step::RefMoved, repository.path())?;
        let kept = exchange::exchange(self, room, checkout, &journal)?;
        self.after(Step::AllExchanged, &checkout.work_tree)?;
        // Under the same lock all the time, the index is still the one that was put there.
        self.finish(room, repository, checkout, &journal, lock)?;
        Ok(Landed::Yes { kept })
    }
}

impl Workshop {
    /// What is in the way of a landing now; a checkout that went on to another branch has moved.
    fn look_again(
        &self,
        room: &Room<'_>,
        journey: &Journey<'_>,
    ) -> Result<Option<Obstacle>, SandboxError> {
        let Journey {
            repository,
            checkout,
            proposal,
            head,
            touched,
        } = *journey;
        let target = &proposal.target;
        let checkouts = repository.checkouts()?;
        if let Some(obstacle) = repository::in_progress(&checkouts, target) {
            return Ok(Some(obstacle));
        }
        let still = checkout_for(repository, &checkouts, room, target);
        if still.is_none_or(|still| still.git_dir != checkout.git_dir) {
            return Err(SandboxError::TargetMoved {
                target: target.clone(),
            });
        }
        let edits = self.edits_in_the_way(room, repository, checkout, target, head, touched)?;
        Ok((!edits.is_empty()).then_some(Obstacle::LocalEdits(edits)))
    }
}

/// The checkout whose files follow the ref.
fn checkout_for(
    repository: &Repository,
    checkouts: &[Checkout],
    room: &Room<'_>,
    target: &str,
) -> Option<Checkout> {
    if in_tree::is_in_tree(room, target) {
        return repository.own_checkout();
    }
    repository::checkout_of(checkouts, target).cloned()
}

/// A landing on its way into a checkout.
#[derive(Clone, Copy)]
struct Journey<'a> {
    repository: &'a Repository,
    checkout: &'a Checkout,
    proposal: &'a Proposal,
    /// The commit it was made on.
    head: &'a ObjectId,
    /// What differs between that and what lands.
    touched: &'a [Difference],
}

/// The commit a proposal was made on, and what it changes.
fn touched_by(
    repository: &Repository,
    proposal: &Proposal,
) -> Result<(ObjectId, Vec<Difference>), SandboxError> {
    let head = head_of(repository, proposal)?;
    let touched = repository.differences(&head, &proposal.new)?;
    Ok((head, touched))
}

/// The commit a proposal was made on: the first parent of what lands.
fn head_of(repository: &Repository, proposal: &Proposal) -> Result<ObjectId, SandboxError> {
    // An older intent has no word of it where the target did not exist.
    if !proposal.onto.is_nothing() {
        return Ok(proposal.onto.clone());
    }
    let first = refs::read(&repository.git(), &format!("{}^1", proposal.new))?;
    first.ok_or_else(|| SandboxError::ObjectGone {
        path: repository.path().to_owned(),
        object: proposal.new.to_string(),
    })
}

fn move_ref(
    repository: &Repository,
    fence: &Fence,
    room: &Room<'_>,
    proposal: &Proposal,
) -> Result<(), SandboxError> {
    let message = format!("planwright: land {}", room.plan);
    let step = refs::Change::Move {
        name: proposal.target.clone(),
        new: proposal.new.clone(),
        old: proposal.old.clone(),
    };
    fence.change(&repository.git(), &message, &[step])?;
    let file = repository.common_dir().join(&proposal.target);
    match file.parent().filter(|parent| parent.is_dir()) {
        Some(parent) => files::sync_directory(parent),
        None => Ok(()),
    }
}

/// Looks where the target is, and whether it ever contained the change.
fn observe(repository: &Repository, proposal: &Proposal) -> Result<Seen, SandboxError> {
    let tip = refs::read(&repository.git(), &proposal.target)?;
    judge(repository, proposal, tip.as_ref())
}

/// The same, the target being there.
fn judge(
    repository: &Repository,
    proposal: &Proposal,
    tip: Option<&ObjectId>,
) -> Result<Seen, SandboxError> {
    let git = repository.git();
    if let Some(tip) = tip {
        let ancestor = [
            "merge-base",
            "--is-ancestor",
            proposal.new.as_str(),
            tip.as_str(),
        ];
        let known = *tip == proposal.old;
        if *tip == proposal.new || (!known && git.ask(&ancestor)?.code == 0) {
            return Ok(Seen::Landed);
        }
    }
    // A target that is where it was may have been put back there: somebody took the change out.
    let was_there = repository.was_at(&proposal.target, &proposal.new)?;
    let expected = Some(&proposal.old).filter(|old| !old.is_nothing());
    Ok(if was_there {
        Seen::Removed
    } else if tip == expected {
        Seen::Untouched
    } else {
        Seen::Moved
    })
}

fn commit(
    vault: &Vault,
    repository: &Repository,
    tree: &ObjectId,
    tip: &ObjectId,
    second: Option<&ObjectId>,
    message: &Message,
) -> Result<ObjectId, SandboxError> {
    let (name, email) = match repository.identity() {
        Some((name, email)) => (name.as_str(), email.as_str()),
        None => ("Planwright", "planwright@localhost"),
    };
    let mut arguments = vec!["commit-tree", tree.as_str(), "-p", tip.as_str()];
    if let Some(second) = second {
        arguments.extend(["-p", second.as_str()]);
    }
    arguments.extend(["-F", "-"]);
    let git = vault::signed(vault.git(), name, email, message.seconds);
    let output = git.run_with(&arguments, message.text().as_bytes())?;
    let text = String::from_utf8_lossy(&output);
    text.trim().parse().map_err(|_| SandboxError::Git {
        command: "commit-tree".to_owned(),
        said: format!("it answered `{}`", text.trim()),
    })
}

/// Copies what the user's repository lacks as one pack, durable before anything points to it.
pub(crate) fn copy_objects(
    vault: &Vault,
    repository: &Repository,
    new: &ObjectId,
    tip: &ObjectId,
) -> Result<(), SandboxError> {
    copy_objects_on(vault, repository, new, tip, has(repository, tip)?)
}

/// Is this object in the user's repository?
fn has(repository: &Repository, object: &ObjectId) -> Result<bool, SandboxError> {
    let there = ["cat-file", "-e", object.as_str()];
    Ok(repository.git().ask(&there)?.code == 0)
}

/// The same, knowing whether their repository has the tip.
fn copy_objects_on(
    vault: &Vault,
    repository: &Repository,
    new: &ObjectId,
    tip: &ObjectId,
    is_theirs: bool,
) -> Result<(), SandboxError> {
    // A snapshot of what is not committed is only in the vault; what it was taken on is theirs.
    let has = if is_theirs { "" } else { "^1" };
    let wanted = format!("{new}\n^{tip}{has}\n");
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
        .doing("synced", &packs)
}
