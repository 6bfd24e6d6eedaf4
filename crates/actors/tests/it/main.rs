//! The actors from outside: definitions, streams, and real programs that play agents.

#![allow(
    missing_docs,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "this is a test: it starts programs of its own, and fails bluntly"
)]

mod agents;
mod definitions;
mod given;
mod hostile;
mod people;
mod prompts;
mod streams;
mod yard;
