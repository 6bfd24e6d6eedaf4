//! Being asked to stop.
//!
//! SIGINT and SIGTERM set a flag that is looked at between steps and while a child runs, so that every value
//! is dropped in the ordinary way: no clean-up happens in a signal handler. SIGHUP keeps its default, so that
//! `nohup` works; what must be cleaned up even then is cleaned up by the guard (`postgres/guard.rs`).

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::Signal;

/// Remembers the last signal that asked this process to stop.
pub struct StopSignals(Arc<AtomicUsize>);

impl StopSignals {
    /// From now on SIGINT and SIGTERM are remembered instead of ending the process.
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

    /// The signal that asked this process to stop, if one did.
    pub fn received_signal(&self) -> Option<Signal> {
        match self.0.load(Ordering::SeqCst) {
            INTERRUPT => Some(Signal::INT),
            TERMINATE => Some(Signal::TERM),
            _ => None,
        }
    }
}

/// What a shell reports for a process that `signal` ended.
pub fn signal_exit_code(signal: Signal) -> ExitCode {
    ExitCode::from(128 + u8::try_from(signal.as_raw()).unwrap_or(0))
}

const INTERRUPT: usize = 1;
const TERMINATE: usize = 2;
