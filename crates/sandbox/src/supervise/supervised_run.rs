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

/// How long a supervising process may take to read a message.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
pub struct Supervisor {
    command: Vec<OsString>,
    idle_slot: Option<IdleSlot>,
}

/// A supervising process that waits for a spec, so that the next program starts without waiting for
/// two processes to start. It ends with its owner.
type IdleSlot = Arc<Mutex<Option<SupervisedRun>>>;

/// A program that runs under supervision. Dropping it kills the program and everything it started.
#[derive(Debug)]
pub struct SupervisedRun {
    process: Child,
    control_socket: Arc<UnixStream>,
    output: Option<(ProgramOutput, ProgramOutput)>,
    /// Closed when the run is over, which ends the readers of the output.
    run_end: UnixStream,
    markers: RunMarkers,
    /// Starts the next idle process once this program runs; earlier it would only compete with it.
    prepares_next: Option<Supervisor>,
}

/// Stops a program that another thread waits for.
#[derive(Debug, Clone)]
pub struct RunStopper {
    control_socket: Arc<UnixStream>,
}

impl Supervisor {
    /// `command` starts [`run_supervisor`](super::run_supervisor): an absolute path and arguments.
    pub fn new(command: Vec<OsString>) -> Self {
        Self {
            command,
            idle_slot: None,
        }
    }

    /// Keeps one idle supervising process ready, from the first program on.
    #[must_use]
    pub fn with_idle_process(mut self) -> Self {
        self.idle_slot = Some(IdleSlot::default());
        self
    }

    /// Starts a program. If the program itself cannot be started, [`SupervisedRun::wait`] reports
    /// that. An error here means that supervision failed.
    pub fn start_program(&self, spec: &ProcessSpec) -> Result<SupervisedRun, SandboxError> {
        // An idle process may have ended while it waited. Then nothing was started yet, and a new
        // one is used.
        let idle = self.take_idle_process();
        let sent = idle.map(|waiting| (waiting.send_process_spec(spec), waiting));
        let mut running = match sent {
            Some((Ok(()), running)) => running,
            Some((Err(_), _)) | None => {
                let running = self.spawn_idle_process()?;
                running
                    .send_process_spec(spec)
                    .while_being("sent its process spec", self.program_path())?;
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

    fn spawn_idle_process(&self) -> Result<SupervisedRun, SandboxError> {
        let program = self.program_path();
        let (control_socket, child_socket) = UnixStream::pair().while_being("started", program)?;
        let words = self.command.iter().skip(1);
        let mut process =
            spawn_supervisor(program, words, child_socket).while_being("started", program)?;
        let (run_end, reader_end) = UnixStream::pair().while_being("started", program)?;
        let reader_end = Arc::new(reader_end);
        let pipes = process.stdout.take().zip(process.stderr.take());
        let pipes = pipes.map(|(output, errors)| (OwnedFd::from(output), OwnedFd::from(errors)));
        let markers = RunMarkers {
            // Both processes run, so no other run has the same mark.
            mark: format!("{}-{}", std::process::id(), process.id()),
            pipes: pipes
                .iter()
                .flat_map(|(output, errors)| [output, errors])
                .filter_map(|pipe| Some(rustix::fs::fstat(pipe).ok()?.st_ino))
                .collect(),
        };
        let output = pipes.map(|(output, errors)| {
            (
                ProgramOutput::new(output, &reader_end),
                ProgramOutput::new(errors, &reader_end),
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
        let slot = self.idle_slot.as_ref()?;
        let mut waiting = lock_ignoring_poison(slot).take()?;
        matches!(waiting.process.try_wait(), Ok(None)).then_some(waiting)
    }

    /// Ignores errors: the next program then starts its own supervising process and reports them.
    fn prepare_idle_process(&self) {
        let Some(slot) = &self.idle_slot else {
            return;
        };
        let mut slot = lock_ignoring_poison(slot);
        if slot.is_none() {
            *slot = self.spawn_idle_process().ok();
        }
    }
}

impl SupervisedRun {
    /// Standard output and standard error; `None` if taken before. Both end when the program and
    /// its descendants are gone, at the latest when [`wait`](Self::wait) returns.
    pub fn take_output(&mut self) -> Option<(ProgramOutput, ProgramOutput)> {
        self.output.take()
    }

    pub fn stopper(&self) -> RunStopper {
        RunStopper {
            control_socket: Arc::clone(&self.control_socket),
        }
    }

    /// Waits until the program and all its descendants are gone. Discards output that was not
    /// taken.
    pub fn wait(self) -> Result<RunEnding, SandboxError> {
        self.wait_reporting_start(|_| {})
    }

    /// Like [`wait`](Self::wait), and calls `on_start` once the program runs, with its isolation.
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
                Ok(None) => "it ended unexpectedly".to_owned(),
                Err(error) => error.to_string(),
            };
            return Err(self.kill_unsupervised(why));
        }
    }

    /// The supervising process was killed or failed: kills what is left of the program from here.
    fn kill_unsupervised(&mut self, mut why: String) -> SandboxError {
        // It may still run, and would start or adopt processes.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let remaining = orphans::kill_orphans(&self.markers);
        if !remaining.is_empty() {
            let remaining: Vec<String> = remaining.iter().map(i32::to_string).collect();
            why.push_str(&format!(
                "; these processes of the program are still running: {}",
                remaining.join(", ")
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
        // Tells the supervising process to stop, even if a stopper still holds the socket.
        let _ = self.control_socket.shutdown(Shutdown::Both);
        let _ = self.process.wait();
        let _ = self.run_end.shutdown(Shutdown::Both);
    }
}

impl RunStopper {
    /// Sends SIGTERM to the program, and SIGKILL after a short grace period. Does nothing if it has
    /// ended.
    pub fn stop(&self) {
        let _ = (&*self.control_socket).write_all(messages::STOP_MESSAGE);
    }
}

/// Starts the supervising process in its own process group, so that an interrupt from the terminal
/// does not kill it. The worker decides when everything ends.
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
