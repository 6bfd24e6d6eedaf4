//! Looks for a history that Planwright must never produce.
//!
//! Players do random operations on shared plans and write down every call and every answer. Chaos kills,
//! pauses and disconnects them. Afterwards [`check`] compares what they were told with what the store
//! holds. Played by processes on a real database ([`arena`]) it is a proof by trial; played in one thread
//! on virtual time ([`simulation`]) it tries thousands of schedules a second, each repeatable by its seed.

pub mod arena;
#[cfg(feature = "broken")]
pub mod broken;
pub mod check;
pub mod client;
pub mod gating;
pub mod history;
pub mod landing;
pub mod simulation;
pub mod trial;
pub mod working;
pub mod wrapped;

mod binary;
mod branch;
mod chaos;
mod chronicle;
mod clearing;
mod crowd;
mod drain;
mod ground;
mod library;
mod operation;
mod player;

pub use operation::{Answer, Call, CallId, Operation, Refused, Seen};
