//! `planwright use`: creates a plan from an action.

use lifecycle::{OperationOutcome, UseRequest};
use plan::{PlanActors, Profile, QualifiedName};
use sandbox::ResourceLocation;

use crate::actions::FoundAction;
use crate::cli::App;
use crate::commands::{
    CommandAnswer, answer_or_receipt, conditions, is_workable, view_with_receipt,
};
use crate::error::CommandError;
use crate::limits::LimitArgs;
use crate::repository_config::{self, RepositoryAction, RepositoryConfig};
use crate::wire::UserMessage;
use crate::{actions, actor_set, current_repository, host, rule_warnings, ui};

/// Create a plan from an action
#[derive(Debug, clap::Args)]
pub struct UseArgs {
    /// Action name
    action: QualifiedName,
    /// Projects to work on
    projects: Vec<QualifiedName>,
    /// Include uncommitted changes in the sandbox
    #[arg(long)]
    with_changes: bool,
    /// Argument of the action; repeat for more, or for list items
    #[arg(long = "arg", value_name = "NAME=VALUE", value_parser = parse_argument)]
    arguments: Vec<(String, String)>,
    /// Automation profile: manual, supervised, review or auto
    #[arg(long)]
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
    if args.projects.is_empty() && current_repository::find_checkout_root().is_some() {
        // Must happen before the engine is opened, because the engine reads the host's id and an action of
        // the repository may register the repository as a project.
        host::register_host(&app.settings.home)?;
    }
    let resolved = resolve_use(args, app)?;
    let config = resolved.config;
    let defaults = config.resolve_defaults(&app.settings);
    let fallback_actors = defaults.actor.map(PlanActors::for_both_phases);
    let actors = resolved.action.definition().actors.clone();
    let definitions = match actors.or_else(|| fallback_actors.clone()) {
        Some(actors) => actor_set::find_definitions(app, &actors, &config)?,
        None => Vec::new(),
    };
    let action = match &resolved.action {
        FoundAction::Stored(action) => action.name().clone(),
        FoundAction::InRepository(action) => actions::freeze_action(app, action)?,
    };
    let request = UseRequest {
        definitions,
        limits: args.limits.overrides().or(defaults.limits).with_defaults(),
        policy: config.policy,
        action: Some(action),
        goal: args.goal.clone(),
        arguments: args.arguments.clone(),
        fallback_actors,
        profile: args.profile,
        fallback_profile: defaults.profile,
        projects: resolved.projects.clone(),
        with_uncommitted_changes: args.with_changes,
        ..UseRequest::default()
    };
    let mut call = app.new_call();
    if let Some(key) = &args.idempotency_key {
        call = call.with_key(key);
    }
    let lifecycle = app.lifecycle()?;
    let done = lifecycle.use_action(request, &call)?;
    app.remember_plan(done.plan.id());
    let described = answer_or_receipt(&done, describe_new_plan(app, &done));
    let unknown = warn_undefined_actor(&done.plan);
    described.map(|answer| {
        let start = StartingPoint::from_flag(args.with_changes);
        let uncommitted = warn_uncommitted(app, &resolved.projects, start);
        CommandAnswer {
            messages: uncommitted
                .into_iter()
                .chain(unknown)
                .chain(warn_passed_over_action(&resolved.action, &config.actions))
                .chain(warn_paused_projects(app, &resolved.projects))
                .chain(answer.messages)
                .collect(),
            ..answer
        }
    })
}

/// The action to use, the projects to use it on, and their repositories' configuration.
struct ResolvedUse {
    action: FoundAction,
    projects: Vec<QualifiedName>,
    config: RepositoryConfig,
}

/// Finds the action. A stored action works only on the named projects; one of the current repository works
/// on that repository unless projects are named.
fn resolve_use(args: &UseArgs, app: &App) -> Result<ResolvedUse, CommandError> {
    let config = repository_config::read_for_projects(app, &args.projects)?;
    if !args.projects.is_empty() {
        return Ok(ResolvedUse {
            action: actions::find_action(app, &args.action, &config.actions)?,
            projects: args.projects.clone(),
            config,
        });
    }
    let stored = actions::find_stored_action(app, &args.action)?;
    if let Some(action) = stored.filter(actions::is_available) {
        return Ok(ResolvedUse {
            action: FoundAction::Stored(Box::new(action)),
            projects: Vec::new(),
            config,
        });
    }
    let action = actions::find_action(app, &args.action, &actions::repository_actions_here()?)?;
    let FoundAction::InRepository(_) = &action else {
        return Ok(ResolvedUse {
            action,
            projects: Vec::new(),
            config,
        });
    };
    let place = current_repository::inspect_repository()?;
    let project = match current_repository::find_project(app, &place)? {
        Some(project) => project,
        None => current_repository::register_project(app, &place)?,
    };
    let projects = vec![project];
    Ok(ResolvedUse {
        action,
        config: repository_config::read_for_projects(app, &projects)?,
        projects,
    })
}

/// Warns if a repository defines a different action of the same name.
fn warn_passed_over_action(action: &FoundAction, defined: &[RepositoryAction]) -> Vec<UserMessage> {
    let FoundAction::Stored(stored) = action else {
        return Vec::new();
    };
    let other = defined
        .iter()
        .find(|one| one.definition.name == *stored.name() && one.definition != stored.definition);
    let Some(other) = other else {
        return Vec::new();
    };
    let notice = UserMessage {
        level: "info",
        text: format!(
            "Used action `{}` from your store, not the one in {}.",
            stored.name(),
            other.file.display()
        ),
    };
    let hint = UserMessage {
        level: "hint",
        text: format!(
            "To use the repository's action from now on: planwright action archive {}",
            stored.name()
        ),
    };
    vec![notice, hint]
}

/// Warns if an agent of the plan has no definition here.
fn warn_undefined_actor(plan: &plan::Plan) -> Option<UserMessage> {
    let unknown = plan
        .actors()
        .actor_names()
        .find(|actor| plan.actor_definition(actor).is_none())?;
    let does_work = [&plan.actors().strategy, &plan.actors().execution].contains(&unknown);
    let consequence = match does_work {
        true => "the plan waits until another program claims its work",
        false => "a person must answer its ask rules",
    };
    Some(UserMessage {
        level: "info",
        text: format!("Agent `{unknown}` is not defined here; {consequence}."),
    })
}

fn describe_new_plan(app: &App, done: &OperationOutcome) -> Result<CommandAnswer, CommandError> {
    let handle = app.lifecycle()?.short_handle(done.plan.id())?;
    let text = format!(
        "{}  {}\n  {}\n",
        ui::style_text(ui::BOLD, &handle),
        ui::truncate_line(done.plan.goal().as_str(), 70),
        ui::style_text(ui::DIM, done.plan.id()),
    );
    let mut answer = CommandAnswer::new(view_with_receipt(app, done)?, text);
    if done.repeated {
        answer.messages.push(UserMessage {
            level: "info",
            text: "The plan already exists; no second one was created.".to_owned(),
        });
    }
    let next = match is_workable(&done.plan) {
        true => "run",
        false => "status",
    };
    Ok(answer.with_hint(format!("planwright {next} {handle}")))
}

fn warn_paused_projects(app: &App, projects: &[QualifiedName]) -> Vec<UserMessage> {
    let Ok(lifecycle) = app.lifecycle() else {
        return Vec::new();
    };
    let mut messages = Vec::new();
    for name in projects {
        let project = lifecycle.projects().get_project(name);
        if project.is_ok_and(|project| project.paused.is_some()) {
            messages.push(UserMessage {
                level: "warn",
                text: format!("Project {name} is paused: nothing will start until it is resumed."),
            });
            messages.push(UserMessage {
                level: "hint",
                text: format!("planwright project resume {name}"),
            });
        }
    }
    messages
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartingPoint {
    /// The target branch.
    Committed,
    /// The target branch plus uncommitted changes.
    WithChanges,
}

impl StartingPoint {
    pub fn from_flag(with_changes: bool) -> Self {
        if with_changes {
            Self::WithChanges
        } else {
            Self::Committed
        }
    }
}

/// Warns about uncommitted files the agent will not see, uncommitted rules that apply, and an unconfined
/// setup command.
pub fn warn_uncommitted(
    app: &App,
    projects: &[QualifiedName],
    start: StartingPoint,
) -> Vec<UserMessage> {
    let Ok(lifecycle) = app.lifecycle() else {
        return Vec::new();
    };
    let locations = lifecycle
        .sandboxes()
        .locate_project_resources(projects)
        .unwrap_or_default();
    let mut messages = Vec::new();
    for location in &locations {
        let unconfined = lifecycle
            .local_host()
            .is_ok_and(|host| host.sandboxes.runs_set_up_unconfined(location));
        if unconfined {
            messages.push(UserMessage {
                level: "info",
                text: format!(
                    "{}: the setup command runs unconfined, with your permissions, because of your setting \
                     sandbox.unconfined.",
                    location.name
                ),
            });
        }
        let branch = rule_warnings::branch_with_other_rules(app, location);
        messages.extend(branch.as_ref().map(|branch| UserMessage {
            level: "info",
            text: format!(
                "{}: the rules in planwright.yaml differ from those on {branch}; this plan must meet both.",
                location.name
            ),
        }));
        // A plan on a directory starts from the files as they are.
        let sees_all = start == StartingPoint::WithChanges
            || matches!(location.location, ResourceLocation::Dir { .. });
        if sees_all {
            continue;
        }
        let mut uncommitted = lifecycle
            .local_host()
            .ok()
            .and_then(|host| host.sandboxes.open_repository(location).ok())
            .and_then(|repository| repository.list_uncommitted_paths().ok())
            .unwrap_or_default();
        let count = uncommitted.len();
        uncommitted.retain(|path| path.as_bytes() != b"planwright.yaml");
        // If `branch` is set, the message above already covers planwright.yaml.
        if uncommitted.len() < count && branch.is_none() {
            messages.push(UserMessage {
                level: "info",
                text: format!(
                    "{}: planwright.yaml has uncommitted changes; the current version is used.",
                    location.name
                ),
            });
        }
        if !uncommitted.is_empty() {
            messages.push(UserMessage {
                level: "info",
                text: format!(
                    "{}: {} not visible to the agent; pass --with-changes to include them.",
                    location.name,
                    ui::pluralize(uncommitted.len() as u64, "uncommitted file")
                ),
            });
        }
    }
    messages
}

fn parse_argument(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("write it as NAME=VALUE".to_owned()),
    }
}
