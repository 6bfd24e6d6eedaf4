//! Kills what is left of a program whose supervising process was killed.
//!
//! The processes are found by the mark in their environment and by the pipes they write to, each
//! with all its descendants. A process that started another one with an empty environment, closed
//! its outputs and ended before the search is not found.

use std::ffi::OsStr;
use std::time::Duration;

/// An environment variable of every supervised program. It identifies the run.
pub(super) const RUN_MARK_VARIABLE: &str = "PLANWRIGHT_SUPERVISED";

/// How long to wait for killed processes to be gone.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Identifies the processes of one run.
#[derive(Debug, Clone)]
pub(super) struct RunMarkers {
    /// The value of [`RUN_MARK_VARIABLE`].
    pub mark: String,
    /// The inodes of the pipes that the program writes to.
    pub pipes: Vec<u64>,
}

/// Kills everything left of a run. Returns the ids of processes that survived.
pub(super) fn kill_orphans(markers: &RunMarkers) -> Vec<i32> {
    system::kill_orphans(markers, KILL_TIMEOUT)
}

/// Does this environment, as in `/proc`, contain the mark?
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
fn has_run_mark(environment: &[u8], mark: &str) -> bool {
    let wanted = format!("{RUN_MARK_VARIABLE}={mark}");
    environment
        .split(|byte| *byte == 0)
        .any(|variable| variable == OsStr::new(&wanted).as_encoded_bytes())
}

#[cfg(target_os = "linux")]
mod system {
    use std::collections::HashSet;
    use std::path::{Path, PathBuf};
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, PidfdFlags, Signal};

    use super::super::process_tree::ProcessStat;
    use super::{RunMarkers, has_run_mark};

    const KILL_RETRY_INTERVAL: Duration = Duration::from_millis(5);

    pub(super) fn kill_orphans(markers: &RunMarkers, timeout: Duration) -> Vec<i32> {
        let deadline = Instant::now() + timeout;
        loop {
            // Stopped first: a stopped process cannot fork.
            for signal in [Signal::STOP, Signal::KILL] {
                for process in find_orphans(markers) {
                    send_signal(&process, signal);
                }
            }
            let remaining = find_orphans(markers);
            if remaining.is_empty() || Instant::now() >= deadline {
                let numbers = remaining
                    .iter()
                    .map(|process| process.pid.as_raw_nonzero().get());
                return numbers.collect();
            }
            std::thread::sleep(KILL_RETRY_INTERVAL);
        }
    }

    /// All processes of the run that have not ended.
    fn find_orphans(markers: &RunMarkers) -> Vec<ProcessStat> {
        let this = rustix::process::getpid();
        let Ok(entries) = std::fs::read_dir("/proc") else {
            return Vec::new();
        };
        let numbers = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut unrelated: Vec<ProcessStat> = numbers
            .filter_map(Pid::from_raw)
            .filter(|process| *process != this)
            .filter_map(ProcessStat::read)
            .filter(|process| !process.has_ended)
            .collect();
        let mut found: Vec<ProcessStat> = Vec::new();
        let mut known = HashSet::new();
        loop {
            let before = found.len();
            let (related, rest): (Vec<ProcessStat>, Vec<ProcessStat>) =
                unrelated.into_iter().partition(|process| {
                    known.contains(&process.parent_pid)
                        || before == 0 && belongs_to_run(process.pid, markers)
                });
            known.extend(
                related
                    .iter()
                    .map(|process| process.pid.as_raw_nonzero().get()),
            );
            found.extend(related);
            unrelated = rest;
            if found.len() == before {
                return found;
            }
        }
    }

    fn belongs_to_run(process: Pid, markers: &RunMarkers) -> bool {
        let directory = Path::new("/proc").join(process.as_raw_nonzero().to_string());
        let environment = std::fs::read(directory.join("environ")).unwrap_or_default();
        has_run_mark(&environment, &markers.mark) || writes_to_pipes(&directory, &markers.pipes)
    }

    fn writes_to_pipes(directory: &Path, pipes: &[u64]) -> bool {
        let wanted: Vec<PathBuf> = pipes
            .iter()
            .map(|inode| format!("pipe:[{inode}]").into())
            .collect();
        let Ok(entries) = std::fs::read_dir(directory.join("fd")) else {
            return false;
        };
        entries.flatten().any(|entry| {
            let target = std::fs::read_link(entry.path());
            target.is_ok_and(|target| wanted.contains(&target))
                && is_open_for_writing(&directory.join("fdinfo").join(entry.file_name()))
        })
    }

    /// Only writers count: a process just forked by this one has our reading ends until it executes
    /// its program.
    fn is_open_for_writing(fdinfo: &Path) -> bool {
        let info = std::fs::read_to_string(fdinfo).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
        flags.is_some_and(|flags| flags & 0o3 != 0)
    }

    /// Signals a process, if its id was not reused since it was seen.
    fn send_signal(process: &ProcessStat, signal: Signal) {
        let handle = rustix::process::pidfd_open(process.pid, PidfdFlags::empty());
        let is_same =
            ProcessStat::read(process.pid).is_some_and(|now| now.start_time == process.start_time);
        let _gone_already = match handle {
            _ if !is_same => Ok(()),
            Ok(handle) => rustix::process::pidfd_send_signal(handle, signal),
            Err(rustix::io::Errno::NOSYS) => rustix::process::kill_process(process.pid, signal),
            Err(gone) => Err(gone),
        };
    }
}

/// Without `/proc`, orphans cannot be found.
#[cfg(not(target_os = "linux"))]
mod system {
    use std::time::Duration;

    pub(super) fn kill_orphans(_: &super::RunMarkers, _: Duration) -> Vec<i32> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_must_match_a_whole_variable() {
        let has_mark = |text: &str| has_run_mark(text.as_bytes(), "1-2");
        assert!(has_mark("A=b\0PLANWRIGHT_SUPERVISED=1-2\0"));
        assert!(!has_mark("A=b\0PLANWRIGHT_SUPERVISED=1-23\0"));
        assert!(!has_mark("A=PLANWRIGHT_SUPERVISED=1-2\0"));
        assert!(!has_mark(""));
    }
}
