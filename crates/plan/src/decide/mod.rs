//! Decisions: facts and a command in, what to commit out. Pure, and run again on fresher facts
//! whenever somebody else was faster.
//!
//! One file per family of commands. Each looks at the stage first; what it does not name is
//! answered by `Draft::not_now`, so that every command has a typed answer in every state.

mod action;
mod advance;
mod back;
mod changeset;
mod claim;
mod create;
mod draft;
mod gate;
mod halt;
mod in_a_row;
mod land;
mod ledger;
mod next;
mod options;
mod project;
mod rule;
mod text;

pub use gate::{advice, blocked_by};
pub use in_a_row::decide_in_a_row;
pub use next::{Next, Rest, next};
pub use options::options;

use crate::{Caller, Command, Decision, Facts, PlanId, Refusal, Timestamp, Version};
use draft::Draft;
use project::Force;

/// What is asked, by whom, and on which version it must be done if that was said.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// What.
    pub command: Command,
    /// About which plan, where it is about one that exists.
    pub plan: Option<PlanId>,
    /// By whom.
    pub caller: Caller,
    /// Only if the plan is at this version.
    pub if_version: Option<Version>,
}

/// Decides a request on the rows that were read.
pub fn decide(facts: &Facts, request: &Request, now: Timestamp) -> Result<Decision, Refusal> {
    if let (Some(expected), Some(plan)) = (request.if_version, &facts.plan)
        && plan.version != expected
    {
        return Err(Refusal::VersionMismatch {
            expected,
            actual: plan.version,
        });
    }
    let draft = || Draft::on(facts, request, now);
    match &request.command {
        Command::CreateAction(definition) => action::create(facts, request, now, definition),
        Command::ArchiveAction(name) => action::archive(facts, request, now, name),
        Command::AddRule { scope, draft } => rule::add(facts, request, now, scope, draft),
        Command::RemoveRule { scope, name } => rule::remove(facts, request, now, scope, name),
        Command::CreateProject { name, resources } => {
            project::create(facts, request, now, name, resources)
        }
        Command::LinkResource { project, resource } => {
            project::link(facts, request, now, project, resource)
        }
        Command::UnlinkResource {
            project,
            name,
            force,
        } => project::unlink(facts, request, now, project, name, Force::when(*force)),
        Command::RelinkResource {
            project,
            name,
            host,
            place,
        } => {
            let moved = project::moved(name, host, place);
            project::relink(facts, request, now, project, &moved)
        }
        Command::PauseProject(name) => project::pause(facts, request, now, name),
        Command::ResumeProject(name) => project::resume(facts, request, now, name),
        Command::DeleteProject { name, force } => {
            project::delete(facts, request, now, name, Force::when(*force))
        }
        Command::Use(new) => create::from_use(facts, request, now, new),
        Command::Undo(linked) => create::undo(draft()?, linked),
        Command::Start {
            phase,
            owner,
            lease,
            judgement,
        } => claim::start(draft()?, *phase, owner, *lease, judgement.as_ref()),
        Command::Renew { epoch, lease } => claim::renew(draft()?, *epoch, *lease),
        Command::Reserve {
            epoch,
            metering,
            budget,
        } => ledger::reserve(draft()?, *epoch, *metering, budget),
        Command::Settle { epoch, used } => ledger::settle(draft()?, *epoch, *used),
        Command::Release { epoch } => claim::release(draft()?, *epoch),
        Command::Reclaim { grounds } => claim::reclaim(draft()?, *grounds),
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
            let handed_in = advance::HandedIn {
                result,
                captured,
                allow_empty: *allow_empty,
            };
            advance::complete_execute(draft()?, *epoch, &handed_in, judgement)
        }
        Command::Approve { how, targets, once } => advance::approve(draft()?, how, targets, *once),
        Command::ApplyPlan { judgement } => advance::apply_plan(draft()?, judgement),
        Command::OpenChangeset { epoch, id, node } => changeset::open(draft()?, *epoch, *id, node),
        Command::RecordChange { epoch, into, entry } => {
            changeset::record(draft()?, *epoch, into, entry)
        }
        Command::SealChangeset { epoch, changeset } => {
            changeset::seal(draft()?, *epoch, *changeset)
        }
        Command::PrepareApply {
            epoch,
            moves,
            judgement,
        } => land::prepare(draft()?, *epoch, moves, judgement),
        Command::WithdrawApply { epoch } => land::withdraw(draft()?, *epoch),
        Command::CompleteApply {
            epoch,
            landed,
            rest,
        } => land::complete(draft()?, *epoch, landed, rest.as_ref()),
        Command::Constrain {
            epoch,
            kind,
            message,
            paths,
            commits,
        } => land::constrain(draft()?, *epoch, *kind, message, paths, commits),
        Command::Fail {
            epoch,
            category,
            message,
        } => halt::fail(draft()?, *epoch, *category, message),
        Command::Ask {
            epoch,
            question,
            patience,
        } => halt::ask(draft()?, *epoch, question, *patience),
        Command::Answer { text } => halt::answer(draft()?, text),
        Command::ExpireQuestion => halt::expire_question(draft()?),
        Command::Retry { fresh, limits } => back::retry(draft()?, *fresh, *limits),
        Command::Revise { feedback, dropped } => back::revise(draft()?, feedback, dropped),
        Command::Revert { reason } => back::revert(draft()?, reason),
        Command::Waive {
            rule,
            reason,
            targets,
        } => gate::waive(draft()?, rule, reason, targets),
        Command::RuleOn {
            rule,
            subject,
            outcome,
            targets,
        } => gate::rule_on(draft()?, rule, *subject, outcome, targets),
        Command::KeepEvidence { judgement, used } => {
            gate::keep_evidence(draft()?, judgement, *used)
        }
        Command::Cancel { reason } => back::cancel(draft()?, reason.as_deref()),
    }
}
