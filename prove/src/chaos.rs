//! What happens to processes in the real world, at random: killed, paused past their leases, cut off from
//! their database, their database restarted.

use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use fastrand::Rng;
use rustix::process::{Pid, Signal, kill_process};

use crate::arena::Settings;
use crate::binary::command;
use crate::chronicle::Chronicle;

/// The processes of a proof.
pub struct Troupe<'a> {
    settings: &'a Settings,
    store: String,
    members: Vec<Member>,
    /// What was done to them.
    pub deeds: Deeds,
    /// The same in the order it was done, for whoever looks into a violation.
    pub chronicle: Chronicle,
}

/// How often it struck.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Deeds {
    /// Processes killed and started again.
    pub kills: u32,
    /// Processes paused.
    pub pauses: u32,
    /// Times all connections to the database were cut.
    pub cuts: u32,
    /// Times the database was restarted.
    pub restarts: u32,
}

struct Member {
    number: u32,
    life: u32,
    reads: bool,
    child: Child,
    /// Paused until then.
    paused: Option<Instant>,
}

impl Member {
    /// As it is called in what is told and kept.
    fn named(&self) -> String {
        let role = if self.reads { "reader" } else { "player" };
        format!("{role} {} in life {}", self.number, self.life)
    }
}

impl<'a> Troupe<'a> {
    /// Starts everybody.
    pub fn start(settings: &'a Settings, store: &str, readers: u32) -> anyhow::Result<Self> {
        let mut troupe = Self {
            settings,
            store: store.to_owned(),
            members: Vec::new(),
            deeds: Deeds::default(),
            chronicle: Chronicle::create(&settings.trial.directory)?,
        };
        for number in 0..settings.trial.processes {
            let child = troupe.spawn(number, 0, false)?;
            troupe.members.push(Member {
                number,
                life: 0,
                reads: false,
                child,
                paused: None,
            });
        }
        for number in 0..readers {
            let child = troupe.spawn(number, 0, true)?;
            troupe.members.push(Member {
                number,
                life: 0,
                reads: true,
                child,
                paused: None,
            });
        }
        Ok(troupe)
    }

    fn spawn(&self, number: u32, life: u32, reads: bool) -> anyhow::Result<Child> {
        let (settings, trial) = (self.settings, &self.settings.trial);
        let own = std::env::current_exe().context("this program has no path")?;
        let mut player = command(&own);
        player
            .arg("client")
            .args(["--number", &number.to_string()])
            .args(["--life", &life.to_string()])
            .args(["--seed", &trial.seed.to_string()])
            .args(["--store", &self.store])
            .args(["--pace-ms", &settings.pace_ms.to_string()])
            .arg("--directory")
            .arg(&trial.directory)
            // For the reason that workers are in another, too (`crowd.rs`).
            .process_group(0)
            .stdin(Stdio::piped());
        if reads {
            player.arg("--reads");
        } else if number % 8 == 7 {
            player.arg("--program").arg(&trial.program);
        }
        #[cfg(feature = "broken")]
        if let Some(bug) = settings.bug {
            use clap::ValueEnum;
            let name = bug.to_possible_value().context("this bug has no name")?;
            player.args(["--bug", name.get_name()]);
        }
        player.spawn().context("could not start a player")
    }

    /// Strikes once, at somebody.
    pub fn strike(&mut self, random: &mut Rng) -> anyhow::Result<()> {
        self.resume(Instant::now())?;
        let at = random.usize(..self.members.len());
        if random.bool() {
            let member = &mut self.members[at];
            let killed = format_args!("{} is killed", member.named());
            self.chronicle.write(killed)?;
            member.child.kill().context("could not kill a player")?;
            member.child.wait()?;
            self.deeds.kills += 1;
            let (number, life, reads) = (member.number, member.life + 1, member.reads);
            let child = self.spawn(number, life, reads)?;
            self.members[at] = Member {
                number,
                life,
                reads,
                child,
                paused: None,
            };
        } else if self.members[at].paused.is_none() {
            let pause = Duration::from_millis(random.u64(100..2500));
            let paused = format!("{} is stopped", self.members[at].named());
            self.chronicle.write(paused)?;
            signal(&self.members[at].child, Signal::STOP)?;
            self.members[at].paused = Some(Instant::now() + pause);
            self.deeds.pauses += 1;
        }
        Ok(())
    }

    /// Lets those go on whose pause is over; and says if somebody ended who should not have.
    pub fn resume(&mut self, now: Instant) -> anyhow::Result<()> {
        for member in &mut self.members {
            if member.paused.is_some_and(|until| until <= now) {
                signal(&member.child, Signal::CONT)?;
                member.paused = None;
                let woken = format_args!("{} was woken", member.named());
                self.chronicle.write(woken)?;
            }
            if let Some(status) = member.child.try_wait()? {
                bail!("{} ended by itself: {status}", member.named());
            }
        }
        Ok(())
    }

    /// Ends the players, or the readers, and waits for them.
    pub fn dismiss(&mut self, readers: bool, patience: Duration) -> anyhow::Result<()> {
        let deadline = Instant::now() + patience;
        let mut leaving: Vec<Member> = Vec::new();
        let mut staying = Vec::new();
        for member in self.members.drain(..) {
            match member.reads == readers {
                true => leaving.push(member),
                false => staying.push(member),
            }
        }
        self.members = staying;
        for member in &mut leaving {
            if member.paused.is_some() {
                signal(&member.child, Signal::CONT)?;
            }
            drop(member.child.stdin.take());
        }
        for member in &mut leaving {
            let status = loop {
                if let Some(status) = member.child.try_wait()? {
                    break status;
                }
                if Instant::now() > deadline {
                    member.child.kill()?;
                    member.child.wait()?;
                    bail!(
                        "{} did not end within {patience:?} of being told to",
                        member.named()
                    );
                }
                std::thread::sleep(Duration::from_millis(10));
            };
            if !status.success() {
                bail!("{} was told to end, and did with {status}", member.named());
            }
        }
        Ok(())
    }
}

impl Drop for Troupe<'_> {
    /// Nobody stays behind, paused least of all.
    fn drop(&mut self) {
        for member in &mut self.members {
            let _gone_already = member.child.kill();
            let _reaped = member.child.wait();
        }
    }
}

/// Sends a signal to a process of a trial.
pub(crate) fn signal(child: &Child, signal: Signal) -> anyhow::Result<()> {
    let id = i32::try_from(child.id())?;
    let pid = Pid::from_raw(id).context("no such process")?;
    kill_process(pid, signal).with_context(|| format!("could not signal process {id}"))
}
