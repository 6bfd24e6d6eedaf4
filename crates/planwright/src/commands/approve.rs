//! `planwright approve`: approves a result, or answers an `ask` rule, without landing.

use plan::invariant::RuleName;
use plan::judgement::RuleOutcome;

use crate::cli::App;
use crate::commands::apply::LandingArgs;
use crate::commands::{CommandAnswer, ConditionArgs, answer_for_move};
use crate::error::CommandError;

/// Approve a result without landing it, or answer a rule that asks a person
#[derive(Debug, clap::Args)]
pub struct ApproveArgs {
    /// Plan ID or handle, or @ for the plan you used last
    id: String,
    /// Answer yes to this rule instead of approving the result
    #[arg(long, value_name = "NAME")]
    rule: Option<RuleName>,
    /// With --rule: answer no, with a reason
    #[arg(long, value_name = "REASON", requires = "rule")]
    reject: Option<String>,
    #[command(flatten)]
    landing: LandingArgs,
    #[command(flatten)]
    conditions: ConditionArgs,
}

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
    let options = args.landing.options_or(&row.plan.policy().landing)?;
    let done = app.lifecycle()?.approve_result(plan_id, &options, &call)?;
    answer_for_move(app, &done)
}
