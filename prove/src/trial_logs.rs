//! Log files for debugging a violation: what the harness did to which process and when, and the events of all plans.
//! The events are copied because the database may be gone by then.

use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use plan::RecordedEvent;

use crate::trial::realtime_micros;

/// The file `chaos.log`: one line per kill, pause or other disturbance.
pub struct ChaosLog(File);

impl ChaosLog {
    /// Creates the file in a directory.
    pub fn create_in(directory: &Path) -> anyhow::Result<Self> {
        create_file(directory, "chaos.log").map(Self)
    }

    /// Logs what is about to happen and returns the time. Call this before the action, so that no consequence of the
    /// action has an earlier time.
    pub fn log_action(&mut self, action: impl Display) -> anyhow::Result<i64> {
        let at = realtime_micros();
        let line = format!("{at} {action}\n");
        self.0
            .write_all(line.as_bytes())
            .context("could not write the chaos log")?;
        Ok(at)
    }
}

/// The file `events.jsonl`: one line per event.
pub struct EventDump(File);

impl EventDump {
    /// Creates the file in a directory.
    pub fn create_in(directory: &Path) -> anyhow::Result<Self> {
        create_file(directory, "events.jsonl").map(Self)
    }

    pub fn append_events(&mut self, events: &[RecordedEvent]) -> anyhow::Result<()> {
        let mut lines = Vec::new();
        for event in events {
            serde_json::to_writer(&mut lines, event)?;
            lines.push(b'\n');
        }
        self.0
            .write_all(&lines)
            .context("could not write the events")
    }
}

fn create_file(directory: &Path, name: &str) -> anyhow::Result<File> {
    let path = directory.join(name);
    File::create(&path).with_context(|| format!("could not create {}", path.display()))
}
