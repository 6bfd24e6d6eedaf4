//! Handles stop signals.
//!
//! SIGINT and SIGTERM set a flag that is checked between steps and while a child runs. Values are then dropped as usual:
//! no cleanup happens in a signal handler. SIGHUP keeps its default action, so that `nohup` works; the guard
//! (`postgres/guard.rs`) cleans up even then.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::Signal;

/// Remembers the last signal that asked this process to stop.
pub struct StopSignals(Arc<AtomicUsize>);

impl StopSignals {
    /// Registers handlers, so that SIGINT and SIGTERM no longer end the process.
    pub fn register() -> io::Result<Self> {
        let last = Arc::new(AtomicUsize::new(0));
        for (signal, value) in [
            (signal_hook::consts::SIGINT, INTERRUPT),
            (signal_hook::consts::SIGTERM, TERMINATE),
        ] {
            signal_hook::flag::register_usize(signal, Arc::clone(&last), value)?;
        }
        Ok(Self(last))
    }

    pub fn received_signal(&self) -> Option<Signal> {
        match self.0.load(Ordering::SeqCst) {
            INTERRUPT => Some(Signal::INT),
            TERMINATE => Some(Signal::TERM),
            _ => None,
        }
    }
}

/// The exit code that a shell reports for a process ended by `signal`.
pub fn signal_exit_code(signal: Signal) -> ExitCode {
    ExitCode::from(128 + u8::try_from(signal.as_raw()).unwrap_or(0))
}

const INTERRUPT: usize = 1;
const TERMINATE: usize = 2;
