//! The processes of a trial, and their end: nothing may write into a directory that is about to be removed.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::ground::Ground;
use crate::working::actor::MARK;

/// How long they may take to be gone.
const PATIENCE: Duration = Duration::from_secs(10);

impl Ground {
    /// All processes of the trial but this one: marked, or the program itself.
    pub fn processes(&self) -> Vec<(i32, String)> {
        let mark = format!("{MARK}={}", self.mark);
        let mut found = Vec::new();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        for entry in entries {
            let number = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok());
            let Some(number) = number else { continue };
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            let mut variables = environment.split(|byte| *byte == 0);
            let is_marked = variables.any(|variable| variable == mark.as_bytes());
            let program = fs::read_link(entry.path().join("exe"));
            if is_marked || program.is_ok_and(|program| program == self.program) {
                let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
                let words = String::from_utf8_lossy(&words).replace('\0', " ");
                found.push((number, words.trim().to_owned()));
            }
        }
        found
    }

    /// Kills the supervising processes that a worker started.
    #[cfg(feature = "broken")]
    pub fn kill_supervisors_of(&self, worker: u32) {
        for (number, words) in self.processes() {
            let stat = fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
            let parent = stat
                .rsplit_once(") ")
                .and_then(|(_, rest)| rest.split(' ').nth(1));
            let is_its = parent == Some(worker.to_string().as_str());
            if let Some(process) =
                Pid::from_raw(number).filter(|_| is_its && words.ends_with(" supervise"))
            {
                let _gone_already = kill_process(process, Signal::KILL);
            }
        }
    }
}

impl Drop for Ground {
    /// Ends whoever is still there, and whomever they started meanwhile.
    fn drop(&mut self) {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            for process in left.iter().filter_map(|(id, _)| Pid::from_raw(*id)) {
                let _gone_already = kill_process(process, Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
