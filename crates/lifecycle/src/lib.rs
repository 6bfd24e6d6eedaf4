//! Planwright's engine: load, decide, commit.
//!
//! [`Lifecycle`] offers the operations of a plan's life on any store. It holds no plan, no action
//! and no rule: each operation decides on rows read inside the transaction that commits it, so
//! nothing here can be stale. There is one write path, `submit.rs`.
//!
//! Deliberately absent: SQL, printing, the environment, and any `if` about states that the `plan`
//! crate could answer.

mod batch;
mod call;
mod claim;
mod engine_progress;
mod error;
mod events;
mod execution_context;
mod handle;
mod id_generator;
mod judge;
mod lease_watch;
mod local_host;
mod means;
mod meter;
mod operations;
mod perform;
mod projects;
mod reading;
mod submit;
mod why;
mod work;

pub use batch::WentOn;
pub use call::Call;
pub use claim::Claim;
pub use engine_progress::EngineProgress;
pub use error::{LifecycleError, RuleProblem};
pub use events::EventStream;
pub use execution_context::{ChangesetHandle, ExecutionContext};
pub use handle::HandleError;
pub use judge::{RuleCheckConfig, check_rule, default_gates, unmatched_globs};
pub use lease_watch::LeaseWatch;
pub use local_host::LocalHost;
pub use operations::{OperationOutcome, UseRequest};
pub use perform::{
    CleanupReport, CrashRemnant, EnteredSandbox, LandingOutcome, LandingStep, OpenSandbox,
    RescuedWork, ResourceChanges, SubmitExceptions, UndoPlan,
};
pub use projects::ForceRemoval;
pub use submit::{CommandTarget, reads_for};
pub use why::{ClaimObstacle, PlanDiagnosis};
pub use work::{
    ActorSet, DEFAULT_LEASE, DriveOutcome, DriveProgress, PlanDriver, Worker, WorkerStats,
};

use std::sync::Arc;

use id_generator::IdGenerator;
use plan::ledger::GlobalBudget;
use store::{Clock, Store};

/// The operations of a plan's life, on one store. Cheap to clone; share it between threads.
#[derive(Clone)]
pub struct Lifecycle {
    store: Arc<dyn Store>,
    ids: IdGenerator,
    local_host: Option<Arc<LocalHost>>,
    rule_checks: RuleCheckConfig,
    progress_listener: engine_progress::ProgressListener,
    budget: GlobalBudget,
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
            ids: IdGenerator::from_system(),
            local_host: None,
            rule_checks: RuleCheckConfig::default(),
            progress_listener: engine_progress::ProgressListener::default(),
            budget: GlobalBudget::default(),
        }
    }

    /// With ids from this clock and these random numbers, for tests that want the same each time.
    #[must_use]
    pub fn with_ids(
        mut self,
        clock: Clock,
        random: impl Fn() -> u128 + Send + Sync + 'static,
    ) -> Self {
        self.ids = IdGenerator::new(clock, random);
        self
    }

    /// The store underneath, for upkeep.
    pub fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }
}
