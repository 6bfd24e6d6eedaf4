//! Repeats requests to the payment provider.

use std::thread::sleep;
use std::time::Duration;

/// Calls `send` until it succeeds, at most three times.
pub fn retry(mut send: impl FnMut() -> bool) -> bool {
    for _ in 0..2 {
        if send() {
            return true;
        }
        sleep(Duration::from_millis(100));
    }
    send()
}
