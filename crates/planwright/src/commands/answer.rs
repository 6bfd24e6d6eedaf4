//! `planwright answer`: answers an agent's question and continues the plan.

use crate::cli::App;
use crate::commands::{CommandAnswer, ConditionArgs, continue_unless_detached};
use crate::error::CommandError;

/// Answer the question a plan is waiting on
#[derive(Debug, clap::Args)]
pub struct AnswerArgs {
    /// Plan ID or handle, or @ for the plan you used last
    id: String,
    /// Answer to the question
    text: String,
    /// Leave the work to a worker instead of continuing here
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    conditions: ConditionArgs,
}

pub fn run(args: &AnswerArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let call = args.conditions.apply_to(app.new_call());
    let done = app
        .lifecycle()?
        .answer_question(app.resolve_plan(&args.id)?, &args.text, &call)?;
    continue_unless_detached(args.detach, app, &done)
}
