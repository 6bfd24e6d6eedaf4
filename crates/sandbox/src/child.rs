//! Children that answer on pipes: fed, read and waited for on one thread, for so long and no longer.
//!
//! A git that hangs (on a network file system that went away, in a wrapper that asks something) must
//! end in an error. It is asked to end first, because git then removes its locks, and made to after
//! that, with everything in its process group.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, ChildStdin, ExitStatus, Output};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

/// How often it is looked whether a child ended whose outputs say nothing.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// How long a child that was told to end may take over it.
const TERMINATION_GRACE: Duration = Duration::from_secs(2);

/// Feeds a child and reads what it answers, to its end; nothing if it took longer than until then,
/// and was ended. The child must lead a process group of its own.
pub(crate) fn wait_for_output(
    mut child: Child,
    input: &[u8],
    deadline: Instant,
) -> io::Result<Option<Output>> {
    let result = match feed_and_read(&mut child, input, deadline) {
        Ok(Some(output)) => return Ok(Some(output)),
        Ok(None) => Ok(None),
        Err(error) => Err(error),
    };
    terminate_group(&mut child);
    result
}

/// Ends a child and its group. One that hangs in the system itself cannot be ended: it is not waited
/// for.
fn terminate_group(child: &mut Child) {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let Some(group) = group else {
        return;
    };
    // That nobody is left in the group is what is wanted.
    let _ = rustix::process::kill_process_group(group, Signal::TERM);
    let wait_options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let deadline = Instant::now() + TERMINATION_GRACE;
    while Instant::now() < deadline {
        match rustix::process::waitid(WaitId::Pid(group), wait_options) {
            Ok(None) => std::thread::sleep(Duration::from_millis(10)),
            Ok(Some(_)) | Err(_) => break,
        }
    }
    // Before the child is waited for: only until then is the group's number certain to be its own.
    let _ = rustix::process::kill_process_group(group, Signal::KILL);
    let _ = wait_until_deadline(child, Instant::now() + TERMINATION_GRACE);
}

fn feed_and_read(child: &mut Child, input: &[u8], deadline: Instant) -> io::Result<Option<Output>> {
    let mut stdin = child.stdin.take();
    if let Some(stdin) = &stdin {
        rustix::io::ioctl_fionbio(stdin, true)?;
    }
    let (mut stdout, mut stderr) = (child.stdout.take(), child.stderr.take());
    let (mut stdout_bytes, mut stderr_bytes) = (Vec::new(), Vec::new());
    let mut rest = input;
    while stdin.is_some() || stdout.is_some() || stderr.is_some() {
        let Some(remaining) = deadline.checked_duration_since(Instant::now()) else {
            return Ok(None);
        };
        let ready = poll_pipes(
            [
                stdin.as_ref().map(AsFd::as_fd),
                stdout.as_ref().map(AsFd::as_fd),
                stderr.as_ref().map(AsFd::as_fd),
            ],
            remaining.min(POLL_INTERVAL),
        )?;
        if ready == [false; 3] {
            // Somebody it started may hold its outputs open for ever; they are not waited for.
            if child.try_wait()?.is_some() {
                break;
            }
            continue;
        }
        if ready[0] && write_input(stdin.as_mut(), &mut rest)? {
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

/// Which of these can be written or read, or has ended; none of them if the time is over.
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

/// `true` if all is said, or nobody reads it any more: how the child ends tells.
fn write_input(stdin: Option<&mut ChildStdin>, rest: &mut &[u8]) -> io::Result<bool> {
    let Some(stdin) = stdin else {
        return Ok(true);
    };
    match stdin.write(rest) {
        Ok(count) => {
            *rest = &rest[count..];
            Ok(rest.is_empty())
        }
        Err(error) if is_retryable(&error) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(true),
        Err(error) => Err(error),
    }
}

/// `true` if there is no more to come.
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

/// Waits for a child to end; nothing if it did not until then. It closed its outputs, and mostly ends
/// at once.
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
