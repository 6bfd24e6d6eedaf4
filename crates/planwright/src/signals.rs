//! Being asked to stop: the first SIGINT or SIGTERM asks, the second ends the process at once. What it
//! started ends with it either way; the plan is taken over by whoever comes next.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use actors::Stop;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::error::CommandError;
use crate::exit::Exit;

/// From now on, signals ask to stop.
pub fn ask_to_stop(stop: &Stop) -> Result<(), CommandError> {
    let failed = |error: std::io::Error| {
        CommandError::new(Exit::Error, format!("Signals cannot be caught: {error}"))
    };
    let again = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let code = i32::from(Exit::Interrupted.code());
        // In this order: the first signal finds the flag down.
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&again))
            .map_err(failed)?;
        signal_hook::flag::register(signal, Arc::clone(&again)).map_err(failed)?;
    }
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    let stop = stop.clone();
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            stop.ask();
        }
    });
    Ok(())
}
