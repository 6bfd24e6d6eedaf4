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

use crate::compare::Scratch;
use crate::room::{Room, Sandbox, Site, Workshop};
use crate::supervise::{Confinement, Ending, Errand, Isolated, Reach, RunEnded, Running};
use crate::{SandboxError, Surroundings, files};

/// How much is kept of what a command says.
const KEPT: usize = 64 << 10;

/// How much of that is told to people, in lines and in bytes.
const TOLD: (usize, usize) = (40, 4 << 10);

/// How often it is looked whether the command shall end.
const LOOK: Duration = Duration::from_millis(50);

/// How long the output may stay open once the command and all it started are gone.
const LINGER: Duration = Duration::from_secs(1);

/// Both outputs in one, so that what was said stays in its order.
const IN_ONE: &str = "exec /bin/sh -c \"$1\" 2>&1";

/// What came of setting up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetUp {
    /// The command succeeded.
    Done(Said),
    /// It had succeeded before, and was not run again.
    DoneBefore,
}

/// The end of what a command said on both of its outputs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    /// The last of it.
    pub end: String,
    /// How many bytes came before.
    pub left_out: u64,
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.end.trim();
        if text.is_empty() {
            return f.write_str("It said nothing.");
        }
        let (lines, bytes) = TOLD;
        let last = text.rmatch_indices('\n').nth(lines - 1);
        let last = &text[last.map_or(0, |(at, _)| at + 1)..];
        let last = &last[last.ceil_char_boundary(last.len().saturating_sub(bytes))..];
        if last.len() < text.len() || self.left_out > 0 {
            f.write_str("[…]\n")?;
        }
        f.write_str(last)
    }
}

/// How a command ended that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this exit code.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// It took longer than this and was ended.
    TooLate(Duration),
    /// It never ran, and this is why.
    NotStarted(String),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "ended with exit code {code}"),
            Self::Signal(signal) => write!(f, "was ended by signal {signal}"),
            Self::TooLate(limit) => write!(f, "took longer than {} s", limit.as_secs_f64()),
            Self::NotStarted(why) => write!(f, "was not started: {why}"),
        }
    }
}

/// Makes out what is open to commands.
type FindReach = dyn Fn() -> Reach + Send + Sync;

/// What the set-up commands of repositories reach besides the system and their sandbox, by a person's settings.
#[derive(Clone)]
pub struct CommandReach {
    reach: Arc<FindReach>,
    unconfined: Vec<PathBuf>,
}

impl CommandReach {
    /// Tools, caches and what else the person opens to them, looked up when a command is run; and the repositories
    /// whose set-up can do what the person can.
    pub fn new(
        reach: impl Fn() -> Reach + Send + Sync + 'static,
        unconfined: Vec<PathBuf>,
    ) -> Self {
        Self {
            reach: Arc::new(reach),
            unconfined,
        }
    }

    fn lets_run_unconfined(&self, repository: &Path) -> bool {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let repository = real(repository);
        self.unconfined.iter().any(|path| real(path) == repository)
    }
}

impl Default for CommandReach {
    fn default() -> Self {
        Self::new(Reach::default, Vec::new())
    }
}

impl fmt::Debug for CommandReach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("CommandReach");
        shown.field("unconfined", &self.unconfined);
        shown.finish_non_exhaustive()
    }
}

impl Workshop {
    /// Do the person's settings let the set-up of this resource do what they can?
    pub fn runs_set_up_unconfined(&self, site: &Site) -> bool {
        self.command_reach().lets_run_unconfined(site.place.path())
    }

    /// Runs a repository's set-up command in a sandbox, unless it succeeded there before. It gets `PATH`
    /// and `HOME` and nothing else of the environment, and is confined where possible unless the person's settings
    /// say otherwise. It is ended, with everything it started, when it takes too long, when it is no longer wanted,
    /// and when this process ends.
    pub fn set_up(
        &self,
        room: &Room<'_>,
        sandbox: &Sandbox,
        command: &str,
        limit: Duration,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<SetUp, SandboxError> {
        let mark = sandbox.set_up_mark();
        if mark.exists() {
            return Ok(SetUp::DoneBefore);
        }
        if !sandbox.is_there() {
            return Err(SandboxError::SandboxGone {
                path: sandbox.path.clone(),
            });
        }
        let command = command.to_owned();
        let Some(supervisor) = self.supervisor() else {
            return Err(SandboxError::NoSupervisor { command });
        };
        // `/tmp` is out of a confined program's reach.
        let temporary = Scratch(sandbox.index.with_extension("tmp"));
        files::remove_tree(&temporary.0)?;
        files::make_private_directory(&temporary.0)?;
        let confinement = match self.runs_set_up_unconfined(room.site) {
            true => Confinement::Off,
            false => {
                let mut reach = (self.command_reach().reach)();
                reach.writable.push(sandbox.path.clone());
                reach.writable.push(temporary.0.clone());
                reach.readable.extend(self.borrowed(room)?);
                Confinement::WherePossible(reach)
            }
        };
        let errand = errand(
            self.surroundings(),
            sandbox,
            &command,
            confinement,
            &temporary.0,
        );
        let mut running = supervisor.start(&errand)?;
        let tail = Tail::of(&mut running);
        let (ending, cut) = attend(running, limit, is_wanted)?;
        let said = tail.finish();
        let ended = match (cut, ending.ended) {
            (Some(Cut::Unwanted), _) => return Err(SandboxError::SetUpStopped { command }),
            (Some(Cut::TooLate), _) => Ended::TooLate(limit),
            (None, RunEnded::Code(0)) => {
                files::write_whole(&mark, command.as_bytes())?;
                return Ok(SetUp::Done(said));
            }
            (None, RunEnded::Code(code)) => Ended::Code(code),
            (None, RunEnded::Signal(signal)) => Ended::Signal(signal),
            (None, RunEnded::NotStarted(why)) => Ended::NotStarted(why),
        };
        let hint = match ending.isolation {
            Isolated::Confined { .. } | Isolated::Partly { .. } if sounds_denied(&said.end) => {
                hint_to_open(room.site.place.path())
            }
            Isolated::Confined { .. }
            | Isolated::Partly { .. }
            | Isolated::Unavailable
            | Isolated::Off => String::new(),
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
pub fn sounds_denied(said: &str) -> bool {
    const DENIED: &[&str] = &[
        "ermission denied",
        "EACCES",
        "EPERM",
        "Operation not permitted",
        "ead-only file system",
        "not writable",
    ];
    DENIED.iter().any(|words| said.contains(words))
}

/// What a person can do about a set-up that was kept from something.
fn hint_to_open(repository: &Path) -> String {
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

fn errand(
    surroundings: &Surroundings,
    sandbox: &Sandbox,
    command: &str,
    confinement: Confinement,
    temporary: &Path,
) -> Errand {
    let temporary = match confinement {
        Confinement::Off => None,
        Confinement::WherePossible(_) | Confinement::Required(_) => Some(temporary.into()),
    };
    let given = [
        ("PATH", &surroundings.path),
        ("HOME", &surroundings.home),
        ("TMPDIR", &temporary),
        ("TMP", &temporary),
        ("TEMP", &temporary),
    ];
    let given = given.into_iter();
    Errand {
        command: ["/bin/sh", "-c", IN_ONE, "/bin/sh", command]
            .map(Into::into)
            .to_vec(),
        directory: sandbox.path.clone(),
        environment: given
            .filter_map(|(name, value)| Some((name.into(), value.clone()?)))
            .collect(),
        input: None,
        confinement,
        locks: vec![sandbox.lock()],
    }
}

/// Why a command had to end.
enum Cut {
    TooLate,
    Unwanted,
}

/// Stays until nothing of a command is left.
fn attend(
    running: Running,
    limit: Duration,
    is_wanted: &dyn Fn() -> bool,
) -> Result<(Ending, Option<Cut>), SandboxError> {
    let (began, stopper) = (Instant::now(), running.stopper());
    let mut cut = None;
    let (tell, told) = channel();
    // Nobody listens any more only if this thread is gone.
    std::thread::spawn(move || tell.send(running.wait()));
    loop {
        match told.recv_timeout(LOOK) {
            Ok(ending) => return Ok((ending?, cut)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let why = "nobody waited for it".to_owned();
                return Err(SandboxError::Unsupervised { why });
            }
        }
        if cut.is_some() {
            continue;
        }
        if began.elapsed() >= limit {
            cut = Some(Cut::TooLate);
        } else if !is_wanted() {
            cut = Some(Cut::Unwanted);
        }
        if cut.is_some() {
            stopper.stop();
        }
    }
}

/// Reads what a command says to its end, keeping the last of it.
struct Tail {
    kept: Arc<Mutex<Kept>>,
    readers: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    left_out: u64,
}

impl Tail {
    fn of(running: &mut Running) -> Self {
        let kept = Arc::new(Mutex::new(Kept::default()));
        let readers = match running.take_output() {
            Some((output, errors)) => vec![read(output, &kept), read(errors, &kept)],
            None => Vec::new(),
        };
        Self { kept, readers }
    }

    /// Where processes can leave their group unseen, one of them may hold the output open for ever; it is
    /// not waited for.
    fn finish(self) -> Said {
        let until = Instant::now() + LINGER;
        let is_read = || self.readers.iter().all(JoinHandle::is_finished);
        while !is_read() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        Said {
            end: String::from_utf8_lossy(&kept.bytes).into_owned(),
            left_out: kept.left_out,
        }
    }
}

fn read(mut output: impl Read + Send + 'static, kept: &Arc<Mutex<Kept>>) -> JoinHandle<()> {
    let kept = Arc::clone(kept);
    std::thread::spawn(move || {
        let mut buffer = [0; 8 << 10];
        while let Ok(count @ 1..) = output.read(&mut buffer) {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.bytes.extend(&buffer[..count]);
            let excess = kept.bytes.len().saturating_sub(KEPT);
            kept.bytes.drain(..excess);
            kept.left_out += excess as u64;
        }
    })
}
