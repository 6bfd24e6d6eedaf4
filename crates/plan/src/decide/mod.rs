//! Decides commands: takes facts and a request, returns what to commit. Pure, so the store can
//! repeat it on fresher facts after a conflict.
//!
//! One file per group of commands. Each function checks the stage first and passes all other stages
//! to `DecisionDraft::answer_not_applicable`, so that every command has a typed answer in every
//! state.

mod action;
mod advance;
mod available_verbs;
mod batch;
mod changeset;
mod claim;
mod create;
mod draft;
mod gate;
mod halt;
mod land;
mod ledger;
mod next_step;
mod project;
mod rework;
mod rule;
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
        && plan.version != expected
    {
        return Err(Refusal::VersionMismatch {
            expected,
            actual: plan.version,
        });
    }
    let draft = || DecisionDraft::for_request(facts, request, now);
    match &request.command {
        Command::CreateAction(definition) => action::create_action(facts, request, now, definition),
        Command::ArchiveAction(name) => action::archive_action(facts, request, now, name),
        Command::AddRule { scope, draft } => rule::add_rule(facts, request, now, scope, draft),
        Command::RemoveRule { scope, name } => rule::remove_rule(facts, request, now, scope, name),
        Command::CreateProject { name, resources } => {
            project::create_project(facts, request, now, name, resources)
        }
        Command::LinkResource { project, resource } => {
            project::link_resource(facts, request, now, project, resource)
        }
        Command::UnlinkResource {
            project,
            name,
            force,
        } => project::unlink_resource(
            facts,
            request,
            now,
            project,
            name,
            ForceRemoval::from_flag(*force),
        ),
        Command::RelinkResource {
            project,
            name,
            host,
            place,
        } => {
            let moved = project::relinked_resource(name, host, place);
            project::relink_resource(facts, request, now, project, &moved)
        }
        Command::PauseProject(name) => project::pause_project(facts, request, now, name),
        Command::ResumeProject(name) => project::resume_project(facts, request, now, name),
        Command::DeleteProject { name, force } => {
            project::delete_project(facts, request, now, name, ForceRemoval::from_flag(*force))
        }
        Command::Use(new) => create::create_plan(facts, request, now, new),
        Command::Undo(linked) => create::create_undo_plan(draft()?, linked),
        Command::Start {
            phase,
            owner,
            lease,
            judgement,
        } => claim::claim_phase(draft()?, *phase, owner, *lease, judgement.as_ref()),
        Command::Renew { epoch, lease } => claim::renew_lease(draft()?, *epoch, *lease),
        Command::Reserve {
            epoch,
            metering,
            budget,
        } => ledger::reserve_budget(draft()?, *epoch, *metering, budget),
        Command::Settle { epoch, used } => ledger::settle_usage(draft()?, *epoch, *used),
        Command::Release { epoch } => claim::release_lease(draft()?, *epoch),
        Command::Reclaim { grounds } => claim::reclaim_lease(draft()?, *grounds),
        Command::RecordBases { epoch, bases } => advance::record_bases(draft()?, *epoch, bases),
        Command::CompleteStrategize { epoch, decisions } => {
            advance::complete_strategize(draft()?, *epoch, decisions)
        }
        Command::ExecutePlan { judgement } => advance::execute_plan(draft()?, judgement),
        Command::CompleteExecute {
            epoch,
            result,
            captured,
            allow_empty,
            judgement,
        } => {
            let submission = advance::ExecuteSubmission {
                result,
                captured,
                allow_empty: *allow_empty,
            };
            advance::complete_execute(draft()?, *epoch, &submission, judgement)
        }
        Command::Approve {
            options,
            targets,
            once,
        } => advance::approve(draft()?, options, targets, *once),
        Command::ApplyPlan { judgement } => advance::apply_plan(draft()?, judgement),
        Command::OpenChangeset { epoch, id, node } => {
            changeset::open_changeset(draft()?, *epoch, *id, node)
        }
        Command::RecordChange { epoch, into, entry } => {
            changeset::record_change(draft()?, *epoch, into, entry)
        }
        Command::SealChangeset { epoch, changeset } => {
            changeset::seal_changeset(draft()?, *epoch, *changeset)
        }
        Command::PrepareApply {
            epoch,
            moves,
            judgement,
        } => land::prepare_landing(draft()?, *epoch, moves, judgement),
        Command::WithdrawApply { epoch } => land::withdraw_landing(draft()?, *epoch),
        Command::CompleteApply {
            epoch,
            landed,
            rest,
        } => land::complete_landing(draft()?, *epoch, landed, rest.as_ref()),
        Command::Constrain {
            epoch,
            kind,
            message,
            paths,
            commits,
        } => land::constrain_landing(draft()?, *epoch, *kind, message, paths, commits),
        Command::Fail {
            epoch,
            category,
            message,
        } => halt::fail_work(draft()?, *epoch, *category, message),
        Command::Ask {
            epoch,
            question,
            answer_timeout,
        } => halt::ask_person(draft()?, *epoch, question, *answer_timeout),
        Command::Answer { text } => halt::answer_question(draft()?, text),
        Command::ExpireQuestion => halt::expire_question(draft()?),
        Command::Retry { fresh, limits } => rework::retry_phase(draft()?, *fresh, *limits),
        Command::Revise { feedback, dropped } => rework::revise_work(draft()?, feedback, dropped),
        Command::Revert { reason } => rework::revert_to_strategize(draft()?, reason),
        Command::Waive {
            rule,
            reason,
            targets,
        } => gate::waive_rule(draft()?, rule, reason, targets),
        Command::RuleOn {
            rule,
            subject,
            outcome,
            targets,
        } => gate::record_ruling(draft()?, rule, *subject, outcome, targets),
        Command::KeepEvidence { judgement, used } => {
            gate::keep_evidence(draft()?, judgement, *used)
        }
        Command::Cancel { reason } => rework::cancel_plan(draft()?, reason.as_deref()),
    }
}
