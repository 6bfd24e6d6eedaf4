//! Computes a plan's diff, even while an agent is working, and runs the user's own programs (shell,
//! editor, notify command). Records nothing about the plan.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::compare::{ScratchDir, TreeDiff};
use crate::error::FileErrorContext;
use crate::git::GitCommand;
use crate::sandboxes::{SandboxKey, Sandboxes};
use crate::vault::{self, Vault};
use crate::{ObjectId, SandboxError, files, refs, repository};

/// How long a notify command may run.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(30);

impl Sandboxes {
    /// Compares a base with a tree. Their objects may be in the vault or in the user's repository.
    pub fn diff_trees(
        &self,
        key: &SandboxKey<'_>,
        base: &ObjectId,
        tree: &ObjectId,
    ) -> Result<TreeDiff, SandboxError> {
        let repository = self.open_repository(key.resource)?;
        let vault = self.vault_for(key);
        let git = match vault.path().is_dir() {
            true => vault.git_with_repository_objects(&repository),
            false => repository.git(),
        };
        check_objects_present(&git, repository.path(), &vault, base, tree)?;
        Ok(TreeDiff {
            git,
            old: base.to_string(),
            new: tree.to_string(),
            ignored: None,
            _scratch: None,
        })
    }

    /// The changes of a landed commit, against its first parent.
    pub fn diff_landed_commit(
        &self,
        key: &SandboxKey<'_>,
        new: &ObjectId,
    ) -> Result<TreeDiff, SandboxError> {
        let repository = self.open_repository(key.resource)?;
        let git = repository.git();
        let parent = refs::resolve_name(&git, &format!("{new}^1"))?;
        let old = parent.ok_or_else(|| SandboxError::ObjectMissing {
            path: repository.path().to_owned(),
            object: new.to_string(),
        })?;
        Ok(TreeDiff {
            git,
            old: old.to_string(),
            new: new.to_string(),
            ignored: None,
            _scratch: None,
        })
    }

    /// The current changes in a sandbox, if there is one. Writes objects to a scratch directory
    /// that is removed with the returned diff.
    pub fn diff_sandbox(&self, key: &SandboxKey<'_>) -> Result<Option<TreeDiff>, SandboxError> {
        let Some(sandbox) = self.current_sandbox(key)? else {
            return Ok(None);
        };
        if !sandbox.exists() {
            return Err(SandboxError::SandboxMissing { path: sandbox.path });
        }
        let vault = self.vault_for(key);
        // The vault's alternates may still name the repository's old path.
        let user_objects = self
            .open_repository(key.resource)?
            .common_dir()
            .join("objects");
        let scratch = self
            .plan_directory(key.plan_id)
            .join(format!("look-{}", std::process::id()));
        files::make_private_directory(&scratch)?;
        let scratch = ScratchDir(scratch);
        let index = scratch.0.join("index");
        repository::copy_index(&sandbox.index_path, &index)?;
        let git = vault
            .git()
            .with_variable("GIT_OBJECT_DIRECTORY", &scratch.0)
            .with_variable(
                "GIT_ALTERNATE_OBJECT_DIRECTORIES",
                vault::format_alternates(&[&vault.objects_dir(), &user_objects]),
            );
        let on_tree = git.clone().with_work_tree(&sandbox.path).with_index(&index);
        let on_tree = on_tree.with_settings(&["core.fsync=none".to_owned()]);
        let (tree, ignored) = self.capture().write_current_tree(key, &sandbox, &on_tree)?;
        Ok(Some(TreeDiff {
            git,
            old: sandbox.base.to_string(),
            new: tree.to_string(),
            ignored: Some(ignored),
            _scratch: Some(scratch),
        }))
    }

    /// Runs the user's shell in a sandbox, with their full environment and these variables, until
    /// they leave it.
    #[expect(
        clippy::disallowed_methods,
        reason = "all child processes belong to this crate"
    )]
    pub fn run_shell(
        &self,
        path: &Path,
        shell: &OsStr,
        variables: &[(String, String)],
    ) -> Result<(), SandboxError> {
        let mut command = std::process::Command::new(shell);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        // The shell's exit code is that of the last command in it; it means nothing here.
        let status = command.current_dir(path).status();
        status.map(drop).while_being("entered", path)
    }

    /// Starts the user's notify command in the background, with their full environment. It is
    /// killed after a time limit.
    #[expect(
        clippy::disallowed_methods,
        reason = "all child processes belong to this crate"
    )]
    pub fn run_notify_command(
        &self,
        command: &str,
        variables: &[(&str, &str)],
    ) -> Result<(), SandboxError> {
        let shell = Path::new("/bin/sh");
        let mut child = std::process::Command::new(shell)
            .args(["-c", command])
            .envs(variables.iter().copied())
            .current_dir("/")
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .process_group(0)
            .spawn()
            .while_being("started", shell)?;
        std::thread::spawn(move || {
            let deadline = Instant::now() + NOTIFY_TIMEOUT;
            while let Ok(None) = child.try_wait() {
                if Instant::now() >= deadline {
                    let _ = child.kill();
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        Ok(())
    }

    /// Opens a file in the user's editor, which may be a command with arguments, and waits for it.
    #[expect(
        clippy::disallowed_methods,
        reason = "all child processes belong to this crate"
    )]
    pub fn run_editor(&self, file: &Path, editor: &OsStr) -> Result<(), SandboxError> {
        let mut words = editor.to_owned();
        words.push(" \"$@\"");
        let mut command = std::process::Command::new("/bin/sh");
        command.arg("-c").arg(words).arg("editor").arg(file);
        let ended = command.status().while_being("edited", file)?;
        if ended.success() {
            return Ok(());
        }
        Err(std::io::Error::other("the editor exited with an error")).while_being("edited", file)
    }

    /// Runs a command in a directory, at the person's wish and with their rights. Its output goes to standard error.
    /// Returns the exit code; `None` if a signal ended it.
    #[expect(
        clippy::disallowed_methods,
        reason = "all child processes belong to this crate"
    )]
    pub fn run_in_directory(
        &self,
        directory: &Path,
        command_text: &str,
    ) -> Result<Option<i32>, SandboxError> {
        let mut command = std::process::Command::new("/bin/sh");
        command.args(["-c", command_text]).current_dir(directory);
        command.stdout(std::io::stderr());
        let ended = command.status().while_being("entered", directory)?;
        Ok(ended.code())
    }

    /// The tree before a landed commit and the number of paths the commit changed, for undoing it.
    pub fn read_state_before_landing(
        &self,
        key: &SandboxKey<'_>,
        new: &ObjectId,
    ) -> Result<(ObjectId, u64), SandboxError> {
        let diff = self.diff_landed_commit(key, new)?;
        let tree = refs::resolve_name(&diff.git, &format!("{}^{{tree}}", diff.old))?;
        let tree = tree.ok_or_else(|| SandboxError::ObjectMissing {
            path: key.resource.location.path().to_owned(),
            object: diff.old.clone(),
        })?;
        let differences = crate::compare::list_differences(&diff.git, &diff.old, &diff.new)?;
        Ok((tree, differences.len() as u64))
    }
}

/// Checks that both sides of a result exist. The base is in the user's repository, the result in
/// the plan's vault.
pub(crate) fn check_objects_present(
    git: &GitCommand,
    repository: &Path,
    vault: &Vault,
    base: &ObjectId,
    tree: &ObjectId,
) -> Result<(), SandboxError> {
    let (commit, content) = (format!("{base}^{{tree}}"), format!("{tree}^{{tree}}"));
    let [base_tree, result_tree] = refs::resolve_names(git, [&commit, &content])?;
    if result_tree.is_none() {
        return Err(SandboxError::ResultMissing {
            path: vault.path().to_owned(),
        });
    }
    if base_tree.is_none() {
        return Err(SandboxError::ObjectMissing {
            path: repository.to_owned(),
            object: base.to_string(),
        });
    }
    Ok(())
}
