//! The supervising process: starts the last stage, and stays until nothing of the program is left.
//!
//! Threads tell the main one what happens: that the worker wants an end or is gone, that somebody sent
//! a signal, that a child ended, and what the last stage said. The main thread starts the last stage and does not end
//! before a program that runs, because the system takes the end of the starting thread for the end of the parent. If the
//! worker goes while the last stage only waits, that is how the last stage is ended.

use std::io::{self, BufReader, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitOptions, WaitStatus};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use super::file_lock;
use super::messages::{self, LauncherMessage, ProcessSpecMessage, SupervisorReply};
use super::process_tree::ProcessTree;
use super::run_ending::{IsolationLevel, ProgramExit, RunEnding};
use super::{LAUNCHER_FLAG, MISUSE_EXIT_CODE};

/// How long a program may take to end once it is asked to.
const TERMINATION_GRACE: Duration = Duration::from_millis(500);

/// How long is waited at least, and at most, for the killed to be gone.
const KILL_RETRY_DELAYS: (Duration, Duration) =
    (Duration::from_millis(1), Duration::from_millis(250));

/// The longest word of a worker after its errand.
const MAX_WORD_BYTES: u64 = 64;

enum SupervisionEvent {
    /// The program shall end.
    StopRequested,
    /// The worker is gone, or somebody wants the supervising process to end.
    WorkerGone,
    /// The program ended.
    ProgramEnded(WaitStatus),
    /// There are no children any more, and so no descendants.
    AllGone,
}

/// What the last stage said.
#[derive(Default)]
struct LaunchReport {
    isolation: Option<IsolationLevel>,
    not_started: Option<String>,
}

/// Supervises the errand that comes over the socket on standard input.
pub(super) fn run_supervising_process() -> ExitCode {
    let Ok(worker_socket) = messages::open_stdin_socket() else {
        return ExitCode::from(MISUSE_EXIT_CODE);
    };
    let ending = supervise_program(&worker_socket).unwrap_or_else(|why| RunEnding {
        ended: ProgramExit::NotStarted(why),
        isolation: IsolationLevel::Off,
    });
    // A worker that is gone needs no answer.
    let _ = messages::send_message(&worker_socket, &SupervisorReply::Ended(ending));
    ExitCode::SUCCESS
}

/// The last stage is started before there is anything to do, so that whoever waits with an errand waits
/// for neither of the two to start.
fn supervise_program(worker_socket: &UnixStream) -> Result<RunEnding, String> {
    let unsupervised = |error: io::Error| format!("it cannot be supervised: {error}");
    ProcessTree::adopt_orphans().map_err(unsupervised)?;
    let (mut program, mut socket) = start_launcher().map_err(unsupervised)?;

    let unreadable = |error: io::Error| format!("its errand cannot be read: {error}");
    let worker = || worker_socket.try_clone().map_err(unreadable);
    let mut reader = BufReader::new(worker()?);
    let line =
        messages::read_limited_line(&mut reader, messages::MAX_SPEC_BYTES).map_err(unreadable)?;
    let line = line.unwrap_or_default();
    let spec: ProcessSpecMessage = messages::decode_message(&line).map_err(unreadable)?;
    let spec = spec.into_spec();
    if has_ended(program) {
        // It waited, perhaps for hours; whatever ended it ended nothing that had begun.
        (program, socket) = start_launcher().map_err(unsupervised)?;
    }

    let locks = spec.locks.iter().map(|path| file_lock::lock_shared(path));
    let locks: Vec<_> = locks
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    let (events, receiver) = channel();
    listen_to_signals(events.clone()).map_err(unsupervised)?;
    let launch_report = talk_to_launcher(socket, line, worker()?);
    listen_to_worker(reader, events.clone());
    reap_children(program, events);
    let status = wait_until_all_gone(&ProcessTree::rooted_at(program), &receiver);
    drop(locks);
    Ok(make_run_ending(
        status,
        launch_report.join().unwrap_or_default(),
    ))
}

#[expect(
    clippy::disallowed_methods,
    reason = "all child processes belong to this crate"
)]
fn start_launcher() -> io::Result<(Pid, UnixStream)> {
    let (socket, theirs) = UnixStream::pair()?;
    let mut words = std::env::args_os();
    let program = words.next().ok_or(io::ErrorKind::InvalidInput)?;
    let child = Command::new(program)
        .args(words)
        .args([LAUNCHER_FLAG, &std::process::id().to_string()])
        .env_clear()
        .stdin(OwnedFd::from(theirs))
        .spawn()?;
    let number = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let number = number.ok_or_else(|| io::Error::other("the process has no number"))?;
    Ok((number, socket))
}

fn has_ended(child: Pid) -> bool {
    let status = rustix::process::waitpid(Some(child), WaitOptions::NOHANG);
    status.is_ok_and(|ended| ended.is_some())
}

fn listen_to_worker(mut reader: BufReader<UnixStream>, events: Sender<SupervisionEvent>) {
    std::thread::spawn(move || {
        while let Ok(Some(word)) = messages::read_limited_line(&mut reader, MAX_WORD_BYTES) {
            if word == messages::STOP_MESSAGE
                && events.send(SupervisionEvent::StopRequested).is_err()
            {
                return;
            }
        }
        // Nobody listens any more if everything has ended.
        let _ = events.send(SupervisionEvent::WorkerGone);
    });
}

/// Whoever ends this process with one of these ends everything: what it supervises would get away.
fn listen_to_signals(events: Sender<SupervisionEvent>) -> io::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM])?;
    std::thread::spawn(move || {
        for _ in signals.forever() {
            let _ = events.send(SupervisionEvent::WorkerGone);
        }
    });
    Ok(())
}

fn reap_children(program: Pid, events: Sender<SupervisionEvent>) {
    std::thread::spawn(move || {
        loop {
            match rustix::process::wait(WaitOptions::empty()) {
                Ok(Some((child, status))) if child == program => {
                    let _ = events.send(SupervisionEvent::ProgramEnded(status));
                }
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
        let _ = events.send(SupervisionEvent::AllGone);
    });
}

fn talk_to_launcher(
    mut socket: UnixStream,
    errand: Vec<u8>,
    worker: UnixStream,
) -> JoinHandle<LaunchReport> {
    std::thread::spawn(move || {
        let mut report = LaunchReport::default();
        // That it does not listen is told by how it ended.
        let _ = socket.write_all(&errand);
        let _ = socket.shutdown(Shutdown::Write);
        let mut reader = BufReader::new(socket);
        while let Ok(Some(line)) =
            messages::read_limited_line(&mut reader, messages::MAX_ANSWER_BYTES)
        {
            match messages::decode_message(&line) {
                Ok(LauncherMessage::Isolated(isolation)) => report.isolation = Some(isolation),
                Ok(LauncherMessage::NotStarted(why)) => report.not_started = Some(why),
                Err(error) => report.not_started = Some(error.to_string()),
            }
        }
        if let (Some(isolation), None) = (report.isolation, &report.not_started) {
            // A worker that is gone is noticed elsewhere.
            let _ = messages::send_message(&worker, &SupervisorReply::Began(isolation));
        }
        report
    })
}

/// Returns once nobody is left, with how the program itself ended.
fn wait_until_all_gone(
    tree: &ProcessTree,
    receiver: &Receiver<SupervisionEvent>,
) -> Option<WaitStatus> {
    let mut ended = None;
    let mut deadline: Option<Instant> = None;
    loop {
        let event = match deadline {
            None => receiver.recv().map_err(RecvTimeoutError::from),
            Some(until) => receiver.recv_timeout(until.saturating_duration_since(Instant::now())),
        };
        match event {
            Ok(SupervisionEvent::StopRequested) if deadline.is_none() => {
                tree.request_termination();
                deadline = Some(Instant::now() + TERMINATION_GRACE);
            }
            Ok(SupervisionEvent::StopRequested) => {}
            Ok(SupervisionEvent::ProgramEnded(status)) => {
                ended = Some(status);
                tree.kill_escaped();
                break;
            }
            Ok(SupervisionEvent::AllGone) => return ended,
            Ok(SupervisionEvent::WorkerGone) | Err(_) => break,
        }
    }
    // Whoever is left now was left behind.
    let mut retry_delay = KILL_RETRY_DELAYS.0;
    loop {
        match receiver.recv_timeout(retry_delay) {
            Ok(SupervisionEvent::ProgramEnded(status)) => ended = Some(status),
            Ok(SupervisionEvent::AllGone) | Err(RecvTimeoutError::Disconnected) => return ended,
            Ok(SupervisionEvent::StopRequested | SupervisionEvent::WorkerGone) => {}
            Err(RecvTimeoutError::Timeout) => {
                tree.kill_all();
                retry_delay = KILL_RETRY_DELAYS.1.min(retry_delay * 2);
            }
        }
    }
}

fn make_run_ending(status: Option<WaitStatus>, report: LaunchReport) -> RunEnding {
    let code = status.and_then(WaitStatus::exit_status);
    let signal = status.and_then(WaitStatus::terminating_signal);
    let ended = match (report.not_started, signal, code) {
        (Some(why), _, _) => ProgramExit::NotStarted(why),
        (None, Some(signal), _) => ProgramExit::Signal(signal),
        (None, None, Some(code)) if report.isolation.is_some() => ProgramExit::Code(code),
        (None, None, _) => ProgramExit::NotStarted("its last stage said nothing".to_owned()),
    };
    RunEnding {
        ended,
        isolation: report.isolation.unwrap_or(IsolationLevel::Off),
    }
}
