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
pub struct Surroundings {
    /// The program to start for git.
    pub git: OsString,
    /// `PATH`.
    pub path: Option<OsString>,
    /// `HOME`, where the user's own git configuration is found. Asked only for what a person would
    /// expect to be theirs: their name, and how their files end lines.
    pub home: Option<OsString>,
    /// `XDG_CONFIG_HOME`, for the same.
    pub config_home: Option<OsString>,
    /// How long one git may take; [`PATIENCE`] unless somebody knows better.
    pub patience: Duration,
}

/// How long one git may take before it is ended. The longest lays out or reads every file of a large
/// repository on a slow disk; one that takes longer hangs.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// The oldest git that merges in the object database.
pub fn minimum_version() -> &'static str {
    "2.38"
}

/// Settings of every call: nothing runs, asks, fetches or tidies up behind our back.
const SETTINGS: &[&str] = &[
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
enum Configuration {
    /// Nobody's.
    Ours,
    /// The user's, as if they had typed the command.
    Users,
}

/// git, pointed at one repository.
#[derive(Debug, Clone)]
pub(crate) struct Git {
    surroundings: Surroundings,
    directory: PathBuf,
    environment: Vec<(&'static str, OsString)>,
    settings: Vec<String>,
    configuration: Configuration,
}

/// What git answered, where failing is one of the answers.
pub(crate) struct Answered {
    /// The exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: String,
}

impl Git {
    /// Wherever git finds the repository from this directory.
    pub fn found_from(surroundings: &Surroundings, directory: &Path) -> Self {
        Self {
            surroundings: surroundings.clone(),
            directory: directory.to_owned(),
            environment: Vec::new(),
            settings: Vec::new(),
            configuration: Configuration::Ours,
        }
    }

    /// Exactly this repository, wherever the process is.
    pub fn at(surroundings: &Surroundings, git_dir: &Path) -> Self {
        Self::found_from(surroundings, git_dir).with("GIT_DIR", git_dir)
    }

    /// With a variable.
    pub fn with(mut self, name: &'static str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name, value.as_ref().to_owned()));
        self
    }

    /// With this working tree.
    pub fn on_tree(mut self, tree: &Path) -> Self {
        self.directory = tree.to_owned();
        self.with("GIT_WORK_TREE", tree)
    }

    /// With this index.
    pub fn with_index(self, index: &Path) -> Self {
        self.with("GIT_INDEX_FILE", index)
    }

    /// With these settings on top.
    pub fn with_settings(mut self, settings: &[String]) -> Self {
        self.settings.extend_from_slice(settings);
        self
    }

    /// As the user would have typed it: with their configuration.
    pub fn like_the_user(mut self) -> Self {
        self.configuration = Configuration::Users;
        self
    }

    /// Runs it; anything but exit code 0 is an error.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<Vec<u8>, SandboxError> {
        self.run_with(arguments, b"")
    }

    /// Runs it with this on standard input.
    pub fn run_with<A: AsRef<OsStr>>(
        &self,
        arguments: &[A],
        input: &[u8],
    ) -> Result<Vec<u8>, SandboxError> {
        let answered = self.ask_with(arguments, input)?;
        if answered.code == 0 {
            return Ok(answered.stdout);
        }
        Err(failed(arguments, &answered.stderr))
    }

    /// Runs it where failing is an answer.
    pub fn ask<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<Answered, SandboxError> {
        self.ask_with(arguments, b"")
    }

    /// Runs it with this on standard input, where failing is an answer.
    pub fn ask_with<A: AsRef<OsStr>>(
        &self,
        arguments: &[A],
        input: &[u8],
    ) -> Result<Answered, SandboxError> {
        let child = self.start(arguments, !input.is_empty())?;
        self.finish(child, arguments, input)
    }

    /// One line of text.
    pub fn line<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<String, SandboxError> {
        let output = self.run(arguments)?;
        let text = String::from_utf8_lossy(&output);
        Ok(text.trim_end_matches('\n').to_owned())
    }

    /// The hash of one object.
    pub fn object<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<ObjectId, SandboxError> {
        let line = self.line(arguments)?;
        line.parse().map_err(|_| failed(arguments, &line))
    }

    /// Feeds what this one writes to what the other reads; both must succeed.
    pub fn pipe_into<A: AsRef<OsStr> + Sync, B: AsRef<OsStr>>(
        &self,
        arguments: &[A],
        input: &[u8],
        other: &Git,
        others: &[B],
    ) -> Result<Vec<u8>, SandboxError> {
        let mut source = self.start(arguments, true)?;
        let flow = source.stdout.take().map_or_else(Stdio::null, Stdio::from);
        let sink = other.spawn(other.command(others).stdin(flow))?;
        let (sent, sunk) = at_once(
            || self.finish(source, arguments, input),
            || other.finish(sink, others, b""),
        );
        let (sent, sunk) = (sent?, sunk?);
        if sent.code != 0 {
            return Err(failed(arguments, &sent.stderr));
        }
        if sunk.code != 0 {
            return Err(failed(others, &sunk.stderr));
        }
        Ok(sunk.stdout)
    }

    /// Runs it with its output going straight to ours, for as long as a person reads it.
    pub fn show<A: AsRef<OsStr>>(&self, arguments: &[A], to: Stdio) -> Result<(), SandboxError> {
        let child = self
            .command(arguments)
            .stdin(Stdio::null())
            .stdout(to)
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| self.cannot_start(source))?;
        let output = child
            .wait_with_output()
            .map_err(|source| self.cannot_start(source))?;
        let answered = answered(output);
        // A pager that was closed early ends it by a signal; that is not a failure.
        if answered.code <= 0 {
            return Ok(());
        }
        Err(failed(arguments, &answered.stderr))
    }

    /// `less`, if it is there: the one pager whose way with colours and short texts is known.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the door everybody else is sent to"
    )]
    pub fn pager(&self) -> Option<Child> {
        let mut command = Command::new("less");
        command.env_clear().args(["-R", "-F", "-X"]);
        command
            .env("TERM", "xterm-256color")
            .env("LESSCHARSET", "utf-8");
        if let Some(path) = &self.surroundings.path {
            command.env("PATH", path);
        }
        command.stdin(Stdio::piped()).spawn().ok()
    }

    fn start<A: AsRef<OsStr>>(&self, arguments: &[A], fed: bool) -> Result<Child, SandboxError> {
        let stdin = if fed { Stdio::piped() } else { Stdio::null() };
        self.spawn(self.command(arguments).stdin(stdin))
    }

    /// Starts a command that answers to us, in a group of its own so that it can be ended with
    /// whatever it started.
    fn spawn(&self, command: &mut Command) -> Result<Child, SandboxError> {
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|source| self.cannot_start(source))
    }

    fn finish<A: AsRef<OsStr>>(
        &self,
        child: Child,
        arguments: &[A],
        input: &[u8],
    ) -> Result<Answered, SandboxError> {
        let limit = self.surroundings.patience;
        let now = Instant::now();
        // A limit beyond all time is none that matters.
        let until = now.checked_add(limit).unwrap_or(now + PATIENCE);
        let output =
            child::finish(child, input, until).map_err(|source| self.cannot_start(source))?;
        output.map(answered).ok_or_else(|| SandboxError::TooSlow {
            command: name_of(arguments),
            path: self.directory.clone(),
            limit,
        })
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the door everybody else is sent to"
    )]
    fn command<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Command {
        let mut command = Command::new(&self.surroundings.git);
        command.env_clear();
        let surroundings = [
            ("PATH", &self.surroundings.path),
            ("HOME", &self.surroundings.home),
            ("XDG_CONFIG_HOME", &self.surroundings.config_home),
        ];
        for (name, value) in surroundings {
            let theirs = name == "PATH" || self.configuration == Configuration::Users;
            if let Some(value) = value.as_ref().filter(|_| theirs) {
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
        if self.configuration == Configuration::Ours {
            command
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .env("GIT_CONFIG_GLOBAL", "/dev/null");
            for setting in SETTINGS {
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

    fn cannot_start(&self, source: std::io::Error) -> SandboxError {
        // A working directory that is missing or closed is reported by the system as if it were the
        // program.
        let is_open = rustix::fs::access(&self.directory, rustix::fs::Access::EXEC_OK).is_ok();
        if !self.directory.is_dir() || !is_open {
            return SandboxError::File {
                path: self.directory.clone(),
                doing: "entered",
                source,
            };
        }
        SandboxError::NoGit {
            program: self.surroundings.git.to_string_lossy().into_owned(),
            source,
        }
    }
}

/// Is git there, and new enough? Its version.
pub fn version(surroundings: &Surroundings) -> Result<String, SandboxError> {
    let line = Git::found_from(surroundings, Path::new("/")).line(&["version"])?;
    let found = line.trim_start_matches("git version ").to_owned();
    let mut parts = found
        .split('.')
        .map(|part| part.parse::<u32>().unwrap_or(0));
    let known = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if known < (2, 38) {
        return Err(SandboxError::OldGit {
            found,
            needed: minimum_version(),
        });
    }
    Ok(found)
}

fn answered(output: Output) -> Answered {
    Answered {
        code: output.status.code().unwrap_or(-1),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The subcommand.
fn name_of<A: AsRef<OsStr>>(arguments: &[A]) -> String {
    let mut words = arguments.iter().map(AsRef::as_ref);
    let mut word = words.next();
    while word == Some(OsStr::new("-c")) {
        word = words.nth(1);
    }
    word.unwrap_or_default().to_string_lossy().into_owned()
}

/// Does two things at the same time: most of what git takes to answer is starting it.
pub(crate) fn at_once<A: Send, B>(
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
pub(crate) fn failed<A: AsRef<OsStr>>(arguments: &[A], said: &str) -> SandboxError {
    if let Some(lock) = locked(said) {
        return SandboxError::Locked { lock };
    }
    let command = name_of(arguments);
    let said: String = said.trim().chars().take(2000).collect();
    let said = if said.is_empty() {
        "it ended without a word".to_owned()
    } else {
        said
    };
    SandboxError::Git { command, said }
}

/// The lock that git says is in its way.
pub(crate) fn locked(said: &str) -> Option<PathBuf> {
    let (_, rest) = said.split_once("Unable to create '")?;
    let (lock, _) = rest.split_once(".lock': File exists")?;
    Some(PathBuf::from(format!("{lock}.lock")))
}

/// Paths to limit a question to, unless there are too many to say on a command line; then it is about
/// everything. For use with `GIT_LITERAL_PATHSPECS`.
pub(crate) fn literal<'a>(paths: impl Iterator<Item = &'a TreePath>) -> Vec<&'a OsStr> {
    const MOST: usize = 500;
    let paths: Vec<&OsStr> = paths
        .take(MOST + 1)
        .map(|path| OsStr::from_bytes(path.as_bytes()))
        .collect();
    if paths.len() > MOST {
        Vec::new()
    } else {
        paths
    }
}

/// A command with paths at its end.
pub(crate) fn with_paths<'a>(command: &[&'a str], paths: &[&'a OsStr]) -> Vec<&'a OsStr> {
    let mut arguments: Vec<&OsStr> = command.iter().map(|word| OsStr::new(*word)).collect();
    arguments.extend(paths);
    arguments
}

/// The fields of an answer that separates them by NUL.
pub(crate) fn fields(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    output
        .split(|byte| *byte == 0)
        .filter(|field| !field.is_empty())
}
