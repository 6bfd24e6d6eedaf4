//! Completes words for a shell: plans, agents, actions, projects, rules and settings.
//!
//! The script of `planwright completions SHELL` starts this program for every request. A request only reads. It
//! creates no store, prints no errors, and gives up early so that a slow database does not block the prompt.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::Duration;

use actors::all_presets;
use api::actions;
use api::plan_list::{self, PlanListRequest};
use clap::CommandFactory;
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use plan::{Profile, QualifiedName};

use crate::cli::{App, Cli};
use crate::error::CommandError;
use crate::settings::SETTING_KEYS;
use crate::{actor_set, current_repository, repository_config, ui};

/// The variable in which a completion script names its shell.
pub const COMPLETION_VARIABLE: &str = "PLANWRIGHT_COMPLETE";

/// How long a request may read. What was not found by then is not offered.
const COMPLETION_TIMEOUT: Duration = Duration::from_millis(500);

const MAX_PLANS: usize = 50;

/// Answers the request of a completion script. Returns `None` if this is an ordinary command.
pub fn answer_request(arguments: &[OsString]) -> Option<ExitCode> {
    let directory = std::env::current_dir().ok();
    let answered = CompleteEnv::with_factory(Cli::command)
        .var(COMPLETION_VARIABLE)
        .completer("planwright")
        .try_complete(arguments, directory.as_deref());
    match answered {
        Ok(false) => None,
        Ok(true) => Some(ExitCode::SUCCESS),
        Err(_) => Some(ExitCode::FAILURE),
    }
}

pub fn plans() -> ArgValueCandidates {
    ArgValueCandidates::new(|| read_in_time(list_plans))
}

pub fn agents() -> ArgValueCandidates {
    ArgValueCandidates::new(|| read_in_time(list_agents))
}

pub fn actions() -> ArgValueCandidates {
    ArgValueCandidates::new(|| read_in_time(list_actions))
}

pub fn projects() -> ArgValueCandidates {
    ArgValueCandidates::new(|| read_in_time(list_projects))
}

pub fn rules() -> ArgValueCandidates {
    ArgValueCandidates::new(|| read_in_time(list_rules))
}

pub fn settings() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let keys = SETTING_KEYS.into_iter();
        keys.map(|key| make_candidate(key.as_str(), key.explanation()))
            .collect()
    })
}

pub fn profiles() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let profiles = Profile::ALL.into_iter();
        profiles
            .map(|profile| CompletionCandidate::new(profile.to_string()))
            .collect()
    })
}

/// Commands and topics that `help` explains.
pub fn help_topics() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let topics = crate::commands::HELP_TOPICS.into_iter();
        let topics = topics.map(CompletionCandidate::new);
        let command = Cli::command();
        let commands = command.get_subcommands();
        let commands = commands.map(|one| CompletionCandidate::new(one.get_name()));
        topics.chain(commands).collect()
    })
}

type Candidates = Vec<CompletionCandidate>;

/// Reads candidates on a thread of its own. The thread of a request that takes too long ends with the process.
fn read_in_time(read: fn(&App) -> Result<Candidates, CommandError>) -> Candidates {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let found = App::for_completion().and_then(|app| read(&app));
        // Nobody waits any more if the time was over.
        let _ = sender.send(found.unwrap_or_default());
    });
    receiver
        .recv_timeout(COMPLETION_TIMEOUT)
        .unwrap_or_default()
}

/// The plans of this repository, newest first. A program inside the home or outside any repository sees all.
fn list_plans(app: &App) -> Result<Candidates, CommandError> {
    let request = PlanListRequest {
        projects: app.repository_projects()?,
        limit: MAX_PLANS,
        ..PlanListRequest::default()
    };
    let lifecycle = app.lifecycle()?;
    let rows = plan_list::list_plan_rows(lifecycle, &request)?;
    let mut candidates = Vec::new();
    for (order, row) in rows.iter().enumerate() {
        let handle = lifecycle.short_handle(row.plan.id())?;
        let standing = api::PlanStanding::of_row(row).as_str();
        let goal = ui::truncate_line(row.plan.goal().as_str(), 50);
        let candidate = make_candidate(&handle, &format!("{standing}: {goal}"));
        candidates.push(candidate.display_order(Some(order)));
    }
    Ok(candidates)
}

fn list_agents(app: &App) -> Result<Candidates, CommandError> {
    let own = actor_set::list_own_definitions(&app.settings.home)?;
    let in_repository = match current_repository::find_checkout_root() {
        Some(root) => repository_config::read_for_repository(&root)?.actors,
        None => Vec::new(),
    };
    let mut candidates: Vec<CompletionCandidate> = Vec::new();
    let installed = actor_set::installed_presets();
    let is_installed = |name: &QualifiedName| installed.iter().any(|(one, _)| one.name == *name);
    let presets = all_presets().iter().map(|one| {
        let remark = match is_installed(&one.name) {
            true => "installed",
            false => "not installed",
        };
        (one, remark)
    });
    let own = own.iter().map(|one| (one, "yours"));
    let in_repository = in_repository.iter().map(|one| (one, "this repository's"));
    for (definition, remark) in own.chain(in_repository).chain(presets) {
        let name = definition.name.to_string();
        if candidates
            .iter()
            .all(|one| one.get_value() != name.as_str())
        {
            candidates.push(make_candidate(&name, remark));
        }
    }
    Ok(candidates)
}

fn list_actions(app: &App) -> Result<Candidates, CommandError> {
    const MAX_ACTIONS: usize = 200;
    let in_repository = current_repository::list_actions()?;
    let stored = app.lifecycle()?.actions().list_actions(None, MAX_ACTIONS)?;
    let stored = stored
        .iter()
        .filter(|action| {
            actions::is_available(action) && !actions::is_frozen(&action.definition.name)
        })
        .map(|action| &action.definition);
    let mut candidates: Vec<CompletionCandidate> = Vec::new();
    for definition in stored.chain(in_repository.iter().map(|one| &one.definition)) {
        let name = definition.name.to_string();
        if candidates
            .iter()
            .all(|one| one.get_value() != name.as_str())
        {
            let text = definition.description.as_str();
            candidates.push(make_candidate(&name, text));
        }
    }
    Ok(candidates)
}

fn list_projects(app: &App) -> Result<Candidates, CommandError> {
    const MAX_PROJECTS: usize = 200;
    let projects = app.lifecycle()?.projects();
    let found = projects.list_projects(None, MAX_PROJECTS)?.into_iter();
    Ok(found
        .map(|project| {
            let places = project.resources.iter();
            let places: Vec<String> = places.map(|one| one.place.path().to_owned()).collect();
            make_candidate(&project.name.to_string(), &places.join(", "))
        })
        .collect())
}

/// The rules in the store and those in this repository's file.
fn list_rules(app: &App) -> Result<Candidates, CommandError> {
    let stored = app.lifecycle()?.rules().list_rules()?.rules;
    let stored = stored.into_iter().map(|rule| rule.draft);
    let file = current_repository::find_checkout_root()
        .map(|root| repository_config::read_file(&root.join("planwright.yaml")))
        .transpose()?
        .flatten();
    let in_repository = file.map(|file| file.invariants).unwrap_or_default();
    let mut candidates: Vec<CompletionCandidate> = Vec::new();
    for draft in stored.chain(in_repository) {
        let name = draft.name.to_string();
        if candidates
            .iter()
            .all(|one| one.get_value() != name.as_str())
        {
            candidates.push(make_candidate(&name, &draft.check.source()));
        }
    }
    Ok(candidates)
}

/// Descriptions are text from outside, so control characters are escaped.
fn make_candidate(value: &str, description: &str) -> CompletionCandidate {
    const MAX_DESCRIPTION_LENGTH: usize = 70;
    let description = ui::truncate_line(description, MAX_DESCRIPTION_LENGTH);
    let description = ui::escape_controls(&description);
    let help = (!description.is_empty()).then(|| description.into());
    CompletionCandidate::new(value).help(help)
}
