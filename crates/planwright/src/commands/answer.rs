//! `planwright answer`: answers an agent's question and continues the plan.

use api::plans::{self, AnswerRequest};

use crate::cli::App;
use crate::commands::plan_arg::resolve_plan_and_text;
use crate::commands::{CommandAnswer, ConditionArgs, continue_unless_detached};
use crate::completion;
use crate::error::CommandError;

/// Answer the question a plan is waiting on
#[derive(Debug, clap::Args)]
#[command(override_usage = "planwright answer [OPTIONS] [PLAN] <TEXT>")]
pub struct AnswerArgs {
    /// Plan ID or handle; @- is the plan used before [default: the plan last used here]
    #[arg(value_name = "PLAN", add = completion::plans())]
    first: Option<String>,
    /// Answer to the question
    #[arg(value_name = "TEXT")]
    second: Option<String>,
    /// Leave the work to a worker instead of continuing here
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    conditions: ConditionArgs,
}

pub fn run(args: &AnswerArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let call = args.conditions.apply_to(app.new_call());
    let words = (args.first.as_deref(), args.second.as_deref());
    let (plan_id, text) = resolve_plan_and_text(app, words.0, words.1, "answer", "\"TEXT\"")?;
    let request = AnswerRequest {
        text: text.to_owned(),
    };
    let done = plans::answer_question(app.lifecycle()?, plan_id, &request, &call)?;
    continue_unless_detached(args.detach, app, &done)
}
