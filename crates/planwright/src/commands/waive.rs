//! `planwright waive`.

use plan::invariant::RuleName;

use crate::cli::App;
use crate::commands::{Answer, Conditions, moved};
use crate::error::CommandError;

/// Set a rule aside for one plan, on the record.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The plan.
    id: String,
    /// The rule.
    rule: RuleName,
    /// Why.
    #[arg(long, short)]
    reason: String,
    #[command(flatten)]
    conditions: Conditions,
}

/// Sets a rule aside.
pub fn run(args: &Args, app: &App) -> Result<Answer, CommandError> {
    let call = args.conditions.apply(app.call());
    let done =
        app.lifecycle()?
            .waive(app.plan(&args.id)?, args.rule.clone(), &args.reason, &call)?;
    moved(app, &done)
}
