//! What programs see: the shapes of JSON, apart from how the engine keeps things.

mod action;
mod envelope;
mod event;
mod plan;
mod project;
mod rule;
mod sandbox;

pub use action::ActionView;
pub use envelope::{Envelope, Message, Status, Timing};
pub use event::{DecisionView, EventView};
pub use plan::{ChangesetView, PlanSummary, PlanView, UsedView};
pub use project::ProjectView;
pub use rule::RuleView;
pub use sandbox::SandboxView;
