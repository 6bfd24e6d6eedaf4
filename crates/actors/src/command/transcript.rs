//! Everything a program said, as it said it: one JSON object a line.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use super::desk;

/// Longest transcript.
const LONGEST: u64 = 64 * 1024 * 1024;

/// A transcript being written. That it cannot be written is no reason for a run to fail.
pub(super) struct Transcript {
    file: Option<BufWriter<File>>,
    start: Instant,
    written: u64,
}

#[derive(Serialize)]
struct Line<'a> {
    ms: u128,
    stream: &'a str,
    text: &'a str,
}

impl Transcript {
    pub(super) fn start(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: Some(BufWriter::new(desk::create(path)?)),
            start: Instant::now(),
            written: 0,
        })
    }

    pub(super) fn record(&mut self, stream: &str, text: &str) {
        if self.written >= LONGEST {
            return;
        }
        self.write(stream, text);
        if self.written >= LONGEST {
            self.write(
                "note",
                "the transcript ends here: it holds no more than 64 MiB",
            );
            self.flush();
        }
    }

    /// Something that we say.
    pub(super) fn note(&mut self, text: &str) {
        self.record("note", text);
        self.flush();
    }

    pub(super) fn flush(&mut self) {
        if let Some(file) = &mut self.file
            && file.flush().is_err()
        {
            self.file = None;
        }
    }

    fn write(&mut self, stream: &str, text: &str) {
        let Some(file) = &mut self.file else {
            return;
        };
        let line = Line {
            ms: self.start.elapsed().as_millis(),
            stream,
            text,
        };
        let Ok(mut bytes) = serde_json::to_vec(&line) else {
            return;
        };
        bytes.push(b'\n');
        self.written += bytes.len() as u64;
        if file.write_all(&bytes).is_err() {
            self.file = None;
        }
    }
}
