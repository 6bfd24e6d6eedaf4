//! Being asked to stop. While work goes on, the first SIGINT, SIGTERM or SIGHUP (a closed terminal) asks for it and
//! the second ends the process at once; while a person is asked something, the first one ends it, as everywhere. What
//! was started ends with the process either way, and the plan is taken over by whoever comes next.
//!
//! A SIGHUP that is ignored from the start stays ignored: that is what `nohup` is for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use actors::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::CommandError;
use crate::exit::CommandExit;

/// The next signal ends the process.
static NEXT_SIGNAL_ENDS_PROCESS: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on, signals ask to stop.
pub fn stop_on_signals(stop: &Stop) -> Result<(), CommandError> {
    let failed = |error: std::io::Error| {
        CommandError::new(
            CommandExit::Error,
            format!("Signals cannot be caught: {error}"),
        )
    };
    let at_once = NEXT_SIGNAL_ENDS_PROCESS.get_or_init(Arc::default);
    let mut caught = vec![SIGINT, SIGTERM];
    if !is_hangup_ignored() {
        caught.push(SIGHUP);
    }
    for &signal in &caught {
        let code = i32::from(CommandExit::Interrupted.code());
        // In this order: the first signal finds the flag down.
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(at_once))
            .map_err(failed)?;
        signal_hook::flag::register(signal, Arc::clone(at_once)).map_err(failed)?;
    }
    let mut signals = signal_hook::iterator::Signals::new(&caught).map_err(failed)?;
    let stop = stop.clone();
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            stop.request();
        }
    });
    Ok(())
}

/// Does this process ignore SIGHUP? Asked before it is caught.
#[cfg(target_os = "linux")]
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    parse_ignores_hangup(&status).unwrap_or_else(has_no_terminal)
}

/// The disposition cannot be read here without unsafe code. `nohup` leaves no stream at the terminal.
#[cfg(not(target_os = "linux"))]
fn is_hangup_ignored() -> bool {
    has_no_terminal()
}

fn has_no_terminal() -> bool {
    use std::io::IsTerminal;
    !std::io::stdin().is_terminal()
        && !std::io::stdout().is_terminal()
        && !std::io::stderr().is_terminal()
}

/// Reads the mask of ignored signals in the text of `/proc/PID/status`.
#[cfg(target_os = "linux")]
fn parse_ignores_hangup(status: &str) -> Option<bool> {
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))?;
    let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
    Some(mask & (1 << (SIGHUP - 1)) != 0)
}

/// Lets a signal end the process while a person is asked, or shown something.
pub fn end_at_once_during<T>(asking: impl FnOnce() -> T) -> T {
    let Some(at_once) = NEXT_SIGNAL_ENDS_PROCESS.get() else {
        return asking();
    };
    let before = at_once.swap(true, Ordering::SeqCst);
    let answer = asking();
    at_once.store(before, Ordering::SeqCst);
    answer
}
