//! Reports slow steps of the engine itself, so that a person knows what they are waiting for.

use std::sync::Arc;

use plan::Plan;
use plan::invariant::Rule;

use crate::Lifecycle;

/// A slow step that is not an actor's work. Reported just before it begins.
#[derive(Debug, Clone, Copy)]
pub enum EngineProgress<'a> {
    CheckingRule(&'a Rule),
    /// The repository's set-up command is about to run in a new sandbox.
    SettingUpSandbox(&'a str),
    /// Another holder (this name) is landing the plan; the engine waits for it.
    FollowingLanding(&'a str),
}

#[derive(Clone, Default)]
pub(crate) struct ProgressListener(Option<Arc<EngineProgressCallback>>);

type EngineProgressCallback = dyn Fn(&Plan, EngineProgress<'_>) + Send + Sync;

impl Lifecycle {
    /// Calls `listener` just before each slow step.
    #[must_use]
    pub fn with_progress_listener(
        mut self,
        listener: impl Fn(&Plan, EngineProgress<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.progress_listener = ProgressListener(Some(Arc::new(listener)));
        self
    }

    pub(crate) fn report_progress(&self, plan: &Plan, progress: EngineProgress<'_>) {
        if let Some(listener) = &self.progress_listener.0 {
            listener(plan, progress);
        }
    }
}
