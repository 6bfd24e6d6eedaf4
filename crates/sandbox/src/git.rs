//! The one door to git. Every call says where it works, and takes nothing from the user's global
//! configuration, hooks, credential helpers or environment.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use plan::changeset::TreePath;

use crate::{ObjectId, SandboxError, child};

/// What child processes get of the environment. Given by whoever may read it.
#[derive(Debug, Clone)]
pub struct GitEnv {
    /// The program to start for git.
    pub program: OsString,
    /// `PATH`.
    pub path: Option<OsString>,
    /// `HOME`, where the user's own git configuration is found. Asked only for what a person would
    /// expect to be theirs: their name, and how their files end lines.
    pub home: Option<OsString>,
    /// `XDG_CONFIG_HOME`, for the same.
    pub config_home: Option<OsString>,
    /// How long one git may take; [`PATIENCE`] unless somebody knows better.
    pub timeout: Duration,
}

/// How long one git may take before it is ended. The longest lays out or reads every file of a large
/// repository on a slow disk; one that takes longer hangs.
pub const GIT_TIMEOUT: Duration = Duration::from_secs(600);

/// The oldest git that merges in the object database.
pub fn minimum_git_version() -> &'static str {
    "2.38"
}

/// Settings of every call: nothing runs, asks, fetches or tidies up behind our back.
const FIXED_GIT_SETTINGS: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.quotePath=false",
    "core.splitIndex=false",
    "core.commitGraph=false",
    "commit.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "merge.renames=true",
    "merge.directoryRenames=false",
    "merge.conflictStyle=merge",
    "diff.renames=true",
    "diff.external=",
    "protocol.allow=never",
    "safe.directory=*",
    "submodule.recurse=false",
    "uploadpack.packObjectsHook=",
    "advice.detachedHead=false",
    "core.fsync=all",
];

/// Whose configuration counts besides the repository's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GitConfigScope {
    /// Nobody's.
    RepositoryOnly,
    /// The user's, as if they had typed the command.
    User,
}

/// git, pointed at one repository.
#[derive(Debug, Clone)]
pub(crate) struct GitCommand {
    git_env: GitEnv,
    directory: PathBuf,
    environment: Vec<(&'static str, OsString)>,
    settings: Vec<String>,
    config_scope: GitConfigScope,
}

/// What git answered, where failing is one of the answers.
pub(crate) struct GitOutput {
    /// The exit code.
    pub exit_code: i32,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: String,
}

impl GitCommand {
    /// Wherever git finds the repository from this directory.
    pub fn discover_from(git_env: &GitEnv, directory: &Path) -> Self {
        Self {
            git_env: git_env.clone(),
            directory: directory.to_owned(),
            environment: Vec::new(),
            settings: Vec::new(),
            config_scope: GitConfigScope::RepositoryOnly,
        }
    }

    /// Exactly this repository, wherever the process is.
    pub fn at_git_dir(git_env: &GitEnv, git_dir: &Path) -> Self {
        Self::discover_from(git_env, git_dir).with_variable("GIT_DIR", git_dir)
    }

    /// With a variable.
    pub fn with_variable(mut self, name: &'static str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name, value.as_ref().to_owned()));
        self
    }

    /// With this working tree.
    pub fn with_work_tree(mut self, tree: &Path) -> Self {
        self.directory = tree.to_owned();
        self.with_variable("GIT_WORK_TREE", tree)
    }

    /// With this index.
    pub fn with_index(self, index: &Path) -> Self {
        self.with_variable("GIT_INDEX_FILE", index)
    }

    /// With these settings on top.
    pub fn with_settings(mut self, settings: &[String]) -> Self {
        self.settings.extend_from_slice(settings);
        self
    }

    /// As the user would have typed it: with their configuration.
    pub fn with_user_config(mut self) -> Self {
        self.config_scope = GitConfigScope::User;
        self
    }

    /// Runs it; anything but exit code 0 is an error.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<Vec<u8>, SandboxError> {
        self.run_with_input(arguments, b"")
    }

    /// Runs it with this on standard input.
    pub fn run_with_input<A: AsRef<OsStr>>(
        &self,
        arguments: &[A],
        input: &[u8],
    ) -> Result<Vec<u8>, SandboxError> {
        let answered = self.try_run_with_input(arguments, input)?;
        if answered.exit_code == 0 {
            return Ok(answered.stdout);
        }
        Err(git_error(arguments, &answered.stderr))
    }

    /// Runs it where failing is an answer.
    pub fn try_run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<GitOutput, SandboxError> {
        self.try_run_with_input(arguments, b"")
    }

    /// Runs it with this on standard input, where failing is an answer.
    pub fn try_run_with_input<A: AsRef<OsStr>>(
        &self,
        arguments: &[A],
        input: &[u8],
    ) -> Result<GitOutput, SandboxError> {
        let child = self.spawn_command(arguments, !input.is_empty())?;
        self.wait_for_output(child, arguments, input)
    }

    /// One line of text.
    pub fn read_line<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<String, SandboxError> {
        let output = self.run(arguments)?;
        let text = String::from_utf8_lossy(&output);
        Ok(text.trim_end_matches('\n').to_owned())
    }

    /// The hash of one object.
    pub fn read_object_id<A: AsRef<OsStr>>(
        &self,
        arguments: &[A],
    ) -> Result<ObjectId, SandboxError> {
        let line = self.read_line(arguments)?;
        line.parse().map_err(|_| git_error(arguments, &line))
    }

    /// Feeds what this one writes to what the other reads; both must succeed.
    pub fn pipe_into<A: AsRef<OsStr> + Sync, B: AsRef<OsStr>>(
        &self,
        arguments: &[A],
        input: &[u8],
        other: &GitCommand,
        other_arguments: &[B],
    ) -> Result<Vec<u8>, SandboxError> {
        let mut source = self.spawn_command(arguments, true)?;
        let flow = source.stdout.take().map_or_else(Stdio::null, Stdio::from);
        let sink = other.spawn_piped(other.build_command(other_arguments).stdin(flow))?;
        let (sent, received) = run_both(
            || self.wait_for_output(source, arguments, input),
            || other.wait_for_output(sink, other_arguments, b""),
        );
        let (sent, sunk) = (sent?, received?);
        if sent.exit_code != 0 {
            return Err(git_error(arguments, &sent.stderr));
        }
        if sunk.exit_code != 0 {
            return Err(git_error(other_arguments, &sunk.stderr));
        }
        Ok(sunk.stdout)
    }

    /// Runs it with its output going straight to ours, for as long as a person reads it.
    pub fn stream_to<A: AsRef<OsStr>>(
        &self,
        arguments: &[A],
        to: Stdio,
    ) -> Result<(), SandboxError> {
        let child = self
            .build_command(arguments)
            .stdin(Stdio::null())
            .stdout(to)
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| self.start_error(source))?;
        let output = child
            .wait_with_output()
            .map_err(|source| self.start_error(source))?;
        let answered = into_git_output(output);
        // A pager that was closed early ends it by a signal; that is not a failure.
        if answered.exit_code <= 0 {
            return Ok(());
        }
        Err(git_error(arguments, &answered.stderr))
    }

    /// `less`, if it is there: the one pager whose way with colours and short texts is known.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the door everybody else is sent to"
    )]
    pub fn spawn_pager(&self) -> Option<Child> {
        let mut command = Command::new("less");
        command.env_clear().args(["-R", "-F", "-X"]);
        command
            .env("TERM", "xterm-256color")
            .env("LESSCHARSET", "utf-8");
        if let Some(path) = &self.git_env.path {
            command.env("PATH", path);
        }
        command.stdin(Stdio::piped()).spawn().ok()
    }

    fn spawn_command<A: AsRef<OsStr>>(
        &self,
        arguments: &[A],
        has_input: bool,
    ) -> Result<Child, SandboxError> {
        let stdin = if has_input {
            Stdio::piped()
        } else {
            Stdio::null()
        };
        self.spawn_piped(self.build_command(arguments).stdin(stdin))
    }

    /// Starts a command that answers to us, in a group of its own so that it can be ended with
    /// whatever it started.
    fn spawn_piped(&self, command: &mut Command) -> Result<Child, SandboxError> {
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|source| self.start_error(source))
    }

    fn wait_for_output<A: AsRef<OsStr>>(
        &self,
        child: Child,
        arguments: &[A],
        input: &[u8],
    ) -> Result<GitOutput, SandboxError> {
        let limit = self.git_env.timeout;
        let now = Instant::now();
        // A limit beyond all time is none that matters.
        let deadline = now.checked_add(limit).unwrap_or(now + GIT_TIMEOUT);
        let output = child::wait_for_output(child, input, deadline)
            .map_err(|source| self.start_error(source))?;
        output
            .map(into_git_output)
            .ok_or_else(|| SandboxError::GitTimedOut {
                command: subcommand_name(arguments),
                path: self.directory.clone(),
                limit,
            })
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the door everybody else is sent to"
    )]
    fn build_command<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Command {
        let mut command = Command::new(&self.git_env.program);
        command.env_clear();
        let variables = [
            ("PATH", &self.git_env.path),
            ("HOME", &self.git_env.home),
            ("XDG_CONFIG_HOME", &self.git_env.config_home),
        ];
        for (name, value) in variables {
            let is_passed = name == "PATH" || self.config_scope == GitConfigScope::User;
            if let Some(value) = value.as_ref().filter(|_| is_passed) {
                command.env(name, value);
            }
        }
        command
            .env("LC_ALL", "C")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_ATTR_NOSYSTEM", "1");
        if self.config_scope == GitConfigScope::RepositoryOnly {
            command
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .env("GIT_CONFIG_GLOBAL", "/dev/null");
            for setting in FIXED_GIT_SETTINGS {
                command.arg("-c").arg(setting);
            }
        }
        for setting in &self.settings {
            command.arg("-c").arg(setting);
        }
        for (name, value) in &self.environment {
            command.env(name, value);
        }
        command.current_dir(&self.directory).args(arguments);
        command
    }

    fn start_error(&self, source: std::io::Error) -> SandboxError {
        // A working directory that is missing or closed is reported by the system as if it were the
        // program.
        let is_open = rustix::fs::access(&self.directory, rustix::fs::Access::EXEC_OK).is_ok();
        if !self.directory.is_dir() || !is_open {
            return SandboxError::FileFailed {
                path: self.directory.clone(),
                doing: "entered",
                source,
            };
        }
        SandboxError::GitNotFound {
            program: self.git_env.program.to_string_lossy().into_owned(),
            source,
        }
    }
}

/// Is git there, and new enough? Its version.
pub fn git_version(git_env: &GitEnv) -> Result<String, SandboxError> {
    let line = GitCommand::discover_from(git_env, Path::new("/")).read_line(&["version"])?;
    let found = line.trim_start_matches("git version ").to_owned();
    let mut parts = found
        .split('.')
        .map(|part| part.parse::<u32>().unwrap_or(0));
    let known = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if known < (2, 38) {
        return Err(SandboxError::GitTooOld {
            found,
            needed: minimum_git_version(),
        });
    }
    Ok(found)
}

fn into_git_output(output: Output) -> GitOutput {
    GitOutput {
        exit_code: output.status.code().unwrap_or(-1),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The subcommand.
fn subcommand_name<A: AsRef<OsStr>>(arguments: &[A]) -> String {
    let mut words = arguments.iter().map(AsRef::as_ref);
    let mut word = words.next();
    while word == Some(OsStr::new("-c")) {
        word = words.nth(1);
    }
    word.unwrap_or_default().to_string_lossy().into_owned()
}

/// Does two things at the same time: most of what git takes to answer is starting it.
pub(crate) fn run_both<A: Send, B>(
    one: impl FnOnce() -> A + Send,
    other: impl FnOnce() -> B,
) -> (A, B) {
    std::thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        match one.join() {
            Ok(one) => (one, other),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// What git means by what it said. A lock in its way is named by its file: another git works there, or
/// one was killed.
pub(crate) fn git_error<A: AsRef<OsStr>>(arguments: &[A], stderr: &str) -> SandboxError {
    if let Some(lock) = find_lock_path(stderr) {
        return SandboxError::LockedByGit { lock };
    }
    let command = subcommand_name(arguments);
    let said: String = stderr.trim().chars().take(2000).collect();
    let said = if said.is_empty() {
        "it ended without a word".to_owned()
    } else {
        said
    };
    SandboxError::GitFailed { command, said }
}

/// The lock that git says is in its way.
pub(crate) fn find_lock_path(stderr: &str) -> Option<PathBuf> {
    let (_, rest) = stderr.split_once("Unable to create '")?;
    let (lock, _) = rest.split_once(".lock': File exists")?;
    Some(PathBuf::from(format!("{lock}.lock")))
}

/// Paths to limit a question to, unless there are too many to say on a command line; then it is about
/// everything. For use with `GIT_LITERAL_PATHSPECS`.
pub(crate) fn literal_pathspecs<'a>(paths: impl Iterator<Item = &'a TreePath>) -> Vec<&'a OsStr> {
    const MAX_LITERAL_PATHS: usize = 500;
    let paths: Vec<&OsStr> = paths
        .take(MAX_LITERAL_PATHS + 1)
        .map(|path| OsStr::from_bytes(path.as_bytes()))
        .collect();
    if paths.len() > MAX_LITERAL_PATHS {
        Vec::new()
    } else {
        paths
    }
}

/// A command with paths at its end.
pub(crate) fn append_paths<'a>(command: &[&'a str], paths: &[&'a OsStr]) -> Vec<&'a OsStr> {
    let mut arguments: Vec<&OsStr> = command.iter().map(|word| OsStr::new(*word)).collect();
    arguments.extend(paths);
    arguments
}

/// The fields of an answer that separates them by NUL.
pub(crate) fn split_nul_fields(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    output
        .split(|byte| *byte == 0)
        .filter(|field| !field.is_empty())
}
