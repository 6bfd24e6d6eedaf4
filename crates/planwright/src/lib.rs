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
//! The rest of this crate is the command line: [`cli`] is what `main` runs.

pub mod cli;
mod commands;
mod crew;
mod error;
mod exit;
mod faults;
mod home;
mod host;
mod settings;
mod signals;
mod typed;
mod ui;
mod wire;
mod wishes;
pub mod yaml;

pub use lifecycle::{
    Call, ChangesetHandle, Claim, Done, Error, Events, ExecutionContext, Lifecycle, UseRequest,
    WentOn,
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
