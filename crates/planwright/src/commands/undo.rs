//! `planwright undo`: lands the inverse of a landed plan.

use lifecycle::LandingOutcome;
use plan::PlanStage;
use plan::stage::ApplyState;

use crate::cli::App;
use crate::commands::{CommandAnswer, ConditionArgs, PlanArg, apply};
use crate::error::CommandError;

/// Undo a landed plan
///
/// Creates a plan with the inverse change, merges it with what landed since, and lands it.
#[derive(Debug, clap::Args)]
pub struct UndoArgs {
    #[command(flatten)]
    plan: PlanArg,
    /// Undo without asking for confirmation
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    conditions: ConditionArgs,
}

pub fn run(args: &UndoArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let plan_id = args.plan.resolve(app)?;
    let lifecycle = app.lifecycle()?;
    let call = args.conditions.apply_to(app.new_call());
    let row = lifecycle.get_plan(plan_id)?;
    let landed = matches!(row.plan.stage(), PlanStage::Apply(ApplyState::Applied(_)));
    if !args.yes && landed {
        apply::confirm_landing(app, &row, &apply::LandingPrompt::Undo)?;
    }
    let undone = api::plans::undo_plan(lifecycle, plan_id, &call)?;
    if let Some(done) = undone.earlier_outcome {
        return apply::describe_landing(
            app,
            LandingOutcome::Landed {
                done,
                kept: Vec::new(),
                rest: None,
                followed: false,
            },
        );
    }
    app.remember_plan(undone.plan_id);
    // A concurrent undo of the same plan gets and lands this same undo plan.
    let handle = lifecycle.short_handle(undone.plan_id)?;
    apply::land_plan(app, undone.plan_id, &undone.options, &app.new_call())
        .map_err(|error| error.with_hint(format!("See the undo plan: planwright status {handle}")))
}
