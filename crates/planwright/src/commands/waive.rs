//! `planwright waive`: waives a rule for one plan.

use api::plans::{self, WaiveRequest};

use crate::cli::App;
use crate::commands::plan_arg::resolve_plan_and_text;
use crate::commands::{CommandAnswer, ConditionArgs, answer_for_move};
use crate::completion;
use crate::error::CommandError;
use crate::ui;

/// Waive a rule for one plan, with a recorded reason
#[derive(Debug, clap::Args)]
#[command(override_usage = "planwright waive [OPTIONS] --reason <REASON> [PLAN] <RULE>")]
pub struct WaiveArgs {
    /// Plan ID or handle; @- is the plan used before [default: the plan last used here]
    #[arg(value_name = "PLAN", add = completion::plans())]
    first: Option<String>,
    /// Rule name
    #[arg(value_name = "RULE", add = completion::rules())]
    second: Option<String>,
    /// Reason, recorded in the plan's log
    #[arg(long, short)]
    reason: String,
    #[command(flatten)]
    conditions: ConditionArgs,
}

pub fn run(args: &WaiveArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let call = args.conditions.apply_to(app.new_call());
    let words = (args.first.as_deref(), args.second.as_deref());
    let placeholder = "RULE --reason \"TEXT\"";
    let (plan_id, rule) = resolve_plan_and_text(app, words.0, words.1, "waive", placeholder)?;
    let request = WaiveRequest {
        rule: rule
            .parse()
            .map_err(|problem: String| CommandError::usage(format!("`{rule}`: {problem}")))?,
        reason: args.reason.clone(),
    };
    let done = plans::waive_rule(app.lifecycle()?, plan_id, &request, &call)?;
    let mut answer = answer_for_move(app, &done)?;
    let handle = app.lifecycle()?.short_handle(plan_id)?;
    answer.text = format!(
        "Waived `{}` for {handle}: {}\n{}",
        ui::escape_controls(rule),
        ui::escape_controls(&args.reason),
        answer.text
    );
    Ok(answer)
}
