//! The JSON output: the envelope around the views of `api`, and the views that only this program has.

mod envelope;
mod event;

pub use envelope::{CommandStatus, CommandTiming, JsonEnvelope, UserMessage};
pub use event::{DecisionView, EventView};
