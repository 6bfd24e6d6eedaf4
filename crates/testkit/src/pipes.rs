//! Talks to the program under test line by line, over its standard input and output.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};

use crate::TestRun;

const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// A run whose standard input stays open. Its output is read only when the test asks for it. Killed when dropped.
pub struct PipedProcess {
    child: Child,
    input: Option<ChildStdin>,
    output: ChildStdout,
    /// What was read of the output and not returned yet.
    buffered: Vec<u8>,
    /// Reads standard error.
    remarks: Option<JoinHandle<String>>,
}

impl TestRun {
    /// Starts the program with pipes as its standard streams.
    pub fn start_with_pipes(&self) -> PipedProcess {
        let mut child = self.command().spawn().unwrap();
        let mut stderr = child.stderr.take().unwrap();
        let remarks = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            text
        });
        PipedProcess {
            input: child.stdin.take(),
            output: child.stdout.take().unwrap(),
            child,
            buffered: Vec::new(),
            remarks: Some(remarks),
        }
    }
}

impl Drop for PipedProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl PipedProcess {
    pub fn send_line(&mut self, line: &str) {
        let input = self.input.as_mut().expect("the input is open");
        input.write_all(line.as_bytes()).unwrap();
        input.write_all(b"\n").unwrap();
        input.flush().unwrap();
    }

    /// Returns the next line of standard output; `None` at its end.
    #[track_caller]
    pub fn next_line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.buffered.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffered.drain(..=end).collect();
                return Some(String::from_utf8(line).unwrap().trim_end().to_owned());
            }
            if self.read_more() == 0 {
                return None;
            }
        }
    }

    /// Waits until so many bytes of output are unread. Linux has room for 64 KiB, less if lines do not fill its pages.
    #[track_caller]
    pub fn wait_for_unread_output(&self, bytes: u64) {
        let began = Instant::now();
        while rustix::io::ioctl_fionread(&self.output).unwrap() < bytes {
            assert!(began.elapsed() < WAIT_TIMEOUT, "the output stays small");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn close_input(&mut self) {
        self.input = None;
    }

    pub fn send_signal(&self, signal: Signal) {
        let number = i32::try_from(self.child.id()).unwrap();
        kill_process(Pid::from_raw(number).unwrap(), signal).unwrap();
    }

    /// Waits for the end. Returns the status and standard error.
    #[track_caller]
    pub fn wait_for_end(&mut self) -> (ExitStatus, String) {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(began.elapsed() < WAIT_TIMEOUT, "the program does not end");
            std::thread::sleep(Duration::from_millis(10));
        };
        let remarks = self.remarks.take().map(|reader| reader.join().unwrap());
        (status, remarks.unwrap_or_default())
    }

    /// Returns how many bytes were read; 0 at the end of the output.
    #[track_caller]
    fn read_more(&mut self) -> usize {
        let mut polled = [PollFd::new(&self.output, PollFlags::IN)];
        let timeout = Timespec {
            tv_sec: WAIT_TIMEOUT.as_secs() as i64,
            tv_nsec: 0,
        };
        let ready = poll(&mut polled, Some(&timeout)).unwrap();
        assert!(ready > 0, "the program says nothing more");
        let mut bytes = [0; 16 * 1024];
        let count = self.output.read(&mut bytes).unwrap();
        self.buffered.extend(&bytes[..count]);
        count
    }
}
