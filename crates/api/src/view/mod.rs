//! Stable views, independent of the engine's own types. Their serialized form is what programs see.

mod action;
mod argument;
mod plan;
mod project;
mod rule;
mod sandbox;

pub use action::{ActionArgumentView, ActionRuleView, ActionView};
pub use argument::ArgumentView;
pub use plan::{
    ActorsView, ChangesetView, EntryView, LeaseView, OriginView, PlanErrorView, PlanSummary,
    PlanView, QuestionView, ResourceUseView, TimestampsView, UsageView, VerdictView, WaiverView,
};
pub use project::{ProjectView, ResourceView};
pub use rule::RuleView;
pub use sandbox::SandboxView;
