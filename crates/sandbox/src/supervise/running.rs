//! The worker's side of a supervised run.

use std::ffi::OsString;
use std::io::{self, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::ending::{Ending, Isolated};
use super::errand::Errand;
use super::leftover::{self, MARK, RunMarkers};
use super::output::Output;
use super::wire::{self, SentErrand, Told};
use crate::SandboxError;
use crate::error::Doing;

/// How long a supervising process may take to listen.
const LISTENS_WITHIN: Duration = Duration::from_secs(10);

/// Starts programs under supervision.
#[derive(Debug, Clone)]
pub struct Supervisor {
    command: Vec<OsString>,
    ready: Option<Ready>,
}

/// A supervising process that waits for its errand: whoever starts many programs does not have each of
/// them wait for two processes to start first. It goes when its owner goes, like any other.
type Ready = Arc<Mutex<Option<Running>>>;

/// A program that runs under supervision. Dropping it ends the program and everything it started.
#[derive(Debug)]
pub struct Running {
    process: Child,
    lifeline: Arc<UnixStream>,
    output: Option<(Output, Output)>,
    /// What readers of the output see the end of once the run is over.
    over: UnixStream,
    traces: RunMarkers,
    /// Whoever makes the next one ready once this one runs: before that it would only be in its way.
    next: Option<Supervisor>,
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
        Self {
            command,
            ready: None,
        }
    }

    /// Keeps one supervising process waiting, from the first program that runs on.
    #[must_use]
    pub fn keeping_one_ready(mut self) -> Self {
        self.ready = Some(Ready::default());
        self
    }

    /// Starts a program. That it is missing is told by its ending; an error here means that it could
    /// not even be tried.
    pub fn start(&self, errand: &Errand) -> Result<Running, SandboxError> {
        // One that ended while it waited has taken nothing on yet.
        let waiting = self.take_ready();
        let given = waiting.map(|waiting| (waiting.give(errand), waiting));
        let mut running = match given {
            Some((Ok(()), running)) => running,
            Some((Err(_), _)) | None => {
                let running = self.start_waiting()?;
                running
                    .give(errand)
                    .doing("given its errand", self.program())?;
                running
            }
        };
        running.next = self.ready.is_some().then(|| self.clone());
        Ok(running)
    }

    fn program(&self) -> &Path {
        let program = self.command.first();
        Path::new(program.map(OsString::as_os_str).unwrap_or_default())
    }

    /// A supervising process that has no errand yet.
    fn start_waiting(&self) -> Result<Running, SandboxError> {
        let program = self.program();
        let (lifeline, theirs) = UnixStream::pair().doing("started", program)?;
        let words = self.command.iter().skip(1);
        let mut process = start_program(program, words, theirs).doing("started", program)?;
        let (over, ends) = UnixStream::pair().doing("started", program)?;
        let ends = Arc::new(ends);
        let pipes = process.stdout.take().zip(process.stderr.take());
        let pipes = pipes.map(|(output, errors)| (OwnedFd::from(output), OwnedFd::from(errors)));
        let traces = RunMarkers {
            // No two that live have the same number.
            mark: format!("{}-{}", std::process::id(), process.id()),
            pipes: pipes
                .iter()
                .flat_map(|(output, errors)| [output, errors])
                .filter_map(|pipe| Some(rustix::fs::fstat(pipe).ok()?.st_ino))
                .collect(),
        };
        let output =
            pipes.map(|(output, errors)| (Output::new(output, &ends), Output::new(errors, &ends)));
        Ok(Running {
            process,
            lifeline: Arc::new(lifeline),
            output,
            over,
            traces,
            next: None,
        })
    }

    fn take_ready(&self) -> Option<Running> {
        let ready = self.ready.as_ref()?;
        let mut waiting = lock(ready).take()?;
        matches!(waiting.process.try_wait(), Ok(None)).then_some(waiting)
    }

    /// That it cannot be started now is told to whoever needs it.
    fn make_ready(&self) {
        let Some(ready) = &self.ready else {
            return;
        };
        let mut ready = lock(ready);
        if ready.is_none() {
            *ready = self.start_waiting().ok();
        }
    }
}

impl Running {
    /// What the program says, on standard output and standard error; once. Both end when nothing of the program is
    /// left, and at the latest when [`wait`](Self::wait) returns.
    pub fn take_output(&mut self) -> Option<(Output, Output)> {
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
    pub fn wait(self) -> Result<Ending, SandboxError> {
        self.wait_telling(|_| {})
    }

    /// As [`wait`](Self::wait), telling once that the program runs and how far it is confined.
    pub fn wait_telling(mut self, began: impl FnOnce(Isolated)) -> Result<Ending, SandboxError> {
        if let Some((output, errors)) = self.take_output() {
            throw_away(output);
            throw_away(errors);
        }
        let lifeline = Arc::clone(&self.lifeline);
        let mut answers = BufReader::new(&*lifeline);
        let mut began = Some(began);
        loop {
            let answer = wire::next_line(&mut answers, wire::ANSWER_LIMIT)
                .and_then(|line| line.as_deref().map(wire::read_message).transpose());
            let why = match answer {
                Ok(Some(Told::Began(isolation))) => {
                    if let Some(began) = began.take() {
                        began(isolation);
                    }
                    if let Some(supervisor) = self.next.take() {
                        supervisor.make_ready();
                    }
                    continue;
                }
                Ok(Some(Told::Ended(ending))) => return Ok(ending),
                Ok(None) => "it is gone".to_owned(),
                Err(error) => error.to_string(),
            };
            return Err(self.end_unsupervised(why));
        }
    }

    /// The supervising process was killed, or is of no use: whatever is left of the program is ended from here.
    fn end_unsupervised(&mut self, mut why: String) -> SandboxError {
        // It may still be there, and would start or adopt somebody.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let left = leftover::end_all(&self.traces);
        if !left.is_empty() {
            let left: Vec<String> = left.iter().map(i32::to_string).collect();
            why.push_str(&format!(
                "; of the program, these processes still run: {}",
                left.join(", ")
            ));
        }
        SandboxError::Unsupervised { why }
    }

    fn give(&self, errand: &Errand) -> io::Result<()> {
        let mut errand = errand.clone();
        let mark = (MARK.into(), self.traces.mark.clone().into());
        errand.environment.push(mark);
        let message = wire::line(&SentErrand::pack(&errand));
        if message.len() as u64 > wire::ERRAND_LIMIT {
            return Err(io::ErrorKind::ArgumentListTooLong.into());
        }
        self.send(&message)
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
        let _ = self.over.shutdown(Shutdown::Both);
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

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn throw_away(mut output: impl Read + Send + 'static) {
    std::thread::spawn(move || io::copy(&mut output, &mut io::sink()));
}
