//! Integration tests: definitions, streams, and scripts that act as agents.

#![allow(
    missing_docs,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "this is a test: it starts programs of its own, and fails bluntly"
)]

mod acp_agents;
mod agents;
mod definitions;
mod host_environment;
mod hostile;
mod people;
mod permission_questions;
mod prompts;
mod run_tools;
mod sample_assignments;
// Included as a file: its crate depends on databases.
mod actor_test_env;
#[path = "../../../testkit/src/script.rs"]
mod script;
mod streams;
