//! A program and everything it started, and how to end all of them.
//!
//! Whoever loses its parent falls back to this process, so that nobody gets away by starting a session
//! of its own or by forking twice. As long as we have children, somebody is left.

pub(super) use system::Family;
#[cfg(target_os = "linux")]
pub(super) use system::Kin;

#[cfg(target_os = "linux")]
mod system {
    use std::collections::HashSet;
    use std::io;
    use std::path::Path;

    use rustix::process::{Pid, PidfdFlags, Signal};

    /// How often it is looked for somebody who is not stopped yet, before those who are get killed.
    const LOOKS: usize = 64;

    /// A program and everything it started.
    pub(in super::super) struct Family {
        program: Pid,
    }

    /// A process, as the system describes it.
    pub(in super::super) struct Kin {
        pub process: Pid,
        pub parent: i32,
        group: i32,
        /// It only waits to be asked how it ended.
        pub has_ended: bool,
        /// Tells it from an earlier process with the same number.
        pub started: u64,
    }

    impl Family {
        /// Makes this process the one that orphans fall back to.
        pub fn adopt_orphans() -> io::Result<()> {
            let this = rustix::process::getpid();
            Ok(rustix::process::set_child_subreaper(Some(this))?)
        }

        /// The family of a child of this process.
        pub fn of(program: Pid) -> Self {
            Self { program }
        }

        /// Asks the program and those it kept in its group.
        pub fn ask_to_end(&self) {
            let program = self.program.as_raw_nonzero().get();
            let asked = visit(|kin, known| {
                if kin.process == self.program || kin.group == program {
                    signal(kin, known, Signal::TERM);
                }
            });
            if asked.is_err() {
                let _ = rustix::process::kill_process_group(self.program, Signal::TERM);
            }
        }

        /// Kills everybody who is there. They are stopped first: who is stopped starts nobody else.
        pub fn kill(&self) {
            let mut stopped = HashSet::new();
            for _ in 0..LOOKS {
                let before = stopped.len();
                let _ = visit(|kin, known| {
                    if stopped.insert((kin.process, kin.started)) {
                        signal(kin, known, Signal::STOP);
                    }
                });
                if stopped.len() == before {
                    break;
                }
            }
            if visit(|kin, known| signal(kin, known, Signal::KILL)).is_err() {
                // Without a list of processes this is as far as one gets.
                let _ = rustix::process::kill_process_group(self.program, Signal::KILL);
            }
        }

        /// Kills those who do not fall back to this process: here, nobody.
        pub fn kill_who_gets_away(&self) {}
    }

    /// Visits all descendants of this process, each as soon as it is seen: a process that forks and
    /// ends again and again is not there for long.
    fn visit(mut see: impl FnMut(&Kin, &HashSet<i32>)) -> io::Result<()> {
        let mut known = HashSet::from([rustix::process::getpid().as_raw_nonzero().get()]);
        let mut others = Vec::new();
        for entry in std::fs::read_dir("/proc")?.flatten() {
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.parse().ok());
            let Some(kin) = number.and_then(Pid::from_raw).and_then(Kin::read) else {
                continue;
            };
            if known.contains(&kin.parent) {
                known.insert(kin.process.as_raw_nonzero().get());
                see(&kin, &known);
            } else {
                others.push(kin);
            }
        }
        // Numbers start over, so that a child may come before its parent.
        loop {
            let before = known.len();
            others.retain(|kin| {
                let related = known.contains(&kin.parent);
                if related {
                    known.insert(kin.process.as_raw_nonzero().get());
                    see(kin, &known);
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
    fn signal(kin: &Kin, known: &HashSet<i32>, signal: Signal) {
        let handle = rustix::process::pidfd_open(kin.process, PidfdFlags::empty());
        let related = Kin::read(kin.process).is_some_and(|now| known.contains(&now.parent));
        // Who cannot be signalled is gone, or is not ours to signal: then it is waited for.
        let _ = match handle {
            _ if !related => Ok(()),
            Ok(handle) => rustix::process::pidfd_send_signal(handle, signal),
            Err(rustix::io::Errno::NOSYS) => rustix::process::kill_process(kin.process, signal),
            Err(gone) => Err(gone),
        };
    }

    impl Kin {
        pub fn read(process: Pid) -> Option<Self> {
            let directory = Path::new("/proc").join(process.as_raw_nonzero().to_string());
            let stat = std::fs::read(directory.join("stat")).ok()?;
            Self::parse(process, &String::from_utf8_lossy(&stat))
        }

        /// The name may contain anything, but what follows contains no parenthesis.
        fn parse(process: Pid, stat: &str) -> Option<Self> {
            let (_, rest) = stat.rsplit_once(')')?;
            let mut words = rest.split_ascii_whitespace();
            let has_ended = matches!(words.next()?, "Z" | "X");
            let parent = words.next()?.parse().ok()?;
            let group = words.next()?.parse().ok()?;
            let started = words.nth(16)?.parse().ok()?;
            Some(Self {
                process,
                parent,
                group,
                has_ended,
                started,
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
            let kin = Kin::parse(process, stat).unwrap();
            assert_eq!((kin.parent, kin.group, kin.started), (41, 42, 4711));
            assert!(!kin.has_ended);
            let ended = stat.replace(" R 41", " Z 41");
            assert!(Kin::parse(process, &ended).unwrap().has_ended);
            assert!(Kin::parse(process, "7 (a").is_none());
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

    impl Family {
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
