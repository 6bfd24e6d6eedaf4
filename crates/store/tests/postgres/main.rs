//! Tests the PostgreSQL store on a real server. Covers what is specific to it: locks, lost
//! responses, cursors, connections, the schema. The `it` tests cover what all stores share.

// The model checker's locks work only under its scheduler.
#![cfg(not(feature = "shuttle"))]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

// The name other crates use.
extern crate planwright_store as store;

mod concurrency;
mod connect;
mod database;
mod decisions;
mod fault;
mod lost_connections;
mod notify;
mod proxy;
mod read;
mod restart;
mod schema;
mod server_errors;
mod tail;
