//! `planwright plan VERB`: the plan commands under one name, plus the aliases `history`, `tree` and `execute`.

use clap::Subcommand;

use crate::cli::App;
use crate::commands::{
    CommandAnswer, PlanArg, answer, apply, approve, cancel, diff, list, log, retry, revert, revise,
    run, status, undo, use_action, wait, waive, why,
};
use crate::error::CommandError;

/// Plan commands, grouped under one name
#[derive(Debug, Subcommand)]
pub enum PlanCommand {
    Use(use_action::UseArgs),
    List(list::ListArgs),
    Status(status::StatusArgs),
    Diff(diff::DiffArgs),
    Log(log::LogArgs),
    /// Show a plan's events (same as log --events)
    History {
        #[command(flatten)]
        plan: PlanArg,
    },
    /// Show a plan's decision tree (same as log --decisions)
    Tree {
        #[command(flatten)]
        plan: PlanArg,
    },
    /// Continue a plan (same as run ID)
    #[command(visible_alias = "run")]
    Execute(run::RunArgs),
    Wait(wait::WaitArgs),
    Why(why::WhyArgs),
    #[command(visible_alias = "prompt")]
    Answer(answer::AnswerArgs),
    #[command(visible_alias = "resume")]
    Retry(retry::RetryArgs),
    Revise(revise::ReviseArgs),
    Revert(revert::RevertArgs),
    Approve(approve::ApproveArgs),
    Apply(apply::ApplyArgs),
    Undo(undo::UndoArgs),
    Waive(waive::WaiveArgs),
    Cancel(cancel::CancelArgs),
}

impl PlanCommand {
    pub fn run(self, app: &App) -> Result<CommandAnswer, CommandError> {
        match self {
            Self::Use(args) => use_action::run(&args, app),
            Self::List(args) => list::run(&args, app),
            Self::Status(args) => status::run(&args, app),
            Self::Diff(args) => diff::run(&args, app),
            Self::Log(args) => log::run(&args, app),
            Self::History { plan } => log::run(&log::LogArgs::for_events(plan), app),
            Self::Tree { plan } => log::run(&log::LogArgs::for_decisions(plan), app),
            Self::Execute(args) => run::run(&args, app),
            Self::Wait(args) => wait::run(&args, app),
            Self::Why(args) => why::run(&args, app),
            Self::Answer(args) => answer::run(&args, app),
            Self::Retry(args) => retry::run(&args, app),
            Self::Revise(args) => revise::run(&args, app),
            Self::Revert(args) => revert::run(&args, app),
            Self::Approve(args) => approve::run(&args, app),
            Self::Apply(args) => apply::run(&args, app),
            Self::Undo(args) => undo::run(&args, app),
            Self::Waive(args) => waive::run(&args, app),
            Self::Cancel(args) => cancel::run(&args, app),
        }
    }
}
