//! The actor of a trial: a program that writes down that it was started, starts another process that
//! would never end, changes a file, and says under which authority it did.
//!
//! What it writes down lies outside of the store, so that nothing the engine does can change it.

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

use crate::binary::command;
use crate::crowd::LEASE;
use crate::trial::{moment, say};

/// Names the directory in which starts are written down.
pub const LEDGER: &str = "PROVE_LEDGER";

/// Marks every process of a trial.
pub const MARK: &str = "PROVE_MARK";

/// What an actor says that fails on purpose.
pub const ON_PURPOSE: &str = "it failed on purpose";

/// One start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The plan.
    pub plan: String,
    /// The phase.
    pub phase: String,
    /// Which attempt it was told to be.
    pub attempt: u32,
    /// Under which authority it works.
    pub epoch: u64,
    /// Its process.
    pub process: u32,
    /// Where it works.
    pub directory: PathBuf,
    /// When, in microseconds since 1970.
    pub at: i64,
    /// Who else was alive and worked on the same plan: their authorities.
    pub beside: Vec<u64>,
}

/// Everything that was written down in a ledger.
pub fn starts(ledger: &Path) -> anyhow::Result<Vec<Start>> {
    let text = match std::fs::read_to_string(ledger.join("starts")) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).context("the ledger cannot be read"),
    };
    let parse = |line| serde_json::from_str(line).context("a line of the ledger is none");
    text.lines().map(parse).collect()
}

/// Works.
pub fn run() -> anyhow::Result<ExitCode> {
    let ledger = PathBuf::from(variable(LEDGER)?);
    let report = PathBuf::from(variable("PLANWRIGHT_REPORT")?);
    let mut start = Start {
        plan: variable("PLANWRIGHT_PLAN")?,
        phase: variable("PLANWRIGHT_PHASE")?,
        attempt: variable("PLANWRIGHT_ATTEMPT")?.parse()?,
        epoch: epoch(&report)?,
        process: std::process::id(),
        directory: std::env::current_dir()?,
        at: 0,
        beside: Vec::new(),
    };
    // Held as long as this process lives, whatever ends it.
    let _alive = show_up(&ledger, &start)?;
    start.beside = others(&ledger, &start)?;
    start.at = moment();
    let mut line = serde_json::to_vec(&start)?;
    line.push(b'\n');
    let mut file = OpenOptions::new();
    let mut file = file.create(true).append(true).open(ledger.join("starts"))?;
    file.write_all(&line)?;

    leave_somebody_behind()?;
    let pause = || std::thread::sleep(Duration::from_millis(fastrand::u64(10..400)));
    pause();
    if fastrand::u8(..100) < 15 {
        // Longer than a lease: whoever takes over from a stopped worker finds it still there.
        std::thread::sleep(LEASE.mul_f64(1.5));
    }
    if start.phase == "execute" && start.directory.join(".git").exists() {
        let made = start.directory.join("made");
        std::fs::create_dir_all(&made)?;
        let text = format!("epoch {}\n", start.epoch);
        std::fs::write(made.join(format!("{}.txt", start.plan)), text)?;
    }
    pause();
    if fastrand::u8(..100) < 5 {
        say(ON_PURPOSE);
        return Ok(ExitCode::FAILURE);
    }
    let says = json!({ "outcome": "done", "summary": format!("epoch {}", start.epoch) });
    std::fs::write(&report, says.to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// The directory of a run is called by its authority: `…/EPOCH/out/report.json`.
pub fn epoch(report: &Path) -> anyhow::Result<u64> {
    let name = report.ancestors().nth(2).and_then(Path::file_name);
    let name = name.and_then(|name| name.to_str());
    let name = name.context("a report lies in the directory of its run")?;
    name.parse().context("the directory of a run is a number")
}

/// Says that somebody works on a plan, by a lock.
fn show_up(ledger: &Path, start: &Start) -> anyhow::Result<File> {
    let directory = ledger.join("alive").join(&start.plan);
    std::fs::create_dir_all(&directory)?;
    let file = File::create(directory.join(start.epoch.to_string()))?;
    // Whoever only looks lets go at once.
    flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}

/// Who else works on a plan. Of two that begin at once at least one sees the other.
fn others(ledger: &Path, start: &Start) -> anyhow::Result<Vec<u64>> {
    let mut alive = Vec::new();
    for entry in std::fs::read_dir(ledger.join("alive").join(&start.plan))? {
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

/// A process in a group of its own that has no reason to end.
fn leave_somebody_behind() -> anyhow::Result<()> {
    command(Path::new("sleep"))
        .arg("1000")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("could not start sleep")?;
    Ok(())
}

/// What an actor was told under a name.
#[expect(
    clippy::disallowed_methods,
    reason = "an actor learns everything from its environment"
)]
pub fn variable(name: &str) -> anyhow::Result<String> {
    std::env::var(name).with_context(|| format!("{name} is not set"))
}
