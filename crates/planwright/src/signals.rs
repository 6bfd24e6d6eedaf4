//! Being asked to stop. While work goes on, the first SIGINT or SIGTERM asks for it and the second ends the
//! process at once; while a person is asked something, the first one ends it, as everywhere. What was
//! started ends with the process either way, and the plan is taken over by whoever comes next.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use actors::Stop;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::error::CommandError;
use crate::exit::Exit;

/// The next signal ends the process.
static ENDS_AT_ONCE: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on, signals ask to stop.
pub fn ask_to_stop(stop: &Stop) -> Result<(), CommandError> {
    let failed = |error: std::io::Error| {
        CommandError::new(Exit::Error, format!("Signals cannot be caught: {error}"))
    };
    let at_once = ENDS_AT_ONCE.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM] {
        let code = i32::from(Exit::Interrupted.code());
        // In this order: the first signal finds the flag down.
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(at_once))
            .map_err(failed)?;
        signal_hook::flag::register(signal, Arc::clone(at_once)).map_err(failed)?;
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

/// Lets a signal end the process while a person is asked, or shown something.
pub fn ending_at_once<T>(asking: impl FnOnce() -> T) -> T {
    let Some(at_once) = ENDS_AT_ONCE.get() else {
        return asking();
    };
    let before = at_once.swap(true, Ordering::SeqCst);
    let answer = asking();
    at_once.store(before, Ordering::SeqCst);
    answer
}
