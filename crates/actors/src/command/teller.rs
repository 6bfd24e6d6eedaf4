//! Telling how a run goes, no more often than anybody could read it: an agent that floods its output must
//! not flood whoever listens.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sandbox::Isolated;

use crate::stream::Said;
use crate::{Progress, Usage};

/// Told at most so often.
const PACE: Duration = Duration::from_millis(100);

pub(super) struct Teller<'a> {
    progress: &'a (dyn Fn(Progress) + Send + Sync),
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    began: bool,
    told_at: Option<Instant>,
    last: Option<String>,
    step: Option<String>,
    used: Option<Usage>,
}

impl<'a> Teller<'a> {
    pub(super) fn new(progress: &'a (dyn Fn(Progress) + Send + Sync)) -> Self {
        Self {
            progress,
            state: Mutex::default(),
        }
    }

    /// Tells that the program runs. Whatever it says comes after that.
    pub(super) fn begin(&self, isolation: Isolated) {
        (self.progress)(Progress::Began {
            isolation: isolation.to_string(),
        });
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.began = true;
        drop(state);
        self.tick();
    }

    /// Tells it now or with the next tick, unless something newer comes in between.
    pub(super) fn tell(&self, said: Said) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match said {
            Said::Step(step) => state.step = Some(step),
            Said::Used(used) => state.used = Some(used),
            // A step tells of it as well.
            Said::Called(_) => {}
        }
        drop(state);
        self.tick();
    }

    /// Tells what is due.
    pub(super) fn tick(&self) {
        self.tell_if(|told_at| told_at.is_none_or(|at| at.elapsed() >= PACE));
    }

    /// Tells what was held back.
    pub(super) fn end(&self) {
        self.tell_if(|_| true);
    }

    fn tell_if(&self, is_due: impl FnOnce(Option<Instant>) -> bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.began || !is_due(state.told_at) {
            return;
        }
        let step = state
            .step
            .take()
            .filter(|step| state.last.as_ref() != Some(step));
        let used = state.used.take();
        if step.is_none() && used.is_none() {
            return;
        }
        state.told_at = Some(Instant::now());
        if step.is_some() {
            state.last.clone_from(&step);
        }
        // Whoever listens may take their time; nobody else has to wait for them.
        drop(state);
        if let Some(step) = step {
            (self.progress)(Progress::Step(step));
        }
        if let Some(used) = used {
            (self.progress)(Progress::Used(used));
        }
    }
}
