//! `planwright run`: starts a plan from a goal, or continues one, and reviews the result.

mod goal;
mod new_plan;
mod permission_prompt;
mod session;
mod session_end;

use std::time::Duration;

use plan::{PlanId, Profile, QualifiedName};

use crate::cli::App;
use crate::commands::CommandAnswer;
use crate::error::CommandError;
use crate::invocation::quote_word;
use crate::limits::LimitArgs;
use crate::{completion, host};

pub use goal::edit_text;
pub use permission_prompt::may_ask_permission;
pub use session::{DriveEnd, DriveObserver, continue_plan, drive_plan};
pub use session_end::{
    describe_blocking_rules, describe_strategy, headline_of, is_result_unchanged, is_text_agent,
    report_headline,
};

/// Run an agent on a goal and review the result, or continue a plan
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// Goal in a sentence, or a plan ID or handle to continue
    ///
    /// `-` reads the goal from standard input. A single word is taken as a plan. Without an argument, your
    /// editor opens.
    #[arg(value_name = "GOAL|ID", add = completion::plans())]
    what: Option<String>,
    /// Arguments of the action
    #[arg(value_name = "NAME=VALUE", requires = "what")]
    arguments: Vec<String>,
    /// Use this action, with the arguments that follow as NAME=VALUE
    #[arg(long, value_name = "NAME", conflicts_with_all = ["actor", "strategy"], add = completion::actions())]
    action: Option<QualifiedName>,
    /// Goal text. Required if the goal is a single word
    #[arg(long, value_name = "TEXT")]
    goal: Option<String>,
    /// Agent to run: an installed one such as claude or codex, or one you defined
    #[arg(long = "agent", alias = "actor", value_name = "NAME", add = completion::agents())]
    actor: Option<QualifiedName>,
    /// Automation profile: manual, supervised, review or auto
    #[arg(long, add = completion::profiles())]
    profile: Option<Profile>,
    /// Have the agent write a strategy first, for you to review
    #[arg(long)]
    strategy: bool,
    /// Include uncommitted changes in the sandbox
    #[arg(long)]
    with_changes: bool,
    /// Project to work on, instead of the current repository
    #[arg(long, value_name = "NAME", conflicts_with = "no_project", add = completion::projects())]
    project: Option<QualifiedName>,
    /// Work without a repository; the result is a report
    #[arg(long)]
    no_project: bool,
    /// Leave the work to a worker (planwright work) instead of running it here
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    limits: LimitArgs,
    /// Land the result without asking for confirmation, if every gate passes
    #[arg(long)]
    yes: bool,
}

/// Whether a finished result lands without another question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LandingConsent {
    /// The user passed `--yes`.
    Given,
    /// Ask once the result is there.
    Asked,
}

/// Upper bound for one wait while another process works on the plan.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub fn run(args: &RunArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    if args.action.is_some() {
        host::register_host(&app.settings.home)?;
        let plan = new_plan::create_plan(args, app, args.goal.clone())?;
        return args.start_plan(app, plan);
    }
    if !args.arguments.is_empty() {
        return Err(
            CommandError::usage("A goal of several words needs quotes.").with_hint(format!(
                "planwright run {}",
                quote_word(&args.positional_words().join(" "))
            )),
        );
    }
    if args.goal.is_some() && args.what.is_some() {
        return Err(CommandError::usage(
            "Give the goal once: as an argument or with --goal.",
        ));
    }
    if let Some(handle) = args.plan_handle() {
        args.refuse_new_plan_flags()?;
        let plan_id = app.resolve_plan(handle).map_err(|error| match handle {
            "@" => error,
            word => error.with_hint(format!("To use it as a goal: planwright run --goal {word}")),
        })?;
        return continue_plan(app, plan_id, args.consent());
    }
    // Must happen before the engine is opened, because the engine reads the host's id.
    host::register_host(&app.settings.home)?;
    let goal = goal::read_goal(args, app)?;
    let plan = new_plan::create_plan(args, app, Some(goal))?;
    args.start_plan(app, plan)
}

impl RunArgs {
    fn start_plan(&self, app: &App, plan: PlanId) -> Result<CommandAnswer, CommandError> {
        if self.detach {
            return new_plan::answer_detached(app, plan);
        }
        continue_plan(app, plan, self.consent())
    }

    fn positional_words(&self) -> Vec<&str> {
        let words = self.what.iter().chain(&self.arguments);
        words.map(String::as_str).collect()
    }

    /// Returns the positional argument if it is a single word, which is taken as a plan handle.
    fn plan_handle(&self) -> Option<&str> {
        let what = self.what.as_deref()?;
        let one_word = !what.chars().any(char::is_whitespace) && what != "-" && !what.is_empty();
        one_word.then_some(what)
    }

    /// Refuses flags that only apply to new plans.
    fn refuse_new_plan_flags(&self) -> Result<(), CommandError> {
        let flags = [
            ("--agent", self.actor.is_some()),
            ("--profile", self.profile.is_some()),
            ("--strategy", self.strategy),
            ("--with-changes", self.with_changes),
            ("--project", self.project.is_some()),
            ("--no-project", self.no_project),
            ("--detach", self.detach),
        ];
        let flags = flags.into_iter().chain(self.limits.given_flags());
        match flags.into_iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((flag, _)) => Err(CommandError::usage(format!(
                "{flag} only applies to new plans; this plan keeps its settings."
            ))
            .with_hint("To run a one-word goal, use --goal.")),
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
