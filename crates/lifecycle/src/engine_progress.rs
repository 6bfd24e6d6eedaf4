//! What the engine does on the way that a person may have to wait for.

use std::sync::Arc;

use plan::Plan;
use plan::invariant::Rule;

use crate::Lifecycle;

/// Something that takes its time and is no actor's work.
#[derive(Debug, Clone, Copy)]
pub enum EngineProgress<'a> {
    /// A rule is asked.
    CheckingRule(&'a Rule),
    /// The user's command makes a new sandbox ready.
    SettingUpSandbox(&'a str),
    /// This holder lands it, and is waited for.
    FollowingLanding(&'a str),
}

/// Hears of it, if anybody does.
#[derive(Clone, Default)]
pub(crate) struct ProgressListener(Option<Arc<EngineProgressCallback>>);

type EngineProgressCallback = dyn Fn(&Plan, EngineProgress<'_>) + Send + Sync;

impl Lifecycle {
    /// Telling somebody what takes its time, just before it begins.
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
