//! The vault: the engine's bare repository for one plan and resource. It borrows the user's objects
//! and stores checkpoints, results and merges. Agents cannot write to it, so git may trust its
//! configuration.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use plan::{Epoch, PlanId};

use crate::compare::ScratchDir;
use crate::error::FileErrorContext;
use crate::git::{GitCommand, GitEnv};
use crate::step_faults::{SandboxStep, StepFaults};
use crate::{LocationProblem, ObjectId, Repository, SandboxError, files, refs};

#[derive(Debug, Clone)]
pub(crate) struct Vault {
    git_env: GitEnv,
    path: PathBuf,
}

/// Points to the newest checkpoint.
const CHECKPOINT_REF: &str = "refs/planwright/checkpoint";

/// Files that agents write for themselves into the working tree. Aider would otherwise add them to
/// `.gitignore`, and a run without any other result would still have a change.
const AGENT_EXCLUDES: &[u8] =
    b"\n.aider\n.aider.chat.history.md\n.aider.input.history\n.aider.llm.history\n.aider.tags.cache.*\n";

/// From how many object directories a vault may borrow.
const MAX_VAULT_LENDERS: usize = 8;

/// Author of the engine's own commits, which never reach a branch.
const ENGINE_AUTHOR: &str = "Planwright";

impl Vault {
    /// The path need not exist.
    pub fn at_path(git_env: &GitEnv, path: &Path) -> Self {
        Self {
            git_env: git_env.clone(),
            path: path.to_owned(),
        }
    }

    /// Creates the vault, or the missing parts of it. Safe to repeat.
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
            .check_step(SandboxStep::VaultMade)
            .while_being("written", &self.path)
    }

    /// Borrows from the repository's current path. Earlier paths stay listed while they exist: a
    /// plan that started in one clone and continues in another needs both.
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

    /// Does the vault exist, with these objects as its first alternate?
    pub fn borrows_from(&self, objects: &Path) -> bool {
        read_alternates(&self.objects_dir())
            .first()
            .map(PathBuf::as_path)
            == Some(objects)
    }

    /// git on the vault that also reads this repository's objects. For callers that may not write:
    /// the vault's alternates may still name the repository's old path.
    pub fn git_with_repository_objects(&self, repository: &Repository) -> GitCommand {
        let objects = repository.common_dir().join("objects");
        self.git().with_variable(
            "GIT_ALTERNATE_OBJECT_DIRECTORIES",
            format_alternates(&[&objects]),
        )
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn git_env(&self) -> &GitEnv {
        &self.git_env
    }

    /// A new path inside the vault that no other caller uses; the directory is removed when
    /// dropped.
    pub fn new_scratch_dir(&self) -> ScratchDir {
        static NEXT_SCRATCH_NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NEXT_SCRATCH_NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("scratch-{}-{number}", std::process::id());
        ScratchDir(self.path.join(name))
    }

    pub fn objects_dir(&self) -> PathBuf {
        self.path.join("objects")
    }

    /// Removes the temporary object files that git leaves when the disk is full.
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

    pub fn git(&self) -> GitCommand {
        GitCommand::at_git_dir(&self.git_env, &self.path)
    }

    /// Creates a commit by the engine. The same tree, parent and message give the same commit.
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

    /// Creates a commit with the sandbox's tree on its base.
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

    /// Moves the checkpoint ref, if it still points to `expected`.
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

    /// The base and the tree of the newest checkpoint.
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

    pub fn checkpoint_commit(&self) -> Result<Option<ObjectId>, SandboxError> {
        if self.has_no_checkpoint() {
            return Ok(None);
        }
        refs::resolve_name(&self.git(), CHECKPOINT_REF)
    }

    /// Tells without starting git that there is no checkpoint, as for every new sandbox. The
    /// vault's refs are files, and only the engine writes them.
    pub fn has_no_checkpoint(&self) -> bool {
        let has_none = |name: &str| !self.path.join(name).exists();
        has_none(CHECKPOINT_REF) && has_none("packed-refs")
    }

    /// Creates a ref to an object, so that garbage collection does not remove it.
    pub fn keep_object(&self, name: &str, object: &ObjectId) -> Result<(), SandboxError> {
        let name = format!("refs/planwright/kept/{name}");
        self.git()
            .run(&["update-ref", &name, object.as_str()])
            .map(drop)
    }

    /// Keeps the tree of a result while the vault exists, also when a later result replaces it.
    pub fn keep_result(&self, tree: &ObjectId) -> Result<(), SandboxError> {
        self.keep_object(&format!("result/{tree}"), tree)
    }

    /// The tree of a commit; an error if its objects cannot be found.
    pub fn read_tree_of(&self, commit: &ObjectId) -> Result<ObjectId, SandboxError> {
        resolve_tree(&self.git(), &self.path, commit)
    }
}

/// The tree of a commit; `ObjectMissing` if it cannot be found.
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

/// Sets author, committer and date for commits.
pub(crate) fn with_author(git: GitCommand, name: &str, email: &str, seconds: i64) -> GitCommand {
    let date = format!("@{seconds} +0000");
    git.with_variable("GIT_AUTHOR_NAME", name)
        .with_variable("GIT_AUTHOR_EMAIL", email)
        .with_variable("GIT_AUTHOR_DATE", &date)
        .with_variable("GIT_COMMITTER_NAME", name)
        .with_variable("GIT_COMMITTER_EMAIL", email)
        .with_variable("GIT_COMMITTER_DATE", &date)
}

/// Creates an empty bare repository, or what is missing of it.
pub(crate) fn create_bare_repository(path: &Path, object_format: &str) -> Result<(), SandboxError> {
    // Files that git creates here are readable by the owner only.
    let config = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n\tfilemode = true\n\
                  \tsharedRepository = 0600\n";
    write_repository_files(path, object_format, config, "refs/heads/none")
}

/// Writes the files that make a directory a repository. `git init` would take longer than
/// everything else about a small sandbox.
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
    // Last, because HEAD is what makes git recognise a repository.
    write_if_changed(&path.join("HEAD"), format!("ref: {head}\n").as_bytes())
}

/// Lists the object directories that a repository borrows from.
pub(crate) fn write_alternates(path: &Path, objects: &[PathBuf]) -> Result<(), SandboxError> {
    use std::os::unix::ffi::OsStrExt;
    let mut text = Vec::new();
    for directory in objects {
        let bytes = directory.as_os_str().as_bytes();
        if bytes.contains(&b'\n') {
            return Err(SandboxError::UnusableLocation {
                path: directory.clone(),
                problem: LocationProblem::LineBreakInPath,
            });
        }
        text.extend(bytes);
        text.push(b'\n');
    }
    write_if_changed(&path.join("objects/info/alternates"), &text)
}

/// Reads the object directories that an object directory borrows from.
pub(crate) fn read_alternates(objects: &Path) -> Vec<PathBuf> {
    let list = std::fs::read(objects.join("info/alternates")).unwrap_or_default();
    list.split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| objects.join(crate::repository::path_from_bytes(line)))
        .collect()
}

/// Formats object directories for git's environment variable: separated by colons, quoted so that a
/// name may contain a colon.
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

/// Copies a file between repositories, or removes the copy if there is no source file.
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

/// Copies the user's exclude list and adds the files that agents write for themselves.
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

/// Writes a file unless it has this content already. Replaces an existing file atomically, because
/// another process may be reading it.
fn write_if_changed(path: &Path, content: &[u8]) -> Result<(), SandboxError> {
    match std::fs::read(path) {
        Ok(existing) if existing == content => Ok(()),
        Ok(_) => {
            let new = path.with_extension(format!("new-{}", std::process::id()));
            files::write_private_file(&new, content)?;
            std::fs::rename(&new, path).while_being("written", path)
        }
        Err(_) => files::write_private_file(path, content),
    }
}
