//! The worker's side of a supervised run.

use std::ffi::OsString;
use std::io::{self, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use super::ending::Ending;
use super::errand::Errand;
use super::wire::{self, SentErrand};
use crate::SandboxError;
use crate::error::Doing;

/// How long a supervising process may take to listen.
const LISTENS_WITHIN: Duration = Duration::from_secs(10);

/// Starts programs under supervision.
#[derive(Debug, Clone)]
pub struct Supervisor {
    command: Vec<OsString>,
}

/// A program that runs under supervision. Dropping it ends the program and everything it started.
#[derive(Debug)]
pub struct Running {
    process: Child,
    lifeline: Arc<UnixStream>,
    output: Option<(ChildStdout, ChildStderr)>,
}

/// Ends a program that somebody else waits for.
#[derive(Debug, Clone)]
pub struct Stopper {
    lifeline: Arc<UnixStream>,
}

impl Supervisor {
    /// With the words that start [`supervise`](super::supervise): a program by its absolute path, and
    /// what has to be said to it.
    pub fn new(command: Vec<OsString>) -> Self {
        Self { command }
    }

    /// Starts a program. That it is missing is told by its ending; an error here means that it could
    /// not even be tried.
    pub fn start(&self, errand: &Errand) -> Result<Running, SandboxError> {
        let mut words = self.command.iter();
        let program = words.next().map(OsString::as_os_str).unwrap_or_default();
        let program = Path::new(program);
        let message = wire::line(&SentErrand::pack(errand, &self.command));
        if message.len() as u64 > wire::ERRAND_LIMIT {
            let too_long = io::Error::from(io::ErrorKind::ArgumentListTooLong);
            return Err(too_long).doing("given its errand", program);
        }
        let (lifeline, theirs) = UnixStream::pair().doing("started", program)?;
        let mut process = start_program(program, words, theirs).doing("started", program)?;
        let output = process.stdout.take().zip(process.stderr.take());
        let running = Running {
            process,
            lifeline: Arc::new(lifeline),
            output,
        };
        running.send(&message).doing("given its errand", program)?;
        Ok(running)
    }
}

impl Running {
    /// What the program says, on standard output and standard error; once. Both end only when
    /// nothing of the program is left.
    pub fn take_output(&mut self) -> Option<(ChildStdout, ChildStderr)> {
        self.output.take()
    }

    /// Ends the program from elsewhere.
    pub fn stopper(&self) -> Stopper {
        Stopper {
            lifeline: Arc::clone(&self.lifeline),
        }
    }

    /// Waits until the program ended and all its descendants are gone. Output that nobody took is
    /// thrown away.
    pub fn wait(mut self) -> Result<Ending, SandboxError> {
        if let Some((output, errors)) = self.take_output() {
            throw_away(output);
            throw_away(errors);
        }
        let mut answers = BufReader::new(&*self.lifeline);
        let answer = wire::next_line(&mut answers, wire::ANSWER_LIMIT)
            .and_then(|line| line.as_deref().map(wire::read_message).transpose());
        match answer {
            Ok(Some(ending)) => Ok(ending),
            Ok(None) => Err(SandboxError::Unsupervised {
                why: "it is gone".to_owned(),
            }),
            Err(error) => Err(SandboxError::Unsupervised {
                why: error.to_string(),
            }),
        }
    }

    fn send(&self, message: &[u8]) -> io::Result<()> {
        self.lifeline.set_write_timeout(Some(LISTENS_WITHIN))?;
        (&*self.lifeline).write_all(message)?;
        self.lifeline.set_write_timeout(None)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // For the supervising process we are gone, whoever else still holds the socket.
        let _ = self.lifeline.shutdown(Shutdown::Both);
        let _ = self.process.wait();
    }
}

impl Stopper {
    /// Asks the program to end. What is left of it after a short grace is killed. That it has ended
    /// already is fine.
    pub fn stop(&self) {
        let _ = (&*self.lifeline).write_all(wire::STOP);
    }
}

/// It has a process group of its own, so that an interrupt from the terminal does not end it: it is
/// for the worker to say when everything has to end.
#[expect(
    clippy::disallowed_methods,
    reason = "all child processes belong to this crate"
)]
fn start_program<'a>(
    program: &Path,
    words: impl Iterator<Item = &'a OsString>,
    lifeline: UnixStream,
) -> io::Result<Child> {
    Command::new(program)
        .args(words)
        .env_clear()
        .current_dir("/")
        .stdin(OwnedFd::from(lifeline))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
}

fn throw_away(mut output: impl Read + Send + 'static) {
    std::thread::spawn(move || io::copy(&mut output, &mut io::sink()));
}
