//! Sandboxes: one private working tree per plan, resource and holder, created completely or not at
//! all.
//!
//! ```text
//! vaults/<plan>/<name>.git                     the vault; deleting `sandboxes` loses no result
//! sandboxes/<plan>/<epoch>/<name>              the files, with a repository for the agent
//! sandboxes/<plan>/<epoch>/<name>.index        the engine's index of the files
//! sandboxes/<plan>/<epoch>/<name>.json         written last: without it there is no sandbox
//! sandboxes/<plan>/<epoch>/<name>.set-up       exists once the set-up command succeeded
//! sandboxes/<plan>/<epoch>/<name>.ignored      ignored files that are never captured
//! sandboxes/<plan>/<epoch>/<name>.busy         locked while the sandbox is in use
//! sandboxes/<plan>/<epoch>/<name>.open         opened for a person since that holder
//! sandboxes/<plan>/<epoch>/<name>.set-aside-N  an agent's repository, replaced when it was opened
//! ```
//!
//! A sandbox is never moved, so that paths an agent remembers stay valid. A later holder takes it
//! over if no process uses it any more. Otherwise it gets a new one, made from the last checkpoint,
//! and the old one is left to be rescued.
//!
//! A process that enters a sandbox holds a shared lock, as do the programs it starts. Taking over
//! needs the exclusive lock. So a holder that was suspended and resumes late either still has its
//! own files, or finds out that it was replaced when it checks under the lock.

use std::path::{Path, PathBuf};
use std::time::Duration;

use plan::Epoch;
use plan::changeset::TreePath;
use serde::{Deserialize, Serialize};

use crate::compare;
use crate::directory_occupant::{DirectoryOccupant, find_occupant};
use crate::error::FileErrorContext;
use crate::git::GitEnv;
use crate::home_layout::HomeLayout;
use crate::local_resource::{LocalResource, ResourceLocation, SandboxKey};
use crate::set_up::CommandReach;
use crate::step_faults::{SandboxStep, StepFaults};
use crate::supervise::{self, ExclusiveLock, SharedLock, Supervisor};
use crate::{LocationProblem, ObjectId, Repository, SandboxError, Stop, checkout, files, snapshot};

/// How long programs of a holder that is gone may take to exit.
const PROGRAM_END_TIMEOUT: Duration = Duration::from_secs(2);

/// Creates sandboxes and lands their results. All paths are below one home directory.
#[derive(Debug, Clone)]
pub struct Sandboxes {
    home: HomeLayout,
    git_env: GitEnv,
    supervisor: Option<Supervisor>,
    command_reach: CommandReach,
    faults: StepFaults,
}

/// What a holder gets when it enters a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxEntryMode {
    /// The base, in a new directory. An earlier sandbox is kept, to be rescued.
    NewDirectory,
    /// The base. Discards what an earlier holder left, except ignored files.
    ResetToBase,
    /// What the previous holder left.
    Continue,
}

/// A complete sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    /// The working tree.
    pub path: PathBuf,
    /// The commit it started from.
    pub base: ObjectId,
    /// The holder that created it; part of its path.
    pub creator_epoch: Epoch,
    /// The holder that has it now.
    pub holder_epoch: Epoch,
    /// Paths in which a merge by an earlier version left conflicts. Newer ones are recorded in the
    /// vault.
    pub(crate) conflicts: Vec<TreePath>,
    pub(crate) index_path: PathBuf,
    /// Identifies the repository that the agent was given.
    pub(crate) given_repository: Option<GivenRepository>,
}

/// The repository that the agent was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GivenRepository {
    /// The commit it was created on; its index had all files of this commit.
    base: ObjectId,
    /// Differs if the agent replaced the repository.
    inode: u64,
}

impl Sandbox {
    /// Does the agent still use the repository it was given, created on this commit? Then a path
    /// that is missing from its index was removed by the agent.
    pub(crate) fn has_given_repository(&self, base: &ObjectId) -> bool {
        let inode = repository_inode(&self.path);
        let given = self.given_repository.as_ref();
        given.is_some_and(|given| given.base == *base && Some(given.inode) == inode)
    }

    /// Records that a clean repository with the same data replaced the given one.
    pub(crate) fn record_replaced_repository(&mut self, was_given: bool) {
        let inode = repository_inode(&self.path);
        if let (true, Some(given), Some(inode)) = (was_given, &mut self.given_repository, inode) {
            given.inode = inode;
        }
    }

    pub(crate) fn still_has_given_repository(&self) -> bool {
        let given = self.given_repository.as_ref().map(|given| given.inode);
        given.is_some() && given == repository_inode(&self.path)
    }

    /// Do its files exist? A symlink in its place does not count: it leads to other files.
    pub(crate) fn exists(&self) -> bool {
        let above = self.path.parent().unwrap_or(&self.path);
        files::is_directory(&self.path) && files::is_directory(above)
    }

    /// The file that is locked while a program runs here. It is created when it is first locked.
    pub fn lock_path(&self) -> PathBuf {
        self.index_path.with_extension("busy")
    }

    /// Did the set-up command succeed here, or must it not run here?
    pub fn is_set_up(&self) -> bool {
        self.set_up_marker_path().exists()
    }

    /// The file that records that the set-up command succeeded.
    pub(crate) fn set_up_marker_path(&self) -> PathBuf {
        self.index_path.with_extension("set-up")
    }
}

/// A sandbox that this process uses.
#[derive(Debug)]
pub struct OccupiedSandbox {
    pub sandbox: Sandbox,
    /// Keeps other holders from taking it over.
    pub lock: SharedLock,
}

/// Written beside a sandbox once it is complete.
#[derive(Debug, Serialize, Deserialize)]
struct SandboxManifest {
    base: ObjectId,
    held_by: Epoch,
    #[serde(default)]
    conflicts: Vec<TreePath>,
    #[serde(default)]
    given: Option<GivenRepository>,
}

impl Sandboxes {
    /// Stores everything below `home`.
    pub fn new(home: impl Into<PathBuf>, git_env: GitEnv) -> Self {
        Self {
            home: HomeLayout::new(home.into()),
            git_env,
            supervisor: None,
            command_reach: CommandReach::default(),
            faults: StepFaults::default(),
        }
    }

    /// Sets the supervisor that runs set-up commands. Without one, they cannot run.
    #[must_use]
    pub fn with_supervisor(mut self, supervisor: Supervisor) -> Self {
        self.supervisor = Some(supervisor);
        self
    }

    /// Sets which paths set-up commands may access. By default only the system and their sandbox.
    #[must_use]
    pub fn with_command_reach(mut self, reach: CommandReach) -> Self {
        self.command_reach = reach;
        self
    }

    pub(crate) fn command_reach(&self) -> &CommandReach {
        &self.command_reach
    }

    /// Ends git commands when this stop is requested; they fail with [`SandboxError::GitStopped`].
    /// Only for operations that can be repeated: not for a landing that moves branches, and not for
    /// capturing finished work.
    #[must_use]
    pub fn with_git_stop(mut self, stop: Option<&Stop>) -> Self {
        self.git_env.stop = stop.cloned();
        self
    }

    /// Installs faults, for tests.
    #[must_use]
    pub fn with_faults(mut self, faults: StepFaults) -> Self {
        self.faults = faults;
        self
    }

    pub fn git_env(&self) -> &GitEnv {
        &self.git_env
    }

    pub(crate) fn supervisor(&self) -> Option<&Supervisor> {
        self.supervisor.as_ref()
    }

    pub(crate) fn home(&self) -> &HomeLayout {
        &self.home
    }

    pub(crate) fn faults(&self) -> &StepFaults {
        &self.faults
    }

    /// Checks that a resource exists where its project says.
    pub fn check_location(&self, local_resource: &LocalResource) -> Result<(), SandboxError> {
        if local_resource.location.exists() {
            return Ok(());
        }
        Err(SandboxError::UnusableLocation {
            path: local_resource.location.path().to_owned(),
            problem: LocationProblem::Gone {
                resource: local_resource.name.clone(),
                option: local_resource.location.cli_option(),
            },
        })
    }

    pub fn open_repository(&self, resource: &LocalResource) -> Result<Repository, SandboxError> {
        self.check_location(resource)?;
        match &resource.location {
            ResourceLocation::Git { path, .. } => Repository::open(&self.git_env, path),
            ResourceLocation::Dir { path } => snapshot::open_directory_repository(self, path),
        }
    }

    /// The commit that new work on a resource would start from; for a directory, a snapshot.
    pub fn read_tip(&self, resource: &LocalResource) -> Result<ObjectId, SandboxError> {
        let repository = self.open_repository(resource)?;
        match &resource.location {
            ResourceLocation::Git { target, .. } => repository.require_tip(target),
            ResourceLocation::Dir { .. } => snapshot::take_directory_snapshot(&repository),
        }
    }

    /// The complete sandbox with the newest holder.
    pub fn current_sandbox(&self, key: &SandboxKey<'_>) -> Result<Option<Sandbox>, SandboxError> {
        Ok(self.list_sandboxes(key)?.pop())
    }

    /// Every complete sandbox of a resource, the oldest holder's first.
    pub(crate) fn list_sandboxes(
        &self,
        key: &SandboxKey<'_>,
    ) -> Result<Vec<Sandbox>, SandboxError> {
        let mut found = Vec::new();
        for creator_epoch in files::list_names(&self.home().plan_directory(key.plan_id))? {
            found.extend(self.read_sandbox(key, Epoch(creator_epoch))?);
        }
        found.sort_by_key(|sandbox| sandbox.holder_epoch);
        Ok(found)
    }

    /// Locks the sandbox of this holder for use. Fails if a newer holder took it over.
    pub fn occupy_sandbox(
        &self,
        key: &SandboxKey<'_>,
        epoch: Epoch,
    ) -> Result<OccupiedSandbox, SandboxError> {
        let found = self.find_sandbox_held_by(key, epoch)?;
        let lock = supervise::lock_shared(&found.lock_path())?;
        // Read again under the lock: a newer holder may have taken it over just before.
        let sandbox = self.find_sandbox_held_by(key, epoch)?;
        Ok(OccupiedSandbox { sandbox, lock })
    }

    /// The newest sandbox, if this holder has it.
    pub(crate) fn find_sandbox_held_by(
        &self,
        key: &SandboxKey<'_>,
        epoch: Epoch,
    ) -> Result<Sandbox, SandboxError> {
        match self.current_sandbox(key)? {
            Some(sandbox) if sandbox.holder_epoch == epoch => Ok(sandbox),
            Some(sandbox) if sandbox.holder_epoch > epoch => {
                Err(SandboxError::FencedByNewerHolder {
                    given: epoch.0,
                    current: sandbox.holder_epoch.0,
                })
            }
            Some(_) | None => Err(SandboxError::SandboxMissing {
                path: self.home().plan_directory(key.plan_id),
            }),
        }
    }

    /// Gives this holder a sandbox. Safe to repeat: a second call returns the same one.
    pub fn enter_sandbox(
        &self,
        key: &SandboxKey<'_>,
        epoch: Epoch,
        base: &ObjectId,
        mode: SandboxEntryMode,
    ) -> Result<OccupiedSandbox, SandboxError> {
        let repository = self.open_repository(key.resource)?;
        self.home()
            .make_home_directory(&self.home().plan_directory(key.plan_id))?;
        let is_first = !self.vaults().vault_for(key).path().exists();
        let vault = self.vaults().create_vault(key, &repository)?;
        if !(is_first && self.vaults().pin_first_base(key, &repository, base)?) {
            self.vaults().pin_base(key, &repository, base)?;
        }
        self.capture()
            .complete_step(SandboxStep::BasePinned, repository.path())?;
        if let Some(current) = self.current_sandbox(key)? {
            if current.holder_epoch >= epoch && current.exists() {
                return self.occupy_sandbox(key, epoch);
            }
            let wanted = mode != SandboxEntryMode::NewDirectory && current.exists();
            if wanted && let Some(lock) = lock_if_unoccupied(&current)? {
                return self.take_over_sandbox(key, lock, epoch, base, mode);
            }
        }
        let from_checkpoint = match mode {
            SandboxEntryMode::NewDirectory | SandboxEntryMode::ResetToBase => None,
            SandboxEntryMode::Continue => vault.last_checkpoint()?,
        };
        let tree = match from_checkpoint {
            Some((checkpoint_base, tree)) if checkpoint_base == *base => tree,
            // `read-tree` accepts a commit as its tree.
            Some(_) | None => base.clone(),
        };
        if mode != SandboxEntryMode::Continue {
            vault.forget_conflicts()?;
        }
        self.make_sandbox(key, &repository, epoch, base, &tree)?;
        self.occupy_sandbox(key, epoch)
    }

    /// Restores paths of a holder's sandbox to their content in its base.
    pub fn revert_paths(
        &self,
        key: &SandboxKey<'_>,
        epoch: Epoch,
        paths: &[TreePath],
    ) -> Result<(), SandboxError> {
        let entered = self.occupy_sandbox(key, epoch)?;
        let (vault, sandbox) = (self.vaults().open_vault(key)?, &entered.sandbox);
        checkout::restore_paths(&vault, sandbox, &sandbox.base, paths)?;
        self.capture().restore_file_modes(key, sandbox)
    }

    /// Takes out of a holder's sandbox what a person did not pick of its last captured result. The
    /// sandbox has that result; the paths in which the picked tree differs are set to it. A sandbox
    /// that another commit was merged into since is left as it is: it was done before.
    pub fn take_out_unpicked(
        &self,
        key: &SandboxKey<'_>,
        epoch: Epoch,
        picked: &ObjectId,
    ) -> Result<(), SandboxError> {
        let entered = self.occupy_sandbox(key, epoch)?;
        let (vault, sandbox) = (self.vaults().open_vault(key)?, &entered.sandbox);
        let Some((base, captured)) = vault.last_checkpoint()? else {
            return Ok(());
        };
        if base != sandbox.base {
            return Ok(());
        }
        let unpicked = compare::list_differences(&vault.git(), captured.as_str(), picked.as_str())?;
        // Removals come first, because a file may make room for a directory.
        let (removed, written): (Vec<_>, Vec<_>) =
            unpicked.into_iter().partition(|one| one.after.is_none());
        let paths: Vec<TreePath> = removed
            .into_iter()
            .chain(written)
            .map(|one| one.path)
            .collect();
        checkout::restore_paths(&vault, sandbox, picked, &paths)?;
        self.capture().restore_file_modes(key, sandbox)
    }

    /// Merges the target's current commit into a sandbox, with conflict markers, and makes it the
    /// base.
    pub fn merge_target_into_sandbox(
        &self,
        key: &SandboxKey<'_>,
        epoch: Epoch,
        tip: &ObjectId,
    ) -> Result<Sandbox, SandboxError> {
        let missing = || SandboxError::SandboxMissing {
            path: self.home().plan_directory(key.plan_id),
        };
        let vault = self.vaults().open_vault(key)?;
        let OccupiedSandbox {
            sandbox,
            lock: _lock,
        } = self.occupy_sandbox(key, epoch)?;
        if sandbox.base == *tip {
            return Ok(sandbox);
        }
        let repository = self.open_repository(key.resource)?;
        self.vaults().pin_base(key, &repository, tip)?;
        self.capture()
            .complete_step(SandboxStep::BasePinned, repository.path())?;
        // The checkpoint is saved before the files change. If this is repeated after a crash, it
        // does not merge twice.
        let merged_before = vault
            .last_checkpoint()?
            .filter(|(checkpoint_base, _)| checkpoint_base == tip);
        let tree = match merged_before {
            Some((_, tree)) => tree,
            None => {
                // Also captures what was changed after the result was submitted.
                self.capture().capture_sandbox(key, epoch, &sandbox.base)?;
                let work = vault.checkpoint_commit()?.ok_or_else(missing)?;
                let names = [key.target_label(), &key.work_label()];
                let merged =
                    crate::land::merge_with_labels(&vault, &sandbox.base, tip, &work, names)?;
                let sides = [tip, &work];
                self.capture()
                    .record_conflicts(key, &sandbox, sides, names, &merged.conflicts)?;
                let checkpoint = vault.create_checkpoint(key.plan_id, epoch, tip, &merged.tree)?;
                self.vaults()
                    .save_checkpoint(key, epoch, &checkpoint, Some(&work))?;
                merged.tree
            }
        };
        checkout::check_out_tree(&vault, &sandbox, &tree)?;
        self.capture().restore_file_modes(key, &sandbox)?;
        let updated = Sandbox {
            base: tip.clone(),
            holder_epoch: epoch,
            ..sandbox
        };
        self.write_manifest(key, &updated)?;
        Ok(updated)
    }

    fn read_sandbox(
        &self,
        key: &SandboxKey<'_>,
        creator_epoch: Epoch,
    ) -> Result<Option<Sandbox>, SandboxError> {
        let directory = self
            .home()
            .plan_directory(key.plan_id)
            .join(creator_epoch.to_string());
        let name = key.dir_name();
        let state = directory.join(format!("{name}.json"));
        let text = match std::fs::read(&state) {
            Ok(text) => text,
            Err(error) if files::is_not_found(&error) => return Ok(None),
            Err(error) => return Err(error).while_being("read", &state),
        };
        let state: SandboxManifest =
            serde_json::from_slice(&text).map_err(|error| SandboxError::DamagedFile {
                path: state.clone(),
                why: error.to_string(),
            })?;
        Ok(Some(Sandbox {
            path: directory.join(&name),
            index_path: directory.join(format!("{name}.index")),
            base: state.base,
            creator_epoch,
            holder_epoch: state.held_by,
            conflicts: state.conflicts,
            given_repository: state.given,
        }))
    }

    /// Takes over the newest sandbox. The exclusive lock shows that no other process uses it.
    fn take_over_sandbox(
        &self,
        key: &SandboxKey<'_>,
        lock: ExclusiveLock,
        epoch: Epoch,
        base: &ObjectId,
        mode: SandboxEntryMode,
    ) -> Result<OccupiedSandbox, SandboxError> {
        let vault = self.vaults().vault_for(key);
        // Read again under the lock: a newer holder may have entered before it was acquired.
        let mut sandbox = match self.current_sandbox(key)? {
            Some(sandbox) if sandbox.holder_epoch < epoch => sandbox,
            Some(_) | None => self.find_sandbox_held_by(key, epoch)?,
        };
        if mode == SandboxEntryMode::ResetToBase || sandbox.base != *base {
            if mode == SandboxEntryMode::ResetToBase {
                vault.forget_conflicts()?;
                sandbox.conflicts.clear();
            }
            checkout::check_out_tree(&vault, &sandbox, base)?;
            self.capture().restore_file_modes(key, &sandbox)?;
            checkout::remove_untracked_files(&vault, &sandbox)?;
            sandbox.base = base.clone();
        }
        sandbox.holder_epoch = epoch;
        self.write_manifest(key, &sandbox)?;
        let lock = lock.downgrade()?;
        // Checked once more: downgrading leaves a gap without a lock.
        let sandbox = self.find_sandbox_held_by(key, epoch)?;
        Ok(OccupiedSandbox { sandbox, lock })
    }

    /// Makes a sandbox. If the disk is full, removes what was made of it.
    fn make_sandbox(
        &self,
        key: &SandboxKey<'_>,
        repository: &Repository,
        epoch: Epoch,
        base: &ObjectId,
        tree: &ObjectId,
    ) -> Result<(), SandboxError> {
        let made = self.try_make_sandbox(key, repository, epoch, base, tree);
        made.map_err(|error| {
            let directory = self
                .home()
                .plan_directory(key.plan_id)
                .join(epoch.to_string());
            let error = error.explain_full_disk(&directory);
            if error.is_out_of_space() {
                // Half a sandbox must not take the space that is freed next.
                let _ = files::remove_tree(&directory.join(key.dir_name()));
            }
            error
        })
    }

    fn try_make_sandbox(
        &self,
        key: &SandboxKey<'_>,
        repository: &Repository,
        epoch: Epoch,
        base: &ObjectId,
        tree: &ObjectId,
    ) -> Result<(), SandboxError> {
        let directory = self
            .home()
            .plan_directory(key.plan_id)
            .join(epoch.to_string());
        self.home().make_home_directory(&directory)?;
        let name = key.dir_name();
        let mut sandbox = Sandbox {
            path: directory.join(&name),
            index_path: directory.join(format!("{name}.index")),
            base: base.clone(),
            creator_epoch: epoch,
            holder_epoch: epoch,
            conflicts: Vec::new(),
            given_repository: None,
        };
        // Without its manifest, anything here was left by a killed process of the same attempt.
        files::remove_tree(&sandbox.path)?;
        let _ = std::fs::remove_file(&sandbox.index_path);
        let _ = std::fs::remove_file(sandbox.set_up_marker_path());
        let _ = std::fs::remove_file(sandbox.ignored_record_path());
        files::make_private_directory(&sandbox.path)?;
        let vault = self.vaults().vault_for(key);
        checkout::check_out_tree(&vault, &sandbox, tree)?;
        self.capture().restore_file_modes(key, &sandbox)?;
        if tree != base {
            // The tree contains an agent's work. The set-up command could run it with the user's
            // rights.
            files::write_atomically(
                &sandbox.set_up_marker_path(),
                b"not run on the work of an agent",
            )?;
        }
        self.capture()
            .complete_step(SandboxStep::FilesLaidOut, &sandbox.path)?;
        let branch = match &key.resource.location {
            ResourceLocation::Git { target, .. } => target.as_str(),
            ResourceLocation::Dir { .. } => "refs/heads/main",
        };
        checkout::create_agent_repository(&vault, repository, &sandbox, branch)?;
        sandbox.given_repository = repository_inode(&sandbox.path).map(|inode| GivenRepository {
            base: base.clone(),
            inode,
        });
        self.capture()
            .complete_step(SandboxStep::RepositoryMade, &sandbox.path)?;
        // Last, because the manifest is what makes a sandbox complete.
        self.write_manifest(key, &sandbox)?;
        self.capture()
            .complete_step(SandboxStep::SandboxReady, &sandbox.path)
    }

    pub(crate) fn write_manifest(
        &self,
        key: &SandboxKey<'_>,
        sandbox: &Sandbox,
    ) -> Result<(), SandboxError> {
        let directory = self
            .home()
            .plan_directory(key.plan_id)
            .join(sandbox.creator_epoch.to_string());
        let state = SandboxManifest {
            base: sandbox.base.clone(),
            held_by: sandbox.holder_epoch,
            conflicts: sandbox.conflicts.clone(),
            given: sandbox.given_repository.clone(),
        };
        let text = serde_json::to_vec(&state).expect("BUG: a state always encodes");
        files::write_atomically(&directory.join(format!("{}.json", key.dir_name())), &text)
    }
}

/// Distinguishes an agent's repository from another one at the same path.
fn repository_inode(sandbox: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::symlink_metadata(sandbox.join(".git")).ok()?;
    metadata.is_dir().then(|| metadata.ino())
}

/// Locks a sandbox exclusively, if no process uses it. Waits a short time for programs that are
/// being killed.
fn lock_if_unoccupied(sandbox: &Sandbox) -> Result<Option<ExclusiveLock>, SandboxError> {
    let lock = supervise::lock_exclusive(&sandbox.lock_path(), PROGRAM_END_TIMEOUT)?;
    Ok(lock.filter(|_| matches!(find_occupant(&sandbox.path), DirectoryOccupant::Nobody)))
}
