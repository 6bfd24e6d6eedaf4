//! The worker processes of a trial. The harness kills, pauses and hangs up on them, and remembers when it did.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use fastrand::Rng;
use rustix::process::Signal;

use crate::client_group::send_signal;
use crate::program_client::new_command;
use crate::trial_env::TrialEnv;
use crate::trial_logs::ChaosLog;

/// The shell script of the guard process: wait until the pipe closes, then kill the whole process group.
const GUARD_SCRIPT: &str = "trap '' HUP INT TERM; cat > /dev/null; kill -s KILL 0";

/// The lease duration of the workers.
pub const WORKER_LEASE: Duration = Duration::from_secs(3);

/// How long a worker may take to end after it was asked to.
const WORKER_EXIT_TIMEOUT: Duration = Duration::from_secs(60);

/// How often and in which ways the harness disturbs workers.
#[derive(Debug, Clone, Copy)]
pub struct FaultPolicy {
    /// The average interval between two faults.
    pub interval: Duration,
    /// Besides kills, also pause workers past their lease and close their terminals.
    pub pauses_and_hangups: bool,
}

/// The workers of a trial. Dropping the group kills them.
pub struct WorkerGroup {
    /// A shell that leads the process group of the workers and reads from a pipe of ours. The pipe closes however this
    /// process ends; the shell then kills the whole group.
    guard: Child,
    workers: Vec<TrialWorker>,
    last_fault: Instant,
    policy: FaultPolicy,
    faults: WorkerFaultLog,
    chaos_log: ChaosLog,
}

struct TrialWorker {
    child: Child,
    /// The index of its `WorkerFaults`.
    faults_index: usize,
    paused_until: Option<Instant>,
}

/// The faults of all workers that ever ran.
#[derive(Debug, Default)]
pub struct WorkerFaultLog {
    /// In the order in which the workers were started.
    workers: Vec<WorkerFaults>,
    pub kills: u32,
    /// Workers paused past their lease.
    pub pauses: u32,
    /// Workers whose terminal was closed.
    pub hangups: u32,
}

/// The faults of one worker. Times are microseconds since 1970.
#[derive(Debug)]
struct WorkerFaults {
    process: u32,
    started_at: i64,
    killed_at: Option<i64>,
    /// Start and end of each pause; no end while it lasts.
    pauses: Vec<(i64, Option<i64>)>,
}

impl WorkerFaultLog {
    /// Whether a fault could have kept the worker from renewing its leases before `by`.
    pub fn was_disturbed(&self, worker: &str, by: i64) -> bool {
        self.find_worker(worker)
            .is_some_and(|faults| faults.was_disturbed(by))
    }

    /// Whether the worker was paused at any time between `from` and `to`.
    pub fn was_paused(&self, worker: &str, from: i64, to: i64) -> bool {
        self.find_worker(worker)
            .is_some_and(|faults| faults.was_paused(from, to))
    }

    /// Finds a worker by its owner name, `worker PID-START`, with the start time in hexadecimal. Process ids are reused,
    /// so this takes the last process with that id that was started before the given time.
    fn find_worker(&self, worker: &str) -> Option<&WorkerFaults> {
        let (process, start) = worker.strip_prefix("worker ")?.split_once('-')?;
        let process: u32 = process.parse().ok()?;
        let start = i64::from_str_radix(start, 16).ok()?;
        let mut latest_first = self.workers.iter().rev();
        latest_first.find(|faults| faults.process == process && faults.started_at <= start)
    }
}

impl WorkerFaults {
    fn was_disturbed(&self, by: i64) -> bool {
        // An earlier pause no longer matters: since then the worker had a whole lease to recover.
        let since = by - i64::try_from(2 * WORKER_LEASE.as_micros()).unwrap_or(0);
        let killed = self.killed_at.is_some_and(|at| at <= by);
        killed || self.was_paused(since, by)
    }

    fn was_paused(&self, from: i64, to: i64) -> bool {
        let overlaps = |(paused, resumed): &(i64, Option<i64>)| {
            *paused <= to && resumed.is_none_or(|resumed| resumed >= from)
        };
        self.pauses.iter().any(overlaps)
    }
}

impl WorkerGroup {
    /// Starts the guard process and the workers.
    pub fn start_all(env: &TrialEnv, workers: u32, policy: FaultPolicy) -> anyhow::Result<Self> {
        let mut guard = new_command(Path::new("sh"));
        guard
            .args(["-c", GUARD_SCRIPT])
            .process_group(0)
            .stdin(Stdio::piped());
        let mut group = Self {
            guard: guard.spawn().context("could not start the guard process")?,
            workers: Vec::new(),
            last_fault: Instant::now(),
            policy,
            faults: WorkerFaultLog::default(),
            chaos_log: ChaosLog::create_in(&env.records_dir)?,
        };
        for number in 0..workers {
            group.start_worker(env, 1 + number % 3)?;
        }
        Ok(group)
    }

    fn start_worker(&mut self, env: &TrialEnv, concurrency: u32) -> anyhow::Result<()> {
        let started_at = self.chaos_log.log_action("start a worker")?;
        // Not in our own process group: the kernel hangs up on an orphaned group that contains a stopped process, which
        // would end the trial when its parent ends.
        let group = i32::try_from(self.guard.id())?;
        let child = env
            .worker_command(concurrency)
            .process_group(group)
            .spawn()
            .context("could not start a worker")?;
        self.chaos_log
            .log_action(format_args!("started worker {}", child.id()))?;
        self.faults.workers.push(WorkerFaults {
            process: child.id(),
            started_at,
            killed_at: None,
            pauses: Vec::new(),
        });
        self.workers.push(TrialWorker {
            child,
            faults_index: self.faults.workers.len() - 1,
            paused_until: None,
        });
        Ok(())
    }

    /// If a fault is due, kills, pauses or hangs up on a random worker.
    pub fn inject_fault(&mut self, env: &TrialEnv, random: &mut Rng) -> anyhow::Result<()> {
        self.resume_where(|until| until <= Instant::now())?;
        self.require_all_running()?;
        if self.workers.is_empty()
            || self.last_fault.elapsed() < self.policy.interval.mul_f64(0.5 + random.f64())
        {
            return Ok(());
        }
        self.last_fault = Instant::now();
        let index = random.usize(..self.workers.len());
        let paused = self
            .workers
            .iter()
            .filter(|worker| worker.paused_until.is_some());
        let may_pause = paused.count() * 2 < self.workers.len();
        if !self.policy.pauses_and_hangups || random.bool() {
            let is_paused = self.workers[index].paused_until.is_some();
            if self.policy.pauses_and_hangups && !is_paused && random.bool() {
                self.close_terminal(index, Signal::HUP)?;
            } else {
                self.kill_worker(index)?;
            }
            self.start_worker(env, random.u32(1..=3))?;
        } else if may_pause && self.workers[index].paused_until.is_none() {
            self.pause_worker(env, index, WORKER_LEASE.mul_f64(1.1 + random.f64()))?;
        }
        Ok(())
    }

    /// Pauses a worker. If it holds the write lock of a SQLite file, which would block everyone, resumes it at once.
    fn pause_worker(
        &mut self,
        env: &TrialEnv,
        index: usize,
        pause: Duration,
    ) -> anyhow::Result<()> {
        let paused_until = Some(Instant::now() + pause);
        self.workers[index].paused_until = paused_until;
        let action = format!("pause worker {}", self.workers[index].child.id());
        let paused_at = self.chaos_log.log_action(action)?;
        let faults = &mut self.faults.workers[self.workers[index].faults_index];
        faults.pauses.push((paused_at, None));
        send_signal(&self.workers[index].child, Signal::STOP)?;
        if env.is_store_writable() {
            self.faults.pauses += 1;
        } else {
            self.resume_where(|until| Some(until) == paused_until)?;
        }
        Ok(())
    }

    fn kill_worker(&mut self, index: usize) -> anyhow::Result<()> {
        let mut worker = self.workers.swap_remove(index);
        let action = format!("kill worker {}", worker.child.id());
        let killed_at = self.chaos_log.log_action(action)?;
        self.faults.workers[worker.faults_index].killed_at = Some(killed_at);
        worker.child.kill().context("could not kill a worker")?;
        worker.child.wait()?;
        self.faults.kills += 1;
        Ok(())
    }

    /// Closes the terminal of a worker and waits until it ends. A worker releases its leases on a hang-up, so no plan may
    /// be reclaimed from it; hence this does not count as a disturbance.
    fn close_terminal(&mut self, index: usize, signal: Signal) -> anyhow::Result<()> {
        let mut worker = self.workers.swap_remove(index);
        let pid = worker.child.id();
        self.chaos_log
            .log_action(format_args!("close the terminal of worker {pid}"))?;
        send_signal(&worker.child, signal)?;
        let deadline = Instant::now() + WORKER_EXIT_TIMEOUT;
        let status = loop {
            if let Some(status) = worker.child.try_wait()? {
                break status;
            }
            // To end, the worker writes. A paused one may hold the write lock: it can get it while it stops.
            self.resume_where(|until| until <= Instant::now())?;
            if Instant::now() > deadline {
                let _already_gone = worker.child.kill();
                bail!("worker {pid} did not end after its terminal was closed");
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        // A worker that had just started had no signal handler yet, and no lease either.
        if !status.success() && status.signal() != Some(signal.as_raw()) {
            bail!("worker {pid} failed after its terminal was closed: {status}");
        }
        self.faults.hangups += 1;
        Ok(())
    }

    /// Planted bug: a worker ends on a closed terminal without releasing its leases.
    #[cfg(feature = "broken")]
    pub fn hang_up_without_release(
        &mut self,
        env: &TrialEnv,
        random: &mut Rng,
    ) -> anyhow::Result<()> {
        let is_running = |worker: &TrialWorker| worker.paused_until.is_none();
        if let Some(index) = self.workers.iter().position(is_running) {
            self.close_terminal(index, Signal::KILL)?;
            self.start_worker(env, random.u32(1..=3))?;
        }
        Ok(())
    }

    /// Planted bug: kills a worker together with the supervisors of its actors, so that the actors' processes stay.
    #[cfg(feature = "broken")]
    pub fn kill_with_supervisors(
        &mut self,
        env: &TrialEnv,
        random: &mut Rng,
    ) -> anyhow::Result<()> {
        let index = random.usize(..self.workers.len());
        send_signal(&self.workers[index].child, Signal::STOP)?;
        env.kill_supervisors_of(self.workers[index].child.id());
        self.kill_worker(index)?;
        self.start_worker(env, random.u32(1..=3))
    }

    /// One line for the progress output.
    pub fn summary(&self) -> String {
        let WorkerFaultLog {
            kills,
            pauses,
            hangups,
            ..
        } = self.faults;
        format!(
            "{kills} workers killed, {pauses} paused past their lease, {hangups} terminals closed"
        )
    }

    /// Resumes all paused workers.
    pub fn resume_all(&mut self) -> anyhow::Result<()> {
        self.resume_where(|_| true)
    }

    fn resume_where(&mut self, is_due: impl Fn(Instant) -> bool) -> anyhow::Result<()> {
        for worker in &mut self.workers {
            if worker.paused_until.is_some_and(&is_due) {
                send_signal(&worker.child, Signal::CONT)?;
                worker.paused_until = None;
                let faults = &mut self.faults.workers[worker.faults_index];
                if let Some((_, resumed_at)) = faults.pauses.last_mut() {
                    let action = format!("resumed worker {}", worker.child.id());
                    *resumed_at = Some(self.chaos_log.log_action(action)?);
                }
            }
        }
        Ok(())
    }

    /// Fails if a worker ended by itself.
    pub fn require_all_running(&mut self) -> anyhow::Result<()> {
        for worker in &mut self.workers {
            if let Some(status) = worker.child.try_wait()? {
                bail!("worker {} ended by itself: {status}", worker.child.id());
            }
        }
        Ok(())
    }

    /// Asks all workers to end, waits for them and returns the faults of the trial.
    pub fn stop_workers(mut self) -> anyhow::Result<WorkerFaultLog> {
        for worker in &self.workers {
            send_signal(&worker.child, Signal::TERM)?;
        }
        let deadline = Instant::now() + WORKER_EXIT_TIMEOUT;
        for worker in &mut self.workers {
            let pid = worker.child.id();
            let status = loop {
                if let Some(status) = worker.child.try_wait()? {
                    break status;
                }
                if Instant::now() > deadline {
                    bail!("worker {pid} did not end after SIGTERM");
                }
                std::thread::sleep(Duration::from_millis(10));
            };
            // A worker that had just started had no signal handler yet.
            let was_starting = status.signal() == Some(Signal::TERM.as_raw());
            if !status.success() && !was_starting {
                bail!("worker {pid} failed after SIGTERM: {status}");
            }
        }
        self.workers.clear();
        Ok(std::mem::take(&mut self.faults))
    }
}

impl Drop for WorkerGroup {
    /// Leaves no process behind: a paused one would stay forever.
    fn drop(&mut self) {
        for worker in &mut self.workers {
            let _already_gone = worker.child.kill();
            let _reaped = worker.child.wait();
        }
        // `wait` closes the pipe first, which ends the guard.
        let _ended = self.guard.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_found_by_worker_name_and_time() {
        let worker_faults = |started_at, pause| WorkerFaults {
            process: 7,
            started_at,
            killed_at: None,
            pauses: vec![pause],
        };
        let log = WorkerFaultLog {
            workers: vec![
                worker_faults(0, (10, Some(20))),
                worker_faults(100, (150, None)),
            ],
            ..WorkerFaultLog::default()
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
            assert_eq!(
                log.was_paused(worker, from, to),
                expected,
                "{worker} {from}"
            );
        }
    }
}
