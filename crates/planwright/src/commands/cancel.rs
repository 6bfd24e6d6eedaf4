//! `planwright cancel`.

use crate::cli::App;
use crate::commands::{Answer, Conditions, moved};
use crate::error::CommandError;

/// End a plan without landing anything.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The plan.
    id: String,
    /// Why.
    #[arg(long, short)]
    reason: Option<String>,
    #[command(flatten)]
    conditions: Conditions,
}

/// Ends a plan.
pub fn run(args: &Args, app: &App) -> Result<Answer, CommandError> {
    let call = args.conditions.apply(app.call());
    let done = app
        .lifecycle()?
        .cancel(app.plan(&args.id)?, args.reason.as_deref(), &call)?;
    moved(app, &done)
}
