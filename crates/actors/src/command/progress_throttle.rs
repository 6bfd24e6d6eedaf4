//! Reports progress at a limited rate, so that an agent that floods its output does not flood the
//! receiver.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sandbox::IsolationLevel;

use crate::stream::StreamUpdate;
use crate::{RunProgress, Usage};

const MIN_REPORT_INTERVAL: Duration = Duration::from_millis(100);

pub(super) struct ProgressThrottle<'a> {
    on_progress: &'a (dyn Fn(RunProgress) + Send + Sync),
    state: Mutex<ThrottleState>,
}

#[derive(Default)]
struct ThrottleState {
    started: bool,
    reported_at: Option<Instant>,
    last_step: Option<String>,
    step: Option<String>,
    usage: Option<Usage>,
}

impl<'a> ProgressThrottle<'a> {
    pub(super) fn new(on_progress: &'a (dyn Fn(RunProgress) + Send + Sync)) -> Self {
        Self {
            on_progress,
            state: Mutex::default(),
        }
    }

    /// Reports that the program runs. All other reports come after this one.
    pub(super) fn report_start(&self, isolation: IsolationLevel) {
        (self.on_progress)(RunProgress::Started {
            isolation: isolation.to_string(),
        });
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.started = true;
        drop(state);
        self.flush_due();
    }

    /// Reports an update now or at the next flush; a newer one replaces it.
    pub(super) fn report_update(&self, update: StreamUpdate) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match update {
            StreamUpdate::Step(step) => state.step = Some(step),
            StreamUpdate::UsageChanged(used) => state.usage = Some(used),
            // Its step reports it as well.
            StreamUpdate::ToolCall(_) => {}
        }
        drop(state);
        self.flush_due();
    }

    /// Reports what is pending, if the interval has passed.
    pub(super) fn flush_due(&self) {
        self.flush_if(|reported_at| {
            reported_at.is_none_or(|at| at.elapsed() >= MIN_REPORT_INTERVAL)
        });
    }

    /// Reports everything that is pending.
    pub(super) fn flush_all(&self) {
        self.flush_if(|_| true);
    }

    fn flush_if(&self, is_due: impl FnOnce(Option<Instant>) -> bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.started || !is_due(state.reported_at) {
            return;
        }
        let step = state
            .step
            .take()
            .filter(|step| state.last_step.as_ref() != Some(step));
        let used = state.usage.take();
        if step.is_none() && used.is_none() {
            return;
        }
        state.reported_at = Some(Instant::now());
        if step.is_some() {
            state.last_step.clone_from(&step);
        }
        // The callback may be slow; other threads must not wait for it.
        drop(state);
        if let Some(step) = step {
            (self.on_progress)(RunProgress::Step(step));
        }
        if let Some(used) = used {
            (self.on_progress)(RunProgress::UsageChanged(used));
        }
    }
}
