//! Planwright's engine: load, decide, commit.
//!
//! [`Lifecycle`] offers every operation on a plan, on any store. It caches no plan, action or rule:
//! each operation decides on rows read inside the transaction that commits it, so nothing is stale.
//! There is one write path, `submit.rs`.
//!
//! Deliberately absent: SQL, printing, the environment, and any `if` about states that the `plan`
//! crate can answer.

// A new state, event or command must be a compile error wherever it is matched.
#![deny(clippy::wildcard_enum_match_arm)]

mod actions;
mod batch;
mod budget;
mod call;
mod claim;
mod claims;
mod diagnosis;
mod engine_progress;
mod error;
mod event_tail;
mod events;
mod execution_context;
mod handle;
mod history;
mod id_generator;
mod judge;
mod lease_keeper;
mod lease_watch;
mod leases;
mod local_host;
mod meter;
mod operations;
mod perform;
mod permissions;
mod projects;
mod reading;
mod results;
mod reviews;
mod rules;
mod submit;
mod transcript_stream;
mod work;

pub use actions::Actions;
pub use batch::NextPhase;
pub use budget::Budgets;
pub use call::Call;
pub use claim::Claim;
pub use claims::Claims;
pub use diagnosis::{ClaimObstacle, GateStatus, PlanDiagnosis};
pub use engine_progress::EngineProgress;
pub use error::{LifecycleError, RuleProblem};
pub use events::{CommitWatcher, EventStream};
pub use execution_context::{ChangesetHandle, ExecutionContext};
pub use handle::HandleError;
pub use history::PlanHistory;
pub use judge::{Gates, RuleCheckConfig, check_rule, default_gates, unmatched_globs};
pub use lease_watch::LeaseWatch;
pub use leases::Leases;
pub use local_host::LocalHost;
pub use operations::{OperationOutcome, UseRequest};
pub use perform::{
    CleanupReport, CrashRemnant, EnteredSandbox, Landing, LandingOutcome, LandingStep, OpenSandbox,
    PartSelection, PickMode, PickOutcome, PlanSandboxes, RescuedWork, ResourceChanges,
    SubmitExceptions, UndoPlan, whole_result_of,
};
pub use projects::{ForceRemoval, Projects};
pub use results::{NumberedResult, ResultSource, result_of_event};
pub use rules::Rules;
pub use sandbox::{ContentKind, FileChange, FileVersions, HunkPart, LineRegion};
pub use transcript_stream::{TranscriptStart, TranscriptStream};
pub use work::{
    ActorSet, DEFAULT_LEASE, DriveOutcome, DriveProgress, PlanDriver, Worker, WorkerStats,
};

use std::sync::Arc;

use id_generator::IdGenerator;
use plan::ledger::GlobalBudget;
use store::{Clock, Store};

/// Every operation on plans, on one store. Cheap to clone; share it between threads.
#[derive(Clone)]
pub struct Lifecycle {
    store: Arc<dyn Store>,
    ids: IdGenerator,
    local_host: Option<Arc<LocalHost>>,
    rule_checks: RuleCheckConfig,
    progress_listener: engine_progress::ProgressListener,
    budget: GlobalBudget,
    event_tail: Arc<event_tail::EventTail>,
}

impl Lifecycle {
    /// Creates an engine that owns its store.
    pub fn open(store: impl Store + 'static) -> Self {
        Self::on(Arc::new(store))
    }

    /// Creates an engine on a shared store.
    pub fn on(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            ids: IdGenerator::from_system(),
            local_host: None,
            rule_checks: RuleCheckConfig::default(),
            progress_listener: engine_progress::ProgressListener::default(),
            budget: GlobalBudget::default(),
            event_tail: Arc::default(),
        }
    }

    /// Generates ids from this clock and these random numbers, for reproducible tests.
    #[must_use]
    pub fn with_ids(
        mut self,
        clock: Clock,
        random: impl Fn() -> u128 + Send + Sync + 'static,
    ) -> Self {
        self.ids = IdGenerator::new(clock, random);
        self
    }

    /// The underlying store, for maintenance such as migration and backup.
    pub fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }
}
