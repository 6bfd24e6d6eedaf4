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
    let plan = app.plan(&args.id)?;
    let row = app.lifecycle()?.get_plan(plan)?;
    let how = args.arrival.how_or(&row.plan.ways.arrival)?;
    let done = app.lifecycle()?.approve(plan, &how, &call)?;
    moved(app, &done)
}
