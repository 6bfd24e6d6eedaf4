//! The vault: a bare repository of ours for one plan and resource. It borrows the user's objects
//! and keeps the plan's own: checkpoints, results, merges. No agent gets at it, so that git may
//! trust what is configured in it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use plan::{Epoch, PlanId};

use crate::compare::ScratchDir;
use crate::error::FileErrorContext;
use crate::git::{GitCommand, GitEnv};
use crate::step_faults::{Step, StepFaults};
use crate::{ObjectId, Repository, SandboxError, files, refs};

/// Where a plan's objects are kept.
#[derive(Debug, Clone)]
pub(crate) struct Vault {
    git_env: GitEnv,
    path: PathBuf,
}

/// Keeps the newest state of the work.
const CHECKPOINT_REF: &str = "refs/planwright/checkpoint";

/// What agents leave where they work that is no part of it. Aider would otherwise name it in `.gitignore`, which
/// would be a change, also of a run in which nothing came of anything else.
const AGENT_EXCLUDES: &[u8] =
    b"\n.aider\n.aider.chat.history.md\n.aider.input.history\n.aider.llm.history\n.aider.tags.cache.*\n";

/// Of how many places a vault may borrow objects.
const MAX_VAULT_LENDERS: usize = 8;

/// How commits of the engine's own are signed; they never reach a branch.
const ENGINE_AUTHOR: &str = "Planwright";

impl Vault {
    /// The vault at this path, whether it exists or not.
    pub fn at_path(git_env: &GitEnv, path: &Path) -> Self {
        Self {
            git_env: git_env.clone(),
            path: path.to_owned(),
        }
    }

    /// Makes it, or what is missing of it: every step may be repeated.
    pub fn create_or_repair(
        &self,
        repository: &Repository,
        faults: &StepFaults,
    ) -> Result<(), SandboxError> {
        create_bare_repository(&self.path, repository.object_format())?;
        self.borrow_objects_from(repository)?;
        mirror_file(repository.common_dir(), &self.path, "shallow")?;
        copy_excludes(repository.common_dir(), &self.path)?;
        faults
            .check_step(Step::VaultMade)
            .while_being("written", &self.path)
    }

    /// Borrows from where the repository is now. Earlier places stay on the list as long as they exist:
    /// a plan that began in one clone and goes on in another needs both.
    fn borrow_objects_from(&self, repository: &Repository) -> Result<(), SandboxError> {
        let mut lenders = vec![repository.common_dir().join("objects")];
        for earlier in read_alternates(&self.objects_dir()) {
            let wanted = earlier.is_dir() && !lenders.contains(&earlier);
            if wanted && lenders.len() < MAX_VAULT_LENDERS {
                lenders.push(earlier);
            }
        }
        write_alternates(&self.path, &lenders)
    }

    /// Is it there, and does it borrow from these objects before all others?
    pub fn borrows_from(&self, objects: &Path) -> bool {
        read_alternates(&self.objects_dir())
            .first()
            .map(PathBuf::as_path)
            == Some(objects)
    }

    /// git on the vault that also reads this repository's objects, for callers that may not write: the
    /// vault may still name the place where the repository was.
    pub fn git_with_repository_objects(&self, repository: &Repository) -> GitCommand {
        let objects = repository.common_dir().join("objects");
        self.git().with_variable(
            "GIT_ALTERNATE_OBJECT_DIRECTORIES",
            format_alternates(&[&objects]),
        )
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn git_env(&self) -> &GitEnv {
        &self.git_env
    }

    /// A directory in it that nobody else uses, and that goes when it is no longer needed.
    pub fn new_scratch_dir(&self) -> ScratchDir {
        static NEXT_SCRATCH_NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NEXT_SCRATCH_NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("scratch-{}-{number}", std::process::id());
        ScratchDir(self.path.join(name))
    }

    /// Its objects, for others to borrow.
    pub fn objects_dir(&self) -> PathBuf {
        self.path.join("objects")
    }

    /// Removes what a git that found no room wrote of objects and left.
    pub fn remove_unfinished_objects(&self) {
        let directories = std::fs::read_dir(self.objects_dir()).into_iter().flatten();
        for directory in directories.flatten() {
            let files = std::fs::read_dir(directory.path()).into_iter().flatten();
            for file in files.flatten() {
                if file.file_name().as_encoded_bytes().starts_with(b"tmp_") {
                    let _ = std::fs::remove_file(file.path());
                }
            }
        }
    }

    /// git on the vault.
    pub fn git(&self) -> GitCommand {
        GitCommand::at_git_dir(&self.git_env, &self.path)
    }

    /// A commit of the engine's own, the same for the same tree and parent.
    pub fn create_commit(
        &self,
        tree: &ObjectId,
        parent: Option<&ObjectId>,
        message: &str,
    ) -> Result<ObjectId, SandboxError> {
        let mut arguments = vec!["commit-tree", tree.as_str(), "-m", message];
        if let Some(parent) = parent {
            arguments.extend(["-p", parent.as_str()]);
        }
        with_author(self.git(), ENGINE_AUTHOR, "planwright@localhost", 0).read_object_id(&arguments)
    }

    /// The state of the work as a commit: its tree on its base.
    pub fn create_checkpoint(
        &self,
        plan_id: PlanId,
        epoch: Epoch,
        base: &ObjectId,
        tree: &ObjectId,
    ) -> Result<ObjectId, SandboxError> {
        let message = format!("Checkpoint of {plan_id}, epoch {epoch}");
        self.create_commit(tree, Some(base), &message)
    }

    /// Remembers a checkpoint as the newest, if the newest is still this one.
    pub fn set_checkpoint(
        &self,
        checkpoint: &ObjectId,
        expected: Option<&ObjectId>,
    ) -> Result<(), SandboxError> {
        let arguments = ["update-ref", "--create-reflog", "-m", "checkpoint"];
        let before = expected.cloned().unwrap_or_else(|| checkpoint.null_id());
        let change = [CHECKPOINT_REF, checkpoint.as_str(), before.as_str()];
        let git = self.git();
        git.run(&[&arguments[..], &change].concat()).map(drop)
    }

    /// The newest checkpoint: its base and its tree.
    pub fn last_checkpoint(&self) -> Result<Option<(ObjectId, ObjectId)>, SandboxError> {
        if self.has_no_checkpoint() {
            return Ok(None);
        }
        let (base, tree) = (
            format!("{CHECKPOINT_REF}^"),
            format!("{CHECKPOINT_REF}^{{tree}}"),
        );
        let [base, tree] = refs::resolve_names(&self.git(), [&base, &tree])?;
        Ok(base.zip(tree))
    }

    /// The commit of the newest checkpoint.
    pub fn checkpoint_commit(&self) -> Result<Option<ObjectId>, SandboxError> {
        if self.has_no_checkpoint() {
            return Ok(None);
        }
        refs::resolve_name(&self.git(), CHECKPOINT_REF)
    }

    /// Is it plain that there is none? Every new sandbox asks, and mostly it is: the vault's refs are
    /// files, and only ours.
    fn has_no_checkpoint(&self) -> bool {
        let has_none = |name: &str| !self.path.join(name).exists();
        has_none(CHECKPOINT_REF) && has_none("packed-refs")
    }

    /// Keeps an object from being lost to tidying up.
    pub fn keep_object(&self, name: &str, object: &ObjectId) -> Result<(), SandboxError> {
        let name = format!("refs/planwright/kept/{name}");
        self.git()
            .run(&["update-ref", &name, object.as_str()])
            .map(drop)
    }

    /// The tree of a commit, as far as its objects can be reached.
    pub fn read_tree_of(&self, commit: &ObjectId) -> Result<ObjectId, SandboxError> {
        resolve_tree(&self.git(), &self.path, commit)
    }
}

/// The tree of a commit; a commit that cannot be reached is said to be gone.
pub(crate) fn resolve_tree(
    git: &GitCommand,
    path: &Path,
    commit: &ObjectId,
) -> Result<ObjectId, SandboxError> {
    refs::resolve_name(git, &format!("{commit}^{{tree}}"))?.ok_or_else(|| {
        SandboxError::ObjectMissing {
            path: path.to_owned(),
            object: commit.to_string(),
        }
    })
}

/// git that commits as this person at this moment.
pub(crate) fn with_author(git: GitCommand, name: &str, email: &str, seconds: i64) -> GitCommand {
    let date = format!("@{seconds} +0000");
    git.with_variable("GIT_AUTHOR_NAME", name)
        .with_variable("GIT_AUTHOR_EMAIL", email)
        .with_variable("GIT_AUTHOR_DATE", &date)
        .with_variable("GIT_COMMITTER_NAME", name)
        .with_variable("GIT_COMMITTER_EMAIL", email)
        .with_variable("GIT_COMMITTER_DATE", &date)
}

/// An empty bare repository; what is there already is left alone.
pub(crate) fn create_bare_repository(path: &Path, object_format: &str) -> Result<(), SandboxError> {
    // Whatever git writes into it is nobody else's to read.
    let config = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n\tfilemode = true\n\
                  \tsharedRepository = 0600\n";
    write_repository_files(path, object_format, config, "refs/heads/none")
}

/// The files git needs to see a repository. Written here because starting git for it would take
/// longer than everything else about a small sandbox.
pub(crate) fn write_repository_files(
    path: &Path,
    object_format: &str,
    config: &str,
    head: &str,
) -> Result<(), SandboxError> {
    for directory in ["objects/info", "objects/pack", "refs/heads", "info"] {
        files::make_private_directory(&path.join(directory))?;
    }
    let config = format!("{config}[extensions]\n\tobjectformat = {object_format}\n");
    write_if_changed(&path.join("config"), config.as_bytes())?;
    // Last, because by it git recognises a repository.
    write_if_changed(&path.join("HEAD"), format!("ref: {head}\n").as_bytes())
}

/// Lets a repository read the objects of others.
pub(crate) fn write_alternates(path: &Path, objects: &[PathBuf]) -> Result<(), SandboxError> {
    use std::os::unix::ffi::OsStrExt;
    let mut text = Vec::new();
    for directory in objects {
        let bytes = directory.as_os_str().as_bytes();
        if bytes.contains(&b'\n') {
            return Err(SandboxError::UnusableLocation {
                path: directory.clone(),
                why: "has a line break in its name, which git cannot borrow from".to_owned(),
                hint: "Rename the directory.".to_owned(),
            });
        }
        text.extend(bytes);
        text.push(b'\n');
    }
    write_if_changed(&path.join("objects/info/alternates"), &text)
}

/// The object directories that one borrows from, as its list says.
pub(crate) fn read_alternates(objects: &Path) -> Vec<PathBuf> {
    let list = std::fs::read(objects.join("info/alternates")).unwrap_or_default();
    list.split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| objects.join(crate::repository::path_from_bytes(line)))
        .collect()
}

/// Object directories as git reads them from a variable: separated by colons, quoted so that a colon may be
/// in a name.
pub(crate) fn format_alternates(directories: &[&Path]) -> std::ffi::OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let mut text = Vec::new();
    for directory in directories {
        if !text.is_empty() {
            text.push(b':');
        }
        text.push(b'"');
        for byte in directory.as_os_str().as_bytes() {
            if matches!(byte, b'"' | b'\\') {
                text.push(b'\\');
            }
            text.push(*byte);
        }
        text.push(b'"');
    }
    std::ffi::OsString::from_vec(text)
}

/// Copies a file from one repository to another, or removes it where the first has none.
pub(crate) fn mirror_file(from: &Path, to: &Path, name: &str) -> Result<(), SandboxError> {
    let (source, copy) = (from.join(name), to.join(name));
    match std::fs::read(&source) {
        Ok(content) => write_if_changed(&copy, &content),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            match std::fs::remove_file(&copy) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    Err(error).while_being("removed", &copy)
                }
                Ok(()) | Err(_) => Ok(()),
            }
        }
        Err(error) => Err(error).while_being("read", &source),
    }
}

/// Leaves out what the person leaves out, and what agents keep for themselves among the files they work on.
fn copy_excludes(from: &Path, to: &Path) -> Result<(), SandboxError> {
    const EXCLUDE_FILE: &str = "info/exclude";
    let source = from.join(EXCLUDE_FILE);
    let mut content = match std::fs::read(&source) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        read => read.while_being("read", &source)?,
    };
    content.extend_from_slice(AGENT_EXCLUDES);
    write_if_changed(&to.join(EXCLUDE_FILE), &content)
}

/// Writes a file unless it says so already. One that says something else is replaced whole: another
/// process may be reading it.
fn write_if_changed(path: &Path, content: &[u8]) -> Result<(), SandboxError> {
    match std::fs::read(path) {
        Ok(there) if there == content => Ok(()),
        Ok(_) => {
            let new = path.with_extension(format!("new-{}", std::process::id()));
            files::write_private_file(&new, content)?;
            std::fs::rename(&new, path).while_being("written", path)
        }
        Err(_) => files::write_private_file(path, content),
    }
}
