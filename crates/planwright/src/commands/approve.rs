//! `planwright approve`.

use plan::invariant::RuleName;
use plan::judgement::RuleOutcome;

use crate::cli::App;
use crate::commands::apply::Arrival;
use crate::commands::{Answer, Conditions, moved};
use crate::error::CommandError;

/// Sign the result of a plan, or answer a rule that asks; lands nothing by itself.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The plan.
    id: String,
    /// Say that this rule, which asks, holds; nothing else is signed.
    #[arg(long, value_name = "NAME")]
    rule: Option<RuleName>,
    /// Say that it does not, and why.
    #[arg(long, value_name = "REASON", requires = "rule")]
    reject: Option<String>,
    #[command(flatten)]
    arrival: Arrival,
    #[command(flatten)]
    conditions: Conditions,
}

/// Signs the result.
pub fn run(args: &Args, app: &App) -> Result<Answer, CommandError> {
    let call = args.conditions.apply(app.call());
    let plan = app.plan(&args.id)?;
    if let Some(rule) = &args.rule {
        let outcome = match &args.reject {
            Some(reason) => RuleOutcome::Failed(reason.clone()),
            None => RuleOutcome::Held,
        };
        let done = app
            .lifecycle()?
            .rule_on(plan, rule.clone(), outcome, &call)?;
        return moved(app, &done);
    }
    let row = app.lifecycle()?.get_plan(plan)?;
    let how = args.arrival.how_or(&row.plan.ways.arrival)?;
    let done = app.lifecycle()?.approve(plan, &how, &call)?;
    moved(app, &done)
}
