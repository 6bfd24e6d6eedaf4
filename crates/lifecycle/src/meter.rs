//! A meter at a run: what it used so far, beside what it may use. When that is gone, the run is asked to
//! stop, as it is when its plan is cancelled.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use actors::{Stop, Usage};
use plan::ledger::{Allowance, Amount, Grant, Means};

/// Watches one run.
pub(crate) struct Meter {
    grant: Grant,
    began: Instant,
    stop: Stop,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    usage: Usage,
    warned: BTreeSet<Means>,
    /// What was used up, for people.
    over: Option<String>,
}

impl Meter {
    /// From now on, for a run that looks at this request to stop.
    pub fn new(grant: Grant, stop: Stop) -> Self {
        Self {
            grant,
            began: Instant::now(),
            stop,
            seen: Mutex::default(),
        }
    }

    /// The run says that it used so much. What is nearly gone now, and was not before?
    pub fn tell(&self, usage: Usage) -> Vec<String> {
        self.seen().usage = usage;
        self.look()
    }

    /// Time passes, whatever the run says. What is nearly gone now, and was not before?
    pub fn look(&self) -> Vec<String> {
        let mut seen = self.seen();
        let used = self.amount(seen.usage);
        if seen.over.is_none()
            && let Some(allowance) = self.grant.used_up_by(used)
        {
            seen.over = Some(format!("{} are used up", allowance.shown(used)));
            self.stop.ask();
        }
        let nearly = |allowance: &&Allowance| allowance.is_nearly_used_up_by(used);
        let mut told = Vec::new();
        for allowance in self.grant.0.iter().filter(nearly) {
            if seen.warned.insert(allowance.means) {
                told.push(format!("{} are used", allowance.shown(used)));
            }
        }
        told
    }

    /// What was used up, if the run was stopped for it.
    pub fn over(&self) -> Option<String> {
        self.seen().over.clone()
    }

    /// What the run used in all, by its last word or, if it had none, by what it said on the way.
    pub fn used(&self, last: Usage) -> Amount {
        let usage = match last == Usage::default() {
            true => self.seen().usage,
            false => last,
        };
        self.amount(usage)
    }

    fn amount(&self, usage: Usage) -> Amount {
        amount(usage, self.began.elapsed())
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a run used that took so long.
pub(crate) fn amount(usage: Usage, time: Duration) -> Amount {
    Amount {
        cost: usage.cost_micros,
        tokens: usage.input_tokens.saturating_add(usage.output_tokens),
        time: u64::try_from(time.as_micros()).unwrap_or(u64::MAX),
    }
}
