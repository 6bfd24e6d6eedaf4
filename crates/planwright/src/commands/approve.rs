//! `planwright approve`.

use crate::cli::App;
use crate::commands::apply::Arrival;
use crate::commands::{Answer, Conditions, moved};
use crate::error::CommandError;

/// Sign the result of a plan; lands nothing by itself.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The plan.
    id: String,
    #[command(flatten)]
    arrival: Arrival,
    #[command(flatten)]
    conditions: Conditions,
}

/// Signs the result.
pub fn run(args: &Args, app: &App) -> Result<Answer, CommandError> {
    let call = args.conditions.apply(app.call());
    let how = args.arrival.how()?;
    let done = app.lifecycle()?.approve(app.plan(&args.id)?, &how, &call)?;
    moved(app, &done)
}
