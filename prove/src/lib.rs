//! Chaos tests: search for a history that Planwright must never produce.
//!
//! Clients run random operations on shared plans and record every call and every answer, while the harness kills,
//! pauses and disconnects them. Afterwards [`check`] compares the recorded answers with the contents of the store.
//! [`call_trial`] uses real processes and a real database. [`simulation`] runs the same clients in one thread on
//! virtual time: thousands of schedules per second, each reproducible from its seed.

pub mod call_trial;
pub mod check;
pub mod client_process;
pub mod gate_trial;
pub mod history;
pub mod hooked_store;
pub mod landing_trial;
pub mod simulation;
#[cfg(feature = "broken")]
pub mod store_bugs;
pub mod trial;
pub mod worker_trial;

mod call_generator;
mod client_group;
mod drain_plans;
mod library_client;
mod operation;
mod program_client;
mod repository_check;
mod trial_env;
mod trial_logs;
mod trial_processes;
mod worker_group;

pub use operation::{CallAnswer, CallId, CallRefusal, ClientCall, ObservedPlan, Operation};
