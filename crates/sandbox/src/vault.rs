//! The vault: a bare repository of ours for one plan and resource. It borrows the user's objects
//! and keeps the plan's own: checkpoints, results, merges. No agent gets at it, so that git may
//! trust what is configured in it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use plan::{Epoch, PlanId};

use crate::compare::Scratch;
use crate::error::Doing;
use crate::fault::{Faults, Step};
use crate::git::{Git, Surroundings};
use crate::{ObjectId, Repository, SandboxError, files, refs};

/// Where a plan's objects are kept.
#[derive(Debug, Clone)]
pub(crate) struct Vault {
    surroundings: Surroundings,
    path: PathBuf,
}

/// Keeps the newest state of the work.
const CHECKPOINT: &str = "refs/planwright/checkpoint";

/// What agents leave where they work that is no part of it. Aider would otherwise name it in `.gitignore`, which
/// would be a change, also of a run in which nothing came of anything else.
const KEPT_BY_AGENTS: &[u8] =
    b"\n.aider\n.aider.chat.history.md\n.aider.input.history\n.aider.llm.history\n.aider.tags.cache.*\n";

/// Of how many places a vault may borrow objects.
const MAX_LENDERS: usize = 8;

/// How commits of the engine's own are signed; they never reach a branch.
const OURS: &str = "Planwright";

impl Vault {
    /// The vault at this path, whether it exists or not.
    pub fn at(surroundings: &Surroundings, path: &Path) -> Self {
        Self {
            surroundings: surroundings.clone(),
            path: path.to_owned(),
        }
    }

    /// Makes it, or what is missing of it: every step may be repeated.
    pub fn make(&self, repository: &Repository, faults: &Faults) -> Result<(), SandboxError> {
        bare_repository(&self.path, repository.object_format())?;
        self.borrow_from(repository)?;
        copy_if_there(repository.common_dir(), &self.path, "shallow")?;
        exclude_as(repository.common_dir(), &self.path)?;
        faults.after(Step::VaultMade).doing("written", &self.path)
    }

    /// Borrows from where the repository is now. Earlier places stay on the list as long as they exist:
    /// a plan that began in one clone and goes on in another needs both.
    fn borrow_from(&self, repository: &Repository) -> Result<(), SandboxError> {
        let mut lenders = vec![repository.common_dir().join("objects")];
        for earlier in lenders_of(&self.objects()) {
            let wanted = earlier.is_dir() && !lenders.contains(&earlier);
            if wanted && lenders.len() < MAX_LENDERS {
                lenders.push(earlier);
            }
        }
        borrow(&self.path, &lenders)
    }

    /// Is it there, and does it borrow from these objects before all others?
    pub fn borrows_from(&self, objects: &Path) -> bool {
        lenders_of(&self.objects()).first().map(PathBuf::as_path) == Some(objects)
    }

    /// git on the vault that also reads this repository's objects, for callers that may not write: the
    /// vault may still name the place where the repository was.
    pub fn git_beside(&self, repository: &Repository) -> Git {
        let objects = repository.common_dir().join("objects");
        self.git().with(
            "GIT_ALTERNATE_OBJECT_DIRECTORIES",
            alternates_variable(&[&objects]),
        )
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn surroundings(&self) -> &Surroundings {
        &self.surroundings
    }

    /// A directory in it that nobody else uses, and that goes when it is no longer needed.
    pub fn scratch(&self) -> Scratch {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("scratch-{}-{number}", std::process::id());
        Scratch(self.path.join(name))
    }

    /// Its objects, for others to borrow.
    pub fn objects(&self) -> PathBuf {
        self.path.join("objects")
    }

    /// Removes what a git that found no room wrote of objects and left.
    pub fn remove_unfinished_objects(&self) {
        let directories = std::fs::read_dir(self.objects()).into_iter().flatten();
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
    pub fn git(&self) -> Git {
        Git::at(&self.surroundings, &self.path)
    }

    /// A commit of the engine's own, the same for the same tree and parent.
    pub fn commit(
        &self,
        tree: &ObjectId,
        parent: Option<&ObjectId>,
        message: &str,
    ) -> Result<ObjectId, SandboxError> {
        let mut arguments = vec!["commit-tree", tree.as_str(), "-m", message];
        if let Some(parent) = parent {
            arguments.extend(["-p", parent.as_str()]);
        }
        signed(self.git(), OURS, "planwright@localhost", 0).object(&arguments)
    }

    /// The state of the work as a commit: its tree on its base.
    pub fn checkpoint(
        &self,
        plan: PlanId,
        epoch: Epoch,
        base: &ObjectId,
        tree: &ObjectId,
    ) -> Result<ObjectId, SandboxError> {
        let message = format!("Checkpoint of {plan}, epoch {epoch}");
        self.commit(tree, Some(base), &message)
    }

    /// Remembers a checkpoint as the newest, if the newest is still this one.
    pub fn remember(
        &self,
        checkpoint: &ObjectId,
        before: Option<&ObjectId>,
    ) -> Result<(), SandboxError> {
        let arguments = ["update-ref", "--create-reflog", "-m", "checkpoint"];
        let before = before.cloned().unwrap_or_else(|| checkpoint.nothing_like());
        let change = [CHECKPOINT, checkpoint.as_str(), before.as_str()];
        let git = self.git();
        git.run(&[&arguments[..], &change].concat()).map(drop)
    }

    /// The newest checkpoint: its base and its tree.
    pub fn last_checkpoint(&self) -> Result<Option<(ObjectId, ObjectId)>, SandboxError> {
        if self.has_no_checkpoint() {
            return Ok(None);
        }
        let (base, tree) = (format!("{CHECKPOINT}^"), format!("{CHECKPOINT}^{{tree}}"));
        let [base, tree] = refs::read_all(&self.git(), [&base, &tree])?;
        Ok(base.zip(tree))
    }

    /// The commit of the newest checkpoint.
    pub fn checkpoint_commit(&self) -> Result<Option<ObjectId>, SandboxError> {
        if self.has_no_checkpoint() {
            return Ok(None);
        }
        refs::read(&self.git(), CHECKPOINT)
    }

    /// Is it plain that there is none? Every new sandbox asks, and mostly it is: the vault's refs are
    /// files, and only ours.
    fn has_no_checkpoint(&self) -> bool {
        let has_none = |name: &str| !self.path.join(name).exists();
        has_none(CHECKPOINT) && has_none("packed-refs")
    }

    /// Keeps an object from being lost to tidying up.
    pub fn keep(&self, name: &str, object: &ObjectId) -> Result<(), SandboxError> {
        let name = format!("refs/planwright/kept/{name}");
        self.git()
            .run(&["update-ref", &name, object.as_str()])
            .map(drop)
    }

    /// The tree of a commit, as far as its objects can be reached.
    pub fn tree_of(&self, commit: &ObjectId) -> Result<ObjectId, SandboxError> {
        tree_of(&self.git(), &self.path, commit)
    }
}

/// The tree of a commit; a commit that cannot be reached is said to be gone.
pub(crate) fn tree_of(git: &Git, path: &Path, commit: &ObjectId) -> Result<ObjectId, SandboxError> {
    refs::read(git, &format!("{commit}^{{tree}}"))?.ok_or_else(|| SandboxError::ObjectGone {
        path: path.to_owned(),
        object: commit.to_string(),
    })
}

/// git that commits as this person at this moment.
pub(crate) fn signed(git: Git, name: &str, email: &str, seconds: i64) -> Git {
    let date = format!("@{seconds} +0000");
    git.with("GIT_AUTHOR_NAME", name)
        .with("GIT_AUTHOR_EMAIL", email)
        .with("GIT_AUTHOR_DATE", &date)
        .with("GIT_COMMITTER_NAME", name)
        .with("GIT_COMMITTER_EMAIL", email)
        .with("GIT_COMMITTER_DATE", &date)
}

/// An empty bare repository; what is there already is left alone.
pub(crate) fn bare_repository(path: &Path, object_format: &str) -> Result<(), SandboxError> {
    // Whatever git writes into it is nobody else's to read.
    let config = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n\tfilemode = true\n\
                  \tsharedRepository = 0600\n";
    repository_files(path, object_format, config, "refs/heads/none")
}

/// The files git needs to see a repository. Written here because starting git for it would take
/// longer than everything else about a small sandbox.
pub(crate) fn repository_files(
    path: &Path,
    object_format: &str,
    config: &str,
    head: &str,
) -> Result<(), SandboxError> {
    for directory in ["objects/info", "objects/pack", "refs/heads", "info"] {
        files::make_private_directory(&path.join(directory))?;
    }
    let config = format!("{config}[extensions]\n\tobjectformat = {object_format}\n");
    write_once(&path.join("config"), config.as_bytes())?;
    // Last, because by it git recognises a repository.
    write_once(&path.join("HEAD"), format!("ref: {head}\n").as_bytes())
}

/// Lets a repository read the objects of others.
pub(crate) fn borrow(path: &Path, objects: &[PathBuf]) -> Result<(), SandboxError> {
    use std::os::unix::ffi::OsStrExt;
    let mut text = Vec::new();
    for directory in objects {
        let bytes = directory.as_os_str().as_bytes();
        if bytes.contains(&b'\n') {
            return Err(SandboxError::BadPlace {
                path: directory.clone(),
                why: "has a line break in its name, which git cannot borrow from".to_owned(),
                hint: "Rename the directory.".to_owned(),
            });
        }
        text.extend(bytes);
        text.push(b'\n');
    }
    write_once(&path.join("objects/info/alternates"), &text)
}

/// The object directories that one borrows from, as its list says.
pub(crate) fn lenders_of(objects: &Path) -> Vec<PathBuf> {
    let list = std::fs::read(objects.join("info/alternates")).unwrap_or_default();
    list.split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| objects.join(crate::repository::as_path(line)))
        .collect()
}

/// Object directories as git reads them from a variable: separated by colons, quoted so that a colon may be
/// in a name.
pub(crate) fn alternates_variable(directories: &[&Path]) -> std::ffi::OsString {
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
pub(crate) fn copy_if_there(from: &Path, to: &Path, name: &str) -> Result<(), SandboxError> {
    let (source, copy) = (from.join(name), to.join(name));
    match std::fs::read(&source) {
        Ok(content) => write_once(&copy, &content),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            match std::fs::remove_file(&copy) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    Err(error).doing("removed", &copy)
                }
                Ok(()) | Err(_) => Ok(()),
            }
        }
        Err(error) => Err(error).doing("read", &source),
    }
}

/// Leaves out what the person leaves out, and what agents keep for themselves among the files they work on.
fn exclude_as(from: &Path, to: &Path) -> Result<(), SandboxError> {
    const NAME: &str = "info/exclude";
    let source = from.join(NAME);
    let mut content = match std::fs::read(&source) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        read => read.doing("read", &source)?,
    };
    content.extend_from_slice(KEPT_BY_AGENTS);
    write_once(&to.join(NAME), &content)
}

/// Writes a file unless it says so already. One that says something else is replaced whole: another
/// process may be reading it.
fn write_once(path: &Path, content: &[u8]) -> Result<(), SandboxError> {
    match std::fs::read(path) {
        Ok(there) if there == content => Ok(()),
        Ok(_) => {
            let new = path.with_extension(format!("new-{}", std::process::id()));
            files::write_private_file(&new, content)?;
            std::fs::rename(&new, path).doing("written", path)
        }
        Err(_) => files::write_private_file(path, content),
    }
}
