//! Real git, real files, real crashes.

#![allow(
    missing_docs,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "this is a test: it starts git and processes of its own, and fails bluntly"
)]

mod agent_refs;
mod confinement;
mod crashes;
mod hanging;
mod landing;
mod model;
mod odd;
mod parts;
mod presence;
mod ready;
mod sandboxes;
mod schedules;
// Shared as a file: the crate it lives in brings databases along.
#[path = "../../../testkit/src/script.rs"]
mod script;
mod stage;
mod supervise;
mod vaults;
mod yard;
