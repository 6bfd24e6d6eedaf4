//! `planwright use`.

use lifecycle::{Done, UseRequest};
use plan::{Actors, Name, Profile};
use sandbox::SitePlace;

use crate::actions::Found;
use crate::cli::App;
use crate::commands::{Answer, conditions, described, is_workable, view_with_receipt};
use crate::error::CommandError;
use crate::limits::LimitArgs;
use crate::wire::Message;
use crate::wishes::{self, RepositoryAction, Wishes};
use crate::{actions, crew, here, host, in_force, ui};

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
    #[command(flatten)]
    limits: LimitArgs,
    /// Repeating it with the same key makes no second plan and gives the same answer.
    #[arg(long, value_name = "KEY", value_parser = conditions::key)]
    idempotency_key: Option<String>,
}

/// Makes a plan.
pub fn run(args: &Args, app: &App) -> Result<Answer, CommandError> {
    if args.projects.is_empty() && here::checkout().is_some() {
        // Before the engine is opened, which looks what this host is called: an action of the repository
        // may make it a project.
        host::register(&app.settings.home)?;
    }
    let scene = scene(args, app)?;
    let wishes = scene.wishes;
    let preferred = wishes.preferred(&app.settings);
    let fallback_actors = preferred.actor.map(Actors::both);
    let actors = scene.action.definition().actors.clone();
    let definitions = match actors.or_else(|| fallback_actors.clone()) {
        Some(actors) => crew::definitions(app, &actors, &wishes)?,
        None => Vec::new(),
    };
    let action = match &scene.action {
        Found::Kept(action) => action.name().clone(),
        Found::Defined(action) => actions::freeze(app, action)?,
    };
    let request = UseRequest {
        definitions,
        limits: args.limits.said().or(preferred.limits).settled(),
        ways: wishes.ways,
        action: Some(action),
        goal: args.goal.clone(),
        arguments: args.arguments.clone(),
        fallback_actors,
        profile: args.profile,
        fallback_profile: preferred.profile,
        projects: scene.projects.clone(),
        with_changes: args.with_changes,
        ..UseRequest::default()
    };
    let mut call = app.call();
    if let Some(key) = &args.idempotency_key {
        call = call.with_key(key);
    }
    let lifecycle = app.lifecycle()?;
    let done = lifecycle.use_action(request, &call)?;
    app.remember(done.plan.id);
    let described = described(&done, describe(app, &done));
    let unknown = undefined(&done.plan);
    described.map(|answer| {
        let start = Start::of(args.with_changes);
        let unseen = what_is_not_committed(app, &scene.projects, start);
        Answer {
            messages: unseen
                .into_iter()
                .chain(unknown)
                .chain(passed_over(&scene.action, &wishes.actions))
                .chain(paused(app, &scene.projects))
                .chain(answer.messages)
                .collect(),
            ..answer
        }
    })
}

/// What is used, on what, and what the repositories say about it.
struct Scene {
    action: Found,
    projects: Vec<Name>,
    wishes: Wishes,
}

/// A kept action works on the projects that are named; one of the repository one is in, on that one
/// unless others are named.
fn scene(args: &Args, app: &App) -> Result<Scene, CommandError> {
    let wishes = wishes::of_projects(app, &args.projects)?;
    if !args.projects.is_empty() {
        return Ok(Scene {
            action: actions::find(app, &args.action, &wishes.actions)?,
            projects: args.projects.clone(),
            wishes,
        });
    }
    let kept = actions::kept(app, &args.action)?;
    if let Some(action) = kept.filter(actions::is_available) {
        return Ok(Scene {
            action: Found::Kept(Box::new(action)),
            projects: Vec::new(),
            wishes,
        });
    }
    let action = actions::find(app, &args.action, &actions::defined_here()?)?;
    let Found::Defined(_) = &action else {
        return Ok(Scene {
            action,
            projects: Vec::new(),
            wishes,
        });
    };
    let place = here::repository()?;
    let project = match here::project_of(app, &place)? {
        Some(project) => project,
        None => here::register(app, &place)?,
    };
    let projects = vec![project];
    Ok(Scene {
        action,
        wishes: wishes::of_projects(app, &projects)?,
        projects,
    })
}

/// Says that a repository means something else by the name.
fn passed_over(action: &Found, defined: &[RepositoryAction]) -> Vec<Message> {
    let Found::Kept(kept) = action else {
        return Vec::new();
    };
    let other = defined
        .iter()
        .find(|one| one.definition.name == *kept.name() && one.definition != kept.definition);
    let Some(other) = other else {
        return Vec::new();
    };
    let told = Message {
        level: "info",
        text: format!(
            "The action `{}` of your store was used, not the one of {}.",
            kept.name(),
            other.file.display()
        ),
    };
    let hint = Message {
        level: "hint",
        text: format!(
            "To use the repository's from now on: planwright action archive {}",
            kept.name()
        ),
    };
    vec![told, hint]
}

/// Says that nobody here knows how an actor of the plan is started.
fn undefined(plan: &plan::Plan) -> Option<Message> {
    let unknown = plan
        .actors
        .all()
        .find(|actor| plan.definition(actor).is_none())?;
    let works = [&plan.actors.strategy, &plan.actors.execution].contains(&unknown);
    let then = match works {
        true => "the plan waits for a program that works as it, or for plumbing",
        false => "its rules that ask are for people to answer",
    };
    Some(Message {
        level: "info",
        text: format!("Nobody here knows how `{unknown}` is started; {then}."),
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
    let next = match is_workable(&done.plan) {
        true => "run",
        false => "status",
    };
    Ok(answer.hint(format!("planwright {next} {handle}")))
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

/// What work starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// What is committed.
    Committed,
    /// What is not committed yet, too.
    WithChanges,
}

impl Start {
    /// As the flag `--with-changes` says.
    pub fn of(with_changes: bool) -> Self {
        if with_changes {
            Self::WithChanges
        } else {
            Self::Committed
        }
    }
}

/// Says at once what the work will not see, and that rules which are not committed hold for it.
pub fn what_is_not_committed(app: &App, projects: &[Name], start: Start) -> Vec<Message> {
    let Ok(lifecycle) = app.lifecycle() else {
        return Vec::new();
    };
    let sites = lifecycle.sites_of_projects(projects).unwrap_or_default();
    let mut messages = Vec::new();
    for site in &sites {
        let unconfined = lifecycle
            .hands()
            .is_ok_and(|hands| hands.workshop.runs_set_up_unconfined(site));
        if unconfined {
            messages.push(Message {
                level: "info",
                text: format!(
                    "{}: its set-up command runs unconfined, with your rights, as your settings say \
                     (sandbox.unconfined).",
                    site.name
                ),
            });
        }
        let branch = in_force::other_rules_on(app, site);
        messages.extend(branch.as_ref().map(|branch| Message {
            level: "info",
            text: format!(
                "{}: the rules in planwright.yaml are not those on {branch}; this plan must meet both.",
                site.name
            ),
        }));
        // A plan on a directory starts from the files as they are.
        let sees_all = start == Start::WithChanges || matches!(site.place, SitePlace::Dir { .. });
        if sees_all {
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
        // That its rules hold was said.
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
