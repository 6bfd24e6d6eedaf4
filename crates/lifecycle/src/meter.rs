//! A meter at a run: what it used so far, beside what it may use. When that is gone, the run is asked to
//! stop, as it is when its plan is cancelled.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use actors::{Stop, Usage};
use plan::ledger::{BudgetAllowance, BudgetAmount, BudgetGrant, BudgetUnit};

/// Watches one run.
pub(crate) struct UsageMeter {
    grant: BudgetGrant,
    started_at: Instant,
    stop: Stop,
    state: Mutex<MeterState>,
}

#[derive(Default)]
struct MeterState {
    usage: Usage,
    warned: BTreeSet<BudgetUnit>,
    /// What was used up, for people.
    exceeded: Option<String>,
}

impl UsageMeter {
    /// From now on, for a run that looks at this request to stop.
    pub fn new(grant: BudgetGrant, stop: Stop) -> Self {
        Self {
            grant,
            started_at: Instant::now(),
            stop,
            state: Mutex::default(),
        }
    }

    /// The run says that it used so much. What is nearly gone now, and was not before?
    pub fn record_usage(&self, usage: Usage) -> Vec<String> {
        self.lock_state().usage = usage;
        self.check_limits()
    }

    /// Time passes, whatever the run says. What is nearly gone now, and was not before?
    pub fn check_limits(&self) -> Vec<String> {
        let mut state = self.lock_state();
        let used = self.amount_used(state.usage);
        if state.exceeded.is_none()
            && let Some(allowance) = self.grant.find_exhausted(used)
        {
            state.exceeded = Some(format!("{} are used up", allowance.format_usage(used)));
            self.stop.request();
        }
        let is_nearly_used_up =
            |allowance: &&BudgetAllowance| allowance.is_nearly_exhausted_by(used);
        let mut warnings = Vec::new();
        for allowance in self.grant.0.iter().filter(is_nearly_used_up) {
            if state.warned.insert(allowance.means) {
                warnings.push(format!("{} are used", allowance.format_usage(used)));
            }
        }
        warnings
    }

    /// What was used up, if the run was stopped for it.
    pub fn exceeded_limit(&self) -> Option<String> {
        self.lock_state().exceeded.clone()
    }

    /// What the run used in all, by its last word or, if it had none, by what it said on the way.
    pub fn total_usage(&self, final_usage: Usage) -> BudgetAmount {
        let usage = match final_usage == Usage::default() {
            true => self.lock_state().usage,
            false => final_usage,
        };
        self.amount_used(usage)
    }

    fn amount_used(&self, usage: Usage) -> BudgetAmount {
        amount_from_usage(usage, self.started_at.elapsed())
    }

    fn lock_state(&self) -> MutexGuard<'_, MeterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a run used that took so long.
pub(crate) fn amount_from_usage(usage: Usage, time: Duration) -> BudgetAmount {
    BudgetAmount {
        cost: usage.cost_micros,
        tokens: usage.input_tokens.saturating_add(usage.output_tokens),
        time: u64::try_from(time.as_micros()).unwrap_or(u64::MAX),
    }
}
