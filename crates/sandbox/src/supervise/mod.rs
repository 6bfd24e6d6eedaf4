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
mod ending;
mod errand;
mod family;
mod hold;
mod inner;
mod leftover;
mod outer;
mod output;
mod running;
mod wire;

use std::ffi::OsString;
use std::process::ExitCode;

pub use confine::offered;
pub use ending::{Ending, Isolated, RunEnded};
pub use errand::{Confinement, Errand, Reach};
pub use hold::Hold;
pub use output::Output;
pub use running::{Running, Stopper, Supervisor};

pub(crate) use hold::{Alone, take, take_alone};

/// Says that this is the last stage; the number of the supervising process follows.
const INNER: &str = "--inner";

/// Behaves as on a system without Landlock, so that this can be tried where there is one. Only whoever
/// starts the supervising process can say it.
const WITHOUT_LANDLOCK: &str = "--without-landlock";

/// What came of something that nobody needs if they are gone: the exit codes say little, because it is
/// the socket on which everything is told.
const MISUSED: u8 = 2;

/// The body of the command that supervises. It is started by [`Supervisor`], with a socket in place of
/// its standard input; a person has no use for it.
pub fn supervise(arguments: &[OsString]) -> ExitCode {
    let landlock = match arguments.iter().any(|word| word == WITHOUT_LANDLOCK) {
        true => confine::Landlock::Denied,
        false => confine::Landlock::AsFound,
    };
    let inner = arguments.iter().position(|word| word == INNER);
    match inner.map(|at| arguments.get(at + 1)) {
        None => outer::run(),
        Some(Some(supervisor)) => inner::run(supervisor, landlock),
        Some(None) => ExitCode::from(MISUSED),
    }
}
