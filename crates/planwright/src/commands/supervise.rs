//! `planwright supervise`: the internal command under which Planwright starts itself to run an agent. It is
//! not in the help.
//!
//! It runs before settings are read: its environment and working directory are not the user's, and every
//! run of an agent waits for it twice.

use std::ffi::OsString;
use std::process::ExitCode;

const SUPERVISE_ARGUMENT: &str = "supervise";

/// Runs the supervisor if the first argument asks for it; otherwise returns `None`.
pub fn run(arguments: &[OsString]) -> Option<ExitCode> {
    match arguments {
        [_, word, rest @ ..] if word == SUPERVISE_ARGUMENT => Some(sandbox::run_supervisor(rest)),
        _ => None,
    }
}
