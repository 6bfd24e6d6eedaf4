//! A request to stop, such as Ctrl-C, that reaches whatever is running.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A stop request that several threads can check and wait for.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<(Mutex<bool>, Condvar)>);

impl Stop {
    pub fn request(&self) {
        let (requested, condvar) = &*self.0;
        *requested.lock().unwrap_or_else(PoisonError::into_inner) = true;
        condvar.notify_all();
    }

    pub fn is_requested(&self) -> bool {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the request, at most `timeout`. Returns whether it was made.
    pub fn wait_for_request(&self, timeout: Duration) -> bool {
        let (requested, condvar) = &*self.0;
        let deadline = Instant::now() + timeout;
        let mut requested = requested.lock().unwrap_or_else(PoisonError::into_inner);
        while !*requested {
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return false;
            }
            let waited = condvar.wait_timeout(requested, remaining);
            requested = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}
