//! Runs a program and waits for it. Stops it when xtask receives a stop signal.

use std::io::{self, IsTerminal};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::signals::StopSignals;

/// Runs `command` and waits for it. If a signal arrives meanwhile, stops the program and its children before returning;
/// `signals` still has the signal afterwards.
pub fn run_child(command: &mut Command, signals: &StopSignals) -> io::Result<ExitStatus> {
    let group = ChildGroup::for_stdin();
    if let ChildGroup::Own = group {
        command.process_group(0);
    }
    let mut child = command.spawn()?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        match (signals.received_signal(), group) {
            // The terminal sends Ctrl-C to the program as well, which decides what to do: a shell continues.
            (Some(Signal::INT), ChildGroup::Shared) | (None, _) => thread::sleep(POLL_INTERVAL),
            (Some(signal), _) => return stop_child(&mut child, group, signal),
        }
    }
}

/// The exit code with which a shell would report `status`.
pub fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// Which process group a child belongs to.
#[derive(Clone, Copy)]
enum ChildGroup {
    /// Ours: at a terminal, so that the program can read from it and receives Ctrl-C.
    Shared,
    /// Its own: without a terminal, so that a signal can be passed on to the program and all its children (the test
    /// binaries that cargo starts), and to nothing else.
    Own,
}

impl ChildGroup {
    fn for_stdin() -> Self {
        if io::stdin().is_terminal() {
            Self::Shared
        } else {
            Self::Own
        }
    }
}

fn stop_child(child: &mut Child, group: ChildGroup, signal: Signal) -> io::Result<ExitStatus> {
    send_signal(child, group, signal);
    let deadline = Instant::now() + STOP_TIMEOUT;
    let mut status = None;
    while status.is_none() && Instant::now() < deadline {
        thread::sleep(POLL_INTERVAL);
        status = child.try_wait()?;
    }
    // Children may outlive the group's leader.
    if status.is_none() || matches!(group, ChildGroup::Own) {
        send_signal(child, group, Signal::KILL);
    }
    match status {
        Some(status) => Ok(status),
        None => child.wait(),
    }
}

/// Ignores errors: the process may already have ended.
fn send_signal(child: &Child, group: ChildGroup, signal: Signal) {
    let pid = Pid::from_child(child);
    let _already_ended = match group {
        ChildGroup::Shared => kill_process(pid, signal),
        ChildGroup::Own => kill_process_group(pid, signal),
    };
}

const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Long, because a proof run that is stopped removes thousands of files.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        let code = |raw| format!("{:?}", exit_code(ExitStatus::from_raw(raw)));
        let expected = |code: u8| format!("{:?}", ExitCode::from(code));
        assert_eq!(code(0), expected(0));
        assert_eq!(code(3 << 8), expected(3));
        assert_eq!(code(15), expected(143));
    }
}
