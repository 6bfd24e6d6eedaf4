//! `planwright cancel`: ends a plan without landing it.

use api::plans::{self, CancelRequest};

use crate::cli::App;
use crate::commands::{CommandAnswer, ConditionArgs, PlanArg, answer_for_move};
use crate::error::CommandError;

/// Cancel a plan without landing anything
#[derive(Debug, clap::Args)]
pub struct CancelArgs {
    #[command(flatten)]
    plan: PlanArg,
    /// Reason, recorded in the plan's log
    #[arg(long, short)]
    reason: Option<String>,
    #[command(flatten)]
    conditions: ConditionArgs,
}

pub fn run(args: &CancelArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let call = args.conditions.apply_to(app.new_call());
    let request = CancelRequest {
        reason: args.reason.clone(),
    };
    let plan_id = args.plan.resolve(app)?;
    let done = plans::cancel_plan(app.lifecycle()?, plan_id, &request, &call)?;
    answer_for_move(app, &done)
}
