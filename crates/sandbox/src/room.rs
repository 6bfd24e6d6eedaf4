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

use crate::error::Doing;
use crate::fault::{Faults, Step};
use crate::git::Surroundings;
use crate::inside::check_reachable;
use crate::set_up::CommandReach;
use crate::supervise::{self, Alone, Hold, Supervisor};
use crate::vault::Vault;
use crate::{ObjectId, Repository, SandboxError, checkout, files, refs, repository, snapshot};

/// How long programs of a holder that is gone may take to be ended.
const ENDING: Duration = Duration::from_secs(2);

/// Where sandboxes are made and changes are landed from.
#[derive(Debug, Clone)]
pub struct Workshop {
    home: PathBuf,
    surroundings: Surroundings,
    supervisor: Option<Supervisor>,
    command_reach: CommandReach,
    faults: Faults,
}

/// A resource of a plan, and where it lies on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// The plan's name for it.
    pub name: String,
    /// Where it lies.
    pub place: SitePlace,
}

/// Where a resource lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SitePlace {
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

impl SitePlace {
    /// Where it lies.
    pub fn path(&self) -> &Path {
        match self {
            Self::Git { path, .. } | Self::Dir { path } => path,
        }
    }

    /// Is something there that looks like it? Without asking git.
    fn is_there(&self) -> bool {
        match self {
            // A checkout has the one, a bare repository the other.
            Self::Git { path, .. } => path.join(".git").exists() || path.join("HEAD").is_file(),
            Self::Dir { path } => path.is_dir(),
        }
    }

    /// The objects of a plain checkout, found without starting git.
    fn likely_objects(&self) -> Option<PathBuf> {
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
    fn option(&self) -> &'static str {
        match self {
            Self::Git { .. } => "--git",
            Self::Dir { .. } => "--dir",
        }
    }
}

/// One resource of one plan.
#[derive(Debug, Clone, Copy)]
pub struct Room<'a> {
    /// The plan.
    pub plan: PlanId,
    /// The resource.
    pub site: &'a Site,
}

impl Room<'_> {
    /// Its name among the plan's rooms, as a directory. No resource's name has a plus in it.
    pub fn name(&self) -> String {
        self.site.name.replace('/', "+")
    }
}

impl Room<'_> {
    /// What its target is called in the marks of a conflict.
    pub(crate) fn target_name(&self) -> &str {
        match &self.site.place {
            SitePlace::Git { target, .. } => repository::short(target),
            SitePlace::Dir { .. } => "directory",
        }
    }

    /// What its work is called there: by the end of the plan's id, as people write it.
    pub(crate) fn work_name(&self) -> String {
        let id = self.plan.to_string().to_lowercase();
        format!("plan-{}", &id[id.len().saturating_sub(8)..])
    }
}

/// What a holder finds in its sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The base, in a directory of its own; an earlier one is kept for rescue.
    Afresh,
    /// The base; what an earlier holder left is discarded, ignored files excepted.
    Base,
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
    pub made_by: Epoch,
    /// The holder that has it.
    pub held_by: Epoch,
    /// Paths in which a merge by an earlier version left conflicts; others are recorded in the vault.
    pub(crate) conflicts: Vec<TreePath>,
    pub(crate) index: PathBuf,
    /// What the agent's repository was when it was given to it.
    pub(crate) given: Option<GivenRepository>,
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
        let given = self.given.as_ref();
        given.is_some_and(|given| given.base == *base && Some(given.inode) == inode)
    }

    /// Says that this repository, into which everything of the one before was copied, took its place.
    pub(crate) fn exchanged_repository(&mut self, was_given: bool) {
        let inode = repository_inode(&self.path);
        if let (true, Some(given), Some(inode)) = (was_given, &mut self.given, inode) {
            given.inode = inode;
        }
    }

    /// Is the agent's repository the one it was given?
    pub(crate) fn still_has_given_repository(&self) -> bool {
        let given = self.given.as_ref().map(|given| given.inode);
        given.is_some() && given == repository_inode(&self.path)
    }

    /// Are its files there? A link that somebody put in its place leads to files that are not its.
    pub(crate) fn is_there(&self) -> bool {
        let above = self.path.parent().unwrap_or(&self.path);
        files::is_directory(&self.path) && files::is_directory(above)
    }

    /// The file that is held locked while a program works here; it is made when it is first locked.
    pub fn lock(&self) -> PathBuf {
        self.index.with_extension("busy")
    }

    /// Did the user's set-up command succeed here, or is it not to be run here?
    pub fn is_set_up(&self) -> bool {
        self.set_up_mark().exists()
    }

    /// Says that the user's set-up command succeeded here.
    pub(crate) fn set_up_mark(&self) -> PathBuf {
        self.index.with_extension("set-up")
    }
}

/// A sandbox that this process is in.
#[derive(Debug)]
pub struct Entered {
    /// The sandbox.
    pub sandbox: Sandbox,
    /// Keeps others from taking it over.
    pub hold: Hold,
}

/// What is written beside a sandbox once it is whole.
#[derive(Debug, Serialize, Deserialize)]
struct State {
    base: ObjectId,
    held_by: Epoch,
    #[serde(default)]
    conflicts: Vec<TreePath>,
    #[serde(default)]
    given: Option<GivenRepository>,
}

impl Workshop {
    /// A workshop in this directory.
    pub fn new(home: impl Into<PathBuf>, surroundings: Surroundings) -> Self {
        Self {
            home: home.into(),
            surroundings,
            supervisor: None,
            command_reach: CommandReach::default(),
            faults: Faults::default(),
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
    pub fn with_faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// What child processes get of the environment.
    pub fn surroundings(&self) -> &Surroundings {
        &self.surroundings
    }

    pub(crate) fn supervisor(&self) -> Option<&Supervisor> {
        self.supervisor.as_ref()
    }

    pub(crate) fn faults(&self) -> &Faults {
        &self.faults
    }

    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// Makes a directory below the home that only its owner can enter. What an earlier version made for all to see
    /// is closed: the home, unless it is shared with something else, and the directory in it.
    pub(crate) fn make_directory(&self, path: &Path) -> Result<(), SandboxError> {
        files::make_private_directory(path)?;
        let below = path.strip_prefix(&self.home).unwrap_or(path);
        if let Some(first) = below.components().next() {
            let top = self.home.join(first);
            files::make_private(&top).doing("closed", &top)?;
        }
        close_home(&self.home).doing("closed", &self.home)
    }

    /// Everything of a plan.
    pub(crate) fn plan_directory(&self, plan: PlanId) -> PathBuf {
        self.home.join("sandboxes").join(plan.to_string())
    }

    /// The vaults of a plan.
    pub(crate) fn vault_directory(&self, plan: PlanId) -> PathBuf {
        self.home.join("vaults").join(plan.to_string())
    }

    /// The plan's objects of one resource.
    pub(crate) fn vault(&self, room: &Room<'_>) -> Vault {
        let name = format!("{}.git", room.name());
        let mut path = self.vault_directory(room.plan).join(&name);
        if !path.exists() {
            // Where vaults were made before: a plan keeps the one it began with.
            let earlier = self.plan_directory(room.plan).join(&name);
            if earlier.exists() {
                path = earlier;
            }
        }
        Vault::at(&self.surroundings, &path)
    }

    /// The same, made if it is missing, and borrowing from where the repository is now.
    pub(crate) fn ready_vault(&self, room: &Room<'_>) -> Result<Vault, SandboxError> {
        let vault = self.vault(room);
        let likely = room.site.place.likely_objects();
        if likely.is_some_and(|objects| vault.borrows_from(&objects)) {
            return Ok(vault);
        }
        self.make_vault(room, &self.repository(room.site)?)
    }

    /// Makes a vault, or what is missing of it. The engine's index of a sandbox names objects of the vault: where
    /// the vault was lost it is built again, from the base.
    pub(crate) fn make_vault(
        &self,
        room: &Room<'_>,
        repository: &Repository,
    ) -> Result<Vault, SandboxError> {
        let vault = self.vault(room);
        if let Some(above) = vault.path().parent() {
            self.make_directory(above)?;
        }
        if vault.path().join("HEAD").exists() {
            vault.make(repository, &self.faults)?;
            return Ok(vault);
        }
        let mut orphaned = self.all(room)?;
        orphaned.retain(Sandbox::is_there);
        for sandbox in &orphaned {
            let _ = std::fs::remove_file(&sandbox.index);
        }
        vault.make(repository, &self.faults)?;
        for sandbox in &orphaned {
            checkout::index_again(&vault, sandbox)?;
        }
        Ok(vault)
    }

    /// Is a resource where its project says?
    pub fn check_place(&self, site: &Site) -> Result<(), SandboxError> {
        if site.place.is_there() {
            return Ok(());
        }
        let (project, resource) = site.name.rsplit_once('/').unwrap_or(("", &site.name));
        let option = site.place.option();
        Err(SandboxError::BadPlace {
            path: site.place.path().to_owned(),
            why: "is gone: it was moved or deleted".to_owned(),
            hint: format!(
                "If it was moved, say where to: planwright project relink {project} {resource} \
                 {option} PATH"
            ),
        })
    }

    /// The repository of a resource.
    pub fn repository(&self, site: &Site) -> Result<Repository, SandboxError> {
        self.check_place(site)?;
        match &site.place {
            SitePlace::Git { path, .. } => Repository::open(&self.surroundings, path),
            SitePlace::Dir { path } => snapshot::repository_of(self, path),
        }
    }

    /// The commit that work on a resource would start from now. Of a directory, a snapshot.
    pub fn tip(&self, site: &Site) -> Result<ObjectId, SandboxError> {
        let repository = self.repository(site)?;
        match &site.place {
            SitePlace::Git { target, .. } => repository.existing_tip(target),
            SitePlace::Dir { .. } => snapshot::take(&repository),
        }
    }

    /// The whole sandbox of a resource that the newest holder has, if there is one.
    pub fn current(&self, room: &Room<'_>) -> Result<Option<Sandbox>, SandboxError> {
        Ok(self.all(room)?.pop())
    }

    /// Every whole sandbox of a resource, that of the oldest holder first.
    pub(crate) fn all(&self, room: &Room<'_>) -> Result<Vec<Sandbox>, SandboxError> {
        let mut found = Vec::new();
        for made_by in files::names_in(&self.plan_directory(room.plan))? {
            found.extend(self.whole(room, Epoch(made_by))?);
        }
        found.sort_by_key(|sandbox| sandbox.held_by);
        Ok(found)
    }

    /// The sandbox of this holder, entered anew. A holder that was replaced is told so.
    pub fn occupy(&self, room: &Room<'_>, epoch: Epoch) -> Result<Entered, SandboxError> {
        let found = self.held_by(room, epoch)?;
        let hold = supervise::take(&found.lock())?;
        // Looked at again: nobody takes it over from now on, but somebody may just have.
        let sandbox = self.held_by(room, epoch)?;
        Ok(Entered { sandbox, hold })
    }

    /// The newest sandbox, if this holder has it.
    fn held_by(&self, room: &Room<'_>, epoch: Epoch) -> Result<Sandbox, SandboxError> {
        match self.current(room)? {
            Some(sandbox) if sandbox.held_by == epoch => Ok(sandbox),
            Some(sandbox) if sandbox.held_by > epoch => Err(SandboxError::Fenced {
                given: epoch.0,
                current: sandbox.held_by.0,
            }),
            Some(_) | None => Err(SandboxError::SandboxGone {
                path: self.plan_directory(room.plan),
            }),
        }
    }

    /// A sandbox for this holder. Repeating it gives the same one.
    pub fn enter(
        &self,
        room: &Room<'_>,
        epoch: Epoch,
        base: &ObjectId,
        start: Start,
    ) -> Result<Entered, SandboxError> {
        let repository = self.repository(room.site)?;
        self.make_directory(&self.plan_directory(room.plan))?;
        let is_first = !self.vault(room).path().exists();
        let vault = self.make_vault(room, &repository)?;
        if !(is_first && self.pin_first(room, &repository, base)?) {
            self.pin_base(room, &repository, base)?;
        }
        self.after(Step::BasePinned, repository.path())?;
        if let Some(current) = self.current(room)? {
            if current.held_by >= epoch && current.is_there() {
                return self.occupy(room, epoch);
            }
            let wanted = start != Start::Afresh && current.is_there();
            if wanted && let Some(alone) = left_by_all(&current)? {
                return self.take_over(room, alone, epoch, base, start);
            }
        }
        let from_checkpoint = match start {
            Start::Afresh | Start::Base => None,
            Start::Continue => vault.last_checkpoint()?,
        };
        let tree = match from_checkpoint {
            Some((of, tree)) if of == *base => tree,
            // git takes the commit for its tree.
            Some(_) | None => base.clone(),
        };
        if start != Start::Continue {
            vault.forget_conflicts()?;
        }
        self.make(room, &repository, epoch, base, &tree)?;
        self.occupy(room, epoch)
    }

    /// Remembers a result as the state of the work, for a plan that began with one. What was
    /// remembered before stays.
    pub fn seed(
        &self,
        room: &Room<'_>,
        epoch: Epoch,
        base: &ObjectId,
        tree: &ObjectId,
    ) -> Result<(), SandboxError> {
        let repository = self.repository(room.site)?;
        let vault = self.make_vault(room, &repository)?;
        if vault.checkpoint_commit()?.is_some() {
            return Ok(());
        }
        match check_reachable(&vault.git(), repository.path(), &vault, base, tree) {
            // What the sandbox holds is captured again.
            Err(SandboxError::ResultGone { .. })
                if self
                    .current(room)?
                    .is_some_and(|sandbox| sandbox.is_there()) =>
            {
                return Ok(());
            }
            checked => checked?,
        }
        let checkpoint = vault.checkpoint(room.plan, epoch, base, tree)?;
        self.remember(room, epoch, &checkpoint, None)
    }

    /// Remembers a checkpoint as the newest, unless another was remembered since `before`.
    pub(crate) fn remember(
        &self,
        room: &Room<'_>,
        epoch: Epoch,
        checkpoint: &ObjectId,
        before: Option<&ObjectId>,
    ) -> Result<(), SandboxError> {
        let remembered = self.vault(room).remember(checkpoint, before);
        if remembered.is_err() {
            // Only a newer holder remembers something else meanwhile, and has its own sandbox then.
            self.held_by(room, epoch)?;
        }
        remembered
    }

    /// Puts paths of a holder's sandbox back to what they are in its base.
    pub fn drop_paths(
        &self,
        room: &Room<'_>,
        epoch: Epoch,
        paths: &[TreePath],
    ) -> Result<(), SandboxError> {
        let entered = self.occupy(room, epoch)?;
        checkout::put_back(&self.ready_vault(room)?, &entered.sandbox, paths)?;
        self.copy_modes(room, &entered.sandbox)
    }

    /// Merges where the target is now into a sandbox, conflicts marked, and makes that its base.
    pub fn catch_up(
        &self,
        room: &Room<'_>,
        epoch: Epoch,
        tip: &ObjectId,
    ) -> Result<Sandbox, SandboxError> {
        let gone = || SandboxError::SandboxGone {
            path: self.plan_directory(room.plan),
        };
        let vault = self.ready_vault(room)?;
        let Entered {
            sandbox,
            hold: _hold,
        } = self.occupy(room, epoch)?;
        if sandbox.base == *tip {
            return Ok(sandbox);
        }
        let repository = self.repository(room.site)?;
        self.pin_base(room, &repository, tip)?;
        self.after(Step::BasePinned, repository.path())?;
        // Remembered before the files change, so that repeating it does not merge what is merged.
        let merged_before = vault.last_checkpoint()?.filter(|(of, _)| of == tip);
        let tree = match merged_before {
            Some((_, tree)) => tree,
            None => {
                // Also what somebody changed there after it was handed in.
                self.capture(room, epoch, &sandbox.base)?;
                let work = vault.checkpoint_commit()?.ok_or_else(gone)?;
                let names = [room.target_name(), &room.work_name()];
                let merged = crate::land::merge_named(&vault, &sandbox.base, tip, &work, names)?;
                let sides = [tip, &work];
                self.record_conflicts(room, &sandbox, sides, names, &merged.conflicts)?;
                let checkpoint = vault.checkpoint(room.plan, epoch, tip, &merged.tree)?;
                self.remember(room, epoch, &checkpoint, Some(&work))?;
                merged.tree
            }
        };
        checkout::lay_out(&vault, &sandbox, &tree)?;
        self.copy_modes(room, &sandbox)?;
        let caught_up = Sandbox {
            base: tip.clone(),
            held_by: epoch,
            ..sandbox
        };
        self.declare(room, &caught_up)?;
        Ok(caught_up)
    }

    fn whole(&self, room: &Room<'_>, made_by: Epoch) -> Result<Option<Sandbox>, SandboxError> {
        let directory = self.plan_directory(room.plan).join(made_by.to_string());
        let name = room.name();
        let state = directory.join(format!("{name}.json"));
        let text = match std::fs::read(&state) {
            Ok(text) => text,
            Err(error) if files::is_absent(&error) => return Ok(None),
            Err(error) => return Err(error).doing("read", &state),
        };
        let state: State =
            serde_json::from_slice(&text).map_err(|error| SandboxError::Damaged {
                path: state.clone(),
                why: error.to_string(),
            })?;
        Ok(Some(Sandbox {
            path: directory.join(&name),
            index: directory.join(format!("{name}.index")),
            base: state.base,
            made_by,
            held_by: state.held_by,
            conflicts: state.conflicts,
            given: state.given,
        }))
    }

    /// Goes on in the newest sandbox, which nobody else is in.
    fn take_over(
        &self,
        room: &Room<'_>,
        alone: Alone,
        epoch: Epoch,
        base: &ObjectId,
        start: Start,
    ) -> Result<Entered, SandboxError> {
        let vault = self.vault(room);
        // Looked at again: whoever is newer may have been here before the lock was ours.
        let mut sandbox = match self.current(room)? {
            Some(sandbox) if sandbox.held_by < epoch => sandbox,
            Some(_) | None => self.held_by(room, epoch)?,
        };
        if start == Start::Base || sandbox.base != *base {
            if start == Start::Base {
                vault.forget_conflicts()?;
                sandbox.conflicts.clear();
            }
            checkout::lay_out(&vault, &sandbox, base)?;
            self.copy_modes(room, &sandbox)?;
            checkout::sweep(&vault, &sandbox)?;
            sandbox.base = base.clone();
        }
        sandbox.held_by = epoch;
        self.declare(room, &sandbox)?;
        let hold = alone.share()?;
        let sandbox = self.held_by(room, epoch)?;
        Ok(Entered { sandbox, hold })
    }

    fn make(
        &self,
        room: &Room<'_>,
        repository: &Repository,
        epoch: Epoch,
        base: &ObjectId,
        tree: &ObjectId,
    ) -> Result<(), SandboxError> {
        let directory = self.plan_directory(room.plan).join(epoch.to_string());
        self.make_directory(&directory)?;
        let name = room.name();
        let mut sandbox = Sandbox {
            path: directory.join(&name),
            index: directory.join(format!("{name}.index")),
            base: base.clone(),
            made_by: epoch,
            held_by: epoch,
            conflicts: Vec::new(),
            given: None,
        };
        // Without its state file, whatever is here is what a killed process left of the same try.
        files::remove_tree(&sandbox.path)?;
        let _ = std::fs::remove_file(&sandbox.index);
        let _ = std::fs::remove_file(sandbox.set_up_mark());
        let _ = std::fs::remove_file(sandbox.ignored_record());
        files::make_private_directory(&sandbox.path)?;
        let vault = self.vault(room);
        checkout::lay_out(&vault, &sandbox, tree)?;
        self.copy_modes(room, &sandbox)?;
        if tree != base {
            // What an agent wrote is in it: the user's command must not run that with the user's rights.
            files::write_whole(&sandbox.set_up_mark(), b"not run on the work of an agent")?;
        }
        self.after(Step::FilesLaidOut, &sandbox.path)?;
        let branch = match &room.site.place {
            SitePlace::Git { target, .. } => target.as_str(),
            SitePlace::Dir { .. } => "refs/heads/main",
        };
        checkout::give_repository(&vault, repository, &sandbox, branch)?;
        sandbox.given = repository_inode(&sandbox.path).map(|inode| GivenRepository {
            base: base.clone(),
            inode,
        });
        self.after(Step::RepositoryMade, &sandbox.path)?;
        self.declare(room, &sandbox)?;
        self.after(Step::SandboxReady, &sandbox.path)
    }

    pub(crate) fn declare(&self, room: &Room<'_>, sandbox: &Sandbox) -> Result<(), SandboxError> {
        let directory = self
            .plan_directory(room.plan)
            .join(sandbox.made_by.to_string());
        let state = State {
            base: sandbox.base.clone(),
            held_by: sandbox.held_by,
            conflicts: sandbox.conflicts.clone(),
            given: sandbox.given.clone(),
        };
        let text = serde_json::to_vec(&state).expect("BUG: a state always encodes");
        files::write_whole(&directory.join(format!("{}.json", room.name())), &text)
    }

    /// Keeps the base from being pruned while the plan lives.
    fn pin_base(
        &self,
        room: &Room<'_>,
        repository: &Repository,
        base: &ObjectId,
    ) -> Result<(), SandboxError> {
        let git = repository.git();
        let vault = self.vault(room);
        let name = refs::base(room.plan, &room.name());
        let (commit, parent) = (format!("{base}^{{commit}}"), format!("{name}^1"));
        // What lies on top of the base keeps it as well: the rest of another plan does.
        let [theirs, pinned, below] = refs::read_all(&git, [&commit, &name, &parent])?;
        let is_pinned = pinned.as_ref() == Some(base) || below.as_ref() == Some(base);
        if theirs.is_some() {
            if !is_pinned {
                git.run(&["update-ref", &name, base.as_str()])?;
            }
        } else if refs::read(&vault.git(), &commit)?.is_some() {
            vault.keep("base", base)?;
        } else {
            return Err(SandboxError::ObjectGone {
                path: repository.path().to_owned(),
                object: base.to_string(),
            });
        }
        Ok(())
    }

    /// The same of a plan that most likely has nothing pinned yet, and whose base is the user's:
    /// without looking first.
    fn pin_first(
        &self,
        room: &Room<'_>,
        repository: &Repository,
        base: &ObjectId,
    ) -> Result<bool, SandboxError> {
        let name = refs::base(room.plan, &room.name());
        let (new, absent) = (base.as_str(), base.nothing_like());
        let git = repository.git();
        let answered = git.ask(&["update-ref", &name, new, absent.as_str()])?;
        Ok(answered.code == 0)
    }
}

/// By which an agent's repository is told from another that takes its place.
fn repository_inode(sandbox: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::symlink_metadata(sandbox.join(".git")).ok()?;
    metadata.is_dir().then(|| metadata.ino())
}

/// Is this the name of something that Planwright keeps in its home?
fn is_ours(name: &str) -> bool {
    const DIRECTORIES: &[&str] = &[
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
    const FILES: &[&str] = &["config.yaml", "goal-", "host", "planwright.db"];
    DIRECTORIES.contains(&name) || FILES.iter().any(|file| name.starts_with(file))
}

/// Closes a home to others that an earlier version left open. A directory with anything else in it, of another
/// owner, or for everybody's files, is not ours to close.
fn close_home(home: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::symlink_metadata(home)?;
    let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
    let is_open = metadata.mode() & 0o077 != 0;
    if !metadata.is_dir() || !is_own || !is_open || metadata.mode() & 0o1000 != 0 {
        return Ok(());
    }
    for entry in std::fs::read_dir(home)? {
        if !entry?.file_name().to_str().is_some_and(is_ours) {
            return Ok(());
        }
    }
    files::make_private(home)
}

/// Who is in a directory.
pub(crate) enum Inside {
    /// Nobody, as far as processes can be seen.
    Nobody,
    /// This process, for one.
    Process(u32),
    /// Processes cannot be seen here, so that somebody may be.
    Unknown,
}

/// Looks who is in a directory.
pub(crate) fn inside(directory: &Path) -> Inside {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Inside::Unknown;
    };
    let Ok(directory) = directory.canonicalize() else {
        return Inside::Unknown;
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
                return Inside::Process(number);
            }
        }
    }
    if seen_any {
        Inside::Nobody
    } else {
        Inside::Unknown
    }
}

/// A sandbox's lock, if nobody is in it any more. Whoever is being ended there is waited for.
fn left_by_all(sandbox: &Sandbox) -> Result<Option<Alone>, SandboxError> {
    let alone = supervise::take_alone(&sandbox.lock(), ENDING)?;
    Ok(alone.filter(|_| matches!(inside(&sandbox.path), Inside::Nobody)))
}
