//! Generates ids. The only place in the engine that uses randomness.

use std::sync::Arc;

use plan::{ChangesetId, CommandId, PlanId};
use store::Clock;

/// Generates ids from a clock and a source of randomness. Tests replace both.
#[derive(Clone)]
pub(crate) struct IdGenerator {
    clock: Clock,
    random: Arc<dyn Fn() -> u128 + Send + Sync>,
}

impl IdGenerator {
    pub fn new(clock: Clock, random: impl Fn() -> u128 + Send + Sync + 'static) -> Self {
        Self {
            clock,
            random: Arc::new(random),
        }
    }

    pub fn from_system() -> Self {
        Self::new(Clock::default(), || {
            let mut bytes = [0; 16];
            // Without randomness two machines would generate the same ids, so there is no fallback.
            getrandom::fill(&mut bytes).expect("the operating system provides no random numbers");
            u128::from_be_bytes(bytes)
        })
    }

    pub fn new_plan_id(&self) -> PlanId {
        PlanId::from_parts(self.clock.now().as_milliseconds(), (self.random)())
    }

    pub fn new_changeset_id(&self) -> ChangesetId {
        ChangesetId::from_parts(self.clock.now().as_milliseconds(), (self.random)())
    }

    pub fn new_command_id(&self) -> CommandId {
        CommandId::from_parts(self.clock.now().as_milliseconds(), (self.random)())
    }
}
