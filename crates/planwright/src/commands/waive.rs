//! `planwright waive`: waives a rule for one plan.

use plan::invariant::RuleName;

use crate::cli::App;
use crate::commands::{CommandAnswer, ConditionArgs, answer_for_move};
use crate::error::CommandError;

/// Waive a rule for one plan, with a recorded reason
#[derive(Debug, clap::Args)]
pub struct WaiveArgs {
    /// Plan ID or handle, or @ for the plan you used last
    id: String,
    /// Rule name
    rule: RuleName,
    /// Reason, recorded in the plan's log
    #[arg(long, short)]
    reason: String,
    #[command(flatten)]
    conditions: ConditionArgs,
}

pub fn run(args: &WaiveArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let call = args.conditions.apply_to(app.new_call());
    let done = app.lifecycle()?.waive_rule(
        app.resolve_plan(&args.id)?,
        args.rule.clone(),
        &args.reason,
        &call,
    )?;
    answer_for_move(app, &done)
}
