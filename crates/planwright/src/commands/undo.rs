//! `planwright undo`.

use lifecycle::Driven;
use plan::Stage;
use plan::stage::Landing;

use crate::cli::App;
use crate::commands::{Answer, Conditions, apply};
use crate::error::CommandError;

/// Take back what a plan landed: a new plan with the inverse change, merged with what came since.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The plan that landed.
    id: String,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    conditions: Conditions,
}

/// Makes the plan and lands it.
pub fn run(args: &Args, app: &App) -> Result<Answer, CommandError> {
    let plan = app.plan(&args.id)?;
    let lifecycle = app.lifecycle()?;
    let call = args.conditions.apply(app.call());
    let row = lifecycle.get_plan(plan)?;
    let landed = matches!(row.plan.stage, Stage::Apply(Landing::Applied(_)));
    if !args.yes && landed {
        apply::confirm(app, &row, "undo", &[])?;
    }
    let undone = lifecycle.undo(plan, &call)?;
    if let Some(done) = undone.repeated {
        return apply::describe(
            app,
            Driven::Landed {
                done,
                kept: Vec::new(),
                rest: None,
                followed: false,
            },
        );
    }
    app.remember(undone.plan);
    // Somebody else who takes it back at this moment lands the same plan.
    let handle = lifecycle.short_name(undone.plan)?;
    apply::land(app, undone.plan, &undone.how, &app.call())
        .map_err(|error| error.hint(format!("What takes it back: planwright status {handle}")))
}
