//! Tests the SQLite store from outside: real files, threads and killed processes.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test may start processes and print"
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
