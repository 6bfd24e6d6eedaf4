//! Landing, as far as a plan without resources can: the intent is empty.

use std::ffi::OsString;

use plan::stage::ConstraintKind;

use crate::cli::App;
use crate::commands::plumbing::{HolderArgs, answered};
use crate::commands::{Answer, revise};
use crate::error::CommandError;

/// An obstacle.
#[derive(Debug, clap::Args)]
pub struct ConstrainArgs {
    #[command(flatten)]
    holder: HolderArgs,
    /// conflict, gate, local_edits, operation_in_progress or approval_void.
    #[arg(long, value_name = "KIND", default_value = "conflict")]
    kind: ConstraintKind,
    /// What happened.
    #[arg(long, value_name = "TEXT", default_value = "it cannot land as it is")]
    message: String,
    /// A path concerned; repeat it for more.
    #[arg(long, value_name = "PATH")]
    path: Vec<OsString>,
}

pub fn prepare(args: &HolderArgs, app: &App) -> Result<Answer, CommandError> {
    let call = args.conditions.apply(app.call());
    answered(
        app,
        &app.lifecycle()?
            .prepare_apply(app.plan(&args.id)?, args.epoch(), &[], &call)?,
    )
}

pub fn withdraw(args: &HolderArgs, app: &App) -> Result<Answer, CommandError> {
    let call = args.conditions.apply(app.call());
    answered(
        app,
        &app.lifecycle()?
            .withdraw_apply(app.plan(&args.id)?, args.epoch(), &call)?,
    )
}

pub fn complete(args: &HolderArgs, app: &App) -> Result<Answer, CommandError> {
    let call = args.conditions.apply(app.call());
    let plan = app.plan(&args.id)?;
    answered(
        app,
        &app.lifecycle()?
            .complete_apply(plan, args.epoch(), Vec::new(), None, &call)?,
    )
}

pub fn constrain(args: &ConstrainArgs, app: &App) -> Result<Answer, CommandError> {
    let call = args.holder.conditions.apply(app.call());
    let paths = args
        .path
        .iter()
        .map(revise::tree_path)
        .collect::<Result<Vec<_>, _>>()?;
    let plan = app.plan(&args.holder.id)?;
    let epoch = args.holder.epoch();
    answered(
        app,
        &app.lifecycle()?
            .constrain(plan, epoch, args.kind, &args.message, paths, &call)?,
    )
}
