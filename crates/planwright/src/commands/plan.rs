//! `planwright plan VERB`: the same verbs, and the names they had in the reference.

use clap::Subcommand;

use crate::cli::App;
use crate::commands::{
    CommandAnswer, answer, apply, approve, cancel, diff, list, log, retry, revert, revise, run,
    status, undo, use_action, wait, waive, why,
};
use crate::error::CommandError;

/// The verbs on plans, under one word.
#[derive(Debug, Subcommand)]
pub enum PlanCommand {
    Use(use_action::UseArgs),
    List(list::ListArgs),
    Status(status::StatusArgs),
    Diff(diff::DiffArgs),
    Log(log::LogArgs),
    /// The events of a plan (= log --events).
    History {
        /// The plan.
        id: String,
    },
    /// The decision tree of a plan (= log --decisions).
    Tree {
        /// The plan.
        id: String,
    },
    /// Go on with a plan (= run ID).
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
    /// Carries it out.
    pub fn run(self, app: &App) -> Result<CommandAnswer, CommandError> {
        match self {
            Self::Use(args) => use_action::run(&args, app),
            Self::List(args) => list::run(&args, app),
            Self::Status(args) => status::run(&args, app),
            Self::Diff(args) => diff::run(&args, app),
            Self::Log(args) => log::run(&args, app),
            Self::History { id } => log::run(&log::LogArgs::for_events(id), app),
            Self::Tree { id } => log::run(&log::LogArgs::for_decisions(id), app),
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
