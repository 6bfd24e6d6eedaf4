//! Tests the SQLite store from outside: real files, threads and killed processes.

// The model checker's locks work only under its scheduler.
#![cfg(not(feature = "shuttle"))]
#![allow(
    missing_docs,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test may start processes, print and panic"
)]

mod child;
mod crashes;
mod edge_cases;
mod files;
mod processes;
mod reading;
mod support;
mod tailing;
mod threads;
mod wal;
