//! `planwright revert`.

use crate::cli::App;
use crate::commands::{Answer, Conditions, moved};
use crate::error::CommandError;

/// Send a plan back to strategize.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The plan.
    id: String,
    /// Why.
    #[arg(long, short)]
    reason: String,
    #[command(flatten)]
    conditions: Conditions,
}

/// Goes back.
pub fn run(args: &Args, app: &App) -> Result<Answer, CommandError> {
    let call = args.conditions.apply(app.call());
    let done = app
        .lifecycle()?
        .revert(app.plan(&args.id)?, &args.reason, &call)?;
    moved(app, &done)
}
