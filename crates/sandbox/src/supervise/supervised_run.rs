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

use super::messages::{self, ProcessSpecMessage, SupervisorReply};
use super::orphans::{self, RUN_MARK_VARIABLE, RunMarkers};
use super::output::ProgramOutput;
use super::process_spec::ProcessSpec;
use super::run_ending::{IsolationLevel, RunEnding};
use crate::SandboxError;
use crate::error::FileErrorContext;

/// How long a supervising process may take to listen.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Starts programs under supervision.
#[derive(Debug, Clone)]
pub struct Supervisor {
    command: Vec<OsString>,
    idle_slot: Option<IdleSlot>,
}

/// A supervising process that waits for its errand: whoever starts many programs does not have each of
/// them wait for two processes to start first. It goes when its owner goes, like any other.
type IdleSlot = Arc<Mutex<Option<SupervisedRun>>>;

/// A program that runs under supervision. Dropping it ends the program and everything it started.
#[derive(Debug)]
pub struct SupervisedRun {
    process: Child,
    control_socket: Arc<UnixStream>,
    output: Option<(ProgramOutput, ProgramOutput)>,
    /// What readers of the output see the end of once the run is over.
    run_end: UnixStream,
    markers: RunMarkers,
    /// Whoever makes the next one ready once this one runs: before that it would only be in its way.
    prepares_next: Option<Supervisor>,
}

/// Ends a program that somebody else waits for.
#[derive(Debug, Clone)]
pub struct RunStopper {
    control_socket: Arc<UnixStream>,
}

impl Supervisor {
    /// With the words that start [`supervise`](super::supervise): a program by its absolute path, and
    /// what has to be said to it.
    pub fn new(command: Vec<OsString>) -> Self {
        Self {
            command,
            idle_slot: None,
        }
    }

    /// Keeps one supervising process waiting, from the first program that runs on.
    #[must_use]
    pub fn with_idle_process(mut self) -> Self {
        self.idle_slot = Some(IdleSlot::default());
        self
    }

    /// Starts a program. That it is missing is told by its ending; an error here means that it could
    /// not even be tried.
    pub fn start_program(&self, spec: &ProcessSpec) -> Result<SupervisedRun, SandboxError> {
        // One that ended while it waited has taken nothing on yet.
        let idle = self.take_idle_process();
        let given = idle.map(|waiting| (waiting.send_process_spec(spec), waiting));
        let mut running = match given {
            Some((Ok(()), running)) => running,
            Some((Err(_), _)) | None => {
                let running = self.spawn_idle_process()?;
                running
                    .send_process_spec(spec)
                    .while_being("given its errand", self.program_path())?;
                running
            }
        };
        running.prepares_next = self.idle_slot.is_some().then(|| self.clone());
        Ok(running)
    }

    fn program_path(&self) -> &Path {
        let program = self.command.first();
        Path::new(program.map(OsString::as_os_str).unwrap_or_default())
    }

    /// A supervising process that has no errand yet.
    fn spawn_idle_process(&self) -> Result<SupervisedRun, SandboxError> {
        let program = self.program_path();
        let (control_socket, theirs) = UnixStream::pair().while_being("started", program)?;
        let words = self.command.iter().skip(1);
        let mut process =
            spawn_supervisor(program, words, theirs).while_being("started", program)?;
        let (run_end, ends) = UnixStream::pair().while_being("started", program)?;
        let ends = Arc::new(ends);
        let pipes = process.stdout.take().zip(process.stderr.take());
        let pipes = pipes.map(|(output, errors)| (OwnedFd::from(output), OwnedFd::from(errors)));
        let markers = RunMarkers {
            // No two that live have the same number.
            mark: format!("{}-{}", std::process::id(), process.id()),
            pipes: pipes
                .iter()
                .flat_map(|(output, errors)| [output, errors])
                .filter_map(|pipe| Some(rustix::fs::fstat(pipe).ok()?.st_ino))
                .collect(),
        };
        let output = pipes.map(|(output, errors)| {
            (
                ProgramOutput::new(output, &ends),
                ProgramOutput::new(errors, &ends),
            )
        });
        Ok(SupervisedRun {
            process,
            control_socket: Arc::new(control_socket),
            output,
            run_end,
            markers,
            prepares_next: None,
        })
    }

    fn take_idle_process(&self) -> Option<SupervisedRun> {
        let ready = self.idle_slot.as_ref()?;
        let mut waiting = lock_ignoring_poison(ready).take()?;
        matches!(waiting.process.try_wait(), Ok(None)).then_some(waiting)
    }

    /// That it cannot be started now is told to whoever needs it.
    fn prepare_idle_process(&self) {
        let Some(ready) = &self.idle_slot else {
            return;
        };
        let mut ready = lock_ignoring_poison(ready);
        if ready.is_none() {
            *ready = self.spawn_idle_process().ok();
        }
    }
}

impl SupervisedRun {
    /// What the program says, on standard output and standard error; once. Both end when nothing of the program is
    /// left, and at the latest when [`wait`](Self::wait) returns.
    pub fn take_output(&mut self) -> Option<(ProgramOutput, ProgramOutput)> {
        self.output.take()
    }

    /// Ends the program from elsewhere.
    pub fn stopper(&self) -> RunStopper {
        RunStopper {
            control_socket: Arc::clone(&self.control_socket),
        }
    }

    /// Waits until the program ended and all its descendants are gone. Output that nobody took is
    /// thrown away.
    pub fn wait(self) -> Result<RunEnding, SandboxError> {
        self.wait_reporting_start(|_| {})
    }

    /// As [`wait`](Self::wait), telling once that the program runs and how far it is confined.
    pub fn wait_reporting_start(
        mut self,
        on_start: impl FnOnce(IsolationLevel),
    ) -> Result<RunEnding, SandboxError> {
        if let Some((output, errors)) = self.take_output() {
            discard_output(output);
            discard_output(errors);
        }
        let control_socket = Arc::clone(&self.control_socket);
        let mut answers = BufReader::new(&*control_socket);
        let mut on_start = Some(on_start);
        loop {
            let answer = messages::read_limited_line(&mut answers, messages::MAX_ANSWER_BYTES)
                .and_then(|line| line.as_deref().map(messages::decode_message).transpose());
            let why = match answer {
                Ok(Some(SupervisorReply::Began(isolation))) => {
                    if let Some(began) = on_start.take() {
                        began(isolation);
                    }
                    if let Some(supervisor) = self.prepares_next.take() {
                        supervisor.prepare_idle_process();
                    }
                    continue;
                }
                Ok(Some(SupervisorReply::Ended(ending))) => return Ok(ending),
                Ok(None) => "it is gone".to_owned(),
                Err(error) => error.to_string(),
            };
            return Err(self.kill_unsupervised(why));
        }
    }

    /// The supervising process was killed, or is of no use: whatever is left of the program is ended from here.
    fn kill_unsupervised(&mut self, mut why: String) -> SandboxError {
        // It may still be there, and would start or adopt somebody.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let left = orphans::kill_orphans(&self.markers);
        if !left.is_empty() {
            let left: Vec<String> = left.iter().map(i32::to_string).collect();
            why.push_str(&format!(
                "; of the program, these processes still run: {}",
                left.join(", ")
            ));
        }
        SandboxError::SupervisorFailed { why }
    }

    fn send_process_spec(&self, spec: &ProcessSpec) -> io::Result<()> {
        let mut spec = spec.clone();
        let mark = (RUN_MARK_VARIABLE.into(), self.markers.mark.clone().into());
        spec.environment.push(mark);
        let message = messages::encode_line(&ProcessSpecMessage::from_spec(&spec));
        if message.len() as u64 > messages::MAX_SPEC_BYTES {
            return Err(io::ErrorKind::ArgumentListTooLong.into());
        }
        self.send_message(&message)
    }

    fn send_message(&self, message: &[u8]) -> io::Result<()> {
        self.control_socket.set_write_timeout(Some(SEND_TIMEOUT))?;
        (&*self.control_socket).write_all(message)?;
        self.control_socket.set_write_timeout(None)
    }
}

impl Drop for SupervisedRun {
    fn drop(&mut self) {
        // For the supervising process we are gone, whoever else still holds the socket.
        let _ = self.control_socket.shutdown(Shutdown::Both);
        let _ = self.process.wait();
        let _ = self.run_end.shutdown(Shutdown::Both);
    }
}

impl RunStopper {
    /// Asks the program to end. What is left of it after a short grace is killed. That it has ended
    /// already is fine.
    pub fn stop(&self) {
        let _ = (&*self.control_socket).write_all(messages::STOP_MESSAGE);
    }
}

/// It has a process group of its own, so that an interrupt from the terminal does not end it: it is
/// for the worker to say when everything has to end.
#[expect(
    clippy::disallowed_methods,
    reason = "all child processes belong to this crate"
)]
fn spawn_supervisor<'a>(
    program: &Path,
    words: impl Iterator<Item = &'a OsString>,
    socket: UnixStream,
) -> io::Result<Child> {
    Command::new(program)
        .args(words)
        .env_clear()
        .current_dir("/")
        .stdin(OwnedFd::from(socket))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
}

fn lock_ignoring_poison<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn discard_output(mut output: impl Read + Send + 'static) {
    std::thread::spawn(move || io::copy(&mut output, &mut io::sink()));
}
