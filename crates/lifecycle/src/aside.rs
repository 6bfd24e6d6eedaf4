//! What the engine does on the way that a person may have to wait for.

use std::sync::Arc;

use plan::Plan;
use plan::invariant::Rule;

use crate::Lifecycle;

/// Something that takes its time and is no actor's work.
#[derive(Debug, Clone, Copy)]
pub enum Aside<'a> {
    /// A rule is asked.
    Checks(&'a Rule),
    /// The user's command makes a new sandbox ready.
    SetsUp(&'a str),
    /// This holder lands it, and is waited for.
    Follows(&'a str),
}

/// Hears of it, if anybody does.
#[derive(Clone, Default)]
pub(crate) struct Listener(Option<Arc<Hear>>);

type Hear = dyn Fn(&Plan, Aside<'_>) + Send + Sync;

impl Lifecycle {
    /// Telling somebody what takes its time, just before it begins.
    #[must_use]
    pub fn telling(mut self, hear: impl Fn(&Plan, Aside<'_>) + Send + Sync + 'static) -> Self {
        self.listener = Listener(Some(Arc::new(hear)));
        self
    }

    pub(crate) fn tell(&self, plan: &Plan, aside: Aside<'_>) {
        if let Some(hear) = &self.listener.0 {
            hear(plan, aside);
        }
    }
}
