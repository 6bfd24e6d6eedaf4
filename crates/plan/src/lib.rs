//! The pure core of Planwright: what a plan is, and which changes to it are allowed.
//!
//! [`decide()`] takes a [`Command`] and the [`DecisionFacts`] read for it, and returns a
//! [`Decision`] (events, rows and a receipt) or a [`Refusal`]. [`evolve()`] applies one event to a
//! plan. No other code changes a plan: live work, replay and time travel share it.
//!
//! This crate does no I/O and has no async code, clocks or randomness. `now` and new ids are
//! arguments. A decision can therefore be repeated on fresher facts, and the same input always
//! gives the same output.

// A new state, event or command must be a compile error wherever it is matched.
#![deny(clippy::wildcard_enum_match_arm)]

pub mod action;
pub mod actor;
pub mod argument;
pub mod authority;
pub mod base;
pub mod caller;
pub mod changeset;
pub mod command;
pub mod completion;
pub mod decide;
pub mod decision;
pub mod digest;
pub mod event;
pub mod evolve;
pub mod facts;
pub mod guard;
pub mod hunk;
pub mod id;
pub mod invariant;
pub mod judgement;
pub mod landing_options;
pub mod ledger;
pub mod money;
pub mod name;
pub mod permission;
pub mod permission_question;
pub mod phase;
#[allow(
    clippy::module_inception,
    reason = "the crate is about plans; this is the plan itself"
)]
pub mod plan;
pub mod profile;
pub mod project;
pub mod reads;
pub mod refusal;
pub mod repository_policy;
pub mod review;
pub mod stage;
pub mod takeover;
pub mod text;
pub mod time;
pub mod transcript;

pub use action::{Action, ActionState, PlanActors};
pub use actor::ActorDefinition;
pub use base::{ResourceCommit, SandboxPreparation};
pub use caller::Caller;
pub use command::{Command, Verb};
pub use decide::{DecisionRequest, decide};
pub use digest::Digest;
pub use event::{Event, RecordedEvent};
pub use evolve::evolve;
pub use facts::{CommandReceipt, Decision, DecisionFacts, ReceiptOutcome, RowWrite};
pub use hunk::HunkId;
pub use id::{ChangesetId, CommandId, Epoch, PlanId, PlanVersion};
pub use landing_options::LandingOptions;
pub use money::Money;
pub use name::QualifiedName;
pub use phase::Phase;
pub use plan::{Plan, PlanState, PlanTerms};
pub use profile::Profile;
pub use project::{PlanResource, Project};
pub use refusal::{GateBlocked, Refusal};
pub use repository_policy::RepositoryPolicy;
pub use stage::PlanStage;
pub use text::ErasableText;
pub use time::{Span, Timestamp};
