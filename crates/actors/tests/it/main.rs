//! The actors from outside: definitions, streams, and real programs that play agents.

#![allow(
    missing_docs,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "this is a test: it starts programs of its own, and fails bluntly"
)]

mod agents;
mod definitions;
mod hostile;
mod people;
mod prompts;
mod sample_assignments;
// Shared as a file: the crate it lives in brings databases along.
mod actor_test_env;
#[path = "../../../testkit/src/script.rs"]
mod script;
mod streams;
