//! Stable views, independent of the engine's own types. Their serialized form is what programs see.

mod action;
mod actor;
mod argument;
mod change;
mod diagnosis;
mod plan;
mod profile;
mod project;
mod result;
mod review;
mod rule;
mod sandbox;
pub(crate) mod schema;
mod summary;

pub use action::{ActionArgumentView, ActionListView, ActionRuleView, ActionView};
pub use actor::{
    AcpVariantView, ActorListView, ActorSummary, ActorView, AddedActorView, MissingNeedView,
    RemovedActorView,
};
pub use argument::ArgumentView;
pub use change::{ChangedPlanView, LandedPlanView, PlanChangeView, ReceiptView};
pub use diagnosis::{
    DiagnosisReason, GateStatusView, HolderStatus, PlanDiagnosisView, RuleFindingOutcome,
    RuleFindingView,
};
pub use plan::{
    ActorsView, ChangesetView, EntryView, LeaseView, OriginView, PermissionView, PlanErrorView,
    PlanView, QuestionView, ResourceUseView, TimestampsView, UsageView, VerdictView, WaiverView,
};
pub use profile::{ProfileListView, ProfileView};
pub use project::{DeletedProjectView, ProjectListView, ProjectView, ResourceView};
pub use result::{
    ChangesView, FileContentKind, FileDiffView, HunkPartName, HunkView, LineEnd, LineKind,
    LineView, PickedPlanView, RegionView, ResultView, shorten_hunk_ids,
};
pub use review::{
    CommentStanding, DraftCommentView, HunkCounts, ReviewView, ReviewedFileView, ReviewedHunkView,
};
pub use rule::{RemovedRuleView, RuleListView, RuleView};
pub use sandbox::{
    FileArchiveView, KeptFilesView, KeptRefView, PlanSandboxesView, RestoredSandboxesView,
    SandboxCleanupView, SandboxListView, SandboxView,
};
pub use summary::{PlanListPage, PlanOverview, PlanSummary, WaitReason, WaitingPlan};
