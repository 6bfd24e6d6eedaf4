//! `planwright retry`: retries a halted plan.

use crate::cli::App;
use crate::commands::{CommandAnswer, ConditionArgs, continue_unless_detached};
use crate::error::CommandError;
use crate::limits::LimitArgs;

/// Retry a failed plan, optionally with new limits
#[derive(Debug, clap::Args)]
pub struct RetryArgs {
    /// Plan ID or handle, or @ for the plan you used last
    id: String,
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
    let (lifecycle, plan) = (app.lifecycle()?, app.resolve_plan(&args.id)?);
    let overrides = args.limits.overrides();
    let limits = match overrides.is_any_set() {
        false => None,
        true => Some(overrides.apply_to(lifecycle.get_plan(plan)?.plan.limits())),
    };
    let done = lifecycle.retry_phase(plan, args.fresh, limits, &call)?;
    continue_unless_detached(args.detach, app, &done)
}
