//! Feeds a child process, reads its output and waits for it, on one thread and with a deadline.
//!
//! A git that hangs (on a lost network file system, or in a wrapper that prompts) must end in an
//! error. It gets SIGTERM first, because git then removes its lock files, and SIGKILL after a grace
//! period, together with its process group. If this process is killed meanwhile, a guard ends it.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, ChildStdin, ExitStatus, Output};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use crate::child_guard::ChildGuard;

/// How often to check whether a child exited while its output is silent.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// How long a child may take to exit after SIGTERM.
const TERMINATION_GRACE: Duration = Duration::from_secs(2);

/// How long a child runs without a guard. Most git commands end earlier, and starting a process for
/// each of them would slow them down.
const GUARD_DELAY: Duration = Duration::from_millis(200);

/// What to do next while a child runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitDecision {
    /// Wait, at most this long, before asking again.
    KeepWaiting(Duration),
    /// Kill the child.
    Kill,
}

impl WaitDecision {
    pub fn keep_waiting() -> Self {
        Self::KeepWaiting(POLL_INTERVAL)
    }
}

/// Writes `input` to a child and reads its output to the end. Asks `decide` again and again while
/// it waits. Returns `None` if the deadline passed or `decide` said so; the child is killed then.
/// The child must lead its own process group.
pub(crate) fn wait_for_output(
    mut child: Child,
    input: &[u8],
    deadline: Instant,
    mut decide: impl FnMut() -> WaitDecision,
) -> io::Result<Option<Output>> {
    let result = match feed_and_read(&mut child, input, deadline, &mut decide) {
        Ok(Some(output)) => return Ok(Some(output)),
        Ok(None) => Ok(None),
        Err(error) => Err(error),
    };
    terminate_group(&mut child);
    result
}

/// Kills a child and its process group. Does not wait for a child that hangs in the kernel, because
/// it cannot be killed.
fn terminate_group(child: &mut Child) {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let Some(group) = group else {
        return;
    };
    // An error means that the group is empty already.
    let _ = rustix::process::kill_process_group(group, Signal::TERM);
    let wait_options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let deadline = Instant::now() + TERMINATION_GRACE;
    while Instant::now() < deadline {
        match rustix::process::waitid(WaitId::Pid(group), wait_options) {
            Ok(None) => std::thread::sleep(Duration::from_millis(10)),
            Ok(Some(_)) | Err(_) => break,
        }
    }
    // Before the child is reaped: afterwards the group's id may belong to another process.
    let _ = rustix::process::kill_process_group(group, Signal::KILL);
    let _ = wait_until_deadline(child, Instant::now() + TERMINATION_GRACE);
}

fn feed_and_read(
    child: &mut Child,
    input: &[u8],
    deadline: Instant,
    decide: &mut impl FnMut() -> WaitDecision,
) -> io::Result<Option<Output>> {
    let mut stdin = child.stdin.take();
    if let Some(stdin) = &stdin {
        rustix::io::ioctl_fionbio(stdin, true)?;
    }
    let (mut stdout, mut stderr) = (child.stdout.take(), child.stderr.take());
    let (mut stdout_bytes, mut stderr_bytes) = (Vec::new(), Vec::new());
    let mut unwritten = input;
    let guarded_from = Instant::now() + GUARD_DELAY;
    let mut guard = None;
    while stdin.is_some() || stdout.is_some() || stderr.is_some() {
        let Some(remaining) = deadline.checked_duration_since(Instant::now()) else {
            return Ok(None);
        };
        let WaitDecision::KeepWaiting(pause) = decide() else {
            return Ok(None);
        };
        if guard.is_none() && Instant::now() >= guarded_from {
            guard = Some(ChildGuard::start(child.id()));
        }
        let ready = poll_pipes(
            [
                stdin.as_ref().map(AsFd::as_fd),
                stdout.as_ref().map(AsFd::as_fd),
                stderr.as_ref().map(AsFd::as_fd),
            ],
            remaining.min(pause),
        )?;
        if ready == [false; 3] {
            // A grandchild may hold the pipes open forever. Do not wait for it.
            if child.try_wait()?.is_some() {
                break;
            }
            continue;
        }
        if ready[0] && write_input(stdin.as_mut(), &mut unwritten)? {
            stdin = None;
        }
        if ready[1] && read_available(stdout.as_mut(), &mut stdout_bytes)? {
            stdout = None;
        }
        if ready[2] && read_available(stderr.as_mut(), &mut stderr_bytes)? {
            stderr = None;
        }
    }
    Ok(wait_until_deadline(child, deadline)?.map(|status| Output {
        status,
        stdout: stdout_bytes,
        stderr: stderr_bytes,
    }))
}

/// Which of the pipes are ready or closed; none after the time limit.
fn poll_pipes(pipes: [Option<BorrowedFd<'_>>; 3], limit: Duration) -> io::Result<[bool; 3]> {
    let wanted = [PollFlags::OUT, PollFlags::IN, PollFlags::IN];
    let open = pipes.iter().zip(wanted).enumerate();
    let (positions, mut polled): (Vec<usize>, Vec<PollFd<'_>>) = open
        .filter_map(|(place, (pipe, flags))| {
            Some((place, PollFd::from_borrowed_fd((*pipe)?, flags)))
        })
        .unzip();
    let limit = Timespec::try_from(limit).unwrap_or(Timespec {
        tv_sec: 1,
        tv_nsec: 0,
    });
    let mut ready = [false; 3];
    match rustix::event::poll(&mut polled, Some(&limit)) {
        Ok(_) => {}
        Err(rustix::io::Errno::INTR) => return Ok(ready),
        Err(error) => return Err(error.into()),
    }
    for (place, one) in positions.into_iter().zip(&polled) {
        ready[place] = !one.revents().is_empty();
    }
    Ok(ready)
}

/// Returns `true` when all input is written, or the child closed its end; its exit code then tells
/// whether that matters.
fn write_input(stdin: Option<&mut ChildStdin>, unwritten: &mut &[u8]) -> io::Result<bool> {
    let Some(stdin) = stdin else {
        return Ok(true);
    };
    match stdin.write(unwritten) {
        Ok(count) => {
            *unwritten = &unwritten[count..];
            Ok(unwritten.is_empty())
        }
        Err(error) if is_retryable(&error) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(true),
        Err(error) => Err(error),
    }
}

/// Returns `true` at the end of the output.
fn read_available(pipe: Option<&mut impl Read>, into: &mut Vec<u8>) -> io::Result<bool> {
    let Some(pipe) = pipe else {
        return Ok(true);
    };
    let mut buffer = [0; 32 << 10];
    match pipe.read(&mut buffer) {
        Ok(count) => {
            into.extend(&buffer[..count]);
            Ok(count == 0)
        }
        Err(error) if is_retryable(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_retryable(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

/// Waits until the child exits or the deadline passes. It closed its outputs already, so it mostly
/// exits at once.
fn wait_until_deadline(child: &mut Child, deadline: Instant) -> io::Result<Option<ExitStatus>> {
    let mut pause = Duration::from_micros(20);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}
