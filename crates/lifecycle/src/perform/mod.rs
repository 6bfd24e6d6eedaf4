//! Effects: what is done in the world after a decision was committed. Each may be repeated, and
//! each file says why that is safe.

mod capture;
mod enter;
mod keep;
mod land;
mod look;
mod mend;
mod tidy;

pub use capture::SubmitExceptions;
pub use enter::EnteredSandbox;
pub(crate) use enter::parse_object_id;
pub use land::{LandingOutcome, LandingStep, UndoPlan};
pub use look::ResourceChanges;
pub use mend::CrashRemnant;
pub use tidy::{CleanupReport, OpenSandbox, RescuedWork};
