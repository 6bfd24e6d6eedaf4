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

use super::ending::{Ending, Isolated, RunEnded};
use super::family::Family;
use super::hold;
use super::wire::{self, Said, SentErrand, Told};
use super::{INNER, MISUSED};

/// How long a program may take to end once it is asked to.
const GRACE: Duration = Duration::from_millis(500);

/// How long is waited at least, and at most, for the killed to be gone.
const BREATH: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(250));

/// The longest word of a worker after its errand.
const WORD_LIMIT: u64 = 64;

enum Event {
    /// The program shall end.
    Stop,
    /// The worker is gone, or somebody wants the supervising process to end.
    Abandoned,
    /// The program ended.
    Ended(WaitStatus),
    /// There are no children any more, and so no descendants.
    NobodyLeft,
}

/// What the last stage said.
#[derive(Default)]
struct Heard {
    isolation: Option<Isolated>,
    not_started: Option<String>,
}

/// Supervises the errand that comes over the socket on standard input.
pub(super) fn run() -> ExitCode {
    let Ok(lifeline) = wire::socket_at_standard_input() else {
        return ExitCode::from(MISUSED);
    };
    let ending = attend(&lifeline).unwrap_or_else(|why| Ending {
        ended: RunEnded::NotStarted(why),
        isolation: Isolated::Off,
    });
    // A worker that is gone needs no answer.
    let _ = wire::tell(&lifeline, &Told::Ended(ending));
    ExitCode::SUCCESS
}

/// The last stage is started before there is anything to do, so that whoever waits with an errand waits
/// for neither of the two to start.
fn attend(lifeline: &UnixStream) -> Result<Ending, String> {
    let unsupervised = |error: io::Error| format!("it cannot be supervised: {error}");
    Family::adopt_orphans().map_err(unsupervised)?;
    let (mut program, mut socket) = start_last_stage().map_err(unsupervised)?;

    let unreadable = |error: io::Error| format!("its errand cannot be read: {error}");
    let worker = || lifeline.try_clone().map_err(unreadable);
    let mut reader = BufReader::new(worker()?);
    let line = wire::next_line(&mut reader, wire::ERRAND_LIMIT).map_err(unreadable)?;
    let line = line.unwrap_or_default();
    let errand: SentErrand = wire::read_message(&line).map_err(unreadable)?;
    let errand = errand.unpack();
    if has_ended(program) {
        // It waited, perhaps for hours; whatever ended it ended nothing that had begun.
        (program, socket) = start_last_stage().map_err(unsupervised)?;
    }

    let locks = errand.locks.iter().map(|path| hold::take(path));
    let locks: Vec<_> = locks
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    let (events, happened) = channel();
    listen_to_signals(events.clone()).map_err(unsupervised)?;
    let heard = talk_to_last_stage(socket, line, worker()?);
    listen_to_worker(reader, events.clone());
    reap_children(program, events);
    let status = see_to_the_end(&Family::of(program), &happened);
    drop(locks);
    Ok(ending(status, heard.join().unwrap_or_default()))
}

#[expect(
    clippy::disallowed_methods,
    reason = "all child processes belong to this crate"
)]
fn start_last_stage() -> io::Result<(Pid, UnixStream)> {
    let (socket, theirs) = UnixStream::pair()?;
    let mut words = std::env::args_os();
    let program = words.next().ok_or(io::ErrorKind::InvalidInput)?;
    let child = Command::new(program)
        .args(words)
        .args([INNER, &std::process::id().to_string()])
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

fn listen_to_worker(mut reader: BufReader<UnixStream>, events: Sender<Event>) {
    std::thread::spawn(move || {
        while let Ok(Some(word)) = wire::next_line(&mut reader, WORD_LIMIT) {
            if word == wire::STOP && events.send(Event::Stop).is_err() {
                return;
            }
        }
        // Nobody listens any more if everything has ended.
        let _ = events.send(Event::Abandoned);
    });
}

/// Whoever ends this process with one of these ends everything: what it supervises would get away.
fn listen_to_signals(events: Sender<Event>) -> io::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM])?;
    std::thread::spawn(move || {
        for _ in signals.forever() {
            let _ = events.send(Event::Abandoned);
        }
    });
    Ok(())
}

fn reap_children(program: Pid, events: Sender<Event>) {
    std::thread::spawn(move || {
        loop {
            match rustix::process::wait(WaitOptions::empty()) {
                Ok(Some((child, status))) if child == program => {
                    let _ = events.send(Event::Ended(status));
                }
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
        let _ = events.send(Event::NobodyLeft);
    });
}

fn talk_to_last_stage(
    mut socket: UnixStream,
    errand: Vec<u8>,
    worker: UnixStream,
) -> JoinHandle<Heard> {
    std::thread::spawn(move || {
        let mut heard = Heard::default();
        // That it does not listen is told by how it ended.
        let _ = socket.write_all(&errand);
        let _ = socket.shutdown(Shutdown::Write);
        let mut reader = BufReader::new(socket);
        while let Ok(Some(line)) = wire::next_line(&mut reader, wire::ANSWER_LIMIT) {
            match wire::read_message(&line) {
                Ok(Said::Isolated(isolation)) => heard.isolation = Some(isolation),
                Ok(Said::NotStarted(why)) => heard.not_started = Some(why),
                Err(error) => heard.not_started = Some(error.to_string()),
            }
        }
        if let (Some(isolation), None) = (heard.isolation, &heard.not_started) {
            // A worker that is gone is noticed elsewhere.
            let _ = wire::tell(&worker, &Told::Began(isolation));
        }
        heard
    })
}

/// Returns once nobody is left, with how the program itself ended.
fn see_to_the_end(family: &Family, happened: &Receiver<Event>) -> Option<WaitStatus> {
    let mut ended = None;
    let mut until: Option<Instant> = None;
    loop {
        let event = match until {
            None => happened.recv().map_err(RecvTimeoutError::from),
            Some(until) => happened.recv_timeout(until.saturating_duration_since(Instant::now())),
        };
        match event {
            Ok(Event::Stop) if until.is_none() => {
                family.ask_to_end();
                until = Some(Instant::now() + GRACE);
            }
            Ok(Event::Stop) => {}
            Ok(Event::Ended(status)) => {
                ended = Some(status);
                family.kill_who_gets_away();
                break;
            }
            Ok(Event::NobodyLeft) => return ended,
            Ok(Event::Abandoned) | Err(_) => break,
        }
    }
    // Whoever is left now was left behind.
    let mut breath = BREATH.0;
    loop {
        match happened.recv_timeout(breath) {
            Ok(Event::Ended(status)) => ended = Some(status),
            Ok(Event::NobodyLeft) | Err(RecvTimeoutError::Disconnected) => return ended,
            Ok(Event::Stop | Event::Abandoned) => {}
            Err(RecvTimeoutError::Timeout) => {
                family.kill();
                breath = BREATH.1.min(breath * 2);
            }
        }
    }
}

fn ending(status: Option<WaitStatus>, heard: Heard) -> Ending {
    let code = status.and_then(WaitStatus::exit_status);
    let signal = status.and_then(WaitStatus::terminating_signal);
    let ended = match (heard.not_started, signal, code) {
        (Some(why), _, _) => RunEnded::NotStarted(why),
        (None, Some(signal), _) => RunEnded::Signal(signal),
        (None, None, Some(code)) if heard.isolation.is_some() => RunEnded::Code(code),
        (None, None, _) => RunEnded::NotStarted("its last stage said nothing".to_owned()),
    };
    Ending {
        ended,
        isolation: heard.isolation.unwrap_or(Isolated::Off),
    }
}
