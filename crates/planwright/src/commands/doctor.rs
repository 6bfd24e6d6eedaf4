//! `planwright doctor`: checks the home directory, git, agents and store, and repairs what a crash left.

use std::path::Path;

use actors::RunProtocol;
use api::doctor::{self, DoctorFinding, DoctorRepair, HomeState, InstalledAgent};
use lifecycle::LandingOutcome;
use plan::PlanId;
use serde::Serialize;

use crate::cli::App;
use crate::commands::{CommandAnswer, agent_readiness};
use crate::error::{CommandError, INSTALL_AGENT_HINT, OWN_AGENT_HINT};
use crate::exit::CommandExit;
use crate::{actor_set, home, settings, ui};

/// Check that Planwright can work here; --fix repairs what a crash left behind
#[derive(Debug, clap::Args)]
pub struct DoctorArgs {
    /// Migrate the store, reclaim expired leases, finish interrupted landings and remove leftovers of
    /// landed plans
    #[arg(long)]
    fix: bool,
}

/// What `doctor` answers.
#[derive(Debug, Serialize)]
struct DoctorView {
    checks: Vec<DoctorCheckView>,
    /// What was repaired, in words.
    fixed: Vec<String>,
}

/// One check, in words.
#[derive(Debug, Serialize)]
struct DoctorCheckView {
    check: &'static str,
    ok: bool,
    /// Without it, Planwright cannot work at all.
    #[serde(skip)]
    required: bool,
    says: String,
    #[serde(skip)]
    hint: Option<String>,
}

pub fn run(args: &DoctorArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let home = &app.settings.home;
    // Before anything is repaired, which may create the home.
    let mut checks = vec![word_finding(doctor::check_home(home))];
    let mut fixed = Vec::new();
    if args.fix {
        let owner = format!("doctor {}", std::process::id());
        let repairs = doctor::repair_host(app.lifecycle()?, &owner, &app.new_call())?;
        for repair in &repairs {
            fixed.push(word_repair(repair, app)?);
        }
    }
    let git_env = settings::read_git_env();
    let catalog = actor_set::read_catalog(home).unwrap_or_else(|_| actor_set::search_catalog());
    let host_env = actor_set::read_host_env(app);
    let found = doctor::check_host(home, &git_env, &catalog, &host_env);
    checks.extend(found.into_iter().map(word_finding));
    match app.lifecycle() {
        Ok(lifecycle) => {
            checks.extend(doctor::check_store(lifecycle).into_iter().map(word_finding))
        }
        Err(error) => checks.push(failed_check("store", error)),
    }
    let mut text = String::new();
    for check in &checks {
        let mark = match (check.ok, check.required) {
            (true, _) => ui::style_text(ui::GOOD, "ok  "),
            (false, true) => ui::style_text(ui::BAD, "bad "),
            (false, false) => ui::style_text(ui::WARN, "warn"),
        };
        text.push_str(&format!(
            "{mark}  {:<9}  {}\n",
            check.check,
            ui::escape_controls(&check.says)
        ));
    }
    for done in &fixed {
        text.push_str(&format!("{}  {done}\n", ui::style_text(ui::GOOD, "fixed")));
    }
    let all_ok = checks.iter().all(|check| check.ok || !check.required);
    let hints: Vec<String> = checks
        .iter()
        .filter_map(|check| check.hint.clone())
        .collect();
    let mut answer = CommandAnswer::new(DoctorView { checks, fixed }, text);
    answer.exit = if all_ok {
        CommandExit::Ok
    } else {
        CommandExit::Error
    };
    for hint in hints {
        let is_about_agents = hint == INSTALL_AGENT_HINT;
        answer = answer.with_hint(hint);
        if is_about_agents {
            answer = answer.with_hint(OWN_AGENT_HINT);
        }
    }
    Ok(answer)
}

fn word_finding(finding: DoctorFinding) -> DoctorCheckView {
    let (ok, required) = (finding.is_ok(), finding.is_required());
    let hint_if = |needed: bool, hint: &str| needed.then(|| hint.to_owned());
    let (check, says, hint) = match finding {
        DoctorFinding::Home { path, state } => {
            let path = home::display_path(&path);
            let says = match state {
                HomeState::Usable => path,
                HomeState::Missing => format!("{path} does not exist yet"),
                HomeState::NotADirectory => format!("{path} is not a directory"),
                HomeState::Unreadable(error) => format!("{path}: {error}"),
                HomeState::NotWritable(error) => format!("{path} cannot be written: {error}"),
            };
            let hint = hint_if(
                !ok,
                "Make it a directory that you can write, or choose another: PLANWRIGHT_HOME=DIRECTORY",
            );
            ("home", says, hint)
        }
        DoctorFinding::FreeSpace { path, free_bytes } => {
            let path = home::display_path(&path);
            let says = match free_bytes {
                Ok(free) => format!("{} MiB free at {path}", free >> 20),
                Err(error) => format!("{path}: {error}"),
            };
            let hint = hint_if(!ok, "Free up disk space: planwright sandbox clean");
            ("disk", says, hint)
        }
        DoctorFinding::Git(version) => {
            let says = match version {
                Ok(version) => format!("git {version}"),
                Err(error) => error.to_string(),
            };
            let needed = sandbox::minimum_git_version();
            let hint = format!("Install git {needed} or later and put it on your PATH.");
            ("git", says, hint_if(!ok, &hint))
        }
        DoctorFinding::Agent(agent) => ("agents", word_agent(&agent), find_remedy(&agent)),
        DoctorFinding::NoAgent => {
            let says = "no agent is installed; plans need one to run".to_owned();
            ("agents", says, Some(INSTALL_AGENT_HINT.to_owned()))
        }
        DoctorFinding::Isolation(level) => ("isolation", level.to_string(), None),
        DoctorFinding::Store(Ok(info)) => match info.schema_version {
            None => (
                "store",
                format!("{} does not exist yet", display_place(&info.place)),
                None,
            ),
            Some(schema) => (
                "store",
                format!("{} (schema {schema})", display_place(&info.place)),
                None,
            ),
        },
        DoctorFinding::StoreDamage(Ok(problems)) => {
            let says = match problems.is_empty() {
                true => "no damage found".to_owned(),
                false => problems.join("; "),
            };
            ("files", says, hint_if(!ok, "planwright store verify"))
        }
        DoctorFinding::ExpiredLeases(Ok(count)) => {
            let hint = hint_if(count > 0, "planwright doctor --fix");
            ("leases", format!("{count} expired"), hint)
        }
        DoctorFinding::Store(Err(error))
        | DoctorFinding::StoreDamage(Err(error))
        | DoctorFinding::ExpiredLeases(Err(error)) => {
            return failed_check("store", error.into());
        }
        DoctorFinding::CrashRemnants {
            unfinished_landings,
            leftovers,
        } => {
            let found = unfinished_landings + leftovers;
            let says = if unfinished_landings > 0 {
                let count = ui::pluralize(unfinished_landings as u64, "landing");
                format!("{count} left unfinished by a crash")
            } else if found == 0 {
                "nothing left over".to_owned()
            } else {
                let count = ui::pluralize(found as u64, "landed plan");
                format!("{count} with leftovers to remove")
            };
            let hint = hint_if(found > 0, "planwright doctor --fix");
            ("landings", says, hint)
        }
    };
    DoctorCheckView {
        check,
        ok,
        required,
        says,
        hint,
    }
}

fn display_place(place: &str) -> String {
    home::display_path(Path::new(place))
}

fn word_agent(agent: &InstalledAgent) -> String {
    let readiness = &agent.readiness;
    let mut says = agent.name.to_string();
    if let Some(version) = &readiness.version {
        says.push_str(&format!(" {version}"));
    }
    if let Some(tested) = readiness.tested_version.filter(|_| readiness.is_outdated()) {
        says.push_str(&format!(" (known to work: {tested})"));
    }
    says.push_str(&match readiness.protocol {
        RunProtocol::Person => ", a person".to_owned(),
        RunProtocol::Acp | RunProtocol::Stream | RunProtocol::Text => {
            format!(" by {}", agent_readiness::word_protocol(readiness.protocol))
        }
    });
    for need in &readiness.missing {
        says.push_str(&format!("; {}", agent_readiness::describe_need(need)));
    }
    says
}

fn find_remedy(agent: &InstalledAgent) -> Option<String> {
    let name = agent.name.to_string();
    let remedies = agent.readiness.missing.iter();
    let mut remedies: Vec<String> = remedies
        .map(|need| agent_readiness::word_remedy(&name, need))
        .collect();
    if agent.readiness.is_outdated() {
        remedies.push(format!(
            "Update {name}. With a Node.js older than 22, npm installs old versions without a warning: node --version"
        ));
    }
    (!remedies.is_empty()).then(|| remedies.join(" "))
}

fn failed_check(check: &'static str, error: CommandError) -> DoctorCheckView {
    DoctorCheckView {
        check,
        ok: false,
        required: true,
        says: error.message,
        hint: error.hints.into_iter().next(),
    }
}

fn word_repair(repair: &DoctorRepair, app: &App) -> Result<String, CommandError> {
    let name = |plan_id: &PlanId| {
        app.lifecycle()?
            .short_handle(*plan_id)
            .map_err(CommandError::from)
    };
    Ok(match repair {
        DoctorRepair::StoreMigrated { before, after } => {
            format!("migrated the store from schema {before} to {after}")
        }
        DoctorRepair::LandingEnded { plan_id, outcome } => match outcome.as_deref() {
            Some(LandingOutcome::NeedsAnswer(_)) => {
                format!("asked how to continue plan {}", name(plan_id)?)
            }
            Some(LandingOutcome::NotLanded(_)) => {
                format!("closed plan {}: it did not land", name(plan_id)?)
            }
            Some(LandingOutcome::Constrained(_)) => {
                format!("withdrew the landing of plan {}", name(plan_id)?)
            }
            Some(LandingOutcome::Landed { .. }) | None => {
                format!("finished the landing of plan {}", name(plan_id)?)
            }
        },
        DoctorRepair::LeftoversRemoved(plan_id) => {
            format!("removed leftovers of landed plan {}", name(plan_id)?)
        }
        DoctorRepair::LeaseReclaimed(plan_id) => {
            format!("reclaimed the expired lease of plan {}", name(plan_id)?)
        }
    })
}
