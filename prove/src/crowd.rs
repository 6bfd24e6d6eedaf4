//! The workers of a trial, and what is done to them.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use fastrand::Rng;
use rustix::process::Signal;

use crate::binary::command;
use crate::chaos::signal;
use crate::chronicle::Chronicle;
use crate::ground::Ground;

/// What the guard does.
const GUARD: &str = "trap '' HUP INT TERM; cat > /dev/null; kill -s KILL 0";

/// For how long a claim holds without a renewal.
pub const LEASE: Duration = Duration::from_secs(3);

/// How long a worker may take to end once it is asked to.
const ENDING: Duration = Duration::from_secs(20);

/// How workers are treated.
#[derive(Debug, Clone, Copy)]
pub struct Manners {
    /// Between two strokes, on average.
    pub breath: Duration,
    /// Some are stopped past their lease, or have their terminal closed, and are not only killed.
    pub stops: bool,
}

/// The workers.
pub struct Crowd {
    /// A shell that leads the group of the workers and waits for a pipe of ours to close, which it does however we end.
    /// It then ends the whole group.
    guard: Child,
    members: Vec<Member>,
    struck: Instant,
    manners: Manners,
    deeds: Deeds,
    chronicle: Chronicle,
}

struct Member {
    child: Child,
    /// Which of the deeds.
    deed: usize,
    stopped_until: Option<Instant>,
}

/// What was done to whom.
#[derive(Debug, Default)]
pub struct Deeds {
    /// To each, in the order in which they were hired.
    of: Vec<Deed>,
    /// How many were killed.
    pub kills: u32,
    /// How many were stopped.
    pub stops: u32,
    /// How many had their terminal closed.
    pub hangups: u32,
}

/// What was done to a worker, in microseconds since 1970.
#[derive(Debug)]
struct Deed {
    process: u32,
    hired: i64,
    killed: Option<i64>,
    stopped: Vec<(i64, Option<i64>)>,
}

impl Deeds {
    /// Was the worker of this name kept from renewing what it held by this moment?
    pub fn disturbed(&self, worker: &str, by: i64) -> bool {
        self.to(worker).is_some_and(|deed| deed.was_disturbed(by))
    }

    /// Was the worker of this name stopped at any moment between these?
    pub fn slept(&self, worker: &str, from: i64, to: i64) -> bool {
        self.to(worker).is_some_and(|deed| deed.slept(from, to))
    }

    /// What was done to the worker of this name. They are called `worker PROCESS-MOMENT`, the moment they began in
    /// hexadecimal. Numbers of processes come again; whoever was hired last before it began is meant.
    fn to(&self, worker: &str) -> Option<&Deed> {
        let (process, began) = worker.strip_prefix("worker ")?.split_once('-')?;
        let process: u32 = process.parse().ok()?;
        let began = i64::from_str_radix(began, 16).ok()?;
        let mut hired = self.of.iter().rev();
        hired.find(|deed| deed.process == process && deed.hired <= began)
    }
}

impl Deed {
    /// Was it kept from renewing what it held by this moment?
    fn was_disturbed(&self, by: i64) -> bool {
        // What happened before that is forgotten when the lease has run out once more.
        let since = by - i64::try_from(2 * LEASE.as_micros()).unwrap_or(0);
        let killed = self.killed.is_some_and(|at| at <= by);
        killed || self.slept(since, by)
    }

    /// Was it stopped at any moment between these?
    fn slept(&self, from: i64, to: i64) -> bool {
        let overlaps = |(stopped, woken): &(i64, Option<i64>)| {
            *stopped <= to && woken.is_none_or(|woken| woken >= from)
        };
        self.stopped.iter().any(overlaps)
    }
}

impl Crowd {
    /// Starts so many.
    pub fn start(ground: &Ground, workers: u32, manners: Manners) -> anyhow::Result<Self> {
        let mut guard = command(Path::new("sh"));
        guard
            .args(["-c", GUARD])
            .process_group(0)
            .stdin(Stdio::piped());
        let mut crowd = Self {
            guard: guard.spawn().context("could not start a guard")?,
            members: Vec::new(),
            struck: Instant::now(),
            manners,
            deeds: Deeds::default(),
            chronicle: Chronicle::create(&ground.ledger)?,
        };
        for number in 0..workers {
            crowd.hire(ground, 1 + number % 3)?;
        }
        Ok(crowd)
    }

    fn hire(&mut self, ground: &Ground, concurrency: u32) -> anyhow::Result<()> {
        let hired = self.chronicle.write("a worker is hired")?;
        // Not in this process's group. One with somebody stopped in it is hung up on when whoever started it ends.
        let group = i32::try_from(self.guard.id())?;
        let child = ground.worker(concurrency).process_group(group).spawn();
        let child = child.context("could not start a worker")?;
        self.chronicle.write(format_args!("it is {}", child.id()))?;
        self.deeds.of.push(Deed {
            process: child.id(),
            hired,
            killed: None,
            stopped: Vec::new(),
        });
        self.members.push(Member {
            child,
            deed: self.deeds.of.len() - 1,
            stopped_until: None,
        });
        Ok(())
    }

    /// Strikes at somebody now and then.
    pub fn strike(&mut self, ground: &Ground, random: &mut Rng) -> anyhow::Result<()> {
        self.wake(|until| until <= Instant::now())?;
        self.require_all()?;
        if self.members.is_empty()
            || self.struck.elapsed() < self.manners.breath.mul_f64(0.5 + random.f64())
        {
            return Ok(());
        }
        self.struck = Instant::now();
        let at = random.usize(..self.members.len());
        let stopped = self
            .members
            .iter()
            .filter(|member| member.stopped_until.is_some());
        let may_stop = stopped.count() * 2 < self.members.len();
        if !self.manners.stops || random.bool() {
            let is_stopped = self.members[at].stopped_until.is_some();
            if self.manners.stops && !is_stopped && random.bool() {
                self.close_terminal(at, Signal::HUP)?;
            } else {
                self.kill(at)?;
            }
            self.hire(ground, random.u32(1..=3))?;
        } else if may_stop && self.members[at].stopped_until.is_none() {
            let pause = LEASE.mul_f64(1.1 + random.f64());
            self.members[at].stopped_until = Some(Instant::now() + pause);
            let stopped = format!("{} is stopped", self.members[at].child.id());
            let stopped = self.chronicle.write(stopped)?;
            let deed = &mut self.deeds.of[self.members[at].deed];
            deed.stopped.push((stopped, None));
            signal(&self.members[at].child, Signal::STOP)?;
            if ground.is_open() {
                self.deeds.stops += 1;
            } else {
                let this = self.members[at].stopped_until;
                self.wake(|until| Some(until) == this)?;
            }
        }
        Ok(())
    }

    fn kill(&mut self, at: usize) -> anyhow::Result<()> {
        let mut member = self.members.swap_remove(at);
        let killed = format!("{} is killed", member.child.id());
        self.deeds.of[member.deed].killed = Some(self.chronicle.write(killed)?);
        member.child.kill().context("could not kill a worker")?;
        member.child.wait()?;
        self.deeds.kills += 1;
        Ok(())
    }

    /// Closes the terminal of a worker. It is to give back what it holds, so that nobody need take it.
    fn close_terminal(&mut self, at: usize, how: Signal) -> anyhow::Result<()> {
        let mut member = self.members.swap_remove(at);
        let worker = member.child.id();
        self.chronicle
            .write(format_args!("the terminal of {worker} is closed"))?;
        signal(&member.child, how)?;
        let until = Instant::now() + ENDING;
        let status = loop {
            if let Some(status) = member.child.try_wait()? {
                break status;
            }
            if Instant::now() > until {
                let _gone_already = member.child.kill();
                bail!("worker {worker} did not end when its terminal was closed");
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        // One that had only just begun was not listening yet, and held nothing.
        if !status.success() && status.signal() != Some(how.as_raw()) {
            bail!("the terminal of worker {worker} was closed, and it ended with {status}");
        }
        self.deeds.hangups += 1;
        Ok(())
    }

    /// Ends a worker as a closed terminal does that nobody listens to.
    #[cfg(feature = "broken")]
    pub fn close_terminal_unheard(
        &mut self,
        ground: &Ground,
        random: &mut Rng,
    ) -> anyhow::Result<()> {
        let running = |member: &Member| member.stopped_until.is_none();
        if let Some(at) = self.members.iter().position(running) {
            self.close_terminal(at, Signal::KILL)?;
            self.hire(ground, random.u32(1..=3))?;
        }
        Ok(())
    }

    /// Kills a worker together with the processes that supervise its actors, so that nobody is left to end what
    /// those started.
    #[cfg(feature = "broken")]
    pub fn kill_with_supervisors(
        &mut self,
        ground: &Ground,
        random: &mut Rng,
    ) -> anyhow::Result<()> {
        let at = random.usize(..self.members.len());
        signal(&self.members[at].child, Signal::STOP)?;
        ground.kill_supervisors_of(self.members[at].child.id());
        self.kill(at)?;
        self.hire(ground, random.u32(1..=3))
    }

    /// What was done to them so far, in words.
    pub fn told(&self) -> String {
        let Deeds {
            kills,
            stops,
            hangups,
            ..
        } = self.deeds;
        format!(
            "{kills} workers killed, {stops} stopped past their lease, {hangups} terminals closed"
        )
    }

    /// Lets everybody go on.
    pub fn wake_everybody(&mut self) -> anyhow::Result<()> {
        self.wake(|_| true)
    }

    fn wake(&mut self, is_over: impl Fn(Instant) -> bool) -> anyhow::Result<()> {
        for member in &mut self.members {
            if member.stopped_until.is_some_and(&is_over) {
                signal(&member.child, Signal::CONT)?;
                member.stopped_until = None;
                let deed = &mut self.deeds.of[member.deed];
                if let Some((_, to)) = deed.stopped.last_mut() {
                    let woken = format!("{} was woken", member.child.id());
                    *to = Some(self.chronicle.write(woken)?);
                }
            }
        }
        Ok(())
    }

    /// Nobody ends by itself.
    pub fn require_all(&mut self) -> anyhow::Result<()> {
        for member in &mut self.members {
            if let Some(status) = member.child.try_wait()? {
                bail!("worker {} ended by itself: {status}", member.child.id());
            }
        }
        Ok(())
    }

    /// Asks everybody to end, and tells what was done to them.
    pub fn dismiss(mut self) -> anyhow::Result<Deeds> {
        for member in &self.members {
            signal(&member.child, Signal::TERM)?;
        }
        let until = Instant::now() + ENDING;
        for member in &mut self.members {
            let status = loop {
                if let Some(status) = member.child.try_wait()? {
                    break status;
                }
                if Instant::now() > until {
                    bail!("worker {} did not end when asked to", member.child.id());
                }
                std::thread::sleep(Duration::from_millis(10));
            };
            // One that had only just begun was not listening yet.
            let was_new = status.signal() == Some(Signal::TERM.as_raw());
            if !status.success() && !was_new {
                let worker = member.child.id();
                bail!("worker {worker} was asked to end, and did with {status}");
            }
        }
        self.members.clear();
        Ok(std::mem::take(&mut self.deeds))
    }
}

impl Drop for Crowd {
    /// Nobody stays behind, stopped least of all.
    fn drop(&mut self) {
        for member in &mut self.members {
            let _gone_already = member.child.kill();
            let _reaped = member.child.wait();
        }
        // Closes the pipe first.
        let _ended = self.guard.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_slept_is_known_by_name_and_moment() {
        let deed = |hired, stopped| Deed {
            process: 7,
            hired,
            killed: None,
            stopped: vec![stopped],
        };
        let deeds = Deeds {
            of: vec![deed(0, (10, Some(20))), deed(100, (150, None))],
            ..Deeds::default()
        };
        for (worker, from, to, expected) in [
            ("worker 7-5", 0, 9, false),
            ("worker 7-5", 0, 10, true),
            ("worker 7-5", 20, 30, true),
            ("worker 7-5", 21, 999, false),
            ("worker 7-80", 0, 149, false),
            ("worker 7-80", 500, 999, true),
            ("worker 8-80", 0, 999, false),
            ("ada", 0, 999, false),
        ] {
            assert_eq!(deeds.slept(worker, from, to), expected, "{worker} {from}");
        }
    }
}
