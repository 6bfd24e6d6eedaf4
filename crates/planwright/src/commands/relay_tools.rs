//! `planwright relay-tools FILE`: the internal command that an agent starts to use the tools of its run. It is not in
//! the help.
//!
//! It runs confined, in the agent's environment, so it reads neither settings nor a store.

use std::ffi::OsString;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::actor_set::TOOL_RELAY_ARGUMENT;
use crate::mcp::run_tools::serve_run_tools;

/// Runs the relay if the first argument asks for it; otherwise returns `None`.
pub fn run(arguments: &[OsString]) -> Option<ExitCode> {
    match arguments {
        [_, word, connection_file] if word == TOOL_RELAY_ARGUMENT => {
            let input = BufReader::new(std::io::stdin());
            serve_run_tools(PathBuf::from(connection_file), input, std::io::stdout());
            Some(ExitCode::SUCCESS)
        }
        _ => None,
    }
}
