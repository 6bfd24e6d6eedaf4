//! `planwright retry`.

use plan::plan::Limits;

use crate::cli::App;
use crate::commands::{Answer, Conditions, moved};
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
    #[command(flatten)]
    conditions: Conditions,
}

/// Tries again.
pub fn run(args: &Args, app: &App) -> Result<Answer, CommandError> {
    let call = args.conditions.apply(app.call());
    let limits = args.attempts.map(|attempts| Limits { attempts });
    let done = app
        .lifecycle()?
        .retry(app.plan(&args.id)?, args.fresh, limits, &call)?;
    moved(app, &done)
}
