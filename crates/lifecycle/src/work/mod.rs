//! Runs actors on plans. A [`PlanDriver`] advances one plan until it needs a person; a [`Worker`] advances
//! all due plans, several at once. Both use only the public operations.

mod actor_set;
mod assign;
mod begin;
mod decision_recorder;
mod drive;
mod pick;
mod run;
mod transcript_recorder;
mod worker;

pub use actor_set::ActorSet;
pub use drive::{DriveOutcome, DriveProgress, PlanDriver};
pub use worker::{DEFAULT_LEASE, Worker, WorkerStats};
