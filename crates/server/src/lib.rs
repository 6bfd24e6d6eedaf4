//! Planwright's HTTP API, live events and web page, for one person on one machine.
//!
//! The server is one more caller of the engine: it renders `api` and decides nothing. Killing it loses nothing, and
//! two servers on one store do not disturb each other. Agents run web servers and browsers on the same machine, so
//! every request is checked before anything else happens (`guard.rs`).
//!
//! Deliberately absent: SQL, git, cookies, CORS, TLS, users and roles, and any `if` about the state of a plan.

// A new state, event or command must be a compile error wherever it is matched.
#![deny(clippy::wildcard_enum_match_arm)]

mod assets;
mod change_sizes;
mod connections;
mod engine_access;
mod event_feed;
mod event_position;
mod failure;
mod guard;
mod limits;
mod metrics;
mod pages;
mod problem;
mod request_log;
mod routes;
mod session;
mod state;

pub use connections::{PlanServer, ServeError, ShutdownSignal};
pub use failure::{
    DescribeFailure, EngineFailure, FailureClass, FailureDescription, ReadPlanConfig,
};
pub use limits::ServerLimits;
pub use routes::openapi_document;
pub use session::{EntryCode, SessionStore};
pub use state::ServerConfig;
