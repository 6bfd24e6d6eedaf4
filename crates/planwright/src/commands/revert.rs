//! `planwright revert`: sends a plan back to strategize.

use crate::cli::App;
use crate::commands::{CommandAnswer, ConditionArgs, answer_for_move};
use crate::error::CommandError;

/// Send a plan back to strategize
#[derive(Debug, clap::Args)]
pub struct RevertArgs {
    /// Plan ID or handle, or @ for the plan you used last
    id: String,
    /// Reason, passed to the agent
    #[arg(long, short)]
    reason: String,
    #[command(flatten)]
    conditions: ConditionArgs,
}

pub fn run(args: &RevertArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let call = args.conditions.apply_to(app.new_call());
    let done =
        app.lifecycle()?
            .revert_to_strategize(app.resolve_plan(&args.id)?, &args.reason, &call)?;
    answer_for_move(app, &done)
}
