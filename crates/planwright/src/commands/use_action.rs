//! `planwright use`: creates a plan from an action.

use api::plans::{self, CreatePlanRequest};
use lifecycle::OperationOutcome;
use plan::{Profile, QualifiedName};

use crate::cli::App;
use crate::commands::{CommandAnswer, answer_or_receipt, conditions};
use crate::error::CommandError;
use crate::limits::LimitArgs;
use crate::plan_notices::describe_notices;
use crate::wire::UserMessage;
use crate::{completion, current_repository, host, repository_config, ui};

/// Create a plan from an action
#[derive(Debug, clap::Args)]
pub struct UseArgs {
    /// Action name
    #[arg(add = completion::actions())]
    action: QualifiedName,
    /// Projects to work on [default: the current repository]
    #[arg(add = completion::projects(), conflicts_with = "no_project")]
    projects: Vec<QualifiedName>,
    /// Work without a repository; the result is a report
    #[arg(long)]
    no_project: bool,
    /// Include uncommitted changes in the sandbox
    #[arg(long)]
    with_changes: bool,
    /// Argument of the action; repeat for more, or for list items
    #[arg(long = "arg", value_name = "NAME=VALUE", value_parser = parse_argument)]
    arguments: Vec<(String, String)>,
    /// Automation profile: manual, supervised, review or auto
    #[arg(long, add = completion::profiles())]
    profile: Option<Profile>,
    /// Goal, instead of the action's description
    #[arg(long)]
    goal: Option<String>,
    #[command(flatten)]
    limits: LimitArgs,
    /// Create at most one plan per key; repeating returns the first answer
    #[arg(long, value_name = "KEY", value_parser = conditions::parse_idempotency_key)]
    idempotency_key: Option<String>,
}

pub fn run(args: &UseArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let is_in_repository = current_repository::find_checkout_root().is_some();
    let uses_repository = args.projects.is_empty() && !args.no_project && is_in_repository;
    if uses_repository {
        // Must happen before the engine is opened, because the engine reads the host's id and the repository may be
        // registered as a project.
        host::register_host(&app.settings.home)?;
    }
    let lifecycle = app.lifecycle()?;
    let mut request = CreatePlanRequest {
        goal: args.goal.clone(),
        action: Some(args.action.clone()),
        arguments: args.arguments.clone(),
        projects: args.projects.clone(),
        profile: args.profile,
        limits: args.limits.overrides(),
        with_uncommitted_changes: args.with_changes,
        ..CreatePlanRequest::default()
    };
    if uses_repository {
        request.projects.push(find_own_project(app, &args.action)?);
    }
    let config = repository_config::read_plan_config(&app.settings, lifecycle, &request.projects)?;
    let mut call = app.new_call();
    if let Some(key) = &args.idempotency_key {
        call = call.with_key(key);
    }
    let created = plans::create_plan(lifecycle, &request, &config, &call)?;
    let done = &created.outcome;
    app.remember_plan(done.plan.id());
    let mut answer = answer_or_receipt(done, describe_new_plan(app, done))?;
    let notices = plans::find_notices(lifecycle, &request, &config, &created);
    answer.messages = describe_notices(&notices)
        .into_iter()
        .chain(answer.messages)
        .collect();
    Ok(answer)
}

/// Returns the project of the current repository, which is registered if it is new and the action exists.
fn find_own_project(app: &App, action: &QualifiedName) -> Result<QualifiedName, CommandError> {
    let stored = api::actions::find_stored_action(app.lifecycle()?, action)?;
    if !stored.as_ref().is_some_and(api::actions::is_available) {
        let defined = current_repository::list_actions()?;
        api::actions::find_action(app.lifecycle()?, action, &defined)?;
    }
    let place = current_repository::inspect_repository()?;
    match current_repository::find_project(app, &place)? {
        Some(project) => Ok(project),
        None => current_repository::register_project(app, &place, &app.new_call()),
    }
}

fn describe_new_plan(app: &App, done: &OperationOutcome) -> Result<CommandAnswer, CommandError> {
    let handle = app.lifecycle()?.short_handle(done.plan.id())?;
    let text = format!(
        "{}  {}\n  {}\n",
        ui::style_text(ui::BOLD, &handle),
        ui::truncate_line(done.plan.goal().as_str(), 70),
        ui::style_text(ui::DIM, done.plan.id()),
    );
    let mut answer = CommandAnswer::new(plans::view_change(app.lifecycle()?, done)?, text);
    if done.repeated {
        answer.messages.push(UserMessage {
            level: "info",
            text: "The plan already exists; no second one was created.".to_owned(),
        });
    }
    let row = app.lifecycle()?.get_plan(done.plan.id())?;
    if let Some(next) = app.next_commands(&row)?.into_iter().next() {
        answer = answer.with_hint(next);
    }
    Ok(answer)
}

pub fn parse_argument(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("write it as NAME=VALUE".to_owned()),
    }
}
