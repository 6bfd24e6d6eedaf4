//! The clock of the stores that have none of their own. The only place that asks the system.

use std::fmt;
use std::sync::Arc;

use plan::Timestamp;

/// Where `now` comes from: the system, or a test.
#[derive(Clone, Default)]
pub struct Clock(Option<Arc<dyn Fn() -> Timestamp + Send + Sync>>);

impl Clock {
    /// A clock that shows what this function says.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(now)))
    }

    /// The moment it shows.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Some(now) => now(),
            None => system_now(),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the door everybody else is sent to"
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
            "Clock(given)"
        } else {
            "Clock(system)"
        })
    }
}
