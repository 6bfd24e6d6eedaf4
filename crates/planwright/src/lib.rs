//! Planwright: a transactional plan engine for AI agents.
//!
//! An action or a goal becomes a plan that moves through strategize, execute and apply. Any
//! number of processes, threads and machines share the same plans; none sees stale state, takes a
//! step twice or leaves a plan half moved.
//!
//! To embed the engine, start from [`Lifecycle`]. Implement [`Actor`] to do the work of a phase; a
//! [`Worker`] claims due plans and runs their actors:
//!
//! ```
//! use std::time::Duration;
//!
//! use planwright::{Actor, Assignment, Call, Caller, Cursor, Lifecycle, MemoryStore, PlanActors};
//! use planwright::{Phase, Report, Span, Stop, UseRequest, Worker, Workplace};
//!
//! struct MyBot;
//!
//! impl Actor for MyBot {
//!     fn work(&self, assignment: &Assignment, _: &Workplace<'_>) -> Report {
//!         Report::done(format!("Looked into: {}", assignment.goal))
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let lifecycle = Lifecycle::open(MemoryStore::new());
//! let ada = Call::by(Caller::Person("ada".into()));
//! let request = UseRequest {
//!     goal: Some("Count the apples".into()),
//!     fallback_actors: Some(PlanActors::for_both_phases("bot".parse()?)),
//!     ..UseRequest::default()
//! };
//! let plan = lifecycle.use_action(request.clone(), &ada)?.plan;
//!
//! // The worker runs until it is asked to stop. The event stream covers all plans.
//! let shutdown = Stop::default();
//! std::thread::scope(|scope| {
//!     scope.spawn(|| Worker::new(&lifecycle).actor("bot", MyBot).run(&shutdown));
//!     let mut events = lifecycle.events(Cursor::START);
//!     while let Ok(Some(event)) = events.next_within(Duration::from_secs(10)) {
//!         if event.recorded.event.kind() == "landed" {
//!             break;
//!         }
//!     }
//!     shutdown.request();
//! });
//! let result = lifecycle.get_plan(plan.id())?.plan.result().cloned().expect("a result");
//! assert_eq!(result.report.expect("a report").as_str(), "Looked into: Count the apples");
//!
//! // Or do the work yourself: a claim is a value that carries its epoch.
//! lifecycle.use_action(request, &ada)?;
//! let work = lifecycle.claims().claim_next(Phase::Strategize, "me", Span::from_seconds(30), &ada)?;
//! let work = work.expect("a queued plan");
//! let done = work.complete(&Report::done("Count each basket twice"))?;
//! assert_eq!(done.plan.stage().to_string(), "strategize/complete");
//! # Ok(())
//! # }
//! ```
//!
//! The rest of this crate is the command line. `main` calls [`cli::main`].

mod actor_set;
pub mod cli;
mod commands;
mod completion;
mod current_repository;
mod error;
mod exit;
mod faults;
mod file_reader;
mod home;
mod host;
mod invocation;
mod limits;
mod mcp;
mod nested_run;
mod notify;
mod plan_draft;
mod plan_notices;
mod publish;
mod recent_plan;
mod repository_config;
mod server_registry;
mod settings;
mod signals;
mod spelling;
mod step_commands;
mod ui;
mod wire;
pub mod yaml;

pub use actors::{Actor, Assignment, Report, ReportOutcome, RunProgress, Stop, Usage, Workplace};
pub use lifecycle::{
    ActorSet, Call, ChangesetHandle, Claim, EventStream, ExecutionContext, Lifecycle,
    LifecycleError, NextPhase, OperationOutcome, UseRequest, Worker, WorkerStats,
};
pub use plan::{
    self, Caller, GateBlocked, Phase, Plan, PlanActors, PlanId, Refusal, Span, Timestamp,
};
pub use store::{self, Cursor, MemoryStore, PlanFilter, Store};

/// Opens the engine on a store address as `--store` takes it: `sqlite:PATH` or `postgres://…`.
/// Writes nothing and does not connect; fails only if the address is malformed.
pub fn open(address: &str) -> Result<Lifecycle, store::StoreError> {
    let address = settings::StoreAddress::parse(address);
    address
        .and_then(|place| cli::open_lifecycle(&place))
        .map_err(|error| store::StoreError::Unusable {
            place: "The address".to_owned(),
            why: error.message,
        })
}

#[cfg(test)]
mod tests {
    /// The example of docs/embedding.md consists of lines of the doc test above, which is compiled and run.
    #[test]
    fn embedding_page_is_part_of_the_doc_test() {
        let page = include_str!("../../../docs/embedding.md");
        let excerpt = page.split("```rust\n").nth(1).expect("a Rust example");
        let excerpt = excerpt.split("```").next().expect("a closing fence");
        let example: Vec<&str> = include_str!("lib.rs")
            .lines()
            .filter_map(|line| line.strip_prefix("//! "))
            .collect();
        for line in excerpt.lines().filter(|line| !line.is_empty()) {
            assert!(example.contains(&line), "not in the doc test: {line}");
        }
    }
}
