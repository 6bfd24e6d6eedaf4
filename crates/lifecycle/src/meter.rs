//! Compares a run's usage with its budget, and requests a stop when the budget is exhausted.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use actors::{Stop, Usage};
use plan::ledger::{BudgetAllowance, BudgetAmount, BudgetGrant, BudgetUnit};

/// The usage of one run.
pub(crate) struct UsageMeter {
    grant: BudgetGrant,
    started_at: Instant,
    stop: Stop,
    state: Mutex<MeterState>,
}

#[derive(Default)]
struct MeterState {
    usage: Usage,
    /// How long the clock stood still.
    paused: Duration,
    /// Set while the clock stands still.
    paused_at: Option<Instant>,
    warned: BTreeSet<BudgetUnit>,
    /// The limit that was reached, as a message.
    exceeded: Option<String>,
}

impl UsageMeter {
    /// Starts measuring time. `stop` is requested when the grant is exhausted.
    pub fn new(grant: BudgetGrant, stop: Stop) -> Self {
        Self {
            grant,
            started_at: Instant::now(),
            stop,
            state: Mutex::default(),
        }
    }

    /// Stops the clock until the returned value is dropped. One pause at a time.
    pub fn pause_clock(&self) -> ClockPause<'_> {
        self.lock_state().paused_at = Some(Instant::now());
        ClockPause { meter: self }
    }

    /// Records the run's total usage so far. Returns warnings for limits that are newly near.
    pub fn record_usage(&self, usage: Usage) -> Vec<String> {
        self.lock_state().usage = usage;
        self.check_limits()
    }

    /// Checks the limits, including elapsed time. Returns warnings for limits that are newly near.
    pub fn check_limits(&self) -> Vec<String> {
        let mut state = self.lock_state();
        let used = self.amount_used(&state, state.usage);
        if state.exceeded.is_none()
            && let Some(allowance) = self.grant.find_exhausted(used)
        {
            state.exceeded = Some(format!("limit reached: {}", allowance.format_usage(used)));
            self.stop.request();
        }
        // A limit that is already reached stops the run, and that message says so.
        let is_nearly_used_up = |allowance: &&BudgetAllowance| {
            allowance.is_nearly_exhausted_by(used) && !allowance.is_exhausted_by(used)
        };
        let mut warnings = Vec::new();
        for allowance in self.grant.0.iter().filter(is_nearly_used_up) {
            if state.warned.insert(allowance.unit) {
                warnings.push(format!("{} used", allowance.format_usage(used)));
            }
        }
        warnings
    }

    /// The limit that the run was stopped for, as a message.
    pub fn exceeded_limit(&self) -> Option<String> {
        self.lock_state().exceeded.clone()
    }

    /// The run's total usage. Uses the last reported progress if the final report has no usage.
    pub fn total_usage(&self, final_usage: Usage) -> BudgetAmount {
        let state = self.lock_state();
        let usage = match final_usage == Usage::default() {
            true => state.usage,
            false => final_usage,
        };
        self.amount_used(&state, usage)
    }

    fn amount_used(&self, state: &MeterState, usage: Usage) -> BudgetAmount {
        let open_pause = state.paused_at.map(|paused_at| paused_at.elapsed());
        let paused = state.paused + open_pause.unwrap_or_default();
        amount_from_usage(usage, self.started_at.elapsed().saturating_sub(paused))
    }

    fn lock_state(&self) -> MutexGuard<'_, MeterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// While it lives, a run's clock stands still.
pub(crate) struct ClockPause<'a> {
    meter: &'a UsageMeter,
}

impl Drop for ClockPause<'_> {
    fn drop(&mut self) {
        let mut state = self.meter.lock_state();
        if let Some(paused_at) = state.paused_at.take() {
            state.paused += paused_at.elapsed();
        }
    }
}

/// Combines reported usage and elapsed time.
pub(crate) fn amount_from_usage(usage: Usage, time: Duration) -> BudgetAmount {
    BudgetAmount {
        cost: usage.cost_micros,
        tokens: usage.input_tokens.saturating_add(usage.output_tokens),
        time: u64::try_from(time.as_micros()).unwrap_or(u64::MAX),
    }
}
