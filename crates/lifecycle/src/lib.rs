//! Planwright's engine: load, decide, commit.
//!
//! [`Lifecycle`] offers the operations of a plan's life on any store. It holds no plan, no action
//! and no rule: each operation decides on rows read inside the transaction that commits it, so
//! nothing here can be stale. There is one write path, `submit.rs`.
//!
//! Deliberately absent: SQL, printing, the environment, and any `if` about states that the `plan`
//! crate could answer.

mod aside;
mod call;
mod claim;
mod context;
mod error;
mod events;
mod handle;
mod hands;
mod ids;
mod in_a_row;
mod judge;
mod lease_watch;
mod means;
mod meter;
mod operations;
mod perform;
mod projects;
mod reading;
mod submit;
mod why;
mod work;

pub use aside::Aside;
pub use call::Call;
pub use claim::Claim;
pub use context::{ChangesetHandle, ExecutionContext};
pub use error::{Error, ExprProblem};
pub use events::Events;
pub use handle::HandleError;
pub use hands::Hands;
pub use in_a_row::WentOn;
pub use judge::{Inspectors, check_rule, default_gates, unmatched_globs};
pub use lease_watch::LeaseWatch;
pub use operations::{Done, UseRequest};
pub use perform::{
    Driven, EnteredSandbox, Kept, Looked, Mendable, OpenSandbox, Stepped, SubmitExceptions, Tidied,
    Undone,
};
pub use projects::Force;
pub use submit::{Subject, reads_for};
pub use why::{Obstacle, Why};
pub use work::{Crew, Drive, Happening, LEASE, Rested, Tally, Worker};

use std::sync::Arc;

use ids::Ids;
use plan::ledger::Budget;
use store::{Clock, Store};

/// The operations of a plan's life, on one store. Cheap to clone; share it between threads.
#[derive(Clone)]
pub struct Lifecycle {
    store: Arc<dyn Store>,
    ids: Ids,
    hands: Option<Arc<Hands>>,
    inspectors: Inspectors,
    listener: aside::Listener,
    budget: Budget,
}

impl Lifecycle {
    /// The engine on this store.
    pub fn open(store: impl Store + 'static) -> Self {
        Self::on(Arc::new(store))
    }

    /// The engine on a store that is shared with others.
    pub fn on(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            ids: Ids::system(),
            hands: None,
            inspectors: Inspectors::default(),
            listener: aside::Listener::default(),
            budget: Budget::default(),
        }
    }

    /// With ids from this clock and these random numbers, for tests that want the same each time.
    #[must_use]
    pub fn with_ids(
        mut self,
        clock: Clock,
        random: impl Fn() -> u128 + Send + Sync + 'static,
    ) -> Self {
        self.ids = Ids::new(clock, random);
        self
    }

    /// The store underneath, for upkeep.
    pub fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }
}
