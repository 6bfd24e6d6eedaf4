//! The supervising process: starts the launcher and stays until the program and its descendants are
//! gone.
//!
//! Threads report events to the main thread: stop requests, a closed worker socket, signals, exited
//! children and the launcher's messages. The main thread starts the launcher and must outlive the
//! program, because Linux sends the parent-death signal when the thread that forked ends. If the
//! worker goes away while the launcher is idle, that signal ends the launcher.

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

/// How long a program may take to exit after SIGTERM.
const TERMINATION_GRACE: Duration = Duration::from_millis(500);

/// The shortest and the longest delay between kill attempts.
const KILL_RETRY_DELAYS: (Duration, Duration) =
    (Duration::from_millis(1), Duration::from_millis(250));

/// The longest message of a worker after its process spec.
const MAX_WORD_BYTES: u64 = 64;

enum SupervisionEvent {
    StopRequested,
    /// The worker is gone, or this process was asked to end.
    WorkerGone,
    ProgramEnded(WaitStatus),
    /// No children are left, and so no descendants.
    AllGone,
}

/// What the launcher reported.
#[derive(Default)]
struct LaunchReport {
    isolation: Option<IsolationLevel>,
    not_started: Option<String>,
}

/// Supervises the program whose spec comes over the socket on standard input.
pub(super) fn run_supervising_process() -> ExitCode {
    let Ok(worker_socket) = messages::open_stdin_socket() else {
        return ExitCode::from(MISUSE_EXIT_CODE);
    };
    let ending = supervise_program(&worker_socket).unwrap_or_else(|why| RunEnding {
        ended: ProgramExit::NotStarted(why),
        isolation: IsolationLevel::Off,
    });
    // A worker that is gone needs no reply.
    let _ = messages::send_message(&worker_socket, &SupervisorReply::Ended(ending));
    ExitCode::SUCCESS
}

/// Starts the launcher before the spec arrives, so that a waiting worker need not wait for either
/// process to start.
fn supervise_program(worker_socket: &UnixStream) -> Result<RunEnding, String> {
    let unsupervised = |error: io::Error| format!("it cannot be supervised: {error}");
    ProcessTree::adopt_orphans().map_err(unsupervised)?;
    let (mut program, mut socket) = start_launcher().map_err(unsupervised)?;

    let unreadable = |error: io::Error| format!("its process spec cannot be read: {error}");
    let clone_worker_socket = || worker_socket.try_clone().map_err(unreadable);
    let mut reader = BufReader::new(clone_worker_socket()?);
    let line =
        messages::read_limited_line(&mut reader, messages::MAX_SPEC_BYTES).map_err(unreadable)?;
    let line = line.unwrap_or_default();
    let spec: ProcessSpecMessage = messages::decode_message(&line).map_err(unreadable)?;
    let spec = spec.into_spec();
    if has_ended(program) {
        // It may have waited for hours and been killed. No program was started yet, so start
        // another one.
        (program, socket) = start_launcher().map_err(unsupervised)?;
    }

    let locks = spec.locks.iter().map(|path| file_lock::lock_shared(path));
    let locks: Vec<_> = locks
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    let (events, receiver) = channel();
    listen_to_signals(events.clone()).map_err(unsupervised)?;
    let launch_report = talk_to_launcher(socket, line, clone_worker_socket()?);
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
    let (socket, launcher_socket) = UnixStream::pair()?;
    let mut words = std::env::args_os();
    let program = words.next().ok_or(io::ErrorKind::InvalidInput)?;
    let child = Command::new(program)
        .args(words)
        .args([LAUNCHER_FLAG, &std::process::id().to_string()])
        .env_clear()
        .stdin(OwnedFd::from(launcher_socket))
        .spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("the process id is invalid"))?;
    Ok((pid, socket))
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
        // Sending fails if everything has ended.
        let _ = events.send(SupervisionEvent::WorkerGone);
    });
}

/// On these signals, kills the program as well; otherwise it would go on unsupervised.
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
    spec_line: Vec<u8>,
    worker: UnixStream,
) -> JoinHandle<LaunchReport> {
    std::thread::spawn(move || {
        let mut report = LaunchReport::default();
        // If it does not read, its exit status tells why.
        let _ = socket.write_all(&spec_line);
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
            // A worker that is gone is noticed by another thread.
            let _ = messages::send_message(&worker, &SupervisorReply::Began(isolation));
        }
        report
    })
}

/// Returns once no process is left, with the exit status of the program itself.
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
    // Everything that is left now was left behind, or must end.
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
        (None, None, _) => ProgramExit::NotStarted("the launcher reported nothing".to_owned()),
    };
    RunEnding {
        ended,
        isolation: report.isolation.unwrap_or(IsolationLevel::Off),
    }
}
