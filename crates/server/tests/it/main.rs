//! The server in this process, on the memory store, with bounds small enough to reach.

#![allow(
    clippy::unwrap_used,
    reason = "a test whose set-up fails has failed, and the panic says where"
)]

mod bounds;
