//! A program with all its descendants, and how to kill all of them.
//!
//! Orphans are re-parented to this process, so that no process escapes by starting its own session
//! or by forking twice. While this process has children, the tree is not gone.

#[cfg(target_os = "linux")]
pub(super) use system::ProcessStat;
pub(super) use system::ProcessTree;

#[cfg(target_os = "linux")]
mod system {
    use std::collections::HashSet;
    use std::io;
    use std::path::Path;

    use rustix::process::{Pid, PidfdFlags, Signal};

    /// How often to look for processes that are not stopped yet, before killing.
    const MAX_STOP_PASSES: usize = 64;

    pub(in super::super) struct ProcessTree {
        root_pid: Pid,
    }

    /// A process, as in `/proc/PID/stat`.
    pub(in super::super) struct ProcessStat {
        pub pid: Pid,
        pub parent_pid: i32,
        group_id: i32,
        /// A zombie: it only waits to be reaped.
        pub has_ended: bool,
        /// Distinguishes it from an earlier process with the same id.
        pub start_time: u64,
    }

    impl ProcessTree {
        /// Makes orphaned descendants children of this process.
        pub fn adopt_orphans() -> io::Result<()> {
            let this = rustix::process::getpid();
            Ok(rustix::process::set_child_subreaper(Some(this))?)
        }

        /// The tree below a child of this process.
        pub fn rooted_at(root_pid: Pid) -> Self {
            Self { root_pid }
        }

        /// Sends SIGTERM to the program and the processes in its group.
        pub fn request_termination(&self) {
            let program = self.root_pid.as_raw_nonzero().get();
            let asked = visit_descendants(|process, known| {
                if process.pid == self.root_pid || process.group_id == program {
                    send_signal(process, known, Signal::TERM);
                }
            });
            if asked.is_err() {
                let _ = rustix::process::kill_process_group(self.root_pid, Signal::TERM);
            }
        }

        /// Kills all descendants. Stops them first, because a stopped process cannot fork.
        pub fn kill_all(&self) {
            let mut stopped = HashSet::new();
            for _ in 0..MAX_STOP_PASSES {
                let before = stopped.len();
                let _ = visit_descendants(|process, known| {
                    if stopped.insert((process.pid, process.start_time)) {
                        send_signal(process, known, Signal::STOP);
                    }
                });
                if stopped.len() == before {
                    break;
                }
            }
            if visit_descendants(|process, known| send_signal(process, known, Signal::KILL))
                .is_err()
            {
                // Without `/proc`, only the group can be reached.
                let _ = rustix::process::kill_process_group(self.root_pid, Signal::KILL);
            }
        }

        /// Kills processes that are not re-parented to this process. On Linux there are none.
        pub fn kill_escaped(&self) {}
    }

    /// Visits all descendants of this process, each as soon as it is seen: a process that forks and
    /// exits repeatedly does not exist for long.
    fn visit_descendants(mut visit: impl FnMut(&ProcessStat, &HashSet<i32>)) -> io::Result<()> {
        let mut known = HashSet::from([rustix::process::getpid().as_raw_nonzero().get()]);
        let mut unrelated = Vec::new();
        for entry in std::fs::read_dir("/proc")?.flatten() {
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.parse().ok());
            let Some(process) = number.and_then(Pid::from_raw).and_then(ProcessStat::read) else {
                continue;
            };
            if known.contains(&process.parent_pid) {
                known.insert(process.pid.as_raw_nonzero().get());
                visit(&process, &known);
            } else {
                unrelated.push(process);
            }
        }
        // Process ids wrap around, so a child may be listed before its parent.
        loop {
            let before = known.len();
            unrelated.retain(|process| {
                let related = known.contains(&process.parent_pid);
                if related {
                    known.insert(process.pid.as_raw_nonzero().get());
                    visit(process, &known);
                }
                !related
            });
            if known.len() == before {
                return Ok(());
            }
        }
    }

    /// Signals a process if it is still a descendant. Its id may have been reused, but a pidfd
    /// stays with the process it was opened for.
    fn send_signal(process: &ProcessStat, known: &HashSet<i32>, signal: Signal) {
        let handle = rustix::process::pidfd_open(process.pid, PidfdFlags::empty());
        let related =
            ProcessStat::read(process.pid).is_some_and(|now| known.contains(&now.parent_pid));
        // A process that cannot be signalled is gone, or runs as another user and is waited for.
        let _ = match handle {
            _ if !related => Ok(()),
            Ok(handle) => rustix::process::pidfd_send_signal(handle, signal),
            Err(rustix::io::Errno::NOSYS) => rustix::process::kill_process(process.pid, signal),
            Err(gone) => Err(gone),
        };
    }

    impl ProcessStat {
        pub fn read(pid: Pid) -> Option<Self> {
            let directory = Path::new("/proc").join(pid.as_raw_nonzero().to_string());
            let stat = std::fs::read(directory.join("stat")).ok()?;
            Self::parse(pid, &String::from_utf8_lossy(&stat))
        }

        /// The name may contain anything, but nothing after it contains a parenthesis.
        fn parse(pid: Pid, stat: &str) -> Option<Self> {
            let (_, rest) = stat.rsplit_once(')')?;
            let mut words = rest.split_ascii_whitespace();
            let has_ended = matches!(words.next()?, "Z" | "X");
            let parent = words.next()?.parse().ok()?;
            let group = words.next()?.parse().ok()?;
            let started = words.nth(16)?.parse().ok()?;
            Some(Self {
                pid,
                parent_pid: parent,
                group_id: group,
                has_ended,
                start_time: started,
            })
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn process_name_may_contain_anything() {
            let process = Pid::from_raw(7).unwrap();
            let stat = "7 (a) S 1 2 (b)) R 41 42 43 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 0";
            let parsed = ProcessStat::parse(process, stat).unwrap();
            assert_eq!(
                (parsed.parent_pid, parsed.group_id, parsed.start_time),
                (41, 42, 4711)
            );
            assert!(!parsed.has_ended);
            let ended = stat.replace(" R 41", " Z 41");
            assert!(ProcessStat::parse(process, &ended).unwrap().has_ended);
            assert!(ProcessStat::parse(process, "7 (a").is_none());
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;

    use rustix::process::{Pid, Signal};

    /// A program and its process group. Orphans are not re-parented here, and a process that starts
    /// its own session escapes.
    pub(in super::super) struct ProcessTree {
        program: Pid,
    }

    impl ProcessTree {
        /// Not available on this system.
        pub fn adopt_orphans() -> io::Result<()> {
            Ok(())
        }

        /// The group of a child of this process.
        pub fn rooted_at(program: Pid) -> Self {
            Self { program }
        }

        /// Sends SIGTERM to the group.
        pub fn request_termination(&self) {
            let _ = rustix::process::kill_process_group(self.program, Signal::TERM);
        }

        /// Kills the group.
        pub fn kill_all(&self) {
            let _ = rustix::process::kill_process_group(self.program, Signal::KILL);
        }

        /// Kills processes in the group that outlived the program.
        pub fn kill_escaped(&self) {
            self.kill_all();
        }
    }
}
