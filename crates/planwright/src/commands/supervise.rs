//! `planwright supervise`: what Planwright starts itself with to run an actor. It is for no person, and
//! so in no help.
//!
//! It is carried out before anything else is read: neither its environment nor its directory is the
//! user's, and every run of an actor waits for it twice.

use std::ffi::OsString;
use std::process::ExitCode;

/// The word.
const SUPERVISE_ARGUMENT: &str = "supervise";

/// Supervises if that is what the words of this process say.
pub fn run(arguments: &[OsString]) -> Option<ExitCode> {
    match arguments {
        [_, word, rest @ ..] if word == SUPERVISE_ARGUMENT => Some(sandbox::run_supervisor(rest)),
        _ => None,
    }
}
