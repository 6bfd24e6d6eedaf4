//! `planwright retry`.

use crate::cli::App;
use crate::commands::{Answer, Conditions, go_on_unless};
use crate::error::CommandError;
use crate::limits::LimitArgs;

/// Try a halted plan again, with other limits from now on where they are given.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The plan.
    id: String,
    /// Start from scratch instead of keeping partial work.
    #[arg(long)]
    fresh: bool,
    #[command(flatten)]
    limits: LimitArgs,
    /// Leave the work to a worker instead of going on here.
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    conditions: Conditions,
}

/// Tries again.
pub fn run(args: &Args, app: &App) -> Result<Answer, CommandError> {
    let call = args.conditions.apply(app.call());
    let (lifecycle, plan) = (app.lifecycle()?, app.plan(&args.id)?);
    let said = args.limits.said();
    let limits = match said.is_said() {
        false => None,
        true => Some(said.over(lifecycle.get_plan(plan)?.plan.limits)),
    };
    let done = lifecycle.retry(plan, args.fresh, limits, &call)?;
    go_on_unless(args.detach, app, &done)
}
