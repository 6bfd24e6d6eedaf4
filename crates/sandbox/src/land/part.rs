//! Landing a part: which changes of a result are meant, and what is left of it afterwards.
//!
//! Everything is worked out in the vault, in an index of its own; the user's repository gains the
//! objects of the rest and the ref that keeps them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use plan::PlanId;

use crate::compare::{self, Difference};
use crate::fault::Step;
use crate::inside::check_reachable;
use crate::room::{Room, Workshop};
use crate::vault::Vault;
use crate::{ObjectId, SandboxError, refs};

use super::{Outcome, copy_objects, index, merge};

impl Workshop {
    /// A result with only those of its changes that match these pathspecs. A file on one side and a
    /// directory on the other exclude each other: taking one takes the other along.
    pub fn restrict(
        &self,
        room: &Room<'_>,
        result: &Outcome,
        paths: &[String],
    ) -> Result<Outcome, SandboxError> {
        let vault = self.ready_vault(room)?;
        let repository = room.site.place.path();
        let (base, tree) = (&result.base, &result.tree);
        check_reachable(&vault.git(), repository, &vault, base, tree)?;
        for pathspec in paths.iter().filter(|pathspec| !is_exclusion(pathspec)) {
            let alone = std::slice::from_ref(pathspec);
            if chosen(&vault, result, alone)?.is_empty() {
                return Err(SandboxError::NothingMatches {
                    pathspec: pathspec.clone(),
                });
            }
        }
        let wanted = chosen(&vault, result, paths)?;
        if wanted.is_empty() {
            return Err(SandboxError::NothingMatches {
                pathspec: paths.join(" "),
            });
        }
        Ok(Outcome {
            base: result.base.clone(),
            tree: tree_with(&vault, &result.base, &wanted)?,
        })
    }

    /// What of a result is not in the commit that landed, as a result based on that commit; nothing
    /// if all of it is. It is kept in the user's repository as the base of the plan that takes it
    /// on. Where somebody else changed the same lines it stays based where the whole was, so that
    /// proposing it says what conflicts.
    pub fn rest(
        &self,
        room: &Room<'_>,
        for_plan: PlanId,
        whole: &Outcome,
        landed: &ObjectId,
    ) -> Result<Option<Outcome>, SandboxError> {
        let repository = self.repository(room.site)?;
        let vault = self.make_vault(room, &repository)?;
        let work = vault.commit(&whole.tree, Some(&whole.base), "Result")?;
        let merged = merge::merge(&vault, &whole.base, landed, &work)?;
        let rest = if !merged.conflicts.is_empty() {
            whole.clone()
        } else if merged.tree == vault.tree_of(landed)? {
            return Ok(None);
        } else {
            Outcome {
                base: landed.clone(),
                tree: merged.tree,
            }
        };
        let kept = vault.commit(&rest.tree, Some(&rest.base), "The rest of a result")?;
        copy_objects(&vault, &repository, &kept, landed)?;
        self.after(Step::ObjectsCopied, repository.path())?;
        let name = refs::base(for_plan, &room.name());
        repository
            .git()
            .run(&["update-ref", &name, kept.as_str()])?;
        self.after(Step::Pinned, repository.path())?;
        Ok(Some(rest))
    }
}

/// The changes of a result that these pathspecs choose.
fn chosen(
    vault: &Vault,
    result: &Outcome,
    paths: &[String],
) -> Result<Vec<Difference>, SandboxError> {
    let (base, tree) = (result.base.as_str(), result.tree.as_str());
    compare::differences_in(&vault.git(), base, tree, paths)
}

/// Takes paths away from what others choose; by itself it need not match anything.
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

/// The tree of a base with some changes made to it.
fn tree_with(
    vault: &Vault,
    base: &ObjectId,
    changes: &[Difference],
) -> Result<ObjectId, SandboxError> {
    let aside = private_index(vault);
    let git = vault.git().with_index(&aside);
    let script = index::instructions(changes.iter(), &base.nothing_like());
    let update = ["update-index", "--add", "--replace", "-z", "--index-info"];
    let tree = git
        .run(&["read-tree", base.as_str()])
        .and_then(|_| git.run_with(&update, &script))
        .and_then(|_| git.object(&["write-tree"]));
    let _ = std::fs::remove_file(&aside);
    tree
}

/// An index that nobody else uses at the same time.
fn private_index(vault: &Vault) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("index.part-{}-{number}", std::process::id());
    vault.path().join(name)
}
