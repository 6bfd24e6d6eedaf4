//! Sandboxes: a private working tree per plan, resource and holder, made whole or not at all.
//!
//! ```text
//! vaults/<plan>/<room>.git               the vault: clearing `sandboxes` loses no result
//! sandboxes/<plan>/<epoch>/<room>        the files, with a repository for the agent
//! sandboxes/<plan>/<epoch>/<room>.index  what the engine knows of the files
//! sandboxes/<plan>/<epoch>/<room>.json   written last: without it there is no sandbox
//! sandboxes/<plan>/<epoch>/<room>.set-up there once the user's set-up command succeeded
//! sandboxes/<plan>/<epoch>/<room>.ignored ignored files that are never captured
//! sandboxes/<plan>/<epoch>/<room>.busy   locked while somebody works there
//! sandboxes/<plan>/<epoch>/<room>.open   opened for a person since that holder
//! sandboxes/<plan>/<epoch>/<room>.set-aside-N  an agent's repository, set aside for that
//! ```
//!
//! A sandbox stays where it was made, so that what an agent remembers by path stays true. A later
//! holder takes it over if nobody is in it any more; otherwise it gets one of its own, made from
//! the last checkpoint, and the old one is left for rescue.
//!
//! Who enters holds the lock from then on, beside the programs it starts, and takes over only with the
//! lock to itself. So whoever was stopped and comes back late still has its own files, or is told that
//! they are another's: it looks once it has the lock.

use std::path::{Path, PathBuf};
use std::time::Duration;

use plan::changeset::TreePath;
use plan::{Epoch, PlanId};
use serde::{Deserialize, Serialize};

use crate::error::FileErrorContext;
use crate::git::GitEnv;
use crate::inspect::check_objects_present;
use crate::set_up::CommandReach;
use crate::step_faults::{Step, StepFaults};
use crate::supervise::{self, ExclusiveLock, SharedLock, Supervisor};
use crate::vault::Vault;
use crate::{ObjectId, Repository, SandboxError, checkout, files, refs, repository, snapshot};

/// How long programs of a holder that is gone may take to be ended.
const PROGRAM_END_TIMEOUT: Duration = Duration::from_secs(2);

/// Where sandboxes are made and changes are landed from.
#[derive(Debug, Clone)]
pub struct Sandboxes {
    home: PathBuf,
    git_env: GitEnv,
    supervisor: Option<Supervisor>,
    command_reach: CommandReach,
    faults: StepFaults,
}

/// A resource of a plan, and where it lies on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalResource {
    /// The plan's name for it.
    pub name: String,
    /// Where it lies.
    pub location: ResourceLocation,
}

/// Where a resource lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceLocation {
    /// A repository, and the branch that changes land on.
    Git {
        /// A checkout of it, or itself if it is bare.
        path: PathBuf,
        /// The full name of the branch.
        target: String,
    },
    /// A directory.
    Dir {
        /// Which.
        path: PathBuf,
    },
}

impl ResourceLocation {
    /// Where it lies.
    pub fn path(&self) -> &Path {
        match self {
            Self::Git { path, .. } | Self::Dir { path } => path,
        }
    }

    /// Is something there that looks like it? Without asking git.
    fn exists(&self) -> bool {
        match self {
            // A checkout has the one, a bare repository the other.
            Self::Git { path, .. } => path.join(".git").exists() || path.join("HEAD").is_file(),
            Self::Dir { path } => path.is_dir(),
        }
    }

    /// The objects of a plain checkout, found without starting git.
    fn guess_objects_dir(&self) -> Option<PathBuf> {
        match self {
            Self::Git { path, .. } => {
                let git_dir = path.join(".git").canonicalize().ok()?;
                let is_own = git_dir.is_dir() && !git_dir.join("commondir").exists();
                is_own.then(|| git_dir.join("objects"))
            }
            Self::Dir { .. } => None,
        }
    }

    /// How the command line is told where it lies.
    fn cli_option(&self) -> &'static str {
        match self {
            Self::Git { .. } => "--git",
            Self::Dir { .. } => "--dir",
        }
    }
}

/// One resource of one plan.
#[derive(Debug, Clone, Copy)]
pub struct SandboxKey<'a> {
    /// The plan.
    pub plan_id: PlanId,
    /// The resource.
    pub resource: &'a LocalResource,
}

impl SandboxKey<'_> {
    /// Its name among the plan's rooms, as a directory. No resource's name has a plus in it.
    pub fn dir_name(&self) -> String {
        self.resource.name.replace('/', "+")
    }
}

impl SandboxKey<'_> {
    /// What its target is called in the marks of a conflict.
    pub(crate) fn target_label(&self) -> &str {
        match &self.resource.location {
            ResourceLocation::Git { target, .. } => repository::short_branch_name(target),
            ResourceLocation::Dir { .. } => "directory",
        }
    }

    /// What its work is called there: by the end of the plan's id, as people write it.
    pub(crate) fn work_label(&self) -> String {
        let id = self.plan_id.to_string().to_lowercase();
        format!("plan-{}", &id[id.len().saturating_sub(8)..])
    }
}

/// What a holder finds in its sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxEntryMode {
    /// The base, in a directory of its own; an earlier one is kept for rescue.
    NewDirectory,
    /// The base; what an earlier holder left is discarded, ignored files excepted.
    ResetToBase,
    /// What the holder before left.
    Continue,
}

/// A sandbox that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    /// Its files.
    pub path: PathBuf,
    /// The commit it started from.
    pub base: ObjectId,
    /// The holder that made it.
    pub creator_epoch: Epoch,
    /// The holder that has it.
    pub holder_epoch: Epoch,
    /// Paths in which a merge by an earlier version left conflicts; others are recorded in the vault.
    pub(crate) conflicts: Vec<TreePath>,
    pub(crate) index_path: PathBuf,
    /// What the agent's repository was when it was given to it.
    pub(crate) given_repository: Option<GivenRepository>,
}

/// An agent's repository as it was given to the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GivenRepository {
    /// The commit it was made on: its index had all files of it.
    base: ObjectId,
    /// By which it is told from another that the agent put in its place.
    inode: u64,
}

impl Sandbox {
    /// Is the agent's repository the one it was given, made on this commit? Then what is missing from its
    /// index was taken out of it.
    pub(crate) fn has_given_repository(&self, base: &ObjectId) -> bool {
        let inode = repository_inode(&self.path);
        let given = self.given_repository.as_ref();
        given.is_some_and(|given| given.base == *base && Some(given.inode) == inode)
    }

    /// Says that this repository, into which everything of the one before was copied, took its place.
    pub(crate) fn record_replaced_repository(&mut self, was_given: bool) {
        let inode = repository_inode(&self.path);
        if let (true, Some(given), Some(inode)) = (was_given, &mut self.given_repository, inode) {
            given.inode = inode;
        }
    }

    /// Is the agent's repository the one it was given?
    pub(crate) fn still_has_given_repository(&self) -> bool {
        let given = self.given_repository.as_ref().map(|given| given.inode);
        given.is_some() && given == repository_inode(&self.path)
    }

    /// Are its files there? A link that somebody put in its place leads to files that are not its.
    pub(crate) fn exists(&self) -> bool {
        let above = self.path.parent().unwrap_or(&self.path);
        files::is_directory(&self.path) && files::is_directory(above)
    }

    /// The file that is held locked while a program works here; it is made when it is first locked.
    pub fn lock_path(&self) -> PathBuf {
        self.index_path.with_extension("busy")
    }

    /// Did the user's set-up command succeed here, or is it not to be run here?
    pub fn is_set_up(&self) -> bool {
        self.set_up_marker_path().exists()
    }

    /// Says that the user's set-up command succeeded here.
    pub(crate) fn set_up_marker_path(&self) -> PathBuf {
        self.index_path.with_extension("set-up")
    }
}

/// A sandbox that this process is in.
#[derive(Debug)]
pub struct OccupiedSandbox {
    /// The sandbox.
    pub sandbox: Sandbox,
    /// Keeps others from taking it over.
    pub lock: SharedLock,
}

/// What is written beside a sandbox once it is whole.
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
    /// A workshop in this directory.
    pub fn new(home: impl Into<PathBuf>, git_env: GitEnv) -> Self {
        Self {
            home: home.into(),
            git_env,
            supervisor: None,
            command_reach: CommandReach::default(),
            faults: StepFaults::default(),
        }
    }

    /// With somebody who supervises the user's set-up commands; without one, none is run.
    #[must_use]
    pub fn with_supervisor(mut self, supervisor: Supervisor) -> Self {
        self.supervisor = Some(supervisor);
        self
    }

    /// With what set-up commands reach by a person's settings; without, it is the system and their sandbox.
    #[must_use]
    pub fn with_command_reach(mut self, reach: CommandReach) -> Self {
        self.command_reach = reach;
        self
    }

    pub(crate) fn command_reach(&self) -> &CommandReach {
        &self.command_reach
    }

    /// With faults, for tests.
    #[must_use]
    pub fn with_faults(mut self, faults: StepFaults) -> Self {
        self.faults = faults;
        self
    }

    /// What child processes get of the environment.
    pub fn git_env(&self) -> &GitEnv {
        &self.git_env
    }

    pub(crate) fn supervisor(&self) -> Option<&Supervisor> {
        self.supervisor.as_ref()
    }

    pub(crate) fn faults(&self) -> &StepFaults {
        &self.faults
    }

    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// Makes a directory below the home that only its owner can enter. What an earlier version made for all to see
    /// is closed: the home, unless it is shared with something else, and the directory in it.
    pub(crate) fn make_home_directory(&self, path: &Path) -> Result<(), SandboxError> {
        files::make_private_directory(path)?;
        let below = path.strip_prefix(&self.home).unwrap_or(path);
        if let Some(first) = below.components().next() {
            let top = self.home.join(first);
            files::restrict_to_owner(&top).while_being("closed", &top)?;
        }
        restrict_home_to_owner(&self.home).while_being("closed", &self.home)
    }

    /// Everything of a plan.
    pub(crate) fn plan_directory(&self, plan_id: PlanId) -> PathBuf {
        self.home.join("sandboxes").join(plan_id.to_string())
    }

    /// The vaults of a plan.
    pub(crate) fn vault_directory(&self, plan_id: PlanId) -> PathBuf {
        self.home.join("vaults").join(plan_id.to_string())
    }

    /// The plan's objects of one resource.
    pub(crate) fn vault_for(&self, key: &SandboxKey<'_>) -> Vault {
        let name = format!("{}.git", key.dir_name());
        let mut path = self.vault_directory(key.plan_id).join(&name);
        if !path.exists() {
            // Where vaults were made before: a plan keeps the one it began with.
            let earlier = self.plan_directory(key.plan_id).join(&name);
            if earlier.exists() {
                path = earlier;
            }
        }
        Vault::at_path(&self.git_env, &path)
    }

    /// The same, made if it is missing, and borrowing from where the repository is now.
    pub(crate) fn open_vault(&self, key: &SandboxKey<'_>) -> Result<Vault, SandboxError> {
        let vault = self.vault_for(key);
        let likely = key.resource.location.guess_objects_dir();
        if likely.is_some_and(|objects| vault.borrows_from(&objects)) {
            return Ok(vault);
        }
        self.create_vault(key, &self.open_repository(key.resource)?)
    }

    /// Makes a vault, or what is missing of it. The engine's index of a sandbox names objects of the vault: where
    /// the vault was lost it is built again, from the base.
    pub(crate) fn create_vault(
        &self,
        key: &SandboxKey<'_>,
        repository: &Repository,
    ) -> Result<Vault, SandboxError> {
        let vault = self.vault_for(key);
        if let Some(above) = vault.path().parent() {
            self.make_home_directory(above)?;
        }
        if vault.path().join("HEAD").exists() {
            vault.create_or_repair(repository, &self.faults)?;
            return Ok(vault);
        }
        let mut without_vault = self.list_sandboxes(key)?;
        without_vault.retain(Sandbox::exists);
        for sandbox in &without_vault {
            let _ = std::fs::remove_file(&sandbox.index_path);
        }
        vault.create_or_repair(repository, &self.faults)?;
        for sandbox in &without_vault {
            checkout::rebuild_index(&vault, sandbox)?;
        }
        Ok(vault)
    }

    /// Is a resource where its project says?
    pub fn check_location(&self, local_resource: &LocalResource) -> Result<(), SandboxError> {
        if local_resource.location.exists() {
            return Ok(());
        }
        let (project, resource) = local_resource
            .name
            .rsplit_once('/')
            .unwrap_or(("", &local_resource.name));
        let option = local_resource.location.cli_option();
        Err(SandboxError::UnusableLocation {
            path: local_resource.location.path().to_owned(),
            why: "is gone: it was moved or deleted".to_owned(),
            hint: format!(
                "If it was moved, say where to: planwright project relink {project} {resource} \
                 {option} PATH"
            ),
        })
    }

    /// The repository of a resource.
    pub fn open_repository(&self, resource: &LocalResource) -> Result<Repository, SandboxError> {
        self.check_location(resource)?;
        match &resource.location {
            ResourceLocation::Git { path, .. } => Repository::open(&self.git_env, path),
            ResourceLocation::Dir { path } => snapshot::open_directory_repository(self, path),
        }
    }

    /// The commit that work on a resource would start from now. Of a directory, a snapshot.
    pub fn read_tip(&self, resource: &LocalResource) -> Result<ObjectId, SandboxError> {
        let repository = self.open_repository(resource)?;
        match &resource.location {
            ResourceLocation::Git { target, .. } => repository.require_tip(target),
            ResourceLocation::Dir { .. } => snapshot::take_directory_snapshot(&repository),
        }
    }

    /// The whole sandbox of a resource that the newest holder has, if there is one.
    pub fn current_sandbox(&self, key: &SandboxKey<'_>) -> Result<Option<Sandbox>, SandboxError> {
        Ok(self.list_sandboxes(key)?.pop())
    }

    /// Every whole sandbox of a resource, that of the oldest holder first.
    pub(crate) fn list_sandboxes(
        &self,
        key: &SandboxKey<'_>,
    ) -> Result<Vec<Sandbox>, SandboxError> {
        let mut found = Vec::new();
        for made_by in files::list_names(&self.plan_directory(key.plan_id))? {
            found.extend(self.read_sandbox(key, Epoch(made_by))?);
        }
        found.sort_by_key(|sandbox| sandbox.holder_epoch);
        Ok(found)
    }

    /// The sandbox of this holder, entered anew. A holder that was replaced is told so.
    pub fn occupy_sandbox(
        &self,
        key: &SandboxKey<'_>,
        epoch: Epoch,
    ) -> Result<OccupiedSandbox, SandboxError> {
        let found = self.find_sandbox_held_by(key, epoch)?;
        let lock = supervise::lock_shared(&found.lock_path())?;
        // Looked at again: nobody takes it over from now on, but somebody may just have.
        let sandbox = self.find_sandbox_held_by(key, epoch)?;
        Ok(OccupiedSandbox { sandbox, lock })
    }

    /// The newest sandbox, if this holder has it.
    fn find_sandbox_held_by(
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
                path: self.plan_directory(key.plan_id),
            }),
        }
    }

    /// A sandbox for this holder. Repeating it gives the same one.
    pub fn enter_sandbox(
        &self,
        key: &SandboxKey<'_>,
        epoch: Epoch,
        base: &ObjectId,
        mode: SandboxEntryMode,
    ) -> Result<OccupiedSandbox, SandboxError> {
        let repository = self.open_repository(key.resource)?;
        self.make_home_directory(&self.plan_directory(key.plan_id))?;
        let is_first = !self.vault_for(key).path().exists();
        let vault = self.create_vault(key, &repository)?;
        if !(is_first && self.pin_first_base(key, &repository, base)?) {
            self.pin_base(key, &repository, base)?;
        }
        self.complete_step(Step::BasePinned, repository.path())?;
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
            Some((of, tree)) if of == *base => tree,
            // git takes the commit for its tree.
            Some(_) | None => base.clone(),
        };
        if mode != SandboxEntryMode::Continue {
            vault.forget_conflicts()?;
        }
        self.make_sandbox(key, &repository, epoch, base, &tree)?;
        self.occupy_sandbox(key, epoch)
    }

    /// Remembers a result as the state of the work, for a plan that began with one. What was
    /// remembered before stays.
    pub fn seed_checkpoint(
        &self,
        key: &SandboxKey<'_>,
        epoch: Epoch,
        base: &ObjectId,
        tree: &ObjectId,
    ) -> Result<(), SandboxError> {
        let repository = self.open_repository(key.resource)?;
        let vault = self.create_vault(key, &repository)?;
        if vault.checkpoint_commit()?.is_some() {
            return Ok(());
        }
        match check_objects_present(&vault.git(), repository.path(), &vault, base, tree) {
            // What the sandbox holds is captured again.
            Err(SandboxError::ResultMissing { .. })
                if self
                    .current_sandbox(key)?
                    .is_some_and(|sandbox| sandbox.exists()) =>
            {
                return Ok(());
            }
            checked => checked?,
        }
        let checkpoint = vault.create_checkpoint(key.plan_id, epoch, base, tree)?;
        self.save_checkpoint(key, epoch, &checkpoint, None)
    }

    /// Remembers a checkpoint as the newest, unless another was remembered since `before`.
    pub(crate) fn save_checkpoint(
        &self,
        key: &SandboxKey<'_>,
        epoch: Epoch,
        checkpoint: &ObjectId,
        before: Option<&ObjectId>,
    ) -> Result<(), SandboxError> {
        let remembered = self.vault_for(key).set_checkpoint(checkpoint, before);
        if remembered.is_err() {
            // Only a newer holder remembers something else meanwhile, and has its own sandbox then.
            self.find_sandbox_held_by(key, epoch)?;
        }
        remembered
    }

    /// Puts paths of a holder's sandbox back to what they are in its base.
    pub fn revert_paths(
        &self,
        key: &SandboxKey<'_>,
        epoch: Epoch,
        paths: &[TreePath],
    ) -> Result<(), SandboxError> {
        let entered = self.occupy_sandbox(key, epoch)?;
        checkout::restore_paths(&self.open_vault(key)?, &entered.sandbox, paths)?;
        self.restore_file_modes(key, &entered.sandbox)
    }

    /// Merges where the target is now into a sandbox, conflicts marked, and makes that its base.
    pub fn merge_target_into_sandbox(
        &self,
        key: &SandboxKey<'_>,
        epoch: Epoch,
        tip: &ObjectId,
    ) -> Result<Sandbox, SandboxError> {
        let gone = || SandboxError::SandboxMissing {
            path: self.plan_directory(key.plan_id),
        };
        let vault = self.open_vault(key)?;
        let OccupiedSandbox {
            sandbox,
            lock: _hold,
        } = self.occupy_sandbox(key, epoch)?;
        if sandbox.base == *tip {
            return Ok(sandbox);
        }
        let repository = self.open_repository(key.resource)?;
        self.pin_base(key, &repository, tip)?;
        self.complete_step(Step::BasePinned, repository.path())?;
        // Remembered before the files change, so that repeating it does not merge what is merged.
        let merged_before = vault.last_checkpoint()?.filter(|(of, _)| of == tip);
        let tree = match merged_before {
            Some((_, tree)) => tree,
            None => {
                // Also what somebody changed there after it was handed in.
                self.capture_sandbox(key, epoch, &sandbox.base)?;
                let work = vault.checkpoint_commit()?.ok_or_else(gone)?;
                let names = [key.target_label(), &key.work_label()];
                let merged =
                    crate::land::merge_with_labels(&vault, &sandbox.base, tip, &work, names)?;
                let sides = [tip, &work];
                self.record_conflicts(key, &sandbox, sides, names, &merged.conflicts)?;
                let checkpoint = vault.create_checkpoint(key.plan_id, epoch, tip, &merged.tree)?;
                self.save_checkpoint(key, epoch, &checkpoint, Some(&work))?;
                merged.tree
            }
        };
        checkout::check_out_tree(&vault, &sandbox, &tree)?;
        self.restore_file_modes(key, &sandbox)?;
        let caught_up = Sandbox {
            base: tip.clone(),
            holder_epoch: epoch,
            ..sandbox
        };
        self.write_manifest(key, &caught_up)?;
        Ok(caught_up)
    }

    fn read_sandbox(
        &self,
        key: &SandboxKey<'_>,
        made_by: Epoch,
    ) -> Result<Option<Sandbox>, SandboxError> {
        let directory = self.plan_directory(key.plan_id).join(made_by.to_string());
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
            creator_epoch: made_by,
            holder_epoch: state.held_by,
            conflicts: state.conflicts,
            given_repository: state.given,
        }))
    }

    /// Goes on in the newest sandbox, which nobody else is in.
    fn take_over_sandbox(
        &self,
        key: &SandboxKey<'_>,
        lock: ExclusiveLock,
        epoch: Epoch,
        base: &ObjectId,
        mode: SandboxEntryMode,
    ) -> Result<OccupiedSandbox, SandboxError> {
        let vault = self.vault_for(key);
        // Looked at again: whoever is newer may have been here before the lock was ours.
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
            self.restore_file_modes(key, &sandbox)?;
            checkout::remove_untracked_files(&vault, &sandbox)?;
            sandbox.base = base.clone();
        }
        sandbox.holder_epoch = epoch;
        self.write_manifest(key, &sandbox)?;
        let lock = lock.downgrade()?;
        let sandbox = self.find_sandbox_held_by(key, epoch)?;
        Ok(OccupiedSandbox { sandbox, lock })
    }

    fn make_sandbox(
        &self,
        key: &SandboxKey<'_>,
        repository: &Repository,
        epoch: Epoch,
        base: &ObjectId,
        tree: &ObjectId,
    ) -> Result<(), SandboxError> {
        let directory = self.plan_directory(key.plan_id).join(epoch.to_string());
        self.make_home_directory(&directory)?;
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
        // Without its state file, whatever is here is what a killed process left of the same try.
        files::remove_tree(&sandbox.path)?;
        let _ = std::fs::remove_file(&sandbox.index_path);
        let _ = std::fs::remove_file(sandbox.set_up_marker_path());
        let _ = std::fs::remove_file(sandbox.ignored_record_path());
        files::make_private_directory(&sandbox.path)?;
        let vault = self.vault_for(key);
        checkout::check_out_tree(&vault, &sandbox, tree)?;
        self.restore_file_modes(key, &sandbox)?;
        if tree != base {
            // What an agent wrote is in it: the user's command must not run that with the user's rights.
            files::write_atomically(
                &sandbox.set_up_marker_path(),
                b"not run on the work of an agent",
            )?;
        }
        self.complete_step(Step::FilesLaidOut, &sandbox.path)?;
        let branch = match &key.resource.location {
            ResourceLocation::Git { target, .. } => target.as_str(),
            ResourceLocation::Dir { .. } => "refs/heads/main",
        };
        checkout::create_agent_repository(&vault, repository, &sandbox, branch)?;
        sandbox.given_repository = repository_inode(&sandbox.path).map(|inode| GivenRepository {
            base: base.clone(),
            inode,
        });
        self.complete_step(Step::RepositoryMade, &sandbox.path)?;
        self.write_manifest(key, &sandbox)?;
        self.complete_step(Step::SandboxReady, &sandbox.path)
    }

    pub(crate) fn write_manifest(
        &self,
        key: &SandboxKey<'_>,
        sandbox: &Sandbox,
    ) -> Result<(), SandboxError> {
        let directory = self
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

    /// Keeps the base from being pruned while the plan lives.
    fn pin_base(
        &self,
        key: &SandboxKey<'_>,
        repository: &Repository,
        base: &ObjectId,
    ) -> Result<(), SandboxError> {
        let git = repository.git();
        let vault = self.vault_for(key);
        let name = refs::base_ref(key.plan_id, &key.dir_name());
        let (commit, parent) = (format!("{base}^{{commit}}"), format!("{name}^1"));
        // What lies on top of the base keeps it as well: the rest of another plan does.
        let [theirs, pinned, below] = refs::resolve_names(&git, [&commit, &name, &parent])?;
        let is_pinned = pinned.as_ref() == Some(base) || below.as_ref() == Some(base);
        if theirs.is_some() {
            if !is_pinned {
                git.run(&["update-ref", &name, base.as_str()])?;
            }
        } else if refs::resolve_name(&vault.git(), &commit)?.is_some() {
            vault.keep_object("base", base)?;
        } else {
            return Err(SandboxError::ObjectMissing {
                path: repository.path().to_owned(),
                object: base.to_string(),
            });
        }
        Ok(())
    }

    /// The same of a plan that most likely has nothing pinned yet, and whose base is the user's:
    /// without looking first.
    fn pin_first_base(
        &self,
        key: &SandboxKey<'_>,
        repository: &Repository,
        base: &ObjectId,
    ) -> Result<bool, SandboxError> {
        let name = refs::base_ref(key.plan_id, &key.dir_name());
        let (new, absent) = (base.as_str(), base.null_id());
        let git = repository.git();
        let answered = git.try_run(&["update-ref", &name, new, absent.as_str()])?;
        Ok(answered.exit_code == 0)
    }
}

/// By which an agent's repository is told from another that takes its place.
fn repository_inode(sandbox: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::symlink_metadata(sandbox.join(".git")).ok()?;
    metadata.is_dir().then(|| metadata.ino())
}

/// Is this the name of something that Planwright keeps in its home?
fn is_home_entry(name: &str) -> bool {
    const HOME_DIRECTORIES: &[&str] = &[
        "actors",
        "demo",
        "directories",
        "present",
        "recent",
        "rescued",
        "runs",
        "sandboxes",
        "vaults",
    ];
    const HOME_FILE_PREFIXES: &[&str] = &["config.yaml", "goal-", "host", "planwright.db"];
    HOME_DIRECTORIES.contains(&name) || HOME_FILE_PREFIXES.iter().any(|file| name.starts_with(file))
}

/// Closes a home to others that an earlier version left open. A directory with anything else in it, of another
/// owner, or for everybody's files, is not ours to close.
fn restrict_home_to_owner(home: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::symlink_metadata(home)?;
    let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
    let is_open = metadata.mode() & 0o077 != 0;
    if !metadata.is_dir() || !is_own || !is_open || metadata.mode() & 0o1000 != 0 {
        return Ok(());
    }
    for entry in std::fs::read_dir(home)? {
        if !entry?.file_name().to_str().is_some_and(is_home_entry) {
            return Ok(());
        }
    }
    files::restrict_to_owner(home)
}

/// Who is in a directory.
pub(crate) enum DirectoryOccupant {
    /// Nobody, as far as processes can be seen.
    Nobody,
    /// This process, for one.
    Process(u32),
    /// Processes cannot be seen here, so that somebody may be.
    Unknown,
}

/// Looks who is in a directory.
pub(crate) fn find_occupant(directory: &Path) -> DirectoryOccupant {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return DirectoryOccupant::Unknown;
    };
    let Ok(directory) = directory.canonicalize() else {
        return DirectoryOccupant::Unknown;
    };
    let mut seen_any = false;
    for process in processes.flatten() {
        let name = process.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if let Ok(place) = std::fs::read_link(process.path().join("cwd")) {
            seen_any = true;
            if place.starts_with(&directory) {
                return DirectoryOccupant::Process(number);
            }
        }
    }
    if seen_any {
        DirectoryOccupant::Nobody
    } else {
        DirectoryOccupant::Unknown
    }
}

/// A sandbox's lock, if nobody is in it any more. Whoever is being ended there is waited for.
fn lock_if_unoccupied(sandbox: &Sandbox) -> Result<Option<ExclusiveLock>, SandboxError> {
    let lock = supervise::lock_exclusive(&sandbox.lock_path(), PROGRAM_END_TIMEOUT)?;
    Ok(lock.filter(|_| matches!(find_occupant(&sandbox.path), DirectoryOccupant::Nobody)))
}
