//! Tests of the pure core through its public API: real commands in, decisions out.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on stops where it is"
)]

mod authority;
mod batch;
mod captured;
mod changesets;
mod commands;
mod completions;
mod design_rows;
mod edge_cases;
mod fits;
mod gates;
mod golden;
mod invariants;
mod ledger;
mod model;
mod parsing;
mod permission_questions;
mod picks;
mod plan_creation;
mod project;
mod properties;
mod random_walk;
mod recorded_decisions;
mod reviews;
mod spot;
mod table;
mod world;
