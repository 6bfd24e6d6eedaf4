//! The clock of stores without a database clock. The only place that reads the system time.

use std::fmt;
use std::sync::Arc;

use plan::Timestamp;

/// Returns the current time: of the system, or of a test.
#[derive(Clone, Default)]
pub struct Clock(Option<Arc<dyn Fn() -> Timestamp + Send + Sync>>);

impl Clock {
    /// Creates a clock that returns the times of this function.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(now)))
    }

    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Some(now) => now(),
            None => system_now(),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the only place that reads the system time"
)]
fn system_now() -> Timestamp {
    let since_epoch = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "Clock(custom)"
        } else {
            "Clock(system)"
        })
    }
}
