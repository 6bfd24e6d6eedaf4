//! Tests of the stores: the conformance suite that all of them pass, then what is specific to each.

// The model checker's locks work only under its scheduler.
#![cfg(not(feature = "shuttle"))]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

// The name other crates use.
extern crate planwright_store as store;

mod conformance;
mod lost_answers;
mod postgres;
mod read_sets;
mod sqlite;
mod store_fixture;
