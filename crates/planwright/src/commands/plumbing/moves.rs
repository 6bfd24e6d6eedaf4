//! The moves between phases, and looking.

use crate::cli::App;
use crate::commands::plumbing::{answered, viewed};
use crate::commands::{Answer, Conditions};
use crate::error::CommandError;

/// A plan to move.
#[derive(Debug, clap::Args)]
pub struct PlanArgs {
    /// The plan.
    id: String,
    #[command(flatten)]
    conditions: Conditions,
}

/// A plan to look at.
#[derive(Debug, clap::Args)]
pub struct LookArgs {
    /// The plan.
    pub id: String,
}

pub fn execute_plan(args: &PlanArgs, app: &App) -> Result<Answer, CommandError> {
    let call = args.conditions.apply(app.call());
    answered(
        app,
        &app.lifecycle()?.execute_plan(app.plan(&args.id)?, &call)?,
    )
}

pub fn apply_plan(args: &PlanArgs, app: &App) -> Result<Answer, CommandError> {
    let call = args.conditions.apply(app.call());
    answered(
        app,
        &app.lifecycle()?.apply_plan(app.plan(&args.id)?, &call)?,
    )
}

pub fn show(args: &LookArgs, app: &App) -> Result<Answer, CommandError> {
    viewed(app, app.plan(&args.id)?)
}
