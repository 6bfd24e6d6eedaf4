//! The client processes of a `run` trial. The harness kills them, and pauses them past their leases, at random.

use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use fastrand::Rng;
use rustix::process::{Pid, Signal, kill_process};

use crate::call_trial::CallTrialSettings;
use crate::program_client::new_command;
use crate::trial_logs::ChaosLog;

/// The client and reader processes of a trial. Dropping the group kills them.
pub struct ClientGroup<'a> {
    settings: &'a CallTrialSettings,
    store: String,
    processes: Vec<ClientProcess>,
    pub fault_counts: FaultCounts,
    pub chaos_log: ChaosLog,
}

/// How often the harness disturbed the clients and their database.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Processes killed and restarted.
    pub kills: u32,
    /// Processes paused.
    pub pauses: u32,
    /// Times all connections to the database were cut.
    pub cuts: u32,
    /// Times the database server was restarted.
    pub restarts: u32,
}

/// What a client process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientRole {
    /// Makes calls.
    Caller,
    /// Reads the log of all plans.
    Reader,
}

struct ClientProcess {
    number: u32,
    incarnation: u32,
    role: ClientRole,
    child: Child,
    paused_until: Option<Instant>,
}

impl ClientProcess {
    /// The name used in messages and in the chaos log.
    fn display_name(&self) -> String {
        let role = match self.role {
            ClientRole::Caller => "client",
            ClientRole::Reader => "reader",
        };
        format!("{role} {}, incarnation {}", self.number, self.incarnation)
    }
}

impl<'a> ClientGroup<'a> {
    /// Starts all clients and readers.
    pub fn start_all(
        settings: &'a CallTrialSettings,
        store: &str,
        readers: u32,
    ) -> anyhow::Result<Self> {
        let mut group = Self {
            settings,
            store: store.to_owned(),
            processes: Vec::new(),
            fault_counts: FaultCounts::default(),
            chaos_log: ChaosLog::create_in(&settings.trial.directory)?,
        };
        for number in 0..settings.trial.processes {
            let process = group.spawn_process(number, 0, ClientRole::Caller)?;
            group.processes.push(process);
        }
        for number in 0..readers {
            let process = group.spawn_process(number, 0, ClientRole::Reader)?;
            group.processes.push(process);
        }
        Ok(group)
    }

    fn spawn_process(
        &self,
        number: u32,
        incarnation: u32,
        role: ClientRole,
    ) -> anyhow::Result<ClientProcess> {
        let (settings, trial) = (self.settings, &self.settings.trial);
        let own_path =
            std::env::current_exe().context("could not find the path of this program")?;
        let mut client = new_command(&own_path);
        client
            .arg("client")
            .args(["--number", &number.to_string()])
            .args(["--life", &incarnation.to_string()])
            .args(["--seed", &trial.seed.to_string()])
            .args(["--store", &self.store])
            .args(["--pace-ms", &settings.pace_ms.to_string()])
            .arg("--directory")
            .arg(&trial.directory)
            // In its own process group, for the same reason as the workers (`worker_group.rs`).
            .process_group(0)
            .stdin(Stdio::piped());
        if role == ClientRole::Reader {
            client.arg("--reads");
        } else if number % 8 == 7 {
            client.arg("--program").arg(&trial.program);
        }
        #[cfg(feature = "broken")]
        if let Some(bug) = settings.bug {
            use clap::ValueEnum;
            let name = bug.to_possible_value().context("this bug has no name")?;
            client.args(["--bug", name.get_name()]);
        }
        let child = client.spawn().context("could not start a client")?;
        Ok(ClientProcess {
            number,
            incarnation,
            role,
            child,
            paused_until: None,
        })
    }

    /// Kills and restarts a random process, or pauses it.
    pub fn inject_fault(&mut self, random: &mut Rng) -> anyhow::Result<()> {
        self.resume_due(Instant::now())?;
        let index = random.usize(..self.processes.len());
        if random.bool() {
            let process = &mut self.processes[index];
            let action = format_args!("kill {}", process.display_name());
            self.chaos_log.log_action(action)?;
            process.child.kill().context("could not kill a client")?;
            process.child.wait()?;
            self.fault_counts.kills += 1;
            let (number, incarnation, role) =
                (process.number, process.incarnation + 1, process.role);
            self.processes[index] = self.spawn_process(number, incarnation, role)?;
        } else if self.processes[index].paused_until.is_none() {
            let pause = Duration::from_millis(random.u64(100..2500));
            let action = format!("pause {}", self.processes[index].display_name());
            self.chaos_log.log_action(action)?;
            send_signal(&self.processes[index].child, Signal::STOP)?;
            self.processes[index].paused_until = Some(Instant::now() + pause);
            self.fault_counts.pauses += 1;
        }
        Ok(())
    }

    /// Resumes processes whose pause is over. Fails if a process ended by itself.
    pub fn resume_due(&mut self, now: Instant) -> anyhow::Result<()> {
        for process in &mut self.processes {
            if process.paused_until.is_some_and(|until| until <= now) {
                send_signal(&process.child, Signal::CONT)?;
                process.paused_until = None;
                let action = format_args!("resumed {}", process.display_name());
                self.chaos_log.log_action(action)?;
            }
            if let Some(status) = process.child.try_wait()? {
                bail!("{} ended by itself: {status}", process.display_name());
            }
        }
        Ok(())
    }

    /// Asks the processes that make calls to end, and waits for them.
    pub fn stop_clients(&mut self, timeout: Duration) -> anyhow::Result<()> {
        self.stop_role(ClientRole::Caller, timeout)
    }

    /// Asks the log readers to end, and waits for them.
    pub fn stop_readers(&mut self, timeout: Duration) -> anyhow::Result<()> {
        self.stop_role(ClientRole::Reader, timeout)
    }

    fn stop_role(&mut self, role: ClientRole, timeout: Duration) -> anyhow::Result<()> {
        let deadline = Instant::now() + timeout;
        let (mut stopping, remaining): (Vec<_>, Vec<_>) = self
            .processes
            .drain(..)
            .partition(|process| process.role == role);
        self.processes = remaining;
        for process in &mut stopping {
            if process.paused_until.is_some() {
                send_signal(&process.child, Signal::CONT)?;
            }
            // A client ends when its standard input does.
            drop(process.child.stdin.take());
        }
        for process in &mut stopping {
            let status = loop {
                if let Some(status) = process.child.try_wait()? {
                    break status;
                }
                if Instant::now() > deadline {
                    process.child.kill()?;
                    process.child.wait()?;
                    bail!("{} did not end within {timeout:?}", process.display_name());
                }
                std::thread::sleep(Duration::from_millis(10));
            };
            if !status.success() {
                bail!("{} failed while ending: {status}", process.display_name());
            }
        }
        Ok(())
    }
}

impl Drop for ClientGroup<'_> {
    /// Leaves no process behind: a paused one would stay forever.
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _already_gone = process.child.kill();
            let _reaped = process.child.wait();
        }
    }
}

/// Sends a signal to a child process.
pub(crate) fn send_signal(child: &Child, signal: Signal) -> anyhow::Result<()> {
    let id = i32::try_from(child.id())?;
    let pid = Pid::from_raw(id).context("process id 0")?;
    kill_process(pid, signal).with_context(|| format!("could not signal process {id}"))
}
