//! Finds and ends the processes of a trial, so that none writes into a directory that is about to be removed.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::trial_env::TrialEnv;
use crate::worker_trial::trial_actor::TRIAL_ID_VARIABLE;

/// How long killed processes may take to disappear.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

impl TrialEnv {
    /// Lists all processes of the trial except this one, with their command lines. They have the trial's id in their
    /// environment, or run the trial's copy of the program.
    pub fn list_processes(&self) -> Vec<(i32, String)> {
        let marker = format!("{TRIAL_ID_VARIABLE}={}", self.trial_id);
        let mut found = Vec::new();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        for entry in entries {
            let pid = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok());
            let Some(pid) = pid else { continue };
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            let mut variables = environment.split(|byte| *byte == 0);
            let is_marked = variables.any(|variable| variable == marker.as_bytes());
            let program = fs::read_link(entry.path().join("exe"));
            if is_marked || program.is_ok_and(|program| program == self.program) {
                let command_line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
                let command_line = String::from_utf8_lossy(&command_line).replace('\0', " ");
                found.push((pid, command_line.trim().to_owned()));
            }
        }
        found
    }

    /// Kills the supervisors that a worker started.
    #[cfg(feature = "broken")]
    pub fn kill_supervisors_of(&self, worker: u32) {
        for (pid, command_line) in self.list_processes() {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let parent = stat
                .rsplit_once(") ")
                .and_then(|(_, rest)| rest.split(' ').nth(1));
            let is_child = parent == Some(worker.to_string().as_str());
            if let Some(process) =
                Pid::from_raw(pid).filter(|_| is_child && command_line.ends_with(" supervise"))
            {
                let _already_gone = kill_process(process, Signal::KILL);
            }
        }
    }
}

impl Drop for TrialEnv {
    /// Kills the remaining processes, repeatedly, because they may start others meanwhile.
    fn drop(&mut self) {
        let deadline = Instant::now() + KILL_TIMEOUT;
        while Instant::now() < deadline {
            let remaining = self.list_processes();
            if remaining.is_empty() {
                return;
            }
            for process in remaining.iter().filter_map(|(pid, _)| Pid::from_raw(*pid)) {
                let _already_gone = kill_process(process, Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
