//! The files of a run: what the program is given, and what it may leave.
//!
//! The program can write only to `out` and `tmp`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::Assignment;

pub(crate) struct RunDir {
    /// JSON.
    pub(crate) assignment_file: PathBuf,
    pub(crate) prompt_file: PathBuf,
    /// The program may write its report here.
    pub(crate) out_dir: PathBuf,
    pub(crate) report_file: PathBuf,
    pub(crate) tmp_dir: PathBuf,
}

impl RunDir {
    /// Creates all files and directories. Removes the report of an earlier run.
    pub(crate) fn create(path: &Path, assignment: &Assignment, prompt: &str) -> io::Result<Self> {
        let out_dir = path.join("out");
        let run_dir = Self {
            assignment_file: path.join("assignment.json"),
            prompt_file: path.join("prompt.txt"),
            report_file: out_dir.join("report.json"),
            out_dir,
            tmp_dir: path.join("tmp"),
        };
        for directory in [&run_dir.out_dir, &run_dir.tmp_dir] {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true).mode(0o700).create(directory)?;
        }
        match fs::remove_file(&run_dir.report_file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut json = serde_json::to_vec_pretty(assignment)?;
        json.push(b'\n');
        create_private_file(&run_dir.assignment_file)?.write_all(&json)?;
        create_private_file(&run_dir.prompt_file)?.write_all(prompt.as_bytes())?;
        Ok(run_dir)
    }
}

/// Creates or truncates a file with mode 600.
pub(crate) fn create_private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)
}
