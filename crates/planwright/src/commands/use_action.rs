//! `planwright use`.

use lifecycle::{Done, UseRequest};
use plan::plan::ProfileSource;
use plan::{Actors, Name, Profile};

use crate::cli::App;
use crate::commands::{Answer, conditions, described, view_with_receipt};
use crate::error::CommandError;
use crate::wire::Message;
use crate::{crew, in_force, ui, wishes};

/// Use an action: make a plan of it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The action.
    action: Name,
    /// The projects to work on.
    projects: Vec<Name>,
    /// Start from what is not committed yet, too.
    #[arg(long)]
    with_changes: bool,
    /// An argument of the action; repeat it for more, or for the items of a list.
    #[arg(long = "arg", value_name = "NAME=VALUE", value_parser = argument)]
    arguments: Vec<(String, String)>,
    /// Where the plan stops and asks: manual, supervised, review or auto.
    #[arg(long)]
    profile: Option<Profile>,
    /// What it is for, instead of the action's description.
    #[arg(long)]
    goal: Option<String>,
    /// Repeating it with the same key makes no second plan and gives the same answer.
    #[arg(long, value_name = "KEY", value_parser = conditions::key)]
    idempotency_key: Option<String>,
}

/// Makes a plan.
pub fn run(args: &Args, app: &App) -> Result<Answer, CommandError> {
    let wishes = wishes::of_projects(app, &args.projects)?;
    let fallback_actors = wishes
        .actor
        .clone()
        .map(Actors::both)
        .or(app.settings.actors());
    let action = app.lifecycle()?.get_action(&args.action)?.definition;
    let works = action.actors.or_else(|| fallback_actors.clone());
    let definitions = match &works {
        Some(actors) => crew::definitions(app, actors, &wishes)?,
        None => Vec::new(),
    };
    let request = UseRequest {
        definitions,
        limits: wishes.limits,
        ways: wishes.ways,
        action: Some(args.action.clone()),
        goal: args.goal.clone(),
        arguments: args.arguments.clone(),
        fallback_actors,
        profile: args.profile,
        fallback_profile: fallback_profile(app, wishes.profile),
        projects: args.projects.clone(),
        with_changes: args.with_changes,
        ..UseRequest::default()
    };
    let mut call = app.call();
    if let Some(key) = &args.idempotency_key {
        call = call.with_key(key);
    }
    let lifecycle = app.lifecycle()?;
    let done = lifecycle.use_action(request, &call)?;
    let described = described(&done, describe(app, &done));
    let unknown = undefined(&done.plan);
    described.map(|answer| {
        let unseen = what_is_not_committed(app, &args.projects, args.with_changes);
        Answer {
            messages: answer
                .messages
                .into_iter()
                .chain(unseen)
                .chain(unknown)
                .chain(paused(app, &args.projects))
                .collect(),
            ..answer
        }
    })
}

/// Says that nobody here knows how an actor of the plan is started.
fn undefined(plan: &plan::Plan) -> Option<Message> {
    let actors = [&plan.actors.strategy, &plan.actors.execution];
    let unknown = actors
        .into_iter()
        .find(|actor| plan.definition(actor).is_none())?;
    Some(Message {
        level: "info",
        text: format!(
            "Nobody here knows how `{unknown}` is started; the plan waits for a program that works as \
             it, or for plumbing."
        ),
    })
}

/// The profile where neither a flag nor the action says one.
pub fn fallback_profile(
    app: &App,
    repository: Option<Profile>,
) -> Option<(Profile, ProfileSource)> {
    let said = repository.map(|profile| (profile, ProfileSource::Repository));
    said.or_else(|| {
        app.settings
            .profile()
            .map(|profile| (profile, ProfileSource::User))
    })
}

fn describe(app: &App, done: &Done) -> Result<Answer, CommandError> {
    let handle = app.lifecycle()?.short_name(done.plan.id)?;
    let text = format!(
        "{}  {}\n  {}\n",
        ui::styled(ui::BOLD, &handle),
        ui::one_line(done.plan.goal.as_str(), 70),
        ui::styled(ui::DIM, done.plan.id),
    );
    let mut answer = Answer::new(view_with_receipt(app, done)?, text);
    if done.repeated {
        answer.messages.push(Message {
            level: "info",
            text: "It had been made before; there is no second plan.".to_owned(),
        });
    }
    Ok(answer.hint(format!("planwright status {handle}")))
}

/// Says at once that nothing will start.
fn paused(app: &App, projects: &[Name]) -> Vec<Message> {
    let Ok(lifecycle) = app.lifecycle() else {
        return Vec::new();
    };
    let mut messages = Vec::new();
    for name in projects {
        let project = lifecycle.get_project(name);
        if project.is_ok_and(|project| project.paused.is_some()) {
            messages.push(Message {
                level: "warn",
                text: format!("Project {name} is paused: nothing will start until it is resumed."),
            });
            messages.push(Message {
                level: "hint",
                text: format!("planwright project resume {name}"),
            });
        }
    }
    messages
}

/// Says at once what the work will not see.
pub fn what_is_not_committed(app: &App, projects: &[Name], seen: bool) -> Vec<Message> {
    let Ok(lifecycle) = app.lifecycle() else {
        return Vec::new();
    };
    let sites = lifecycle.sites_of_projects(projects).unwrap_or_default();
    let mut messages = Vec::new();
    for site in &sites {
        let branch = in_force::other_rules_on(app, site);
        messages.extend(branch.as_ref().map(|branch| Message {
            level: "info",
            text: format!(
                "{}: the rules in planwright.yaml are not those on {branch}, which count until it is \
                 committed there.",
                site.name
            ),
        }));
        if seen {
            continue;
        }
        let mut uncommitted = lifecycle
            .hands()
            .ok()
            .and_then(|hands| hands.workshop.repository(site).ok())
            .and_then(|repository| repository.uncommitted().ok())
            .unwrap_or_default();
        let count = uncommitted.len();
        uncommitted.retain(|path| path.as_bytes() != b"planwright.yaml");
        // That its rules are not used was said.
        if uncommitted.len() < count && branch.is_none() {
            messages.push(Message {
                level: "info",
                text: format!(
                    "{}: planwright.yaml is not committed as it stands; what it says now is used.",
                    site.name
                ),
            });
        }
        if !uncommitted.is_empty() {
            messages.push(Message {
                level: "info",
                text: format!(
                    "{}: {}, not visible to the agent; --with-changes starts from them.",
                    site.name,
                    ui::count(uncommitted.len() as u64, "uncommitted file")
                ),
            });
        }
    }
    messages
}

fn argument(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("write it as NAME=VALUE".to_owned()),
    }
}
