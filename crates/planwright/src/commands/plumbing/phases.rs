//! Plumbing commands that move a plan to its next phase, or show it.

use crate::cli::App;
use crate::commands::plumbing::{answer_with_plan, answer_with_receipt};
use crate::commands::{CommandAnswer, ConditionArgs};
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
pub struct MovePlanArgs {
    /// Plan ID or handle
    #[arg(add = crate::completion::plans())]
    id: String,
    #[command(flatten)]
    conditions: ConditionArgs,
}

#[derive(Debug, clap::Args)]
pub struct ShowPlanArgs {
    /// Plan ID or handle
    #[arg(add = crate::completion::plans())]
    pub id: String,
}

pub fn execute_plan(args: &MovePlanArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let call = args.conditions.apply_to(app.new_call());
    answer_with_receipt(
        app,
        &app.lifecycle()?
            .execute_plan(app.resolve_plan(&args.id)?, &call)?,
    )
}

pub fn apply_plan(args: &MovePlanArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let call = args.conditions.apply_to(app.new_call());
    answer_with_receipt(
        app,
        &app.lifecycle()?
            .apply_plan(app.resolve_plan(&args.id)?, &call)?,
    )
}

pub fn show_plan(args: &ShowPlanArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    answer_with_plan(app, app.resolve_plan(&args.id)?)
}
