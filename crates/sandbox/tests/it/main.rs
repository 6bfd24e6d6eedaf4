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
mod hanging_git;
mod hunk_picks;
mod landing;
mod model;
mod partial_landing;
mod preparation;
mod presence;
mod random_schedules;
mod sandboxes;
mod tree_pipes;
mod unusual_repositories;
// Included as a file: its crate depends on databases.
mod fixture;
mod process_fixture;
#[path = "../../../testkit/src/script.rs"]
mod script;
mod supervise;
mod vaults;
