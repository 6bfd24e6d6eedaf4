//! The directory of a run: what the program is given in files, and what it may leave.
//!
//! The program writes only to `out` and `tmp`; the rest is ours.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::Assignment;

/// The places of a run.
pub(super) struct Desk {
    /// The assignment as JSON.
    pub(super) assignment: PathBuf,
    /// The prompt.
    pub(super) prompt: PathBuf,
    /// Where the program may leave its report.
    pub(super) out: PathBuf,
    /// The report it may leave.
    pub(super) report: PathBuf,
    /// For its temporary files.
    pub(super) tmp: PathBuf,
}

impl Desk {
    /// Lays everything out. A report of an earlier run is none of this one.
    pub(super) fn lay(run: &Path, assignment: &Assignment, prompt: &str) -> io::Result<Self> {
        let out = run.join("out");
        let desk = Self {
            assignment: run.join("assignment.json"),
            prompt: run.join("prompt.txt"),
            report: out.join("report.json"),
            out,
            tmp: run.join("tmp"),
        };
        for directory in [&desk.out, &desk.tmp] {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true).mode(0o700).create(directory)?;
        }
        match fs::remove_file(&desk.report) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut json = serde_json::to_vec_pretty(assignment)?;
        json.push(b'\n');
        create(&desk.assignment)?.write_all(&json)?;
        create(&desk.prompt)?.write_all(prompt.as_bytes())?;
        Ok(desk)
    }
}

/// A file that is nobody else's to read.
pub(super) fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)
}
