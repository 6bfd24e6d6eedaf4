//! Planwright: a transactional plan engine for AI agents.
//!
//! An action used on a goal becomes a plan that moves through strategize, execute and apply. Any
//! number of processes, threads and machines share the same plans; none sees stale state, takes a
//! step twice or leaves a plan half moved.
//!
//! To embed the engine, start from [`Lifecycle`]:
//!
//! ```
//! use planwright::{Call, Caller, Lifecycle, MemoryStore, Span, UseRequest};
//!
//! # fn main() -> Result<(), planwright::Error> {
//! let lifecycle = Lifecycle::open(MemoryStore::new());
//! let ada = Call::by(Caller::Person("ada".into()));
//! let request = UseRequest {
//!     goal: Some("Tidy the docs".into()),
//!     fallback_actors: Some(planwright::Actors::both("bot".parse().expect("a name"))),
//!     ..UseRequest::default()
//! };
//! let plan = lifecycle.use_action(request, &ada)?.plan;
//! let work = lifecycle.start_strategize(plan.id, "worker-1", Span::seconds(30), &ada)?;
//! let done = work.complete_strategize(Vec::new())?;
//! assert_eq!(done.plan.stage.to_string(), "strategize/complete");
//! # Ok(())
//! # }
//! ```
//!
//! Whoever works on plans is an [`Actor`], and a [`Worker`] has them work on whatever is due:
//!
//! ```
//! use planwright::{Actor, Assignment, Call, Caller, Lifecycle, MemoryStore, Outcome, Report};
//! use planwright::{Stop, UseRequest, Worker, Workplace};
//!
//! struct MyBot;
//!
//! impl Actor for MyBot {
//!     fn work(&self, assignment: &Assignment, _: &Workplace<'_>) -> Report {
//!         Report {
//!             summary: Some(format!("Looked into: {}", assignment.goal)),
//!             ..Report::of(Outcome::Done)
//!         }
//!     }
//! }
//!
//! # fn main() -> Result<(), planwright::Error> {
//! let lifecycle = Lifecycle::open(MemoryStore::new());
//! let request = UseRequest {
//!     goal: Some("Count the apples".into()),
//!     fallback_actors: Some(planwright::Actors::both("bot".parse().expect("a name"))),
//!     ..UseRequest::default()
//! };
//! let plan = lifecycle.use_action(request, &Call::by(Caller::Person("ada".into())))?.plan;
//! let shutdown = Stop::default();
//! // `run` would go on until somebody asks `shutdown` for it.
//! Worker::new(&lifecycle).actor("bot", MyBot).drain(&shutdown)?;
//! let done = lifecycle.get_plan(plan.id)?.plan;
//! assert_eq!(done.stage.to_string(), "apply/applied");
//! assert_eq!(done.result.and_then(|result| result.report).expect("a report").as_str(),
//!     "Looked into: Count the apples");
//! # Ok(())
//! # }
//! ```
//!
//! The rest of this crate is the command line: [`cli`] is what `main` runs.

mod actions;
pub mod cli;
mod commands;
mod crew;
mod error;
mod exit;
mod faults;
mod here;
mod home;
mod host;
mod in_force;
mod limits;
mod nearest;
mod notify;
mod reading;
mod settings;
mod signals;
mod typed;
mod ui;
mod wire;
mod wishes;
pub mod yaml;

pub use actors::{Actor, Assignment, Outcome, Progress, Report, Stop, Usage, Workplace};
pub use lifecycle::{
    Call, ChangesetHandle, Claim, Crew, Done, Error, Events, ExecutionContext, Lifecycle, Tally,
    UseRequest, WentOn, Worker,
};
pub use plan::{
    self, Actors, Caller, Plan, PlanId, ReconciliationBlocked, Refusal, Span, Timestamp,
};
pub use store::{self, Cursor, MemoryStore, PlanFilter, Store};

/// The engine on the store at an address as `--store` takes it: `sqlite:PATH` or `postgres://…`.
/// Opening it writes nothing, and fails only if the address is none.
pub fn open(address: &str) -> Result<Lifecycle, store::StoreError> {
    let place = settings::StorePlace::parse(address);
    place
        .and_then(|place| cli::open(&place))
        .map_err(|error| store::StoreError::Unusable {
            place: "The address".to_owned(),
            why: error.message,
        })
}
