//! The stores, tested from outside.

// The locks of a model checker work only under its scheduler.
#![cfg(not(feature = "shuttle"))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed, and the panic says where"
)]

// Everybody else knows the crate by this name.
extern crate planwright_store as store;

mod bench;
mod conformance;
mod holding;
mod lost_answers;
