//! The SQLite store from outside: real files, real threads, real processes that are killed.

// The locks of a model checker work only under its scheduler.
#![cfg(not(feature = "shuttle"))]
#![allow(
    missing_docs,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "this is a test: it starts processes, tells them what to do, and fails bluntly"
)]

mod child;
mod crashes;
mod files;
mod odd;
mod processes;
mod reading;
mod support;
mod tailing;
mod threads;
mod wal;
