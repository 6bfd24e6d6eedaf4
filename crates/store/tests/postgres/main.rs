//! The PostgreSQL store on a real server. What all stores share is tested elsewhere; here is what
//! only this one can get wrong: locks, lost answers, cursors, connections, the schema.

// The locks of a model checker work only under its scheduler.
#![cfg(not(feature = "shuttle"))]
#![allow(
    clippy::unwrap_used,
    reason = "a failing test may say so as bluntly as it likes"
)]

// As every other crate calls it.
extern crate planwright_store as store;

mod collide;
mod connect;
mod database;
mod decisions;
mod fault;
mod lost;
mod notify;
mod proxy;
mod read;
mod restart;
mod schema;
mod tail;
mod troubles;
