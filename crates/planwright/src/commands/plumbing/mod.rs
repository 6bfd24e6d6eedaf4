//! `planwright plumbing`: commands for scripts. The output is always JSON and stable; `data` is the plan view.

mod changesets;
mod claims;
mod events;
mod landing;
mod phases;

use clap::Subcommand;
use lifecycle::OperationOutcome;
use plan::command::PlainCommand;
use plan::{Epoch, PlanId, Span};

use crate::cli::App;
use crate::commands::{
    CommandAnswer, ConditionArgs, answer, answer_or_receipt, approve, cancel, retry, revert, revise,
};
use crate::error::CommandError;

/// Low-level commands for scripts, with stable JSON output
#[derive(Debug, Subcommand)]
pub enum PlumbingCommand {
    /// Claim the strategize phase
    StartStrategize(claims::StartPhaseArgs),
    /// Claim the execute phase
    StartExecute(claims::StartPhaseArgs),
    /// Claim the apply phase
    StartApply(claims::StartPhaseArgs),
    /// Submit the strategy
    CompleteStrategize(claims::CompleteStrategizeArgs),
    /// Submit the result
    CompleteExecute(claims::CompleteExecuteArgs),
    /// Finish a prepared landing
    CompleteApply(HolderArgs),
    /// Renew a lease
    Renew(claims::RenewLeaseArgs),
    /// Release a lease
    Release(HolderArgs),
    /// Reclaim an expired lease, or all of them
    Reclaim(claims::ReclaimLeaseArgs),
    /// End work with an error
    Fail(claims::FailWorkArgs),
    /// Ask a person a question and end the lease
    Ask(claims::AskQuestionArgs),
    /// Move a finished strategy to execute
    ExecutePlan(phases::MovePlanArgs),
    /// Move a finished result to apply
    ApplyPlan(phases::MovePlanArgs),
    /// Record what the landing will change; after this it must be finished or withdrawn
    PrepareApply(HolderArgs),
    /// Withdraw a prepared landing that changed nothing yet
    WithdrawApply(HolderArgs),
    /// Record that the result cannot land as it is
    Constrain(landing::ConstrainArgs),
    Answer(answer::AnswerArgs),
    Retry(retry::RetryArgs),
    Revise(revise::ReviseArgs),
    Revert(revert::RevertArgs),
    Approve(approve::ApproveArgs),
    Cancel(cancel::CancelArgs),
    /// Open a changeset for a unit of work
    OpenChangeset(changesets::OpenChangesetArgs),
    /// Record one change in a changeset
    RecordChange(Box<changesets::RecordChangeArgs>),
    /// Seal a changeset, so that it cannot change any more
    SealChangeset(changesets::SealChangesetArgs),
    /// Show a plan's changesets with their entries
    Changesets(phases::ShowPlanArgs),
    /// Show a plan
    Show(phases::ShowPlanArgs),
    /// Print events of all plans, one JSON object per line, then the envelope
    Events(events::EventsArgs),
}

/// A plan and the epoch of the caller's lease on it.
#[derive(Debug, clap::Args)]
pub struct HolderArgs {
    /// Plan ID or handle
    #[arg(add = crate::completion::plans())]
    id: String,
    /// Epoch of your lease, from the answer to the claim
    #[arg(long, value_name = "E")]
    epoch: u64,
    #[command(flatten)]
    conditions: ConditionArgs,
}

impl HolderArgs {
    fn epoch(&self) -> Epoch {
        Epoch(self.epoch)
    }

    /// Submits a command of the holder, and answers with its receipt.
    fn submit_command(
        &self,
        command: impl PlainCommand,
        app: &App,
    ) -> Result<CommandAnswer, CommandError> {
        let call = self.conditions.apply_to(app.new_call());
        let plan_id = app.resolve_plan(&self.id)?;
        answer_with_receipt(
            app,
            &app.lifecycle()?.submit_command(plan_id, command, &call)?,
        )
    }
}

impl PlumbingCommand {
    pub fn run(self, app: &App) -> Result<CommandAnswer, CommandError> {
        match self {
            Self::StartStrategize(args) => claims::start_phase(plan::Phase::Strategize, &args, app),
            Self::StartExecute(args) => claims::start_phase(plan::Phase::Execute, &args, app),
            Self::StartApply(args) => claims::start_phase(plan::Phase::Apply, &args, app),
            Self::CompleteStrategize(args) => claims::complete_strategize(&args, app),
            Self::CompleteExecute(args) => claims::complete_execute(&args, app),
            Self::CompleteApply(args) => landing::complete_landing(&args, app),
            Self::Renew(args) => claims::renew_lease(&args, app),
            Self::Release(args) => claims::release_lease(&args, app),
            Self::Reclaim(args) => claims::reclaim_leases(&args, app),
            Self::Fail(args) => claims::fail_work(&args, app),
            Self::Ask(args) => claims::ask_question(&args, app),
            Self::ExecutePlan(args) => phases::execute_plan(&args, app),
            Self::ApplyPlan(args) => phases::apply_plan(&args, app),
            Self::PrepareApply(args) => landing::prepare_landing(&args, app),
            Self::WithdrawApply(args) => landing::withdraw_landing(&args, app),
            Self::Constrain(args) => landing::constrain_landing(&args, app),
            Self::Answer(args) => answer::run(&args, app),
            Self::Retry(args) => retry::run(&args, app),
            Self::Revise(args) => revise::run(&args, app),
            Self::Revert(args) => revert::run(&args, app),
            Self::Approve(args) => approve::run(&args, app),
            Self::Cancel(args) => cancel::run(&args, app),
            Self::OpenChangeset(args) => changesets::open_changeset(&args, app),
            Self::RecordChange(args) => changesets::record_change(&args, app),
            Self::SealChangeset(args) => changesets::seal_changeset(&args, app),
            Self::Changesets(args) => changesets::list_changesets(&args, app),
            Self::Show(args) => phases::show_plan(&args, app),
            Self::Events(args) => events::run(&args, app),
        }
    }
}

fn answer_with_receipt(app: &App, done: &OperationOutcome) -> Result<CommandAnswer, CommandError> {
    let view = api::plans::view_change(app.lifecycle()?, done).map_err(CommandError::from);
    answer_or_receipt(
        done,
        view.map(|view| CommandAnswer::new(view, String::new())),
    )
}

fn answer_with_plan(app: &App, plan_id: PlanId) -> Result<CommandAnswer, CommandError> {
    Ok(CommandAnswer::new(
        api::plans::get_plan_view(app.lifecycle()?, plan_id)?,
        String::new(),
    ))
}

fn lease_span(seconds: u32) -> Span {
    Span::from_seconds(i64::from(seconds))
}
