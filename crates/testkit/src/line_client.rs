//! Talks with the program under test over pipes, line by line, while it runs.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::program::TestRun;

/// How long a line or the end of the program may take.
const TIMEOUT: Duration = Duration::from_secs(60);

const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A running program. Killed when dropped.
pub struct LineClient {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl LineClient {
    pub fn start(run: &TestRun) -> Self {
        let mut child = run.command().spawn().unwrap();
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let mut stderr = child.stderr.take().unwrap();
        // A full pipe would block the program.
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Self {
            input: child.stdin.take(),
            child,
            lines,
        }
    }

    pub fn send_line(&mut self, line: &str) {
        let input = self.input.as_mut().expect("the input is open");
        input.write_all(line.as_bytes()).unwrap();
        input.write_all(b"\n").unwrap();
        input.flush().unwrap();
    }

    /// Returns the next line; `None` at the end of the output.
    pub fn next_line(&self) -> Option<String> {
        match self.lines.recv_timeout(TIMEOUT) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("the program wrote no line"),
        }
    }

    pub fn close_input(&mut self) {
        self.input = None;
    }

    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end of the program and returns its exit code.
    pub fn wait_for_end(&mut self) -> Option<i32> {
        let started_at = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(started_at.elapsed() < TIMEOUT, "the program does not end");
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for LineClient {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
