//! Tests of the engine on real stores, repositories and threads.

// The model checker's locks work only under its scheduler.
#![cfg(not(feature = "shuttle"))]
#![allow(
    clippy::unwrap_used,
    reason = "a test whose set-up fails has failed, and the panic says where"
)]

mod batches;
mod budgets;
mod claims;
mod embedding;
mod judging;
mod keys;
mod landing;
mod projects;
mod takeover;
mod transcripts;
mod workers;
