//! Planwright's actors: whoever does the work of a plan. An [`Assignment`] goes in, a [`Report`] comes
//! out.
//!
//! An actor sees neither the store nor the plan: this crate cannot reach them. What it says is taken as
//! a claim; what it did is read from its sandbox by whoever asked for it.

mod ambient;
mod assignment;
mod check;
mod command;
mod excerpt;
mod human;
mod preset;
mod program;
mod prompt;
mod report;
mod report_file;
mod secrets;
pub mod stream;
mod workplace;

use std::sync::Arc;

use plan::ActorDefinition;
use plan::actor::ActorKind;
use plan::ledger::Metering;
use sandbox::Supervisor;

pub use ambient::Ambient;
pub use assignment::{Assignment, Earlier, Finding, LimitsTold, RuleTold, SandboxTold};
pub use check::{ActorProblem, check};
pub use command::{CommandActor, command_reach};
pub use human::HumanActor;
pub use preset::{preset, presets};
pub use program::installed;
pub use prompt::{prompt, prompt_to_resume};
pub use report::{Outcome, Report, Usage};
pub use workplace::{Progress, Stop, Workplace};

/// The actor that a definition describes.
pub fn actor(
    definition: &ActorDefinition,
    ambient: &Ambient,
    supervisor: &Supervisor,
) -> Arc<dyn Actor> {
    match &definition.kind {
        ActorKind::Command(line) => Arc::new(CommandActor::new(
            (**line).clone(),
            ambient.clone(),
            supervisor.clone(),
        )),
        ActorKind::Human { timeout } => Arc::new(HumanActor { timeout: *timeout }),
    }
}

/// What the actor that a definition describes tells of its use.
pub fn metering(definition: &ActorDefinition) -> Metering {
    match &definition.kind {
        ActorKind::Command(line) => stream::metering(line.output),
        ActorKind::Human { .. } => Metering::Time,
    }
}

/// Whoever can do the work of a plan's phase.
///
/// Called once per run, on a thread of its own. A run that is asked to stop returns soon, with
/// [`Outcome::Stopped`]; what it did until then stays in the sandbox.
pub trait Actor: Send + Sync {
    /// Does the work.
    fn work(&self, assignment: &Assignment, workplace: &Workplace<'_>) -> Report;

    /// What it tells of its use while it works; so much is set aside for it and enforced.
    fn metering(&self) -> Metering {
        Metering::Time
    }

    /// Does it do anything in strategize unless a strategy was asked for?
    fn strategizes(&self) -> bool {
        false
    }
}
