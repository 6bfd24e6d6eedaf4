//! `planwright revert`: sends a plan back to strategize.

use api::plans::{self, RevertRequest};

use crate::cli::App;
use crate::commands::{CommandAnswer, ConditionArgs, PlanArg, answer_for_move};
use crate::error::CommandError;

/// Send a plan back to strategize
#[derive(Debug, clap::Args)]
pub struct RevertArgs {
    #[command(flatten)]
    plan: PlanArg,
    /// Reason, passed to the agent
    #[arg(long, short)]
    reason: String,
    #[command(flatten)]
    conditions: ConditionArgs,
}

pub fn run(args: &RevertArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let call = args.conditions.apply_to(app.new_call());
    let request = RevertRequest {
        reason: args.reason.clone(),
    };
    let plan_id = args.plan.resolve(app)?;
    let done = plans::revert_plan(app.lifecycle()?, plan_id, &request, &call)?;
    answer_for_move(app, &done)
}
