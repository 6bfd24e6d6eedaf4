//! `planwright use`.

use lifecycle::{Done, UseRequest};
use plan::ways::Furnishing;
use plan::{Name, Profile, Ways};

use crate::cli::App;
use crate::commands::{Answer, conditions, described, view_with_receipt};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::{ui, yaml};

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
    let ways = ways(args, app)?;
    let request = UseRequest {
        ways,
        action: Some(args.action.clone()),
        goal: args.goal.clone(),
        arguments: args.arguments.clone(),
        fallback_actors: app.settings.actors(),
        profile: args.profile,
        fallback_profile: app.settings.profile(),
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
    let described = described.map(|answer| with_what_is_paused(answer, args, app));
    described.map(|answer| with_what_is_not_committed(answer, args, app))
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
        answer.messages.push(crate::wire::Message {
            level: "info",
            text: "It had been made before; there is no second plan.".to_owned(),
        });
    }
    Ok(answer.hint(format!("planwright status {handle}")))
}

/// What the repositories say about work on them, in the working tree of whoever uses them.
fn ways(args: &Args, app: &App) -> Result<Ways, CommandError> {
    let mut ways = Ways::default();
    if args.projects.is_empty() {
        return Ok(ways);
    }
    let sites = match app.lifecycle()?.sites_of_projects(&args.projects) {
        Ok(sites) => sites,
        // On another host its own file counts; what is wrong otherwise is said by the use itself.
        Err(_) => return Ok(ways),
    };
    let mut said_by: Option<String> = None;
    for site in sites {
        let path = site.place.path().join("planwright.yaml");
        let source = match std::fs::read_to_string(&path) {
            Ok(source) => source,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => {
                let message = format!("{} cannot be read: {error}", path.display());
                return Err(CommandError::new(Exit::Error, message));
            }
        };
        let file = yaml::repository(&source, &path.display().to_string())
            .map_err(|problem| CommandError::malformed(problem, &source))?;
        let same = ways.arrival == file.arrival && ways.clean == file.clean;
        if let Some(other) = said_by.as_ref().filter(|_| !same) {
            return Err(CommandError::usage(format!(
                "{other} and {} want results to arrive or sandboxes to be cleaned up differently.",
                path.display()
            ))
            .hint("Make them say the same, or use the projects in plans of their own."));
        }
        said_by = Some(path.display().to_string());
        ways.arrival = file.arrival;
        ways.clean = file.clean;
        if file.setup.is_some() || !file.include.is_empty() {
            ways.furnishings.push(Furnishing {
                resource: site.name.clone(),
                setup: file.setup,
                include: file.include,
            });
        }
    }
    Ok(ways)
}

/// Says at once that nothing will start.
fn with_what_is_paused(mut answer: Answer, args: &Args, app: &App) -> Answer {
    let Ok(lifecycle) = app.lifecycle() else {
        return answer;
    };
    for name in &args.projects {
        let project = lifecycle.get_project(name);
        if project.is_ok_and(|project| project.paused.is_some()) {
            answer.messages.push(crate::wire::Message {
                level: "warn",
                text: format!("Project {name} is paused: nothing will start until it is resumed."),
            });
            answer = answer.hint(format!("planwright project resume {name}"));
        }
    }
    answer
}

/// Says at once what the work will not see.
fn with_what_is_not_committed(mut answer: Answer, args: &Args, app: &App) -> Answer {
    if args.with_changes {
        return answer;
    }
    let Ok(lifecycle) = app.lifecycle() else {
        return answer;
    };
    for site in lifecycle
        .sites_of_projects(&args.projects)
        .unwrap_or_default()
    {
        let uncommitted = lifecycle
            .hands()
            .ok()
            .and_then(|hands| hands.workshop.repository(&site).ok())
            .and_then(|repository| repository.uncommitted().ok())
            .unwrap_or_default();
        if !uncommitted.is_empty() {
            answer.messages.push(crate::wire::Message {
                level: "info",
                text: format!(
                    "{}: {}, not visible to the agent; --with-changes starts from them.",
                    site.name,
                    ui::count(uncommitted.len() as u64, "uncommitted file")
                ),
            });
        }
    }
    answer
}

fn argument(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("write it as NAME=VALUE".to_owned()),
    }
}
