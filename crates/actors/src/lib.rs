//! Planwright's actors: whoever does the work of a plan. An [`Assignment`] goes in, a [`Report`] comes
//! out.
//!
//! An actor sees neither the store nor the plan: this crate cannot reach them. What it says is taken as
//! a claim; what it did is read from its sandbox by whoever asked for it.

mod assignment;
mod check;
mod command;
mod excerpt;
mod host_env;
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
use plan::ledger::MeteringLevel;
use sandbox::Supervisor;

pub use assignment::{
    Assignment, AssignmentLimits, EarlierSession, Finding, RuleTold, SandboxTold,
};
pub use check::{ActorDefinitionError, check_definition};
pub use command::{CommandActor, reachable_command_paths};
pub use host_env::HostEnv;
pub use human::HumanActor;
pub use preset::{all_presets, find_preset};
pub use program::find_installed_program;
pub use prompt::{build_prompt, build_resume_prompt};
pub use report::{Report, ReportOutcome, Usage};
pub use workplace::{RunProgress, Stop, Workplace};

/// The actor that a definition describes.
pub fn make_actor(
    definition: &ActorDefinition,
    host_env: &HostEnv,
    supervisor: &Supervisor,
) -> Arc<dyn Actor> {
    match &definition.kind {
        ActorKind::Command(line) => Arc::new(CommandActor::new(
            (**line).clone(),
            host_env.clone(),
            supervisor.clone(),
        )),
        ActorKind::Human { timeout } => Arc::new(HumanActor { timeout: *timeout }),
    }
}

/// What the actor that a definition describes tells of its use.
pub fn metering(definition: &ActorDefinition) -> MeteringLevel {
    match &definition.kind {
        ActorKind::Command(line) => stream::metering_for_output(line.output),
        ActorKind::Human { .. } => MeteringLevel::Time,
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
    fn metering(&self) -> MeteringLevel {
        MeteringLevel::Time
    }

    /// Does it do anything in strategize unless a strategy was asked for?
    fn strategizes(&self) -> bool {
        false
    }
}
