//! `planwright plumbing`: for scripts and programs. Always JSON, stable; `data` is the plan view.

mod changesets;
mod events;
mod land;
mod moves;
mod work;

use clap::Subcommand;
use lifecycle::Done;
use plan::{Epoch, PlanId, Span};

use crate::cli::App;
use crate::commands::{
    Answer, Conditions, answer, approve, cancel, described, retry, revert, revise,
    view_with_receipt,
};
use crate::error::CommandError;

/// For scripts and programs: always JSON, stable.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Claim the strategize phase.
    StartStrategize(work::StartArgs),
    /// Claim the execute phase.
    StartExecute(work::StartArgs),
    /// Claim the apply phase.
    StartApply(work::StartArgs),
    /// Hand in the strategy.
    CompleteStrategize(work::CompleteStrategizeArgs),
    /// Hand in the result.
    CompleteExecute(work::CompleteExecuteArgs),
    /// Record that everything landed.
    CompleteApply(HolderArgs),
    /// Keep a lease.
    Renew(work::RenewArgs),
    /// Give a lease back.
    Release(HolderArgs),
    /// Take an expired lease, or all of them.
    Reclaim(work::ReclaimArgs),
    /// End work with an error.
    Fail(work::FailArgs),
    /// Ask a person, and end the lease.
    Ask(work::AskArgs),
    /// Move a finished strategy into execute.
    ExecutePlan(moves::PlanArgs),
    /// Move a finished result into apply.
    ApplyPlan(moves::PlanArgs),
    /// Store what is about to be done to the targets: the point of no return.
    PrepareApply(HolderArgs),
    /// Take that back, nothing having been done.
    WithdrawApply(HolderArgs),
    /// Record that it cannot land as it is.
    Constrain(land::ConstrainArgs),
    Answer(answer::Args),
    Retry(retry::Args),
    Revise(revise::Args),
    Revert(revert::Args),
    Approve(approve::Args),
    Cancel(cancel::Args),
    /// Open a changeset for a unit of work.
    OpenChangeset(changesets::OpenArgs),
    /// Record one change where it belongs.
    RecordChange(Box<changesets::RecordArgs>),
    /// Close a changeset for good.
    SealChangeset(changesets::SealArgs),
    /// Show the changesets of a plan with their entries.
    Changesets(moves::LookArgs),
    /// Show the plan view.
    Show(moves::LookArgs),
    /// Show events of all plans, one JSON object a line, the envelope last.
    Events(events::Args),
}

/// A plan and the authority over it.
#[derive(Debug, clap::Args)]
pub struct HolderArgs {
    /// The plan.
    id: String,
    /// The authority, as the claim answered it.
    #[arg(long, value_name = "E")]
    epoch: u64,
    #[command(flatten)]
    conditions: Conditions,
}

impl HolderArgs {
    fn epoch(&self) -> Epoch {
        Epoch(self.epoch)
    }
}

impl Command {
    /// Carries it out.
    pub fn run(self, app: &App) -> Result<Answer, CommandError> {
        match self {
            Self::StartStrategize(args) => work::start(plan::Phase::Strategize, &args, app),
            Self::StartExecute(args) => work::start(plan::Phase::Execute, &args, app),
            Self::StartApply(args) => work::start(plan::Phase::Apply, &args, app),
            Self::CompleteStrategize(args) => work::complete_strategize(&args, app),
            Self::CompleteExecute(args) => work::complete_execute(&args, app),
            Self::CompleteApply(args) => land::complete(&args, app),
            Self::Renew(args) => work::renew(&args, app),
            Self::Release(args) => work::release(&args, app),
            Self::Reclaim(args) => work::reclaim(&args, app),
            Self::Fail(args) => work::fail(&args, app),
            Self::Ask(args) => work::ask(&args, app),
            Self::ExecutePlan(args) => moves::execute_plan(&args, app),
            Self::ApplyPlan(args) => moves::apply_plan(&args, app),
            Self::PrepareApply(args) => land::prepare(&args, app),
            Self::WithdrawApply(args) => land::withdraw(&args, app),
            Self::Constrain(args) => land::constrain(&args, app),
            Self::Answer(args) => answer::run(&args, app),
            Self::Retry(args) => retry::run(&args, app),
            Self::Revise(args) => revise::run(&args, app),
            Self::Revert(args) => revert::run(&args, app),
            Self::Approve(args) => approve::run(&args, app),
            Self::Cancel(args) => cancel::run(&args, app),
            Self::OpenChangeset(args) => changesets::open(&args, app),
            Self::RecordChange(args) => changesets::record(&args, app),
            Self::SealChangeset(args) => changesets::seal(&args, app),
            Self::Changesets(args) => changesets::list(&args, app),
            Self::Show(args) => moves::show(&args, app),
            Self::Events(args) => events::run(&args, app),
        }
    }
}

/// The plan view, and what exactly was answered to this call.
fn answered(app: &App, done: &Done) -> Result<Answer, CommandError> {
    let view = view_with_receipt(app, done);
    described(done, view.map(|data| Answer::new(data, String::new())))
}

fn viewed(app: &App, plan: PlanId) -> Result<Answer, CommandError> {
    Ok(Answer::new(app.view(plan)?, String::new()))
}

/// A lease of 1 second to a day.
fn lease(seconds: u32) -> Span {
    Span::seconds(i64::from(seconds))
}
