//! Support for Planwright's own tests: real databases, fixed ids and time, fault injection, and a
//! client that submits commands. The product does not depend on it.
//!
//! Deliberately absent: mocks of our own code. Tests run on the real stores.

#![allow(clippy::unwrap_used, reason = "a test whose setup fails may panic")]

pub mod browser;
pub mod client;
pub mod clock;
pub mod cluster;
pub mod databases;
pub mod dump;
pub mod fake_model;
pub mod faults;
pub mod http;
pub mod ids;
pub mod line_client;
pub mod pipes;
pub mod plan_editor;
pub mod program;
pub mod proxy;
pub mod samples;
pub mod script;
pub mod stage_samples;
pub mod terminal;

pub use browser::TestBrowser;
pub use client::TestClient;
pub use clock::TestClock;
pub use cluster::PostgresCluster;
pub use databases::{PostgresDatabase, SqliteFile};
pub use dump::StoreDump;
pub use fake_model::FakeModel;
pub use faults::FaultSwitch;
pub use http::{EventReader, HttpAnswer, HttpClient, SentEvent};
pub use ids::TestIds;
pub use line_client::LineClient;
pub use pipes::PipedProcess;
pub use plan_editor::edit_plan;
pub use program::{TestProcess, TestProgram, TestRun, TestRunOutput};
pub use proxy::CuttingProxy;
pub use script::write_program;
pub use stage_samples::{SampleTerms, StageSample};
pub use terminal::{TerminalSize, TestTerminal};
