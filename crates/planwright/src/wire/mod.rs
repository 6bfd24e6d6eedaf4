//! The JSON output: stable views, independent of the engine's own types.

mod action;
mod envelope;
mod event;
mod plan;
mod project;
mod rule;
mod sandbox;

pub use action::ActionView;
pub use envelope::{CommandStatus, CommandTiming, JsonEnvelope, UserMessage};
pub use event::{DecisionView, EventView};
pub use plan::{ChangesetView, PlanSummary, PlanView, UsageView};
pub use project::ProjectView;
pub use rule::RuleView;
pub use sandbox::SandboxView;
