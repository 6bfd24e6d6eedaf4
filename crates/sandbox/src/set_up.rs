//! Setting up: the user's own command (`npm ci`), run once in a new sandbox.
//!
//! It is a shell that runs it, because the user wrote it as they would type it. It gets a process
//! group of its own, which ends with it: nothing it started stays behind in the sandbox.

use std::fmt;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use crate::error::Doing;
use crate::files;
use crate::room::{Sandbox, Workshop};
use crate::{SandboxError, Surroundings};

/// How much is kept of what a command says.
const KEPT: usize = 64 << 10;

/// How often it is looked whether the command ended.
const LOOK: Duration = Duration::from_millis(10);

/// How long the output may stay open once the command and its group are gone.
const LINGER: Duration = Duration::from_secs(1);

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
        if self.left_out > 0 {
            write!(f, "[{} bytes left out] ", self.left_out)?;
        }
        f.write_str(self.end.trim())
    }
}

/// How a command ended that did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this exit code.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// It took longer than this and was ended.
    TooLate(Duration),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "ended with exit code {code}"),
            Self::Signal(signal) => write!(f, "was ended by signal {signal}"),
            Self::TooLate(limit) => write!(f, "took longer than {} s", limit.as_secs_f64()),
        }
    }
}

impl Workshop {
    /// Runs the user's set-up command in a sandbox, unless it succeeded there before. It gets `PATH`
    /// and `HOME` and nothing else of the environment, and is ended when it takes too long.
    pub fn set_up(
        &self,
        sandbox: &Sandbox,
        command: &str,
        limit: Duration,
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
        let (status, said) = run(self.surroundings(), sandbox, command, limit)?;
        let ended = match status {
            Some(status) if status.success() => {
                files::write_whole(&mark, command.as_bytes())?;
                return Ok(SetUp::Done(said));
            }
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => Ended::Code(code),
                (None, signal) => Ended::Signal(signal.unwrap_or_default()),
            },
            None => Ended::TooLate(limit),
        };
        Err(SandboxError::SetUpFailed {
            command: command.to_owned(),
            ended,
            said,
        })
    }
}

/// Runs a command to its end, or to the limit; then there is no status.
#[expect(
    clippy::disallowed_methods,
    reason = "all child processes belong to this crate, and this one is not git"
)]
fn run(
    surroundings: &Surroundings,
    sandbox: &Sandbox,
    command: &str,
    limit: Duration,
) -> Result<(Option<ExitStatus>, Said), SandboxError> {
    let shell = std::path::Path::new("/bin/sh");
    let (output, input) = std::io::pipe().doing("started", shell)?;
    let errors = input.try_clone().doing("started", shell)?;
    let mut child = Command::new(shell);
    child
        .args(["-c", command])
        .current_dir(&sandbox.path)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(input)
        .stderr(errors)
        .process_group(0);
    for (name, value) in [("PATH", &surroundings.path), ("HOME", &surroundings.home)] {
        if let Some(value) = value {
            child.env(name, value);
        }
    }
    let started = child.spawn().doing("started", shell)?;
    // It holds our ends of the output, which would never end.
    drop(child);
    let tail = Tail::of(output);
    let status = wait(started, limit).doing("waited for", shell)?;
    Ok((status, tail.finish()))
}

/// Waits for a command and ends its group, while the group is certain to be its own: before the
/// system may give its number to another.
fn wait(mut child: Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let group = group.ok_or_else(|| std::io::Error::other("the process has no number"))?;
    let until = Instant::now().checked_add(limit);
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let in_time = loop {
        if rustix::process::waitid(WaitId::Pid(group), look)?.is_some() {
            break true;
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            break false;
        }
        std::thread::sleep(LOOK);
    };
    // That nobody is left in the group is what is wanted.
    let _ = rustix::process::kill_process_group(group, Signal::KILL);
    let status = child.wait()?;
    Ok(in_time.then_some(status))
}

/// Reads an output to its end, keeping the last of it.
struct Tail {
    kept: Arc<Mutex<Kept>>,
    reader: std::thread::JoinHandle<()>,
}

#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    left_out: u64,
}

impl Tail {
    fn of(mut output: impl Read + Send + 'static) -> Self {
        let kept = Arc::new(Mutex::new(Kept::default()));
        let into = Arc::clone(&kept);
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 8 << 10];
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                let mut kept = into.lock().unwrap_or_else(PoisonError::into_inner);
                kept.bytes.extend(&buffer[..count]);
                let excess = kept.bytes.len().saturating_sub(KEPT);
                kept.bytes.drain(..excess);
                kept.left_out += excess as u64;
            }
        });
        Self { kept, reader }
    }

    /// Somebody who left the group may hold the output open for ever; they are not waited for.
    fn finish(self) -> Said {
        let until = Instant::now() + LINGER;
        while !self.reader.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        Said {
            end: String::from_utf8_lossy(&kept.bytes).into_owned(),
            left_out: kept.left_out,
        }
    }
}
