//! `planwright answer`.

use crate::cli::App;
use crate::commands::{CommandAnswer, ConditionArgs, continue_unless_detached};
use crate::error::CommandError;

/// Answer the question a plan waits for.
#[derive(Debug, clap::Args)]
pub struct AnswerArgs {
    /// The plan.
    id: String,
    /// The answer.
    text: String,
    /// Leave the work to a worker instead of going on here.
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    conditions: ConditionArgs,
}

/// Answers a question.
pub fn run(args: &AnswerArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let call = args.conditions.apply_to(app.new_call());
    let done = app
        .lifecycle()?
        .answer_question(app.resolve_plan(&args.id)?, &args.text, &call)?;
    continue_unless_detached(args.detach, app, &done)
}
