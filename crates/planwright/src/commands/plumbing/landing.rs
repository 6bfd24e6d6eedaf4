//! Plumbing commands for landing step by step. `planwright apply` does all steps at once.

use std::ffi::OsString;

use lifecycle::{LandingOutcome, LandingStep};
use plan::PlanId;
use plan::command::ConstrainApply;
use plan::stage::ConstraintKind;

use crate::cli::App;
use crate::commands::plumbing::{HolderArgs, answer_with_plan, answer_with_receipt};
use crate::commands::{CommandAnswer, revise};
use crate::error::CommandError;
use crate::exit::CommandExit;

#[derive(Debug, clap::Args)]
pub struct ConstrainArgs {
    #[command(flatten)]
    holder: HolderArgs,
    /// Kind of constraint: conflict, gate, local_edits, operation_in_progress or approval_void
    #[arg(long, value_name = "KIND", default_value = "conflict")]
    kind: ConstraintKind,
    /// Explanation
    #[arg(long, value_name = "TEXT", default_value = "it cannot land as it is")]
    message: String,
    /// Affected path; repeat for more
    #[arg(long, value_name = "PATH")]
    path: Vec<OsString>,
}

pub fn prepare_landing(args: &HolderArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let call = args.conditions.apply_to(app.new_call());
    let plan_id = app.resolve_plan(&args.id)?;
    let step = app
        .lifecycle()?
        .landing()
        .prepare_landing(plan_id, args.epoch(), &call)?;
    answer_landing_step(app, plan_id, step)
}

pub fn withdraw_landing(args: &HolderArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let call = args.conditions.apply_to(app.new_call());
    answer_with_receipt(
        app,
        &app.lifecycle()?.landing().withdraw_landing(
            app.resolve_plan(&args.id)?,
            args.epoch(),
            &call,
        )?,
    )
}

pub fn complete_landing(args: &HolderArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let call = args.conditions.apply_to(app.new_call());
    let plan_id = app.resolve_plan(&args.id)?;
    let step = app
        .lifecycle()?
        .landing()
        .complete_landing(plan_id, args.epoch(), &call)?;
    answer_landing_step(app, plan_id, step)
}

/// Answers with the plan after the step. A plan that did not land gets a non-zero exit code.
fn answer_landing_step(
    app: &App,
    plan_id: PlanId,
    step: LandingStep,
) -> Result<CommandAnswer, CommandError> {
    match step {
        LandingStep::Withdrawn => answer_with_plan(app, plan_id),
        LandingStep::Completed(done) | LandingStep::Ended(LandingOutcome::Landed { done, .. }) => {
            answer_with_receipt(app, &done)
        }
        LandingStep::Ended(LandingOutcome::Constrained(done)) => {
            let mut answer = answer_with_receipt(app, &done)?;
            answer.exit = CommandExit::Conflict;
            Ok(answer)
        }
        LandingStep::Ended(LandingOutcome::NeedsAnswer(done)) => {
            let mut answer = answer_with_receipt(app, &done)?;
            answer.exit = CommandExit::NeedsPerson;
            Ok(answer)
        }
        LandingStep::Ended(LandingOutcome::NotLanded(done)) => {
            let mut answer = answer_with_receipt(app, &done)?;
            answer.exit = CommandExit::NotLanded;
            Ok(answer)
        }
    }
}

pub fn constrain_landing(args: &ConstrainArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let paths = args
        .path
        .iter()
        .map(revise::parse_tree_path)
        .collect::<Result<Vec<_>, _>>()?;
    let epoch = args.holder.epoch();
    args.holder.submit_command(
        ConstrainApply {
            epoch,
            kind: args.kind,
            message: args.message.clone(),
            paths,
            commits: Vec::new(),
        },
        app,
    )
}
