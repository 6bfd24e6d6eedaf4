//! The output of a supervised program. Reading ends with the run, even if an escaped process still
//! holds the pipe open.

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, poll};

/// Standard output or standard error of a program, to be read to its end.
#[derive(Debug)]
pub struct ProgramOutput {
    pipe: OwnedFd,
    /// Reports end of file once the run is over.
    run_end: Arc<UnixStream>,
}

impl ProgramOutput {
    pub(super) fn new(pipe: OwnedFd, run_end: &Arc<UnixStream>) -> Self {
        Self {
            pipe,
            run_end: Arc::clone(run_end),
        }
    }
}

impl Read for ProgramOutput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let is_readable = loop {
            let mut polled = [
                PollFd::new(&self.pipe, PollFlags::IN),
                PollFd::from_borrowed_fd(self.run_end.as_fd(), PollFlags::IN),
            ];
            match poll(&mut polled, None) {
                Ok(_) => break !polled[0].revents().is_empty(),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        };
        // What was written before the end of the run is read. Later writes are not waited for.
        match is_readable {
            true => Ok(rustix::io::read(&self.pipe, buffer)?),
            false => Ok(0),
        }
    }
}
