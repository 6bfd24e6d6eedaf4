//! How many calls a run may make.

use std::time::{Duration, Instant};

/// All calls of a run.
pub(super) const MAX_CALLS: u32 = 1000;

/// Calls in a row, and the time after which another one is possible.
const MAX_BURST: u32 = 30;
const REFILL_INTERVAL: Duration = Duration::from_millis(100);

pub(super) struct CallAllowance {
    left_in_run: u32,
    left_in_burst: u32,
    refilled_at: Instant,
}

impl CallAllowance {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            left_in_run: MAX_CALLS,
            left_in_burst: MAX_BURST,
            refilled_at: now,
        }
    }

    /// Counts a call. Fails with the reason.
    pub(super) fn take(&mut self, now: Instant) -> Result<(), String> {
        if self.left_in_run == 0 {
            return Err(format!("a run can make at most {MAX_CALLS} calls"));
        }
        let elapsed = now.saturating_duration_since(self.refilled_at);
        let refills = elapsed.as_millis() / REFILL_INTERVAL.as_millis();
        if refills > 0 {
            let refills = u32::try_from(refills).unwrap_or(u32::MAX);
            self.left_in_burst = self.left_in_burst.saturating_add(refills).min(MAX_BURST);
            self.refilled_at = now;
        }
        if self.left_in_burst == 0 {
            return Err("too many calls at once: wait a second".to_owned());
        }
        self.left_in_run -= 1;
        self.left_in_burst -= 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_bounded_at_once_and_in_total() {
        let start = Instant::now();
        let mut allowance = CallAllowance::new(start);
        let taken_at = |allowance: &mut CallAllowance, now| {
            let attempts = (0..MAX_BURST * 2).map(|_| allowance.take(now));
            attempts.filter(Result::is_ok).count()
        };
        assert_eq!(taken_at(&mut allowance, start), 30);
        assert_eq!(taken_at(&mut allowance, start + Duration::from_secs(1)), 10);
        let mut total = 40;
        for minute in 1..60 {
            total += taken_at(&mut allowance, start + Duration::from_secs(minute * 60));
        }
        assert_eq!(total, 1000);
        let refused = allowance.take(start + Duration::from_secs(9999));
        assert!(refused.unwrap_err().contains("at most 1000 calls"));
    }
}
