//! Supervising: running a program of which nothing stays behind, however it or we end.
//!
//! ```text
//! worker ──socket── supervising process ──socket── last stage, which becomes the program
//! ```
//!
//! The supervising process is what every orphan of the program falls back to, so that it finds all of
//! them, and what notices that the worker is gone: then its socket is at its end. Both of its stages
//! are our own program started anew, because what has to be done between forking and executing cannot
//! be done in a process with threads.
//!
//! [`running`] is the worker's side, [`outer`] and [`inner`] are the two stages. Nothing here knows
//! what the program is for.

mod confine;
mod file_lock;
mod launcher;
mod messages;
mod orphans;
mod output;
mod process_spec;
mod process_tree;
mod run_ending;
mod supervised_run;
mod supervising_process;

use std::ffi::OsString;
use std::process::ExitCode;

pub use confine::detect_isolation;
pub use file_lock::SharedLock;
pub use output::ProgramOutput;
pub use process_spec::{Confinement, ProcessSpec, ReachablePaths};
pub use run_ending::{IsolationLevel, ProgramExit, RunEnding};
pub use supervised_run::{RunStopper, SupervisedRun, Supervisor};

pub(crate) use file_lock::{ExclusiveLock, lock_exclusive, lock_shared};

/// Says that this is the last stage; the number of the supervising process follows.
const LAUNCHER_FLAG: &str = "--inner";

/// Behaves as on a system without Landlock, so that this can be tried where there is one. Only whoever
/// starts the supervising process can say it.
const WITHOUT_LANDLOCK_FLAG: &str = "--without-landlock";

/// What came of something that nobody needs if they are gone: the exit codes say little, because it is
/// the socket on which everything is told.
const MISUSE_EXIT_CODE: u8 = 2;

/// The body of the command that supervises. It is started by [`Supervisor`], with a socket in place of
/// its standard input; a person has no use for it.
pub fn run_supervisor(arguments: &[OsString]) -> ExitCode {
    let landlock = match arguments.iter().any(|word| word == WITHOUT_LANDLOCK_FLAG) {
        true => confine::LandlockMode::Disabled,
        false => confine::LandlockMode::IfAvailable,
    };
    let flag_position = arguments.iter().position(|word| word == LAUNCHER_FLAG);
    match flag_position.map(|at| arguments.get(at + 1)) {
        None => supervising_process::run_supervising_process(),
        Some(Some(supervisor)) => launcher::run_launcher(supervisor, landlock),
        Some(None) => ExitCode::from(MISUSE_EXIT_CODE),
    }
}
