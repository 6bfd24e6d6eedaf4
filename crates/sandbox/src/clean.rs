//! Tidying up: sandboxes that are no longer needed go, work that did not land is kept.

use plan::{Epoch, PlanId};

use crate::error::Doing;
use crate::fault::Step;
use crate::room::{Inside, Room, Sandbox, Start, Workshop, inside};
use crate::{ObjectId, SandboxError, files, refs};

/// A plan's sandbox, as it is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxState {
    /// The plan.
    pub plan: PlanId,
    /// Everything of it.
    pub path: std::path::PathBuf,
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

impl Workshop {
    /// Every plan that has something here.
    pub fn sandboxes(&self) -> Result<Vec<SandboxState>, SandboxError> {
        let directory = self.home().join("sandboxes");
        let entries = match std::fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if files::is_absent(&error) => return Ok(Vec::new()),
            Err(error) => return Err(error).doing("read", &directory),
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.doing("read", &directory)?;
            let plan = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok());
            found.extend(plan.map(|plan| SandboxState {
                plan,
                path: entry.path(),
            }));
        }
        found.sort_by_key(|state| state.plan);
        Ok(found)
    }

    /// Keeps what a sandbox holds under a rescue ref in the user's repository, if it is anything but
    /// its base. Repeating it gives the same.
    pub fn rescue(&self, room: &Room<'_>) -> Result<Option<Leftover>, SandboxError> {
        let Some(sandbox) = self.current(room)? else {
            return self.rescued(room);
        };
        if sandbox.path.is_dir() {
            self.capture(room, sandbox.held_by, &sandbox.base)?;
        }
        let vault = self.vault(room);
        let Some(commit) = vault.checkpoint_commit()? else {
            return Ok(None);
        };
        if vault.tree_of(&commit)? == vault.tree_of(&sandbox.base)? {
            return Ok(None);
        }
        let repository = self.repository(room.site)?;
        let git = repository.git();
        let name = refs::rescue(room.plan, &room.name());
        crate::land::copy_objects(&vault, &repository, &commit, &sandbox.base)?;
        git.run(&["update-ref", &name, commit.as_str()])?;
        self.after(Step::Rescued, repository.path())?;
        Ok(Some(Leftover {
            plan: room.plan,
            name,
            commit,
        }))
    }

    /// Work of a plan that is kept under a rescue ref.
    pub fn rescued(&self, room: &Room<'_>) -> Result<Option<Leftover>, SandboxError> {
        let repository = self.repository(room.site)?;
        let name = refs::rescue(room.plan, &room.name());
        let commit = refs::read(&repository.git(), &name)?;
        Ok(commit.map(|commit| Leftover {
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
        self.enter(room, epoch, &base, Start::Continue).map(Some)
    }

    /// Removes everything of a plan. The caller has seen to it that nothing is lost; whoever is in
    /// one of its directories keeps it.
    pub fn remove(&self, plan: PlanId) -> Result<bool, SandboxError> {
        let directory = self.plan_directory(plan);
        if !directory.exists() {
            return Ok(false);
        }
        match inside(&directory) {
            Inside::Nobody | Inside::Unknown => {}
            Inside::Process(process) => {
                return Err(SandboxError::Occupied {
                    path: directory,
                    process,
                });
            }
        }
        // Out of the way first, so that what a killed process leaves is not taken for a sandbox.
        let aside = self
            .home()
            .join("sandboxes")
            .join(format!("removed-{plan}"));
        files::remove_tree(&aside)?;
        std::fs::rename(&directory, &aside).doing("removed", &directory)?;
        self.after(Step::SandboxSetAside, &aside)?;
        files::remove_tree(&aside)?;
        Ok(true)
    }
}
