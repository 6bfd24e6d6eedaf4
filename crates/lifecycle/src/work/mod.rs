//! Work: taking plans further with actors. A [`Drive`] takes one plan as far as it goes; a [`Worker`]
//! takes whatever is due, many at once. Both do the same, through the same operations as everybody else.

mod assign;
mod begin;
mod crew;
mod drive;
mod hold;
mod pick;
mod run;
mod worker;

pub use crew::ActorSet;
pub use drive::{DriveOutcome, DriveProgress, PlanDriver};
pub use worker::{DEFAULT_LEASE, Worker, WorkerStats};
