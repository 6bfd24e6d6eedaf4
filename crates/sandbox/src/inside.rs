//! Looking at a plan's changes, also while somebody works on them: nothing is remembered of a look.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::compare::{Look, Scratch};
use crate::error::Doing;
use crate::git::Git;
use crate::room::{Room, Workshop};
use crate::vault::{self, Vault};
use crate::{ObjectId, SandboxError, files, refs, repository};

/// How long a person's command that tells them something may take.
const LONGEST_NOTICE: Duration = Duration::from_secs(30);

impl Workshop {
    /// A base and a tree, wherever their objects are.
    pub fn look(
        &self,
        room: &Room<'_>,
        base: &ObjectId,
        tree: &ObjectId,
    ) -> Result<Look, SandboxError> {
        let repository = self.repository(room.site)?;
        let vault = self.vault(room);
        let git = match vault.path().is_dir() {
            true => vault.git_beside(&repository),
            false => repository.git(),
        };
        check_reachable(&git, repository.path(), &vault, base, tree)?;
        Ok(Look {
            git,
            old: base.to_string(),
            new: tree.to_string(),
            ignored: None,
            _scratch: None,
        })
    }

    /// What a commit that landed brought.
    pub fn look_at_landed(&self, room: &Room<'_>, new: &ObjectId) -> Result<Look, SandboxError> {
        let repository = self.repository(room.site)?;
        let git = repository.git();
        let parent = refs::read(&git, &format!("{new}^1"))?;
        let old = parent.ok_or_else(|| SandboxError::ObjectGone {
            path: repository.path().to_owned(),
            object: new.to_string(),
        })?;
        Ok(Look {
            git,
            old: old.to_string(),
            new: new.to_string(),
            ignored: None,
            _scratch: None,
        })
    }

    /// What a sandbox holds at this moment, if there is one. Its objects are written aside and go
    /// with the look.
    pub fn look_inside(&self, room: &Room<'_>) -> Result<Option<Look>, SandboxError> {
        let Some(sandbox) = self.current(room)? else {
            return Ok(None);
        };
        if !sandbox.is_there() {
            return Err(SandboxError::SandboxGone { path: sandbox.path });
        }
        let vault = self.vault(room);
        // The vault may still name the place where the repository was.
        let users = self.repository(room.site)?.common_dir().join("objects");
        let scratch = self
            .plan_directory(room.plan)
            .join(format!("look-{}", std::process::id()));
        files::make_private_directory(&scratch)?;
        let scratch = Scratch(scratch);
        let index = scratch.0.join("index");
        repository::copy_index(&sandbox.index, &index)?;
        let git = vault.git().with("GIT_OBJECT_DIRECTORY", &scratch.0).with(
            "GIT_ALTERNATE_OBJECT_DIRECTORIES",
            vault::alternates_variable(&[&vault.objects(), &users]),
        );
        let on_tree = git.clone().on_tree(&sandbox.path).with_index(&index);
        let on_tree = on_tree.with_settings(&["core.fsync=none".to_owned()]);
        let (tree, ignored) = self.tree_at_this_moment(room, &sandbox, &on_tree)?;
        Ok(Some(Look {
            git,
            old: sandbox.base.to_string(),
            new: tree.to_string(),
            ignored: Some(ignored),
            _scratch: Some(scratch),
        }))
    }

    /// Runs a person's shell in a sandbox, with everything that is theirs and these variables, until they leave it.
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
        // How a person's last command went is no concern of ours.
        let status = command.current_dir(path).status();
        status.map(drop).doing("entered", path)
    }

    /// Runs a person's own command, in the background, with everything that is theirs. It is ended
    /// when it takes too long.
    #[expect(
        clippy::disallowed_methods,
        reason = "all child processes belong to this crate"
    )]
    pub fn notify(&self, command: &str, variables: &[(&str, &str)]) -> Result<(), SandboxError> {
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
            .doing("started", shell)?;
        std::thread::spawn(move || {
            let until = Instant::now() + LONGEST_NOTICE;
            while let Ok(None) = child.try_wait() {
                if Instant::now() >= until {
                    let _ = child.kill();
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        Ok(())
    }

    /// Has a person edit a file with the editor they named, which may be a command with arguments.
    #[expect(
        clippy::disallowed_methods,
        reason = "all child processes belong to this crate"
    )]
    pub fn edit(&self, file: &Path, editor: &OsStr) -> Result<(), SandboxError> {
        let mut words = editor.to_owned();
        words.push(" \"$@\"");
        let mut command = std::process::Command::new("/bin/sh");
        command.arg("-c").arg(words).arg("editor").arg(file);
        let ended = command.status().doing("edited", file)?;
        if ended.success() {
            return Ok(());
        }
        Err(std::io::Error::other("the editor ended with an error")).doing("edited", file)
    }

    /// The tree of a landed commit's first parent, and how many paths it brought: what undoing it
    /// starts from and ends in.
    pub fn before_landing(
        &self,
        room: &Room<'_>,
        new: &ObjectId,
    ) -> Result<(ObjectId, u64), SandboxError> {
        let look = self.look_at_landed(room, new)?;
        let tree = refs::read(&look.git, &format!("{}^{{tree}}", look.old))?;
        let tree = tree.ok_or_else(|| SandboxError::ObjectGone {
            path: room.site.place.path().to_owned(),
            object: look.old.clone(),
        })?;
        let differences = crate::compare::differences(&look.git, &look.old, &look.new)?;
        Ok((tree, differences.len() as u64))
    }
}

/// Are both ends of a result there? A base is the user's, a result is kept by the plan's vault.
pub(crate) fn check_reachable(
    git: &Git,
    repository: &Path,
    vault: &Vault,
    base: &ObjectId,
    tree: &ObjectId,
) -> Result<(), SandboxError> {
    let (commit, content) = (format!("{base}^{{tree}}"), format!("{tree}^{{tree}}"));
    let [base_tree, result_tree] = refs::read_all(git, [&commit, &content])?;
    if result_tree.is_none() {
        return Err(SandboxError::ResultGone {
            path: vault.path().to_owned(),
        });
    }
    if base_tree.is_none() {
        return Err(SandboxError::ObjectGone {
            path: repository.to_owned(),
            object: base.to_string(),
        });
    }
    Ok(())
}
