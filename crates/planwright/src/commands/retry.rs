//! `planwright retry`: retries a halted plan.

use api::plans::{self, RetryRequest};

use crate::cli::App;
use crate::commands::{CommandAnswer, ConditionArgs, PlanArg, continue_unless_detached};
use crate::error::CommandError;
use crate::limits::LimitArgs;

/// Retry a failed plan, optionally with new limits
#[derive(Debug, clap::Args)]
pub struct RetryArgs {
    #[command(flatten)]
    plan: PlanArg,
    /// Start from scratch instead of keeping partial work
    #[arg(long)]
    fresh: bool,
    #[command(flatten)]
    limits: LimitArgs,
    /// Leave the work to a worker instead of continuing here
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    conditions: ConditionArgs,
}

pub fn run(args: &RetryArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let call = args.conditions.apply_to(app.new_call());
    let request = RetryRequest {
        fresh: args.fresh,
        limits: args.limits.overrides(),
    };
    let plan_id = args.plan.resolve(app)?;
    let done = plans::retry_plan(app.lifecycle()?, plan_id, &request, &call)?;
    continue_unless_detached(args.detach, app, &done)
}
