//! `planwright waive`.

use plan::invariant::RuleName;

use crate::cli::App;
use crate::commands::{CommandAnswer, ConditionArgs, answer_for_move};
use crate::error::CommandError;

/// Set a rule aside for one plan, on the record.
#[derive(Debug, clap::Args)]
pub struct WaiveArgs {
    /// The plan.
    id: String,
    /// The rule.
    rule: RuleName,
    /// Why.
    #[arg(long, short)]
    reason: String,
    #[command(flatten)]
    conditions: ConditionArgs,
}

/// Sets a rule aside.
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
