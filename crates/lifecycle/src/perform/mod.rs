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
pub(crate) use enter::object;
pub use land::{Driven, Stepped, Undone};
pub use look::Looked;
pub use mend::Mendable;
pub use tidy::{Kept, OpenSandbox, Tidied};
