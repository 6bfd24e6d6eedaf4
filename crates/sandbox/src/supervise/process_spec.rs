//! Describes a program to run. The program gets nothing that is not in the spec.

use std::ffi::OsString;
use std::path::PathBuf;

/// A program to run, with everything it gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSpec {
    /// Program and arguments. The program is looked up in the `PATH` of `environment`.
    pub command: Vec<OsString>,
    /// The working directory.
    pub directory: PathBuf,
    /// The whole environment; nothing is inherited.
    pub environment: Vec<(OsString, OsString)>,
    /// The file for standard input; `/dev/null` if none.
    pub input: Option<PathBuf>,
    pub confinement: Confinement,
    /// Files that stay locked (shared) until the program and all its descendants are gone. Missing
    /// files are created.
    pub locks: Vec<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Confinement {
    /// The program can do whatever the user can.
    Off,
    /// As far as the system supports it. [`super::RunEnding`] says how far that was.
    WherePossible(ReachablePaths),
    /// If file access cannot be confined, the program is not started.
    Required(ReachablePaths),
}

/// Paths that a confined program may access besides the system's own. Missing paths are skipped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReachablePaths {
    /// May be read, written and executed, with everything below.
    pub writable: Vec<PathBuf>,
    /// May be read and executed, with everything below.
    pub readable: Vec<PathBuf>,
}
