//! What Planwright's own tests stand on: real databases, pinned ids and time, faults on demand, and
//! somebody who submits commands. Dev only; nothing of the product depends on it.
//!
//! Deliberately absent: stand-ins for anything of ours. Tests run on the real stores.

#![allow(
    clippy::unwrap_used,
    reason = "a test whose set-up fails has failed, and the panic says where"
)]

pub mod client;
pub mod clock;
pub mod cluster;
pub mod databases;
pub mod dump;
pub mod faults;
pub mod ids;
pub mod program;
pub mod proxy;
pub mod samples;
pub mod script;
pub mod terminal;

pub use client::Client;
pub use clock::TestClock;
pub use cluster::Cluster;
pub use databases::{PostgresDatabase, SqliteFile};
pub use dump::Dump;
pub use faults::FaultSwitch;
pub use ids::Ids;
pub use program::{Program, Run, Running, Said};
pub use proxy::CuttingProxy;
pub use script::write_program;
pub use terminal::Terminal;
