//! Writes a run's raw output to its file: everything the program wrote, one JSON object per line.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use super::run_dir;

const MAX_TRANSCRIPT_BYTES: u64 = 64 * 1024 * 1024;

/// A transcript being written. Write errors are ignored: they must not fail the run.
pub(crate) struct TranscriptWriter {
    file: Option<BufWriter<File>>,
    started_at: Instant,
    written_bytes: u64,
}

#[derive(Serialize)]
struct TranscriptRecord<'a> {
    ms: u128,
    stream: &'a str,
    text: &'a str,
}

impl TranscriptWriter {
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: Some(BufWriter::new(run_dir::create_private_file(path)?)),
            started_at: Instant::now(),
            written_bytes: 0,
        })
    }

    pub(crate) fn record_line(&mut self, stream: &str, text: &str) {
        if self.written_bytes >= MAX_TRANSCRIPT_BYTES {
            return;
        }
        self.write_record(stream, text);
        if self.written_bytes >= MAX_TRANSCRIPT_BYTES {
            self.write_record(
                "note",
                "the transcript is cut off here: it is limited to 64 MiB",
            );
            self.flush();
        }
    }

    /// Adds a note by Planwright.
    pub(crate) fn add_note(&mut self, text: &str) {
        self.record_line("note", text);
        self.flush();
    }

    pub(crate) fn flush(&mut self) {
        if let Some(file) = &mut self.file
            && file.flush().is_err()
        {
            self.file = None;
        }
    }

    fn write_record(&mut self, stream: &str, text: &str) {
        let Some(file) = &mut self.file else {
            return;
        };
        let line = TranscriptRecord {
            ms: self.started_at.elapsed().as_millis(),
            stream,
            text,
        };
        let Ok(mut bytes) = serde_json::to_vec(&line) else {
            return;
        };
        bytes.push(b'\n');
        self.written_bytes += bytes.len() as u64;
        if file.write_all(&bytes).is_err() {
            self.file = None;
        }
    }
}
