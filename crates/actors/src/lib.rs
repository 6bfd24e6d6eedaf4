//! Agents that do the work of a plan: an [`Assignment`] goes in, a [`Report`] comes out.
//!
//! An agent sees neither the store nor the plan, and this crate has no access to them. A report is
//! only a claim; the caller reads from the sandbox what was done.

mod acp;
mod assignment;
mod check;
mod command;
mod excerpt;
mod host_env;
mod human;
mod installed_version;
mod preset;
mod program;
mod prompt;
mod readiness;
mod report;
mod report_file;
mod run_tools;
mod secrets;
pub mod stream;
mod workplace;

use std::sync::Arc;

use plan::ActorDefinition;
use plan::actor::ActorKind;
use plan::ledger::MeteringLevel;
use sandbox::Supervisor;

pub use acp::{AcpActor, AcpTimeouts};
pub use assignment::{
    AssignedComment, AssignedRule, AssignedSandbox, Assignment, AssignmentLimits, EarlierSession,
    Finding,
};
pub use check::{ActorDefinitionError, check_definition};
pub use command::{CommandActor, reachable_command_paths};
pub use host_env::HostEnv;
pub use human::HumanActor;
pub use installed_version::{find_installed_version, is_older_version};
pub use plan::transcript::Usage;
pub use preset::{
    all_presets, find_acp_variant, find_preset, find_tested_version, has_preset_strategy,
    is_preset_variant,
};
pub use program::{find_installed_program, find_program};
pub use prompt::{build_prompt, build_resume_prompt};
pub use readiness::{AgentReadiness, MissingNeed, RunProtocol, check_readiness};
pub use report::{Report, ReportOutcome};
pub use run_tools::{MAX_RELAY_LINE_BYTES, RelayConnection, RelayConnectionError, RunToolAnswer};
pub use sandbox::Stop;
pub use workplace::{AskPersonFn, PersonDecision, RecordDecisionFn, RunProgress, Workplace};

/// Creates the actor that a definition describes.
pub fn make_actor(
    definition: &ActorDefinition,
    host_env: &HostEnv,
    supervisor: &Supervisor,
) -> Arc<dyn Actor> {
    match &definition.kind {
        ActorKind::Command(line) => Arc::new(CommandActor::new(
            definition.name.clone(),
            (**line).clone(),
            host_env.clone(),
            supervisor.clone(),
        )),
        ActorKind::Acp(agent) => Arc::new(AcpActor::new(
            definition.name.clone(),
            (**agent).clone(),
            host_env.clone(),
            supervisor.clone(),
        )),
        ActorKind::Human { timeout } => Arc::new(HumanActor { timeout: *timeout }),
    }
}

/// What usage the actor of a definition reports.
pub fn metering(definition: &ActorDefinition) -> MeteringLevel {
    match &definition.kind {
        ActorKind::Command(line) => stream::metering_for_output(line.output),
        ActorKind::Acp(agent) => acp::metering_for_agent(agent),
        ActorKind::Human { .. } => MeteringLevel::Time,
    }
}

/// Does the work of a plan's phase.
///
/// Called once per run, on its own thread. After a stop request, a run returns soon with
/// [`ReportOutcome::Stopped`]; what it did until then stays in the sandbox.
pub trait Actor: Send + Sync {
    fn work(&self, assignment: &Assignment, workplace: &Workplace<'_>) -> Report;

    /// What usage it reports while it works; only these budget limits can be enforced during a run.
    fn metering(&self) -> MeteringLevel {
        MeteringLevel::Time
    }

    /// Does it do anything in strategize, even if no strategy was requested?
    fn strategizes(&self) -> bool {
        false
    }
}
