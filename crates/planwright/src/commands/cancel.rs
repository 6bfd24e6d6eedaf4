//! `planwright cancel`.

use crate::cli::App;
use crate::commands::{CommandAnswer, ConditionArgs, answer_for_move};
use crate::error::CommandError;

/// End a plan without landing anything.
#[derive(Debug, clap::Args)]
pub struct CancelArgs {
    /// The plan.
    id: String,
    /// Why.
    #[arg(long, short)]
    reason: Option<String>,
    #[command(flatten)]
    conditions: ConditionArgs,
}

/// Ends a plan.
pub fn run(args: &CancelArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let call = args.conditions.apply_to(app.new_call());
    let done =
        app.lifecycle()?
            .cancel_plan(app.resolve_plan(&args.id)?, args.reason.as_deref(), &call)?;
    answer_for_move(app, &done)
}
