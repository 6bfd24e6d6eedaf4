//! `planwright approve`.

use plan::invariant::RuleName;
use plan::judgement::RuleOutcome;

use crate::cli::App;
use crate::commands::apply::LandingArgs;
use crate::commands::{CommandAnswer, ConditionArgs, answer_for_move};
use crate::error::CommandError;

/// Sign the result of a plan, or answer a rule that asks; lands nothing by itself.
#[derive(Debug, clap::Args)]
pub struct ApproveArgs {
    /// The plan.
    id: String,
    /// Say that this rule, which asks, holds; nothing else is signed.
    #[arg(long, value_name = "NAME")]
    rule: Option<RuleName>,
    /// Say that it does not, and why.
    #[arg(long, value_name = "REASON", requires = "rule")]
    reject: Option<String>,
    #[command(flatten)]
    arrival: LandingArgs,
    #[command(flatten)]
    conditions: ConditionArgs,
}

/// Signs the result.
pub fn run(args: &ApproveArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let call = args.conditions.apply_to(app.new_call());
    let plan_id = app.resolve_plan(&args.id)?;
    if let Some(rule) = &args.rule {
        let outcome = match &args.reject {
            Some(reason) => RuleOutcome::Failed(reason.clone()),
            None => RuleOutcome::Held,
        };
        let done = app
            .lifecycle()?
            .record_ruling(plan_id, rule.clone(), outcome, &call)?;
        return answer_for_move(app, &done);
    }
    let row = app.lifecycle()?.get_plan(plan_id)?;
    let options = args.arrival.options_or(&row.plan.ways.arrival)?;
    let done = app.lifecycle()?.approve_result(plan_id, &options, &call)?;
    answer_for_move(app, &done)
}
