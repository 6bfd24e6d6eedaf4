//! Runs the repository's set-up command (`npm ci`) once in a new sandbox.
//!
//! A shell runs the command. It is supervised like an agent: no process it starts survives, however
//! the command or this process ends. It is also confined like an agent, because the command and its
//! scripts come from the repository and an agent may have written them. The user's settings can
//! open more paths, or turn confinement off.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::compare::ScratchDir;
use crate::local_resource::{LocalResource, SandboxKey};
use crate::sandboxes::{Sandbox, Sandboxes};
use crate::supervise::{
    Confinement, IsolationLevel, ProcessSpec, ProgramExit, ReachablePaths, RunEnding, SupervisedRun,
};
use crate::{GitEnv, SandboxError, files};

/// How much of a command's output is kept.
const MAX_KEPT_OUTPUT_BYTES: usize = 64 << 10;

/// How much of the kept output is shown, in lines and in bytes.
const SHOWN_OUTPUT_LIMITS: (usize, usize) = (40, 4 << 10);

/// How often to check whether the command should be stopped.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How long the output may stay open after the command and its children exited.
const OUTPUT_CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Merges both outputs into one, so that their lines stay in order.
const MERGED_OUTPUT_SCRIPT: &str = "exec /bin/sh -c \"$1\" 2>&1";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetUpOutcome {
    Done(OutputTail),
    /// The command succeeded in an earlier call and was not run again.
    AlreadyDone,
}

/// The last part of a command's output, standard output and standard error merged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputTail {
    pub text: String,
    /// How many bytes of output came before `text`.
    pub omitted_bytes: u64,
}

impl fmt::Display for OutputTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text.trim();
        if text.is_empty() {
            return f.write_str("It printed nothing.");
        }
        let (lines, bytes) = SHOWN_OUTPUT_LIMITS;
        let last = text.rmatch_indices('\n').nth(lines - 1);
        let last = &text[last.map_or(0, |(at, _)| at + 1)..];
        let last = &last[last.ceil_char_boundary(last.len().saturating_sub(bytes))..];
        if last.len() < text.len() || self.omitted_bytes > 0 {
            f.write_str("[…]\n")?;
        }
        f.write_str(last)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetUpFailure {
    Code(i32),
    Signal(i32),
    /// Killed after this time limit.
    TimedOut(Duration),
    /// The reason why it could not be started.
    NotStarted(String),
}

impl fmt::Display for SetUpFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "ended with exit code {code}"),
            Self::Signal(signal) => write!(f, "was ended by signal {signal}"),
            Self::TimedOut(limit) => write!(f, "took longer than {} s", limit.as_secs_f64()),
            Self::NotStarted(why) => write!(f, "was not started: {why}"),
        }
    }
}

/// Looks up which paths are open to commands.
type FindReachFn = dyn Fn() -> ReachablePaths + Send + Sync;

/// Which paths set-up commands may access besides the system and their sandbox, from the user's
/// settings.
#[derive(Clone)]
pub struct CommandReach {
    reach: Arc<FindReachFn>,
    unconfined: Vec<PathBuf>,
}

impl CommandReach {
    /// `reach` returns the user's tools, caches and configured paths; it is called for each
    /// command. `unconfined` lists repositories whose set-up command runs with the user's full
    /// rights.
    pub fn new(
        reach: impl Fn() -> ReachablePaths + Send + Sync + 'static,
        unconfined: Vec<PathBuf>,
    ) -> Self {
        Self {
            reach: Arc::new(reach),
            unconfined,
        }
    }

    fn allows_unconfined(&self, repository: &Path) -> bool {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let repository = real(repository);
        self.unconfined.iter().any(|path| real(path) == repository)
    }
}

impl Default for CommandReach {
    fn default() -> Self {
        Self::new(ReachablePaths::default, Vec::new())
    }
}

impl fmt::Debug for CommandReach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("CommandReach");
        shown.field("unconfined", &self.unconfined);
        shown.finish_non_exhaustive()
    }
}

impl Sandboxes {
    /// Do the user's settings run the set-up command of this resource without confinement?
    pub fn runs_set_up_unconfined(&self, resource: &LocalResource) -> bool {
        self.command_reach()
            .allows_unconfined(resource.location.path())
    }

    /// Runs a repository's set-up command in a sandbox, unless it succeeded there before. The
    /// command gets only `PATH` and `HOME` from the environment. It is confined where possible,
    /// unless the user's settings turn that off. It is killed with everything it started after the
    /// time limit, when `is_wanted` returns false, and when this process ends.
    pub fn run_set_up(
        &self,
        key: &SandboxKey<'_>,
        sandbox: &Sandbox,
        command: &str,
        limit: Duration,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<SetUpOutcome, SandboxError> {
        let marker_path = sandbox.set_up_marker_path();
        if marker_path.exists() {
            return Ok(SetUpOutcome::AlreadyDone);
        }
        if !sandbox.exists() {
            return Err(SandboxError::SandboxMissing {
                path: sandbox.path.clone(),
            });
        }
        let command = command.to_owned();
        let Some(supervisor) = self.supervisor() else {
            return Err(SandboxError::NoSupervisor { command });
        };
        // A confined program cannot access `/tmp`.
        let temporary = ScratchDir(sandbox.index_path.with_extension("tmp"));
        files::remove_tree(&temporary.0)?;
        files::make_private_directory(&temporary.0)?;
        let confinement = match self.runs_set_up_unconfined(key.resource) {
            true => Confinement::Off,
            false => {
                let mut reach = (self.command_reach().reach)();
                reach.writable.push(sandbox.path.clone());
                reach.writable.push(temporary.0.clone());
                reach
                    .readable
                    .extend(self.runs().list_borrowed_objects(key)?);
                Confinement::WherePossible(reach)
            }
        };
        let spec = make_set_up_spec(self.git_env(), sandbox, &command, confinement, &temporary.0);
        let mut running = supervisor.start_program(&spec)?;
        let tail = TailReader::start(&mut running);
        let (ending, stop_reason) = wait_until_gone(running, limit, is_wanted)?;
        let output = tail.finish_reading();
        let ended = match (stop_reason, ending.ended) {
            (Some(SetUpStopReason::Unwanted), _) => {
                return Err(SandboxError::SetUpStopped { command });
            }
            (Some(SetUpStopReason::TimedOut), _) => SetUpFailure::TimedOut(limit),
            (None, ProgramExit::Code(0)) => {
                // Only after success, so that a failed set-up is repeated.
                files::write_atomically(&marker_path, command.as_bytes())?;
                return Ok(SetUpOutcome::Done(output));
            }
            (None, ProgramExit::Code(code)) => SetUpFailure::Code(code),
            (None, ProgramExit::Signal(signal)) => SetUpFailure::Signal(signal),
            (None, ProgramExit::NotStarted(why)) => SetUpFailure::NotStarted(why),
        };
        let hint = match ending.isolation {
            IsolationLevel::Confined { .. } | IsolationLevel::Partly { .. }
                if looks_like_permission_error(&output.text) =>
            {
                format_permission_hint(key.resource.location.path())
            }
            IsolationLevel::Confined { .. }
            | IsolationLevel::Partly { .. }
            | IsolationLevel::Unavailable
            | IsolationLevel::Off => String::new(),
        };
        Err(SandboxError::SetUpFailed {
            command,
            ended,
            said: output,
            hint,
        })
    }
}

/// Does this output look like a denied file access?
pub fn looks_like_permission_error(output: &str) -> bool {
    const DENIAL_PHRASES: &[&str] = &[
        "ermission denied",
        "EACCES",
        "EPERM",
        "Operation not permitted",
        "ead-only file system",
        "not writable",
    ];
    DENIAL_PHRASES.iter().any(|words| output.contains(words))
}

/// What to do about a set-up command that was denied access.
fn format_permission_hint(repository: &Path) -> String {
    format!(
        "\nThe set-up runs confined: it can write its sandbox and a temporary directory, and read your tools and their \
         caches. If it was denied access, allow the path (this replaces the list you have):\n  \
         planwright config set sandbox.writable \"~/.npm/\"\n  \
         planwright config set sandbox.readable \"~/.npmrc\"\n\
         Or run the set-up of this repository unconfined. Then whatever lands there will run with your rights:\n  \
         planwright config set sandbox.unconfined \"{}\"",
        repository.display()
    )
}

fn make_set_up_spec(
    git_env: &GitEnv,
    sandbox: &Sandbox,
    command: &str,
    confinement: Confinement,
    temporary: &Path,
) -> ProcessSpec {
    let temporary = match confinement {
        Confinement::Off => None,
        Confinement::WherePossible(_) | Confinement::Required(_) => Some(temporary.into()),
    };
    let variables = [
        ("PATH", &git_env.path),
        ("HOME", &git_env.home),
        ("TMPDIR", &temporary),
        ("TMP", &temporary),
        ("TEMP", &temporary),
    ];
    let given = variables.into_iter();
    ProcessSpec {
        command: ["/bin/sh", "-c", MERGED_OUTPUT_SCRIPT, "/bin/sh", command]
            .map(Into::into)
            .to_vec(),
        directory: sandbox.path.clone(),
        environment: given
            .filter_map(|(name, value)| Some((name.into(), value.clone()?)))
            .collect(),
        input: None,
        confinement,
        locks: vec![sandbox.lock_path()],
    }
}

enum SetUpStopReason {
    TimedOut,
    Unwanted,
}

/// Waits until the command and everything it started are gone. Stops them after the limit, or when
/// no longer wanted.
fn wait_until_gone(
    running: SupervisedRun,
    limit: Duration,
    is_wanted: &dyn Fn() -> bool,
) -> Result<(RunEnding, Option<SetUpStopReason>), SandboxError> {
    let (began, stopper) = (Instant::now(), running.stopper());
    let mut stop_reason = None;
    let (sender, receiver) = channel();
    // Sending fails only if this function has returned.
    std::thread::spawn(move || sender.send(running.wait()));
    loop {
        match receiver.recv_timeout(POLL_INTERVAL) {
            Ok(ending) => return Ok((ending?, stop_reason)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let why = "its exit status was lost".to_owned();
                return Err(SandboxError::SupervisorFailed { why });
            }
        }
        if stop_reason.is_some() {
            continue;
        }
        if began.elapsed() >= limit {
            stop_reason = Some(SetUpStopReason::TimedOut);
        } else if !is_wanted() {
            stop_reason = Some(SetUpStopReason::Unwanted);
        }
        if stop_reason.is_some() {
            stopper.stop();
        }
    }
}

/// Reads a command's output to the end and keeps the last part.
struct TailReader {
    tail_buffer: Arc<Mutex<TailBuffer>>,
    readers: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct TailBuffer {
    bytes: Vec<u8>,
    omitted_bytes: u64,
}

impl TailReader {
    fn start(running: &mut SupervisedRun) -> Self {
        let tail_buffer = Arc::new(Mutex::new(TailBuffer::default()));
        let readers = match running.take_output() {
            Some((output, errors)) => {
                vec![
                    spawn_reader(output, &tail_buffer),
                    spawn_reader(errors, &tail_buffer),
                ]
            }
            None => Vec::new(),
        };
        Self {
            tail_buffer,
            readers,
        }
    }

    /// Returns what was read. Does not wait forever: where processes can escape supervision, one of
    /// them may hold the output open.
    fn finish_reading(self) -> OutputTail {
        let deadline = Instant::now() + OUTPUT_CLOSE_TIMEOUT;
        let is_read = || self.readers.iter().all(JoinHandle::is_finished);
        while !is_read() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        let tail_buffer = self
            .tail_buffer
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        OutputTail {
            text: String::from_utf8_lossy(&tail_buffer.bytes).into_owned(),
            omitted_bytes: tail_buffer.omitted_bytes,
        }
    }
}

fn spawn_reader(
    mut output: impl Read + Send + 'static,
    tail_buffer: &Arc<Mutex<TailBuffer>>,
) -> JoinHandle<()> {
    let tail_buffer = Arc::clone(tail_buffer);
    std::thread::spawn(move || {
        let mut buffer = [0; 8 << 10];
        while let Ok(count @ 1..) = output.read(&mut buffer) {
            let mut tail_buffer = tail_buffer.lock().unwrap_or_else(PoisonError::into_inner);
            tail_buffer.bytes.extend(&buffer[..count]);
            let excess = tail_buffer
                .bytes
                .len()
                .saturating_sub(MAX_KEPT_OUTPUT_BYTES);
            tail_buffer.bytes.drain(..excess);
            tail_buffer.omitted_bytes += excess as u64;
        }
    })
}
