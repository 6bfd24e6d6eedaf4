//! `planwright retry`.

use plan::Span;
use plan::plan::Limits;

use crate::cli::App;
use crate::commands::{Answer, Conditions, go_on_unless};
use crate::error::CommandError;

/// Try a halted plan again.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The plan.
    id: String,
    /// Start from scratch instead of keeping partial work.
    #[arg(long)]
    fresh: bool,
    /// From now on, this many tries before it waits for a person.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    attempts: Option<u32>,
    /// From now on, this long for one run of the agent, as in 90s, 20m or 2h.
    #[arg(long, value_name = "TIME")]
    timeout: Option<Span>,
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
    let limits = match (args.attempts, args.timeout) {
        (None, None) => None,
        (attempts, timeout) => {
            let now = lifecycle.get_plan(plan)?.plan.limits;
            Some(Limits {
                attempts: attempts.unwrap_or(now.attempts),
                timeout: timeout.or(now.timeout),
            })
        }
    };
    let done = lifecycle.retry(plan, args.fresh, limits, &call)?;
    go_on_unless(args.detach, app, &done)
}
