//! Tests that run on all stores.

// The model checker's locks work only under its scheduler.
#![cfg(not(feature = "shuttle"))]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

// The name other crates use.
extern crate planwright_store as store;

mod conformance;
mod lost_answers;
mod read_sets;
mod store_fixture;
