//! A program and everything it started, and how to end all of them.
//!
//! Whoever loses its parent falls back to this process, so that nobody gets away by starting a session
//! of its own or by forking twice. As long as we have children, somebody is left.

#[cfg(target_os = "linux")]
pub(super) use system::ProcessStat;
pub(super) use system::ProcessTree;

#[cfg(target_os = "linux")]
mod system {
    use std::collections::HashSet;
    use std::io;
    use std::path::Path;

    use rustix::process::{Pid, PidfdFlags, Signal};

    /// How often it is looked for somebody who is not stopped yet, before those who are get killed.
    const MAX_STOP_PASSES: usize = 64;

    /// A program and everything it started.
    pub(in super::super) struct ProcessTree {
        root_pid: Pid,
    }

    /// A process, as the system describes it.
    pub(in super::super) struct ProcessStat {
        pub pid: Pid,
        pub parent_pid: i32,
        group_id: i32,
        /// It only waits to be asked how it ended.
        pub has_ended: bool,
        /// Tells it from an earlier process with the same number.
        pub start_time: u64,
    }

    impl ProcessTree {
        /// Makes this process the one that orphans fall back to.
        pub fn adopt_orphans() -> io::Result<()> {
            let this = rustix::process::getpid();
            Ok(rustix::process::set_child_subreaper(Some(this))?)
        }

        /// The family of a child of this process.
        pub fn rooted_at(root_pid: Pid) -> Self {
            Self { root_pid }
        }

        /// Asks the program and those it kept in its group.
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

        /// Kills everybody who is there. They are stopped first: who is stopped starts nobody else.
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
                // Without a list of processes this is as far as one gets.
                let _ = rustix::process::kill_process_group(self.root_pid, Signal::KILL);
            }
        }

        /// Kills those who do not fall back to this process: here, nobody.
        pub fn kill_escaped(&self) {}
    }

    /// Visits all descendants of this process, each as soon as it is seen: a process that forks and
    /// ends again and again is not there for long.
    fn visit_descendants(mut see: impl FnMut(&ProcessStat, &HashSet<i32>)) -> io::Result<()> {
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
                see(&process, &known);
            } else {
                unrelated.push(process);
            }
        }
        // Numbers start over, so that a child may come before its parent.
        loop {
            let before = known.len();
            unrelated.retain(|process| {
                let related = known.contains(&process.parent_pid);
                if related {
                    known.insert(process.pid.as_raw_nonzero().get());
                    see(process, &known);
                }
                !related
            });
            if known.len() == before {
                return Ok(());
            }
        }
    }

    /// Signals a process if it still is the one that was seen: a number may have been given to somebody
    /// else meanwhile, but a handle stays with the process it was opened for.
    fn send_signal(process: &ProcessStat, known: &HashSet<i32>, signal: Signal) {
        let handle = rustix::process::pidfd_open(process.pid, PidfdFlags::empty());
        let related =
            ProcessStat::read(process.pid).is_some_and(|now| known.contains(&now.parent_pid));
        // Who cannot be signalled is gone, or is not ours to signal: then it is waited for.
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

        /// The name may contain anything, but what follows contains no parenthesis.
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
        fn a_process_may_be_called_anything() {
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

    /// A program and those it kept in its group: here nobody falls back to us, and whoever starts a
    /// session of its own gets away.
    pub(in super::super) struct Family {
        program: Pid,
    }

    impl ProcessTree {
        /// Not possible here.
        pub fn adopt_orphans() -> io::Result<()> {
            Ok(())
        }

        /// The family of a child of this process.
        pub fn of(program: Pid) -> Self {
            Self { program }
        }

        /// Asks the group.
        pub fn ask_to_end(&self) {
            let _ = rustix::process::kill_process_group(self.program, Signal::TERM);
        }

        /// Kills the group.
        pub fn kill(&self) {
            let _ = rustix::process::kill_process_group(self.program, Signal::KILL);
        }

        /// Kills those who do not fall back to this process.
        pub fn kill_who_gets_away(&self) {
            self.kill();
        }
    }
}
