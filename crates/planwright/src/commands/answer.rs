//! `planwright answer`.

use crate::cli::App;
use crate::commands::{Answer, Conditions, go_on_unless};
use crate::error::CommandError;

/// Answer the question a plan waits for.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The plan.
    id: String,
    /// The answer.
    text: String,
    /// Leave the work to a worker instead of going on here.
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    conditions: Conditions,
}

/// Answers a question.
pub fn run(args: &Args, app: &App) -> Result<Answer, CommandError> {
    let call = args.conditions.apply(app.call());
    let done = app
        .lifecycle()?
        .answer(app.plan(&args.id)?, &args.text, &call)?;
    go_on_unless(args.detach, app, &done)
}
