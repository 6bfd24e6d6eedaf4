//! Setting up: the repository's own command (`npm ci`), run once in a new sandbox.
//!
//! It is a shell that runs it, because it is written as one would type it. It is supervised as actors are: nothing
//! it started stays behind, however it or we end. It is confined as actors are, too: the command and the scripts it
//! runs come from the repository, and whatever landed there may have been written by an agent. A person's own
//! settings open more to it, or everything.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::compare::ScratchDir;
use crate::sandboxes::{LocalResource, Sandbox, SandboxKey, Sandboxes};
use crate::supervise::{
    Confinement, IsolationLevel, ProcessSpec, ProgramExit, ReachablePaths, RunEnding, SupervisedRun,
};
use crate::{GitEnv, SandboxError, files};

/// How much is kept of what a command says.
const MAX_KEPT_OUTPUT_BYTES: usize = 64 << 10;

/// How much of that is told to people, in lines and in bytes.
const SHOWN_OUTPUT_LIMITS: (usize, usize) = (40, 4 << 10);

/// How often it is looked whether the command shall end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How long the output may stay open once the command and all it started are gone.
const OUTPUT_CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Both outputs in one, so that what was said stays in its order.
const MERGED_OUTPUT_SCRIPT: &str = "exec /bin/sh -c \"$1\" 2>&1";

/// What came of setting up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetUpOutcome {
    /// The command succeeded.
    Done(OutputTail),
    /// It had succeeded before, and was not run again.
    AlreadyDone,
}

/// The end of what a command said on both of its outputs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputTail {
    /// The last of it.
    pub text: String,
    /// How many bytes came before.
    pub omitted_bytes: u64,
}

impl fmt::Display for OutputTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text.trim();
        if text.is_empty() {
            return f.write_str("It said nothing.");
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

/// How a command ended that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetUpFailure {
    /// By itself, with this exit code.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// It took longer than this and was ended.
    TimedOut(Duration),
    /// It never ran, and this is why.
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

/// Makes out what is open to commands.
type FindReachFn = dyn Fn() -> ReachablePaths + Send + Sync;

/// What the set-up commands of repositories reach besides the system and their sandbox, by a person's settings.
#[derive(Clone)]
pub struct CommandReach {
    reach: Arc<FindReachFn>,
    unconfined: Vec<PathBuf>,
}

impl CommandReach {
    /// Tools, caches and what else the person opens to them, looked up when a command is run; and the repositories
    /// whose set-up can do what the person can.
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
    /// Do the person's settings let the set-up of this resource do what they can?
    pub fn runs_set_up_unconfined(&self, resource: &LocalResource) -> bool {
        self.command_reach()
            .allows_unconfined(resource.location.path())
    }

    /// Runs a repository's set-up command in a sandbox, unless it succeeded there before. It gets `PATH`
    /// and `HOME` and nothing else of the environment, and is confined where possible unless the person's settings
    /// say otherwise. It is ended, with everything it started, when it takes too long, when it is no longer wanted,
    /// and when this process ends.
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
        // `/tmp` is out of a confined program's reach.
        let temporary = ScratchDir(sandbox.index_path.with_extension("tmp"));
        files::remove_tree(&temporary.0)?;
        files::make_private_directory(&temporary.0)?;
        let confinement = match self.runs_set_up_unconfined(key.resource) {
            true => Confinement::Off,
            false => {
                let mut reach = (self.command_reach().reach)();
                reach.writable.push(sandbox.path.clone());
                reach.writable.push(temporary.0.clone());
                reach.readable.extend(self.list_borrowed_objects(key)?);
                Confinement::WherePossible(reach)
            }
        };
        let spec = make_set_up_spec(self.git_env(), sandbox, &command, confinement, &temporary.0);
        let mut running = supervisor.start_program(&spec)?;
        let tail = TailReader::start(&mut running);
        let (ending, cut) = wait_until_gone(running, limit, is_wanted)?;
        let said = tail.finish_reading();
        let ended = match (cut, ending.ended) {
            (Some(SetUpStopReason::Unwanted), _) => {
                return Err(SandboxError::SetUpStopped { command });
            }
            (Some(SetUpStopReason::TimedOut), _) => SetUpFailure::TimedOut(limit),
            (None, ProgramExit::Code(0)) => {
                files::write_atomically(&marker_path, command.as_bytes())?;
                return Ok(SetUpOutcome::Done(said));
            }
            (None, ProgramExit::Code(code)) => SetUpFailure::Code(code),
            (None, ProgramExit::Signal(signal)) => SetUpFailure::Signal(signal),
            (None, ProgramExit::NotStarted(why)) => SetUpFailure::NotStarted(why),
        };
        let hint = match ending.isolation {
            IsolationLevel::Confined { .. } | IsolationLevel::Partly { .. }
                if looks_like_permission_error(&said.text) =>
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
            said,
            hint,
        })
    }
}

/// Does what a program said sound as if it was kept from something?
pub fn looks_like_permission_error(said: &str) -> bool {
    const DENIAL_PHRASES: &[&str] = &[
        "ermission denied",
        "EACCES",
        "EPERM",
        "Operation not permitted",
        "ead-only file system",
        "not writable",
    ];
    DENIAL_PHRASES.iter().any(|words| said.contains(words))
}

/// What a person can do about a set-up that was kept from something.
fn format_permission_hint(repository: &Path) -> String {
    format!(
        "\nThe set-up runs confined: it writes its sandbox and a temporary directory, and reads your tools and their \
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

/// Why a command had to end.
enum SetUpStopReason {
    TimedOut,
    Unwanted,
}

/// Stays until nothing of a command is left.
fn wait_until_gone(
    running: SupervisedRun,
    limit: Duration,
    is_wanted: &dyn Fn() -> bool,
) -> Result<(RunEnding, Option<SetUpStopReason>), SandboxError> {
    let (began, stopper) = (Instant::now(), running.stopper());
    let mut stop_reason = None;
    let (sender, told) = channel();
    // Nobody listens any more only if this thread is gone.
    std::thread::spawn(move || sender.send(running.wait()));
    loop {
        match told.recv_timeout(POLL_INTERVAL) {
            Ok(ending) => return Ok((ending?, stop_reason)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let why = "nobody waited for it".to_owned();
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

/// Reads what a command says to its end, keeping the last of it.
struct TailReader {
    kept: Arc<Mutex<TailBuffer>>,
    readers: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct TailBuffer {
    bytes: Vec<u8>,
    omitted_bytes: u64,
}

impl TailReader {
    fn start(running: &mut SupervisedRun) -> Self {
        let kept = Arc::new(Mutex::new(TailBuffer::default()));
        let readers = match running.take_output() {
            Some((output, errors)) => {
                vec![spawn_reader(output, &kept), spawn_reader(errors, &kept)]
            }
            None => Vec::new(),
        };
        Self { kept, readers }
    }

    /// Where processes can leave their group unseen, one of them may hold the output open for ever; it is
    /// not waited for.
    fn finish_reading(self) -> OutputTail {
        let deadline = Instant::now() + OUTPUT_CLOSE_TIMEOUT;
        let is_read = || self.readers.iter().all(JoinHandle::is_finished);
        while !is_read() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        OutputTail {
            text: String::from_utf8_lossy(&kept.bytes).into_owned(),
            omitted_bytes: kept.omitted_bytes,
        }
    }
}

fn spawn_reader(
    mut output: impl Read + Send + 'static,
    kept: &Arc<Mutex<TailBuffer>>,
) -> JoinHandle<()> {
    let kept = Arc::clone(kept);
    std::thread::spawn(move || {
        let mut buffer = [0; 8 << 10];
        while let Ok(count @ 1..) = output.read(&mut buffer) {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.bytes.extend(&buffer[..count]);
            let excess = kept.bytes.len().saturating_sub(MAX_KEPT_OUTPUT_BYTES);
            kept.bytes.drain(..excess);
            kept.omitted_bytes += excess as u64;
        }
    })
}
