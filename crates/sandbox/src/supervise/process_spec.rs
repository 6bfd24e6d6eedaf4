//! What is to be run, with everything it gets. What is not said here, the program does not have.

use std::ffi::OsString;
use std::path::PathBuf;

/// A program to be run, with everything it gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSpec {
    /// Its words. The first is looked up on the `PATH` in `environment`.
    pub command: Vec<OsString>,
    /// Where it runs.
    pub directory: PathBuf,
    /// The whole of its environment: nothing else is inherited.
    pub environment: Vec<(OsString, OsString)>,
    /// A file that it gets as standard input; otherwise it gets `/dev/null`.
    pub input: Option<PathBuf>,
    /// What it can reach.
    pub confinement: Confinement,
    /// Files that are held locked (shared) until it and all its descendants are gone. They are made
    /// where they are missing.
    pub locks: Vec<PathBuf>,
}

/// Whether a program is kept from what it was not given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Confinement {
    /// It can do what the user can.
    Off,
    /// As far as the system can; the ending says how far that was.
    WherePossible(ReachablePaths),
    /// Reading and writing are confined, or it is not started.
    Required(ReachablePaths),
}

/// What a confined program can reach besides the system's own files. Paths that are not there are
/// skipped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReachablePaths {
    /// Files and directories it may write, read and execute, with everything below them.
    pub writable: Vec<PathBuf>,
    /// Files and directories it may read and execute, with everything below them.
    pub readable: Vec<PathBuf>,
}
