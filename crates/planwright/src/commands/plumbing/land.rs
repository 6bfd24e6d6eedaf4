//! Landing step by step, for scripts; `planwright apply` takes them all.

use std::ffi::OsString;

use lifecycle::{Driven, Stepped};
use plan::PlanId;
use plan::stage::ConstraintKind;

use crate::cli::App;
use crate::commands::plumbing::{HolderArgs, answered, viewed};
use crate::commands::{Answer, revise};
use crate::error::CommandError;
use crate::exit::Exit;

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
    let plan = app.plan(&args.id)?;
    let stepped = app
        .lifecycle()?
        .prepare_landing(plan, args.epoch(), &call)?;
    ended(app, plan, stepped)
}

pub fn withdraw(args: &HolderArgs, app: &App) -> Result<Answer, CommandError> {
    let call = args.conditions.apply(app.call());
    answered(
        app,
        &app.lifecycle()?
            .withdraw_landing(app.plan(&args.id)?, args.epoch(), &call)?,
    )
}

pub fn complete(args: &HolderArgs, app: &App) -> Result<Answer, CommandError> {
    let call = args.conditions.apply(app.call());
    let plan = app.plan(&args.id)?;
    let stepped = app
        .lifecycle()?
        .complete_landing(plan, args.epoch(), &call)?;
    ended(app, plan, stepped)
}

/// The plan as it stands after a step; what could not land is no success.
fn ended(app: &App, plan: PlanId, stepped: Stepped) -> Result<Answer, CommandError> {
    match stepped {
        Stepped::Withdrawn => viewed(app, plan),
        Stepped::Done(done) | Stepped::Ended(Driven::Landed { done, .. }) => answered(app, &done),
        Stepped::Ended(Driven::Constrained(done)) => {
            let mut answer = answered(app, &done)?;
            answer.exit = Exit::Conflict;
            Ok(answer)
        }
        Stepped::Ended(Driven::Asks(done)) => {
            let mut answer = answered(app, &done)?;
            answer.exit = Exit::NeedsPerson;
            Ok(answer)
        }
        Stepped::Ended(Driven::NotLanded(done)) => {
            let mut answer = answered(app, &done)?;
            answer.exit = Exit::NotLanded;
            Ok(answer)
        }
    }
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
