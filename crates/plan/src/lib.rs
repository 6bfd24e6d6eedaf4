//! The pure rules of Planwright: what a plan is, and what may happen to it.
//!
//! A [`Command`] and the [`Facts`] it is decided on go into [`decide()`]; out comes a [`Decision`]
//! (events, rows and a receipt) or a [`Refusal`]. [`evolve()`] turns a plan and one event into the
//! next plan, and is the only code that does: live work, replay and time travel share it.
//!
//! Deliberately absent: I/O, async, clocks, randomness. `now` and new ids come in as arguments, so
//! a decision may be made again on fresher facts and is the same for the same input.

pub mod action;
pub mod actor;
pub mod argument;
pub mod base;
pub mod caller;
pub mod changeset;
pub mod command;
pub mod decide;
pub mod decision;
pub mod digest;
pub mod event;
pub mod evolve;
pub mod facts;
pub mod guard;
pub mod how;
pub mod id;
pub mod invariant;
pub mod judgement;
pub mod ledger;
pub mod money;
pub mod name;
pub mod phase;
#[allow(
    clippy::module_inception,
    reason = "the crate is about plans; this is the plan itself"
)]
pub mod plan;
pub mod profile;
pub mod project;
pub mod refusal;
pub mod stage;
pub mod takeover;
pub mod text;
pub mod time;
pub mod verb;
pub mod ways;

pub use action::{Action, ActionState, PlanActors};
pub use actor::ActorDefinition;
pub use base::{ResourceCommit, SandboxPreparation};
pub use caller::Caller;
pub use command::Command;
pub use decide::{DecisionRequest, decide};
pub use digest::Digest;
pub use event::{Event, RecordedEvent};
pub use evolve::evolve;
pub use facts::{CommandReceipt, Decision, DecisionFacts, ReceiptOutcome, RowWrite};
pub use how::LandingOptions;
pub use id::{ChangesetId, CommandId, Epoch, PlanId, PlanVersion};
pub use money::Money;
pub use name::QualifiedName;
pub use phase::Phase;
pub use plan::Plan;
pub use profile::Profile;
pub use project::{PlanResource, Project};
pub use refusal::{GateBlocked, Refusal};
pub use stage::PlanStage;
pub use text::ErasableText;
pub use time::{Span, Timestamp};
pub use verb::Verb;
pub use ways::RepositoryPolicy;
