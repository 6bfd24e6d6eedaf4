//! Tests of the pure core, through its public face only: real commands in, decisions out.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on stops where it is"
)]

mod captured;
mod changesets;
mod commands;
mod corners;
mod design_rows;
mod fits;
mod gates;
mod golden;
mod in_a_row;
mod ledger;
mod making;
mod model;
mod project;
mod properties;
mod sound;
mod spot;
mod table;
mod walk;
mod words;
mod world;
