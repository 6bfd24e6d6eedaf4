//! The actor of the `work` trial. It records its start, leaves a process behind that never ends, changes a file and reports
//! the epoch of its run.
//!
//! The records are outside the store, so that the engine cannot change them.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::Context;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::program_client::new_command;
use crate::trial::{print_status, realtime_micros};
use crate::worker_group::WORKER_LEASE;

/// The environment variable with the directory for records.
pub const RECORDS_DIR_VARIABLE: &str = "PROVE_RECORDS";

/// The environment variable that marks every process of a trial.
pub const TRIAL_ID_VARIABLE: &str = "PROVE_TRIAL_ID";

/// The message of an actor that fails on purpose.
pub const DELIBERATE_FAILURE: &str = "it failed on purpose";

/// One start of the actor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActorStart {
    pub plan_id: String,
    pub phase: String,
    /// The attempt number the engine gave it.
    pub attempt: u32,
    /// The epoch of its run.
    pub epoch: u64,
    /// Its process id.
    pub process: u32,
    /// Its working directory.
    pub directory: PathBuf,
    /// Microseconds since 1970.
    pub at: i64,
    /// The epochs of other actors that were working on the same plan.
    pub concurrent_epochs: Vec<u64>,
}

/// Reads the recorded starts.
pub fn read_starts(records_dir: &Path) -> anyhow::Result<Vec<ActorStart>> {
    read_records(&records_dir.join("starts"))
}

/// Runs the actor.
pub fn run() -> anyhow::Result<ExitCode> {
    let run = ActorRun::begin()?;
    if fastrand::u8(..100) < 15 {
        // Longer than a lease, so that a worker that reclaims the plan of a paused worker finds this process running.
        std::thread::sleep(WORKER_LEASE.mul_f64(1.5));
    }
    run.change_file()?;
    pause();
    if fastrand::u8(..100) < 5 {
        print_status(DELIBERATE_FAILURE);
        return Ok(ExitCode::FAILURE);
    }
    run.report_done()?;
    Ok(ExitCode::SUCCESS)
}

/// A run of an actor, whose start is recorded.
pub struct ActorRun {
    pub start: ActorStart,
    pub records_dir: PathBuf,
    report: PathBuf,
    /// The kernel releases the lock however this process ends.
    _alive_lock: File,
}

impl ActorRun {
    /// Records the start, and leaves a process behind that the supervisor must end.
    pub fn begin() -> anyhow::Result<Self> {
        let records_dir = PathBuf::from(read_variable(RECORDS_DIR_VARIABLE)?);
        let report = PathBuf::from(read_variable("PLANWRIGHT_REPORT")?);
        let mut start = ActorStart {
            plan_id: read_variable("PLANWRIGHT_PLAN")?,
            phase: read_variable("PLANWRIGHT_PHASE")?,
            attempt: read_variable("PLANWRIGHT_ATTEMPT")?.parse()?,
            epoch: epoch_of_report(&report)?,
            process: std::process::id(),
            directory: std::env::current_dir()?,
            at: 0,
            concurrent_epochs: Vec::new(),
        };
        let alive_lock = lock_alive_file(&records_dir, &start)?;
        start.concurrent_epochs = find_concurrent_epochs(&records_dir, &start)?;
        start.at = realtime_micros();
        append_record(&records_dir.join("starts"), &start)?;
        leave_process_behind()?;
        pause();
        Ok(Self {
            start,
            records_dir,
            report,
            _alive_lock: alive_lock,
        })
    }

    /// Changes the file of the plan, in execute.
    pub fn change_file(&self) -> anyhow::Result<()> {
        let start = &self.start;
        if start.phase == "execute" && start.directory.join(".git").exists() {
            let made_dir = start.directory.join("made");
            std::fs::create_dir_all(&made_dir)?;
            let text = format!("epoch {}\n", start.epoch);
            std::fs::write(made_dir.join(format!("{}.txt", start.plan_id)), text)?;
        }
        Ok(())
    }

    /// Reports the epoch of the run.
    pub fn report_done(&self) -> anyhow::Result<()> {
        let summary = format!("epoch {}", self.start.epoch);
        let content = json!({ "outcome": "done", "summary": summary });
        Ok(std::fs::write(&self.report, content.to_string())?)
    }
}

fn pause() {
    std::thread::sleep(Duration::from_millis(fastrand::u64(10..400)));
}

/// Appends a line, which is short enough to be written at once.
pub fn append_record(path: &Path, record: &impl Serialize) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(record)?;
    line.push(b'\n');
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    Ok(file.write_all(&line)?)
}

/// Reads the records of a file; none if it does not exist.
pub fn read_records<T: for<'de> Deserialize<'de>>(path: &Path) -> anyhow::Result<Vec<T>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).context("could not read the records"),
    };
    let parse = |line| serde_json::from_str(line).context("invalid line in the records");
    text.lines().map(parse).collect()
}

/// The epoch of a run, which is in the path of its report: `…/EPOCH/out/report.json`.
pub fn epoch_of_report(report: &Path) -> anyhow::Result<u64> {
    let name = report.ancestors().nth(2).and_then(Path::file_name);
    let name = name.and_then(|name| name.to_str());
    let name = name.context("the report is not in a run directory")?;
    name.parse()
        .context("the name of the run directory is not an epoch")
}

/// Locks a file that shows that an actor works on the plan with this epoch.
fn lock_alive_file(records_dir: &Path, start: &ActorStart) -> anyhow::Result<File> {
    let directory = records_dir.join("alive").join(&start.plan_id);
    std::fs::create_dir_all(&directory)?;
    let file = File::create(directory.join(start.epoch.to_string()))?;
    // May wait for an actor that tests the lock, which releases it at once.
    flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}

/// The epochs of other running actors of the plan. Of two actors that start at once, at least one sees the other, because
/// each locks its own file first.
fn find_concurrent_epochs(records_dir: &Path, start: &ActorStart) -> anyhow::Result<Vec<u64>> {
    let mut alive = Vec::new();
    for entry in std::fs::read_dir(records_dir.join("alive").join(&start.plan_id))? {
        let entry = entry?;
        let epoch: u64 = entry.file_name().to_string_lossy().parse()?;
        if epoch == start.epoch {
            continue;
        }
        let file = File::open(entry.path())?;
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => alive.push(epoch),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(alive)
}

/// Starts a process in its own process group that does not end by itself. The supervisor must find and end it.
fn leave_process_behind() -> anyhow::Result<()> {
    new_command(Path::new("sleep"))
        .arg("1000")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("could not start sleep")?;
    Ok(())
}

/// Reads an environment variable.
#[expect(
    clippy::disallowed_methods,
    reason = "an actor gets its input from environment variables"
)]
pub fn read_variable(name: &str) -> anyhow::Result<String> {
    std::env::var(name).with_context(|| format!("{name} is not set"))
}
