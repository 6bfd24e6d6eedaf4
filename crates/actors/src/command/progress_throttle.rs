//! Telling how a run goes, no more often than anybody could read it: an agent that floods its output must
//! not flood whoever listens.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sandbox::IsolationLevel;

use crate::stream::StreamUpdate;
use crate::{RunProgress, Usage};

/// Told at most so often.
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

    /// Tells that the program runs. Whatever it says comes after that.
    pub(super) fn report_start(&self, isolation: IsolationLevel) {
        (self.on_progress)(RunProgress::Started {
            isolation: isolation.to_string(),
        });
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.started = true;
        drop(state);
        self.flush_due();
    }

    /// Tells it now or with the next tick, unless something newer comes in between.
    pub(super) fn report_update(&self, update: StreamUpdate) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match update {
            StreamUpdate::Step(step) => state.step = Some(step),
            StreamUpdate::UsageChanged(used) => state.usage = Some(used),
            // A step tells of it as well.
            StreamUpdate::ToolCall(_) => {}
        }
        drop(state);
        self.flush_due();
    }

    /// Tells what is due.
    pub(super) fn flush_due(&self) {
        self.flush_if(|told_at| told_at.is_none_or(|at| at.elapsed() >= MIN_REPORT_INTERVAL));
    }

    /// Tells what was held back.
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
        // Whoever listens may take their time; nobody else has to wait for them.
        drop(state);
        if let Some(step) = step {
            (self.on_progress)(RunProgress::Step(step));
        }
        if let Some(used) = used {
            (self.on_progress)(RunProgress::UsageChanged(used));
        }
    }
}
