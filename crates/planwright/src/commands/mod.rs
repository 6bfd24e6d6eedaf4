//! One file per command: its arguments and a `run` function. Doc comments of clap types are the help texts.

pub mod apply;
pub mod event_narrator;
pub mod overview;
pub mod relay_tools;
pub mod serve;
pub mod supervise;
pub mod why;

mod acp;
mod action;
mod agent;
mod agent_readiness;
mod agent_test;
mod answer;
mod approve;
mod cancel;
mod completions;
mod conditions;
mod config;
mod demo;
mod diff;
mod doctor;
mod drop;
mod first_landing;
mod help;
mod hunk_picker;
mod init;
mod list;
mod log;
mod mcp;
mod open;
mod path;
mod plan;
mod plan_arg;
mod plumbing;
mod profile;
mod project;
mod retry;
mod revert;
mod review;
mod revise;
mod rule;
mod run;
mod sandbox;
mod shell;
mod status;
mod store;
mod transcript;
mod transcript_follow;
mod undo;
mod use_action;
mod wait;
mod waive;
mod work;

use api::next_steps::is_workable;
use api::plans;
use api::view::PlanChangeView;
use clap::Subcommand;
use lifecycle::OperationOutcome;
use serde_json::Value;

use crate::cli::App;
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::ui;
use crate::wire::UserMessage;

pub use conditions::ConditionArgs;
pub use help::{HELP_TOPICS, overview_help};
pub use plan_arg::PlanArg;

/// A command's output, before it is printed as text or JSON.
#[derive(Debug)]
pub struct CommandAnswer {
    /// The JSON envelope's `data`.
    pub data: Value,
    /// Printed to standard output unless the format is JSON.
    pub text: String,
    pub layout: TextLayout,
    /// Printed to standard error, or as the envelope's `messages`.
    pub messages: Vec<UserMessage>,
    pub exit: CommandExit,
}

impl CommandAnswer {
    pub fn new(data: impl serde::Serialize, text: impl Into<String>) -> Self {
        let data = serde_json::to_value(data).expect("BUG: an answer always encodes");
        Self {
            data,
            text: text.into(),
            layout: TextLayout::default(),
            messages: Vec::new(),
            exit: CommandExit::Ok,
        }
    }

    /// Keeps the lines of the text as they are, because they are to be copied.
    #[must_use]
    pub fn with_kept_lines(mut self) -> Self {
        self.layout = TextLayout::Kept;
        self
    }

    /// Adds a hint: the next command, or a sentence.
    #[must_use]
    pub fn with_hint(mut self, text: impl Into<String>) -> Self {
        self.messages.push(UserMessage {
            level: "hint",
            text: text.into(),
        });
        self
    }
}

/// The commands besides the daily ones, in the groups of the overview.
const COMMAND_GROUPS: [(&str, &str); 4] = [
    (
        "For plans",
        "approve, drop, open, path, review, shell, use, wait, waive, work",
    ),
    (
        "Definitions",
        "action, agent, config, init, profile, project, rule",
    ),
    (
        "For programs",
        "acp, completions, mcp, plan, plumbing, serve",
    ),
    ("Upkeep", "demo, doctor, sandbox, store"),
];

/// How lines that are wider than a terminal are shown on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TextLayout {
    /// Broken at words.
    #[default]
    Wrapped,
    Kept,
}

#[derive(Debug, Subcommand)]
pub enum CliCommand {
    Init(init::InitArgs),
    Run(run::RunArgs),
    Use(use_action::UseArgs),
    List(list::ListArgs),
    Status(status::StatusArgs),
    Diff(diff::DiffArgs),
    Log(log::LogArgs),
    Why(why::WhyArgs),
    Answer(answer::AnswerArgs),
    Retry(retry::RetryArgs),
    Revise(revise::ReviseArgs),
    Drop(drop::DropArgs),
    Review(review::ReviewArgs),
    // The old way to write `revise --rethink --detach`.
    #[command(hide = true)]
    Revert(revert::RevertArgs),
    Approve(approve::ApproveArgs),
    Apply(apply::ApplyArgs),
    Undo(undo::UndoArgs),
    Wait(wait::WaitArgs),
    Work(work::WorkArgs),
    Serve(serve::ServeArgs),
    Open(open::OpenArgs),
    Acp(acp::AcpArgs),
    Mcp(mcp::McpArgs),
    Path(path::PathArgs),
    Shell(shell::ShellArgs),
    Waive(waive::WaiveArgs),
    Cancel(cancel::CancelArgs),
    #[command(subcommand)]
    Project(project::ProjectCommand),
    #[command(subcommand)]
    Sandbox(sandbox::SandboxCommand),
    #[command(subcommand, alias = "actor")]
    Agent(agent::AgentCommand),
    #[command(subcommand)]
    Action(action::ActionCommand),
    #[command(subcommand, alias = "invariant")]
    Rule(rule::RuleCommand),
    #[command(subcommand)]
    Profile(profile::ProfileCommand),
    #[command(subcommand)]
    Config(config::ConfigCommand),
    #[command(subcommand)]
    Store(store::StoreCommand),
    #[command(subcommand)]
    Plan(plan::PlanCommand),
    #[command(subcommand)]
    Plumbing(plumbing::PlumbingCommand),
    Doctor(doctor::DoctorArgs),
    Demo(demo::DemoArgs),
    Completions(completions::CompletionsArgs),
    Help(help::HelpArgs),
}

impl CliCommand {
    pub fn run(self, app: &App) -> Result<CommandAnswer, CommandError> {
        match self {
            Self::Init(args) => init::run(&args, app),
            Self::Run(args) => run::run(&args, app),
            Self::Wait(args) => wait::run(&args, app),
            Self::Work(args) => work::run(&args, app),
            Self::Serve(args) => serve::run(&args, app),
            Self::Open(args) => open::run(&args, app),
            Self::Acp(args) => acp::run(&args, app),
            Self::Mcp(args) => mcp::run(&args, app),
            Self::Agent(command) => command.run(app),
            Self::Use(args) => use_action::run(&args, app),
            Self::List(args) => list::run(&args, app),
            Self::Status(args) => status::run(&args, app),
            Self::Diff(args) => diff::run(&args, app),
            Self::Log(args) => log::run(&args, app),
            Self::Why(args) => why::run(&args, app),
            Self::Answer(args) => answer::run(&args, app),
            Self::Retry(args) => retry::run(&args, app),
            Self::Revise(args) => revise::run(&args, app),
            Self::Drop(args) => drop::run(&args, app),
            Self::Review(args) => review::run(&args, app),
            Self::Revert(args) => revert::run(&args, app),
            Self::Approve(args) => approve::run(&args, app),
            Self::Apply(args) => apply::run(&args, app),
            Self::Undo(args) => undo::run(&args, app),
            Self::Path(args) => path::run(&args, app),
            Self::Shell(args) => shell::run(&args, app),
            Self::Waive(args) => waive::run(&args, app),
            Self::Cancel(args) => cancel::run(&args, app),
            Self::Project(command) => command.run(app),
            Self::Sandbox(command) => command.run(app),
            Self::Action(command) => command.run(app),
            Self::Rule(command) => command.run(app),
            Self::Profile(command) => command.run(app),
            Self::Config(command) => command.run(app),
            Self::Store(command) => command.run(app),
            Self::Plan(command) => command.run(app),
            Self::Plumbing(command) => command.run(app),
            Self::Doctor(args) => doctor::run(&args, app),
            Self::Demo(args) => demo::run(&args, app),
            Self::Completions(args) => completions::run(&args, app),
            Self::Help(args) => help::run(&args, app),
        }
    }
}

/// Continues a plan that was revised, answered or retried, if its agents can run here; otherwise describes
/// it. A repeated command (same idempotency key) does not start the plan again.
fn continue_unless_detached(
    detach: bool,
    app: &App,
    done: &OperationOutcome,
) -> Result<CommandAnswer, CommandError> {
    if detach || done.repeated || !is_workable(&done.plan) {
        return answer_for_move(app, done);
    }
    run::continue_plan(app, done.plan.id(), run::LandingConsent::Asked)
}

/// Answers a command that changed a plan: where the plan stands now, and the next command.
fn answer_for_move(app: &App, done: &OperationOutcome) -> Result<CommandAnswer, CommandError> {
    answer_or_receipt(done, describe_move(app, done))
}

/// Returns the goal as a second line, because a handle alone does not say which plan it is. Empty if the goal was
/// shown before.
fn goal_line(app: &App, plan: &::plan::Plan) -> String {
    if app.is_announced(plan.id()) {
        return String::new();
    }
    let goal = ui::truncate_line(plan.goal().as_str(), 70);
    format!("  {}\n", ui::style_text(ui::DIM, goal))
}

fn describe_move(app: &App, done: &OperationOutcome) -> Result<CommandAnswer, CommandError> {
    let row = app.lifecycle()?.get_plan(done.plan.id())?;
    let standing = plans::find_standing(app.lifecycle()?, &row)?;
    let handle = app.lifecycle()?.short_handle(done.plan.id())?;
    let text = format!(
        "{} {}\n{}",
        ui::style_text(ui::BOLD, &handle),
        ui::style_standing(standing),
        goal_line(app, &row.plan)
    );
    let mut answer = CommandAnswer::new(plans::view_change(app.lifecycle()?, done)?, text);
    if done.repeated {
        answer.messages.push(UserMessage {
            level: "info",
            text: "Already done; nothing changed.".into(),
        });
    }
    if let Some(next) = app.next_command(&row)? {
        answer = answer.with_hint(next);
    }
    Ok(answer)
}

/// Falls back to the receipt if the plan cannot be described. The command is already committed; an error
/// would make callers repeat it.
fn answer_or_receipt(
    done: &OperationOutcome,
    description: Result<CommandAnswer, CommandError>,
) -> Result<CommandAnswer, CommandError> {
    description.or_else(|error| {
        let text = format!("Done, plan {}.\n", done.plan.id());
        let mut answer = CommandAnswer::new(PlanChangeView::of_receipt(done), text);
        answer.messages.push(UserMessage {
            level: "warn",
            text: format!(
                "Done, but the plan could not be read back: {}",
                error.message
            ),
        });
        Ok(answer)
    })
}
