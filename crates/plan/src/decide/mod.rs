//! Decides commands: takes facts and a request, returns what to commit. Pure, so the store can
//! repeat it on fresher facts after a conflict.
//!
//! One file per family of commands: each command's struct, its `CommandDefinition` and its decision.
//! A decision checks the stage first and passes all other stages to `DecisionDraft::answer_not_applicable`, so that
//! every command has a typed answer in every state.

pub(crate) mod action;
pub(crate) mod advance;
mod available_verbs;
mod batch;
pub(crate) mod changeset;
pub(crate) mod claim;
pub(crate) mod create;
mod draft;
pub(crate) mod gate;
pub(crate) mod halt;
pub(crate) mod land;
pub(crate) mod ledger;
mod next_step;
pub(crate) mod permission;
pub(crate) mod pick;
pub(crate) mod project;
pub(crate) mod review;
pub(crate) mod rework;
pub(crate) mod rule;
mod text;

pub use available_verbs::available_verbs;
pub use batch::decide_batch;
pub use gate::{evaluate_gate, failed_advisory_rules};
pub use next_step::{EngineStep, IdleReason, next_engine_step};
pub use project::ForceRemoval;

use crate::authority::check_authority;
use crate::{Caller, Command, Decision, DecisionFacts, PlanId, PlanVersion, Refusal, Timestamp};
use draft::DecisionDraft;

/// A command, its caller, and the version it requires, if any.
#[derive(Debug, Clone, PartialEq)]
pub struct DecisionRequest {
    pub command: Command,
    /// The existing plan that the command is about, if any.
    pub plan_id: Option<PlanId>,
    pub caller: Caller,
    /// Refuse the command unless the plan is at this version.
    pub if_version: Option<PlanVersion>,
}

/// Decides a request on the facts read for it.
pub fn decide(
    facts: &DecisionFacts,
    request: &DecisionRequest,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    check_authority(&request.command, &request.caller, facts.plan.as_deref())?;
    if let (Some(expected), Some(plan)) = (request.if_version, &facts.plan)
        && plan.version() != expected
    {
        return Err(Refusal::VersionMismatch {
            expected,
            actual: plan.version(),
        });
    }
    let input = DecisionInput {
        facts,
        request,
        now,
    };
    request.command.decide(input)
}

/// What a command is decided on.
#[derive(Clone, Copy)]
pub(crate) struct DecisionInput<'a> {
    pub facts: &'a DecisionFacts,
    pub request: &'a DecisionRequest,
    pub now: Timestamp,
}

impl<'a> DecisionInput<'a> {
    /// Starts a decision about the plan in the facts.
    fn draft(self) -> Result<DecisionDraft<'a>, Refusal> {
        DecisionDraft::for_request(self.facts, self.request, self.now)
    }
}
