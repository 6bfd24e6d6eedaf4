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

pub use client::TestClient;
pub use clock::TestClock;
pub use cluster::PostgresCluster;
pub use databases::{PostgresDatabase, SqliteFile};
pub use dump::StoreDump;
pub use faults::FaultSwitch;
pub use ids::TestIds;
pub use program::{TestProcess, TestProgram, TestRun, TestRunOutput};
pub use proxy::CuttingProxy;
pub use script::write_program;
pub use terminal::TestTerminal;
