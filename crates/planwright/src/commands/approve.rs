//! `planwright approve`: approves a result, or answers an `ask` rule, without landing.

use api::plans::{self, RulingRequest};
use plan::invariant::RuleName;

use crate::cli::App;
use crate::commands::apply::LandingArgs;
use crate::commands::{CommandAnswer, ConditionArgs, PlanArg, answer_for_move};
use crate::completion;
use crate::error::CommandError;

/// Approve a result without landing it, or answer a rule that asks a person
#[derive(Debug, clap::Args)]
pub struct ApproveArgs {
    #[command(flatten)]
    plan: PlanArg,
    /// Answer yes to this rule instead of approving the result
    #[arg(long, value_name = "NAME", add = completion::rules())]
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
    if !args.plan.is_given() {
        args.landing.refuse_plan_as_branch(app)?;
    }
    let plan_id = args.plan.resolve(app)?;
    if let Some(rule) = &args.rule {
        let request = RulingRequest {
            rule: rule.clone(),
            reject: args.reject.clone(),
        };
        let done = plans::record_ruling(app.lifecycle()?, plan_id, &request, &call)?;
        let mut answer = answer_for_move(app, &done)?;
        let handle = app.lifecycle()?.short_handle(done.plan.id())?;
        answer.text = match &args.reject {
            Some(reason) => {
                // The usual next command would waive the rule that was just answered.
                answer.messages.retain(|message| message.level != "hint");
                answer = answer.with_hint(format!("planwright revise {handle} \"TEXT\""));
                format!("Rejected `{rule}` for {handle}: {reason}\n{}", answer.text)
            }
            None => format!("Confirmed `{rule}` for {handle}\n{}", answer.text),
        };
        return Ok(answer);
    }
    let request = args.landing.to_request()?;
    let done = plans::approve_result(app.lifecycle()?, plan_id, &request, &call)?;
    answer_for_move(app, &done)
}
