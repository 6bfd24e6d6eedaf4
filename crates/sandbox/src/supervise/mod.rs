//! Runs programs so that none of their processes survives, however the program or this process ends.
//!
//! ```text
//! worker ──socket── supervising process ──socket── launcher, which becomes the program
//! ```
//!
//! The supervising process adopts every orphan of the program, so that it finds all of them. It
//! notices that the worker is gone when its socket closes. Both stages are this program started
//! again, because a process with threads cannot safely do this work between fork and exec.
//!
//! [`supervised_run`] is the worker's side; [`supervising_process`] and [`launcher`] are the two
//! stages. Nothing here knows what the program is for.

mod confine;
mod file_lock;
mod launcher;
mod messages;
mod orphans;
mod output;
mod process_spec;
mod process_tree;
mod program_input;
mod run_ending;
mod supervised_run;
mod supervising_process;

use std::ffi::OsString;
use std::process::ExitCode;

pub use confine::detect_isolation;
pub use file_lock::SharedLock;
pub use output::ProgramOutput;
pub use process_spec::{Confinement, ProcessSpec, ReachablePaths};
pub use program_input::ProgramInput;
pub use run_ending::{IsolationLevel, ProgramExit, RunEnding};
pub use supervised_run::{RunStopper, SupervisedRun, Supervisor};

pub(crate) use file_lock::{ExclusiveLock, lock_exclusive, lock_shared};

/// Starts the launcher; followed by the process id of the supervising process.
const LAUNCHER_FLAG: &str = "--inner";

/// Behaves as on a system without Landlock, for tests. Only the process that starts the supervising
/// process can set it.
const WITHOUT_LANDLOCK_FLAG: &str = "--without-landlock";

/// For wrong arguments. Exit codes say little here: results are reported on the socket.
const MISUSE_EXIT_CODE: u8 = 2;

/// The body of the supervising command. [`Supervisor`] starts it with a socket as its standard
/// input; it is not for people.
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
