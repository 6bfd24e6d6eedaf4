//! `planwright run`.

mod goal;
mod new_plan;
mod session;
mod session_end;

use std::time::Duration;

use plan::{Profile, QualifiedName};

use crate::cli::App;
use crate::commands::CommandAnswer;
use crate::error::CommandError;
use crate::host;
use crate::limits::LimitArgs;

pub use session::{continue_plan, is_workable};

/// Have an agent work on a goal, watch it, and look at what it made; or go on with a plan.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// What is to be done, in a sentence; `-` reads it from standard input. One word is the plan to go on
    /// with, or to follow. Nothing opens your editor.
    #[arg(value_name = "GOAL|ID")]
    what: Option<String>,
    /// The goal, where it is a single word.
    #[arg(long, value_name = "TEXT", conflicts_with = "what")]
    goal: Option<String>,
    /// The agent: an installed one such as claude or codex, or one you defined
    #[arg(long = "agent", alias = "actor", value_name = "NAME")]
    actor: Option<QualifiedName>,
    /// Where the plan stops and asks: manual, supervised, review or auto.
    #[arg(long)]
    profile: Option<Profile>,
    /// Have a strategy made first, and look at it before anything is changed.
    #[arg(long)]
    strategy: bool,
    /// Start from what is not committed yet, too.
    #[arg(long)]
    with_changes: bool,
    /// The project to work on, instead of the repository one is in.
    #[arg(long, value_name = "NAME", conflicts_with = "no_project")]
    project: Option<QualifiedName>,
    /// Work on no repository at all: the result is a report.
    #[arg(long)]
    no_project: bool,
    /// Leave the work to a worker (`planwright work`) instead of doing it here.
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    limits: LimitArgs,
    /// Land the result without asking, once every gate holds.
    #[arg(long)]
    yes: bool,
}

/// Whether a result may land.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LandingConsent {
    /// Whoever began it said so.
    Given,
    /// A person is asked once it is there.
    Asked,
}

/// How often it is looked whether somebody else who works on a plan is done.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Begins a plan, or goes on with one.
pub fn run(args: &RunArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    if let Some(handle) = args.plan_handle() {
        args.refuse_new_plan_flags()?;
        let plan_id = app.resolve_plan(handle).map_err(|error| match handle {
            "@" => error,
            word => error.with_hint(format!("As a goal: planwright run --goal {word}")),
        })?;
        return continue_plan(app, plan_id, args.consent());
    }
    // Before the engine is opened, which looks what this host is called.
    host::register_host(&app.settings.home)?;
    let goal = goal::read_goal(args, app)?;
    let plan = new_plan::create_plan(args, app, goal)?;
    if args.detach {
        return new_plan::answer_detached(app, plan);
    }
    continue_plan(app, plan, args.consent())
}

impl RunArgs {
    /// One word is a plan: a goal that says what is to be done has more.
    fn plan_handle(&self) -> Option<&str> {
        let what = self.what.as_deref()?;
        let one_word = !what.chars().any(char::is_whitespace) && what != "-" && !what.is_empty();
        one_word.then_some(what)
    }

    /// What a plan was begun with stays as it is.
    fn refuse_new_plan_flags(&self) -> Result<(), CommandError> {
        let given = [
            ("--agent", self.actor.is_some()),
            ("--profile", self.profile.is_some()),
            ("--strategy", self.strategy),
            ("--with-changes", self.with_changes),
            ("--project", self.project.is_some()),
            ("--no-project", self.no_project),
            ("--detach", self.detach),
        ];
        let given = given.into_iter().chain(self.limits.given_flags());
        match given.into_iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((flag, _)) => Err(CommandError::usage(format!(
                "{flag} is for a new goal; a plan keeps what it was begun with."
            ))
            .with_hint("A goal of one word is given with --goal.")),
        }
    }

    fn consent(&self) -> LandingConsent {
        if self.yes {
            LandingConsent::Given
        } else {
            LandingConsent::Asked
        }
    }
}
