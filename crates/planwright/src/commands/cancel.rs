//! `planwright cancel`: ends a plan without landing it.

use crate::cli::App;
use crate::commands::{CommandAnswer, ConditionArgs, answer_for_move};
use crate::error::CommandError;

/// Cancel a plan without landing anything
#[derive(Debug, clap::Args)]
pub struct CancelArgs {
    /// Plan ID or handle, or @ for the plan you used last
    id: String,
    /// Reason, recorded in the plan's log
    #[arg(long, short)]
    reason: Option<String>,
    #[command(flatten)]
    conditions: ConditionArgs,
}

pub fn run(args: &CancelArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let call = args.conditions.apply_to(app.new_call());
    let done =
        app.lifecycle()?
            .cancel_plan(app.resolve_plan(&args.id)?, args.reason.as_deref(), &call)?;
    answer_for_move(app, &done)
}
