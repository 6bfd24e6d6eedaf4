//! Effects: work on sandboxes and repositories that follows a commit. Every effect is idempotent; each
//! file states why.

mod capture;
mod cleanup;
mod crash_recovery;
mod enter;
mod land;
mod view_changes;

pub use capture::SubmitExceptions;
pub use cleanup::{CleanupReport, OpenSandbox, RescuedWork};
pub use crash_recovery::CrashRemnant;
pub use enter::EnteredSandbox;
pub(crate) use enter::parse_object_id;
pub use land::{
    Landing, LandingOutcome, LandingStep, PartSelection, PickMode, PickOutcome, UndoPlan,
    whole_result_of,
};
pub use view_changes::ResourceChanges;

use crate::Lifecycle;

/// The sandboxes of plans on this host: making, entering, reading and removing them.
#[derive(Clone, Copy)]
pub struct PlanSandboxes<'a> {
    lifecycle: &'a Lifecycle,
}

impl Lifecycle {
    pub fn sandboxes(&self) -> PlanSandboxes<'_> {
        PlanSandboxes { lifecycle: self }
    }
}
