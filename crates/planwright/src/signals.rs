//! Signal handling: the first SIGINT, SIGTERM or SIGHUP requests a stop, the second ends the process at once.
//!
//! While a prompt waits for the person, the first signal already ends the process. Child processes end with it
//! either way, and another worker can take over the plan.
//!
//! A SIGHUP that is ignored at startup stays ignored, so that `nohup` works.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use actors::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::CommandError;
use crate::exit::CommandExit;

/// If true, the next signal ends the process. Unset until handlers are installed.
static NEXT_SIGNAL_ENDS_PROCESS: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Installs handlers that request `stop` on a signal.
pub fn stop_on_signals(stop: &Stop) -> Result<(), CommandError> {
    let failed = |error: std::io::Error| {
        CommandError::new(
            CommandExit::Error,
            format!("Cannot install signal handlers: {error}"),
        )
    };
    let at_once = NEXT_SIGNAL_ENDS_PROCESS.get_or_init(Arc::default);
    let mut caught = vec![SIGINT, SIGTERM];
    if !is_hangup_ignored() {
        caught.push(SIGHUP);
    }
    for &signal in &caught {
        let code = i32::from(CommandExit::Interrupted.code());
        // The order matters: the conditional shutdown runs first and finds the flag still unset on the first signal.
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

/// Returns whether this process ignores SIGHUP. Must be called before a handler is installed.
#[cfg(target_os = "linux")]
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    parse_ignores_hangup(&status).unwrap_or_else(has_no_terminal)
}

/// Reading the disposition needs unsafe code here, so this guesses: `nohup` leaves no stream on a terminal.
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

/// Reads the SIGHUP bit of `SigIgn` in the text of `/proc/PID/status`.
#[cfg(target_os = "linux")]
fn parse_ignores_hangup(status: &str) -> Option<bool> {
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))?;
    let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
    Some(mask & (1 << (SIGHUP - 1)) != 0)
}

/// Runs a prompt or pager during which the first signal ends the process.
pub fn end_at_once_during<T>(interaction: impl FnOnce() -> T) -> T {
    let Some(at_once) = NEXT_SIGNAL_ENDS_PROCESS.get() else {
        return interaction();
    };
    let before = at_once.swap(true, Ordering::SeqCst);
    let answer = interaction();
    at_once.store(before, Ordering::SeqCst);
    answer
}
