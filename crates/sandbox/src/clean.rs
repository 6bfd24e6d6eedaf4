//! Tidying up: sandboxes that are no longer needed go, work that did not land is kept.

use std::path::PathBuf;
use std::time::Duration;

use plan::{Epoch, PlanId};

use crate::error::Doing;
use crate::fault::Step;
use crate::room::{Inside, Room, Sandbox, Start, Workshop, inside};
use crate::supervise::{self, Alone};
use crate::{ObjectId, SandboxError, files, refs};

/// How long a lock may be held without anybody working: until a process that another thread starts executes its
/// program, it has whatever was open when it was forked.
const MOMENT: Duration = Duration::from_millis(200);

/// A plan's sandbox, as it is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxState {
    /// The plan.
    pub plan: PlanId,
    /// Everything of it.
    pub path: PathBuf,
}

/// Work that did not land and has no sandbox any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// The plan.
    pub plan: PlanId,
    /// The ref that keeps it.
    pub name: String,
    /// Its commit.
    pub commit: ObjectId,
}

/// How the directory of a plan is called while it is being removed.
const REMOVED: &str = "removed-";

impl Workshop {
    /// Every plan that has something here, also what a killed process did not finish removing.
    pub fn sandboxes(&self) -> Result<Vec<SandboxState>, SandboxError> {
        let mut found: Vec<SandboxState> = Vec::new();
        for directory in self.roots() {
            let names = files::names_in(&directory)?.into_iter();
            let new = names.filter_map(|name: String| {
                let plan = name.strip_prefix(REMOVED).unwrap_or(&name).parse().ok()?;
                let path = directory.join(name);
                let is_new = !found.iter().any(|one| one.plan == plan);
                is_new.then_some(SandboxState { plan, path })
            });
            let new: Vec<SandboxState> = new.collect();
            found.extend(new);
        }
        found.sort_by_key(|one| one.plan);
        Ok(found)
    }

    /// Keeps what the newest sandbox holds under a rescue ref in the user's repository, if it is
    /// anything but its base. Repeating it gives the same.
    pub fn rescue(&self, room: &Room<'_>) -> Result<Option<Leftover>, SandboxError> {
        let Some(sandbox) = self.current(room)? else {
            return self.rescue_checkpoint(room);
        };
        if sandbox.is_there() {
            self.capture(room, sandbox.held_by, &sandbox.base)?;
        }
        let Some(commit) = self.vault(room).checkpoint_commit()? else {
            return Ok(None);
        };
        let name = refs::rescue(room.plan, &room.name());
        self.keep_for_rescue(room, &sandbox.base, commit, name)
    }

    /// The same where the sandbox is gone, of the newest state that its vault has.
    fn rescue_checkpoint(&self, room: &Room<'_>) -> Result<Option<Leftover>, SandboxError> {
        let vault = self.vault(room);
        let Some(commit) = vault.checkpoint_commit()? else {
            return self.rescued(room);
        };
        let vault = self.ready_vault(room)?;
        let base = refs::read(&vault.git(), &format!("{commit}^1"))?;
        let Some(base) = base else {
            return self.rescued(room);
        };
        let name = refs::rescue(room.plan, &room.name());
        self.keep_for_rescue(room, &base, commit, name)
    }

    /// The same of the sandboxes that were left behind for newer ones: each under a ref of its own.
    pub fn rescue_older(&self, room: &Room<'_>) -> Result<Vec<Leftover>, SandboxError> {
        let mut older = self.all(room)?;
        older.pop();
        if older.is_empty() {
            return Ok(Vec::new());
        }
        let vault = self.ready_vault(room)?;
        let mut kept = Vec::new();
        for sandbox in older.iter().filter(|sandbox| sandbox.is_there()) {
            let tree = self.write_tree(room, sandbox)?;
            let commit = vault.commit(&tree, Some(&sandbox.base), "Left behind")?;
            let name = refs::rescue_of(room.plan, &room.name(), sandbox.made_by);
            kept.extend(self.keep_for_rescue(room, &sandbox.base, commit, name)?);
        }
        Ok(kept)
    }

    /// The same of what was changed in the newest sandbox after this result was handed in.
    pub fn rescue_late(
        &self,
        room: &Room<'_>,
        result: &ObjectId,
    ) -> Result<Option<Leftover>, SandboxError> {
        let sandbox = self.current(room)?.filter(Sandbox::is_there);
        let Some(sandbox) = sandbox else {
            return Ok(None);
        };
        let vault = self.ready_vault(room)?;
        let tree = self.write_tree(room, &sandbox)?;
        if tree == *result {
            return Ok(None);
        }
        let commit = vault.commit(&tree, Some(&sandbox.base), "Left behind")?;
        let name = refs::rescue(room.plan, &room.name());
        self.keep_for_rescue(room, &sandbox.base, commit, name)
    }

    fn keep_for_rescue(
        &self,
        room: &Room<'_>,
        base: &ObjectId,
        commit: ObjectId,
        name: String,
    ) -> Result<Option<Leftover>, SandboxError> {
        let vault = self.ready_vault(room)?;
        if vault.tree_of(&commit)? == vault.tree_of(base)? {
            return Ok(None);
        }
        let repository = self.repository(room.site)?;
        let git = repository.git();
        crate::land::copy_objects(&vault, &repository, &commit, base)?;
        git.run(&["update-ref", &name, commit.as_str()])?;
        self.after(Step::Rescued, repository.path())?;
        Ok(Some(Leftover {
            plan: room.plan,
            name,
            commit,
        }))
    }

    /// The newest work of a plan that is kept under a rescue ref.
    pub fn rescued(&self, room: &Room<'_>) -> Result<Option<Leftover>, SandboxError> {
        let git = self.repository(room.site)?.git();
        let newest = refs::rescue(room.plan, &room.name());
        let older = format!("{newest}+*");
        // In the order of the holders that made it; the newest has no number.
        let by_age = [
            "for-each-ref",
            "--sort=version:refname",
            "--format=%(refname)",
        ];
        let listed = git.line(&[&by_age[..], &[&older]].concat())?;
        let names = [newest.as_str()].into_iter().chain(listed.lines().rev());
        let mut found = None;
        for name in names {
            found = refs::read(&git, name)?.map(|commit| (name.to_owned(), commit));
            if found.is_some() {
                break;
            }
        }
        Ok(found.map(|(name, commit)| Leftover {
            plan: room.plan,
            name,
            commit,
        }))
    }

    /// Brings back the sandbox of work that is kept under a rescue ref.
    pub fn restore(&self, room: &Room<'_>, epoch: Epoch) -> Result<Option<Sandbox>, SandboxError> {
        if let Some(sandbox) = self.current(room)? {
            return Ok(Some(sandbox));
        }
        let Some(kept) = self.rescued(room)? else {
            return Ok(None);
        };
        let repository = self.repository(room.site)?;
        let git = repository.git();
        let gone = || SandboxError::ObjectGone {
            path: repository.path().to_owned(),
            object: kept.commit.to_string(),
        };
        let base = refs::read(&git, &format!("{}^1", kept.commit))?.ok_or_else(gone)?;
        let tree = refs::read(&git, &format!("{}^{{tree}}", kept.commit))?.ok_or_else(gone)?;
        self.seed(room, epoch, &base, &tree)?;
        let entered = self.enter(room, epoch, &base, Start::Continue)?;
        self.unarchive(room, &entered.sandbox)?;
        Ok(Some(entered.sandbox))
    }

    /// Removes everything of a plan. The caller has seen to it that nothing is lost; whoever is in
    /// one of its directories keeps it. `meanwhile` is done once nobody takes it for a sandbox any more:
    /// whoever is killed before its end leaves something behind by which it is found and done again.
    pub fn remove(
        &self,
        plan: PlanId,
        meanwhile: impl FnOnce() -> Result<(), SandboxError>,
    ) -> Result<bool, SandboxError> {
        let directory = self.plan_directory(plan);
        // Kept until it is gone: whoever waits for one of them then finds no sandbox.
        let _alone = self.left_by_all(plan)?;
        match inside(&directory) {
            Inside::Nobody => {}
            Inside::Unknown if !directory.exists() => {}
            Inside::Unknown => {
                return Err(SandboxError::BadPlace {
                    path: directory,
                    why: "stays: whether somebody works in it cannot be seen here".to_owned(),
                    hint: "Remove it by hand once nobody does.".to_owned(),
                });
            }
            Inside::Process(process) => {
                return Err(SandboxError::Occupied {
                    path: directory,
                    process,
                });
            }
        }
        let mut set_aside = Vec::new();
        for root in self.roots() {
            let directory = root.join(plan.to_string());
            let aside = root.join(format!("{REMOVED}{plan}"));
            // Out of the way first, so that what a killed process leaves is not taken for a sandbox.
            if directory.exists() {
                files::remove_tree(&aside)?;
                std::fs::rename(&directory, &aside).doing("removed", &directory)?;
                self.after(Step::SandboxSetAside, &aside)?;
            }
            if aside.exists() {
                set_aside.push(aside);
            }
        }
        meanwhile()?;
        for aside in &set_aside {
            files::remove_tree(aside)?;
        }
        Ok(!set_aside.is_empty())
    }

    /// The directories that have one of each plan. The vaults come last: until they go, what a plan made can be
    /// found.
    fn roots(&self) -> [PathBuf; 2] {
        ["sandboxes", "vaults"].map(|name| self.home().join(name))
    }

    /// The locks of all sandboxes of a plan, if nobody holds one.
    fn left_by_all(&self, plan: PlanId) -> Result<Vec<Alone>, SandboxError> {
        let directory = self.plan_directory(plan);
        let mut locks = Vec::new();
        for made_by in files::names_in::<u64>(&directory)? {
            let place = directory.join(made_by.to_string());
            for name in files::names_in::<String>(&place)? {
                let path = place.join(&name);
                if !name.ends_with(".busy") {
                    continue;
                }
                let alone = supervise::take_alone(&path, MOMENT)?;
                locks.push(alone.ok_or_else(|| SandboxError::WorkedIn {
                    path: place.clone(),
                })?);
            }
        }
        Ok(locks)
    }
}
