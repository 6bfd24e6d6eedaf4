//! What is written down of a trial for whoever looks into a violation: what chaos did to whom and when, and the
//! events of all plans, since their database may be gone by then.

use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use plan::RecordedEvent;

use crate::trial::moment;

/// Deeds, a line each.
pub struct Chronicle(File);

impl Chronicle {
    /// A new one, in this directory.
    pub fn create(directory: &Path) -> anyhow::Result<Self> {
        create(directory, "deeds").map(Self)
    }

    /// Writes down what is about to be done, and gives the moment: nothing that follows from it comes earlier.
    pub fn write(&mut self, deed: impl Display) -> anyhow::Result<i64> {
        let at = moment();
        let line = format!("{at} {deed}\n");
        self.0
            .write_all(line.as_bytes())
            .context("writing a deed")?;
        Ok(at)
    }
}

/// Events, a line each.
pub struct Log(File);

impl Log {
    /// A new one, in this directory.
    pub fn create(directory: &Path) -> anyhow::Result<Self> {
        create(directory, "events").map(Self)
    }

    /// Writes these down.
    pub fn write(&mut self, events: &[RecordedEvent]) -> anyhow::Result<()> {
        let mut lines = Vec::new();
        for event in events {
            serde_json::to_writer(&mut lines, event)?;
            lines.push(b'\n');
        }
        self.0.write_all(&lines).context("writing events")
    }
}

fn create(directory: &Path, name: &str) -> anyhow::Result<File> {
    let path = directory.join(name);
    File::create(&path).with_context(|| format!("{} cannot be made", path.display()))
}
