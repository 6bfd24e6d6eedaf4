//! Runs git. Every call names its repository and ignores the user's global configuration, hooks,
//! credential helpers and environment.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use plan::changeset::TreePath;

use crate::child::WaitDecision;
use crate::tree_pipes::TreePipes;
use crate::{ObjectId, SandboxError, Stop, child};

/// The environment that git and other child processes get. The binary reads it; libraries do not.
#[derive(Debug, Clone)]
pub struct GitEnv {
    /// The git program to start.
    pub program: OsString,
    pub path: Option<OsString>,
    /// `HOME`, where git finds the user's own configuration. Used only for the user's name and line
    /// endings.
    pub home: Option<OsString>,
    /// `XDG_CONFIG_HOME`, for the same purpose.
    pub config_home: Option<OsString>,
    /// How long one git command may run; usually [`GIT_TIMEOUT`].
    pub timeout: Duration,
    /// Ends running git commands when requested; see [`crate::Sandboxes::with_git_stop`].
    pub stop: Option<Stop>,
}

/// How long one git command may run before it is killed. The slowest command checks out or reads
/// every file of a large repository on a slow disk; anything slower hangs.
pub const GIT_TIMEOUT: Duration = Duration::from_secs(600);

/// The oldest git that merges without a working tree (`merge-tree --write-tree`).
pub fn minimum_git_version() -> &'static str {
    "2.38"
}

/// Settings for every call: git must not run hooks, prompt, fetch or collect garbage.
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
    // Ownership is checked with the user's own configuration when a repository is opened.
    "safe.directory=*",
    "submodule.recurse=false",
    "uploadpack.packObjectsHook=",
    "advice.detachedHead=false",
    "core.fsync=all",
];

/// Which configuration applies besides the repository's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GitConfigScope {
    RepositoryOnly,
    /// The user's global configuration, as if they had typed the command.
    User,
}

/// What git does with a named pipe in its working tree that it reads by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TreePipePolicy {
    /// Fail with the name of the pipe.
    Refuse,
    /// Take it for an empty file.
    ReadAsEmpty,
}

/// How often pipes are checked in a tree that has some: git may wait for one after the other.
const PIPE_RELEASE_INTERVAL: Duration = Duration::from_millis(5);

/// git for one repository.
#[derive(Debug, Clone)]
pub(crate) struct GitCommand {
    git_env: GitEnv,
    directory: PathBuf,
    work_tree: Option<PathBuf>,
    tree_pipe_policy: TreePipePolicy,
    environment: Vec<(&'static str, OsString)>,
    settings: Vec<String>,
    config_scope: GitConfigScope,
}

/// The result of a git command whose failure is not an error.
pub(crate) struct GitOutput {
    pub exit_code: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl GitCommand {
    /// git finds the repository from this directory.
    pub fn discover_from(git_env: &GitEnv, directory: &Path) -> Self {
        Self {
            git_env: git_env.clone(),
            directory: directory.to_owned(),
            work_tree: None,
            tree_pipe_policy: TreePipePolicy::Refuse,
            environment: Vec::new(),
            settings: Vec::new(),
            config_scope: GitConfigScope::RepositoryOnly,
        }
    }

    /// Uses exactly this git directory, regardless of the current directory.
    pub fn at_git_dir(git_env: &GitEnv, git_dir: &Path) -> Self {
        Self::discover_from(git_env, git_dir).with_variable("GIT_DIR", git_dir)
    }

    /// Sets an environment variable.
    pub fn with_variable(mut self, name: &'static str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name, value.as_ref().to_owned()));
        self
    }

    pub fn with_work_tree(mut self, tree: &Path) -> Self {
        self.directory = tree.to_owned();
        self.work_tree = Some(tree.to_owned());
        self.with_variable("GIT_WORK_TREE", tree)
    }

    /// Adds no name that Windows or macOS reads as `.git`, whatever the system here. For new files
    /// only: a repository that has such names already must stay readable.
    pub fn refusing_names_like_git(self) -> Self {
        self.with_settings(&[
            "core.protectHFS=true".to_owned(),
            "core.protectNTFS=true".to_owned(),
        ])
    }

    /// Takes named pipes with the names of ignore rules or attributes for empty files, instead of
    /// failing: for callers that must look at any tree that an agent left.
    pub fn reading_pipes_as_empty(mut self) -> Self {
        self.tree_pipe_policy = TreePipePolicy::ReadAsEmpty;
        self
    }

    pub fn with_index(self, index: &Path) -> Self {
        self.with_variable("GIT_INDEX_FILE", index)
    }

    /// Adds `-c` settings, which override the fixed ones.
    pub fn with_settings(mut self, settings: &[String]) -> Self {
        self.settings.extend_from_slice(settings);
        self
    }

    /// Uses the user's global configuration, as if they had typed the command.
    pub fn with_user_config(mut self) -> Self {
        self.config_scope = GitConfigScope::User;
        self
    }

    /// Runs git; any exit code but 0 is an error.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<Vec<u8>, SandboxError> {
        self.run_with_input(arguments, b"")
    }

    /// Runs git with this standard input; any exit code but 0 is an error.
    pub fn run_with_input<A: AsRef<OsStr>>(
        &self,
        arguments: &[A],
        input: &[u8],
    ) -> Result<Vec<u8>, SandboxError> {
        let output = self.try_run_with_input(arguments, input)?;
        if output.exit_code == 0 {
            return Ok(output.stdout);
        }
        Err(git_error(arguments, &output.stderr))
    }

    /// Runs git and returns its exit code.
    pub fn try_run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<GitOutput, SandboxError> {
        self.try_run_with_input(arguments, b"")
    }

    /// Runs git with this standard input and returns its exit code.
    pub fn try_run_with_input<A: AsRef<OsStr>>(
        &self,
        arguments: &[A],
        input: &[u8],
    ) -> Result<GitOutput, SandboxError> {
        let child = self.spawn_command(arguments, !input.is_empty())?;
        self.wait_for_output(child, arguments, input)
    }

    /// Runs git and returns its output without the final line break.
    pub fn read_line<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<String, SandboxError> {
        let output = self.run(arguments)?;
        let text = String::from_utf8_lossy(&output);
        Ok(text.trim_end_matches('\n').to_owned())
    }

    /// Runs git and parses its output as one object id.
    pub fn read_object_id<A: AsRef<OsStr>>(
        &self,
        arguments: &[A],
    ) -> Result<ObjectId, SandboxError> {
        let line = self.read_line(arguments)?;
        line.parse().map_err(|_| git_error(arguments, &line))
    }

    /// Pipes this command's output into the other command. Both must succeed.
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

    /// Runs git with its output going to `to`, without a timeout: a person may be reading it in a
    /// pager.
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
        let output = into_git_output(output);
        // A pager that is closed early kills git with a signal. That is not a failure.
        if output.exit_code <= 0 {
            return Ok(());
        }
        Err(git_error(arguments, &output.stderr))
    }

    /// Starts `less`, if it is installed: the only pager whose handling of colours and short texts
    /// is known.
    #[expect(
        clippy::disallowed_methods,
        reason = "this module is the only place that starts git"
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

    /// Starts a command with piped output. It leads its own process group, so that it can be killed
    /// with everything it started.
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
        // A limit too large for the clock means the default.
        let deadline = now.checked_add(limit).unwrap_or(now + GIT_TIMEOUT);
        let mut pipes = self.work_tree.as_deref().map(TreePipes::new);
        let mut refused = None;
        let is_stopped = || self.git_env.stop.as_ref().is_some_and(Stop::is_requested);
        let decide = || {
            if is_stopped() {
                return WaitDecision::Kill;
            }
            let Some(pipes) = &mut pipes else {
                return WaitDecision::keep_waiting();
            };
            let released = pipes.release_reader();
            if released.is_some() && self.tree_pipe_policy == TreePipePolicy::Refuse {
                refused = released;
                return WaitDecision::Kill;
            }
            match pipes.has_pipes() {
                true => WaitDecision::KeepWaiting(PIPE_RELEASE_INTERVAL),
                false => WaitDecision::keep_waiting(),
            }
        };
        let output = child::wait_for_output(child, input, deadline, decide)
            .map_err(|source| self.start_error(source))?;
        if let Some(path) = refused {
            return Err(SandboxError::NotRegularFile { path });
        }
        if let Some(output) = output {
            return Ok(into_git_output(output));
        }
        let command = subcommand_name(arguments);
        if is_stopped() {
            return Err(SandboxError::GitStopped { command });
        }
        Err(SandboxError::GitTimedOut {
            command,
            path: self.directory.clone(),
            limit,
        })
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this module is the only place that starts git"
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
        // If the working directory is missing or not accessible, the system reports that as if the
        // program were missing.
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

/// Returns git's version; an error if git is missing or too old.
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

/// Skips leading `-c` settings.
fn subcommand_name<A: AsRef<OsStr>>(arguments: &[A]) -> String {
    let mut words = arguments.iter().map(AsRef::as_ref);
    let mut word = words.next();
    while word == Some(OsStr::new("-c")) {
        word = words.nth(1);
    }
    word.unwrap_or_default().to_string_lossy().into_owned()
}

/// Runs two closures in parallel. Most of the time of a git command is process start-up.
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

/// Turns git's standard error into an error. If a lock file was in the way, the error names it.
pub(crate) fn git_error<A: AsRef<OsStr>>(arguments: &[A], stderr: &str) -> SandboxError {
    if let Some(lock) = find_lock_path(stderr) {
        return SandboxError::LockedByGit { lock };
    }
    let command = subcommand_name(arguments);
    let said: String = stderr.trim().chars().take(2000).collect();
    let said = if said.is_empty() {
        "it printed no error".to_owned()
    } else {
        said
    };
    SandboxError::GitFailed { command, said }
}

/// The lock file that git could not create.
pub(crate) fn find_lock_path(stderr: &str) -> Option<PathBuf> {
    let (_, rest) = stderr.split_once("Unable to create '")?;
    let (lock, _) = rest.split_once(".lock': File exists")?;
    Some(PathBuf::from(format!("{lock}.lock")))
}

/// Paths to limit a command to, for use with `GIT_LITERAL_PATHSPECS`. Empty, which means all paths,
/// if they do not fit on a command line.
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

pub(crate) fn append_paths<'a>(command: &[&'a str], paths: &[&'a OsStr]) -> Vec<&'a OsStr> {
    let mut arguments: Vec<&OsStr> = command.iter().map(|word| OsStr::new(*word)).collect();
    arguments.extend(paths);
    arguments
}

/// Splits output at NUL bytes, without empty fields.
pub(crate) fn split_nul_fields(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    output
        .split(|byte| *byte == 0)
        .filter(|field| !field.is_empty())
}
