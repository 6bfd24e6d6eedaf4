//! `planwright doctor`: checks the home directory, git, agents and store, and repairs what a crash left.

use std::path::Path;

use lifecycle::{CrashRemnant, LandingOutcome};
use serde_json::{Value, json};

use crate::cli::App;
use crate::commands::CommandAnswer;
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::{actor_set, settings, ui};

/// Check that Planwright can work here; --fix repairs what a crash left behind
#[derive(Debug, clap::Args)]
pub struct DoctorArgs {
    /// Migrate the store, reclaim expired leases, finish interrupted landings and remove leftovers of
    /// landed plans
    #[arg(long)]
    fix: bool,
}

struct DoctorFinding {
    name: &'static str,
    ok: bool,
    message: String,
    hint: Option<String>,
}

pub fn run(args: &DoctorArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let mut findings = vec![check_home(app)];
    let mut fixed = Vec::new();
    if args.fix {
        fixed = fix_problems(app)?;
    }
    findings.push(check_free_space(
        &app.settings.home,
        sandbox::free_bytes(&app.settings.home),
    ));
    findings.push(check_git());
    findings.push(check_agents());
    findings.push(check_isolation());
    findings.extend(check_store(app));
    findings.extend(check_landings(app));
    let mut text = String::new();
    for finding in &findings {
        let mark = if finding.ok {
            ui::style_text(ui::GOOD, "ok ")
        } else {
            ui::style_text(ui::BAD, "bad")
        };
        text.push_str(&format!(
            "{mark}  {:<8}  {}\n",
            finding.name,
            ui::escape_controls(&finding.message)
        ));
    }
    for done in &fixed {
        text.push_str(&format!("{}  {done}\n", ui::style_text(ui::GOOD, "fixed")));
    }
    let all_ok = findings.iter().all(|finding| finding.ok);
    let views: Vec<Value> = findings
        .iter()
        .map(|finding| json!({ "check": finding.name, "ok": finding.ok, "says": finding.message }))
        .collect();
    let mut answer = CommandAnswer::new(json!({ "checks": views, "fixed": fixed }), text);
    answer.exit = if all_ok {
        CommandExit::Ok
    } else {
        CommandExit::Error
    };
    for hint in findings.into_iter().filter_map(|finding| finding.hint) {
        answer = answer.with_hint(hint);
    }
    Ok(answer)
}

fn check_home(app: &App) -> DoctorFinding {
    let path = &app.settings.home;
    let (ok, message) = match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => (true, format!("{}", path.display())),
        Ok(_) => (false, format!("{} is not a directory", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            (true, format!("{} does not exist yet", path.display()))
        }
        Err(error) => (false, format!("{}: {error}", path.display())),
    };
    let hint = (!ok).then(|| "Set PLANWRIGHT_HOME to a directory you own.".to_owned());
    DoctorFinding {
        name: "home",
        ok,
        message,
        hint,
    }
}

const MIN_FREE_BYTES: u64 = 32 << 20;

/// Checks the free space for sandboxes, results and a local store.
fn check_free_space(path: &Path, free: std::io::Result<u64>) -> DoctorFinding {
    let (ok, message) = match free {
        Ok(free) => {
            let place = path.display();
            let mebibytes = free >> 20;
            (
                free >= MIN_FREE_BYTES,
                format!("{mebibytes} MiB free at {place}"),
            )
        }
        Err(error) => (false, format!("{}: {error}", path.display())),
    };
    DoctorFinding {
        name: "room",
        ok,
        message,
        hint: (!ok).then(|| "Free up disk space: planwright sandbox clean".to_owned()),
    }
}

fn fix_problems(app: &App) -> Result<Vec<String>, CommandError> {
    let lifecycle = app.lifecycle()?;
    let mut fixed = Vec::new();
    let (before, after) = lifecycle.store().migrate_schema()?;
    if before != after {
        fixed.push(format!(
            "migrated the store from schema {before} to {after}"
        ));
    }
    let remnants = lifecycle.sandboxes().find_crash_remnants()?;
    for (number, remnant) in remnants.iter().enumerate() {
        let owner = format!("doctor {}-{number}", std::process::id());
        let outcome = lifecycle
            .sandboxes()
            .recover_remnant(remnant, &owner, &app.new_call())?;
        fixed.push(match remnant {
            CrashRemnant::UnfinishedLanding(plan) => match outcome {
                Some(LandingOutcome::NeedsAnswer(_)) => {
                    format!("asked how to continue plan {plan}")
                }
                Some(LandingOutcome::NotLanded(_)) => {
                    format!("closed plan {plan}: it did not land")
                }
                Some(LandingOutcome::Constrained(_)) => {
                    format!("withdrew the landing of plan {plan}")
                }
                Some(LandingOutcome::Landed { .. }) | None => {
                    format!("finished the landing of plan {plan}")
                }
            },
            CrashRemnant::LeftoverSandboxes(plan) => {
                format!("removed leftovers of landed plan {plan}")
            }
        });
    }
    for plan in lifecycle
        .leases()
        .reclaim_expired_leases(100, &app.new_call())?
    {
        fixed.push(format!("reclaimed the expired lease of plan {}", plan.id()));
    }
    Ok(fixed)
}

/// Checks that git is installed and new enough.
fn check_git() -> DoctorFinding {
    let (ok, message) = match sandbox::git_version(&settings::read_git_env()) {
        Ok(version) => (true, format!("git {version}")),
        Err(error) => (false, error.to_string()),
    };
    let needed = sandbox::minimum_git_version();
    DoctorFinding {
        name: "git",
        ok,
        message,
        hint: (!ok).then(|| format!("Install git {needed} or later and put it on your PATH.")),
    }
}

/// Lists the installed presets. Having none is fine: any command can be an agent.
fn check_agents() -> DoctorFinding {
    let found = actor_set::installed_presets();
    let names: Vec<String> = found.iter().map(|(one, _)| one.name.to_string()).collect();
    DoctorFinding {
        name: "agents",
        ok: true,
        message: if names.is_empty() {
            "no known agent found; any command can be one".to_owned()
        } else {
            names.join(", ")
        },
        hint: None,
    }
}

/// Reports how well agents can be confined here.
fn check_isolation() -> DoctorFinding {
    DoctorFinding {
        name: "actors",
        ok: true,
        message: sandbox::detect_isolation().to_string(),
        hint: None,
    }
}

/// Reports landings that a crash interrupted. Returns `None` if there is no store yet.
fn check_landings(app: &App) -> Option<DoctorFinding> {
    let lifecycle = app.lifecycle().ok()?;
    lifecycle.store().read_info().ok()?.schema_version?;
    let found = lifecycle.sandboxes().find_crash_remnants().ok()?;
    let landings = found
        .iter()
        .filter(|one| matches!(one, CrashRemnant::UnfinishedLanding(_)))
        .count();
    let (ok, message) = if landings > 0 {
        let count = ui::pluralize(landings as u64, "landing");
        (false, format!("{count} left unfinished by a crash"))
    } else if found.is_empty() {
        (true, "nothing left over".to_owned())
    } else {
        let count = ui::pluralize(found.len() as u64, "landed plan");
        (true, format!("{count} with leftovers to remove"))
    };
    Some(DoctorFinding {
        name: "landings",
        ok,
        message,
        hint: (!found.is_empty()).then(|| "planwright doctor --fix".to_owned()),
    })
}

fn check_store(app: &App) -> Vec<DoctorFinding> {
    let failed = |error: CommandError| DoctorFinding {
        name: "store",
        ok: false,
        message: error.message,
        hint: error.hints.into_iter().next(),
    };
    let lifecycle = match app.lifecycle() {
        Ok(lifecycle) => lifecycle,
        Err(error) => return vec![failed(error)],
    };
    let store = lifecycle.store();
    let info = match store.read_info() {
        Ok(info) => info,
        Err(error) => return vec![failed(error.into())],
    };
    let Some(schema) = info.schema_version else {
        let message = format!("{} ({}) does not exist yet", info.place, info.kind);
        let hint = Some("planwright init".to_owned());
        return vec![DoctorFinding {
            name: "store",
            ok: true,
            message,
            hint,
        }];
    };
    // A store that cannot be read fails the check even if its files are intact.
    if let Err(error) = store.list_expired_leases(1) {
        return vec![failed(error.into())];
    }
    let mut findings = vec![DoctorFinding {
        name: "store",
        ok: true,
        message: format!("{} ({}, schema {schema})", info.place, info.kind),
        hint: None,
    }];
    match store.check_integrity() {
        Ok(problems) if problems.is_empty() => {
            findings.push(DoctorFinding {
                name: "files",
                ok: true,
                message: "no damage found".to_owned(),
                hint: None,
            });
        }
        Ok(problems) => findings.push(DoctorFinding {
            name: "files",
            ok: false,
            message: problems.join("; "),
            hint: Some("planwright store verify".to_owned()),
        }),
        Err(error) => findings.push(failed(error.into())),
    }
    match store.list_expired_leases(100) {
        Ok(expired) => findings.push(DoctorFinding {
            name: "leases",
            ok: true,
            message: format!("{} expired", expired.len()),
            hint: (!expired.is_empty()).then(|| "planwright doctor --fix".to_owned()),
        }),
        Err(error) => findings.push(failed(error.into())),
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nearly_full_disk_fails_the_check() {
        let found = |free| check_free_space(Path::new("/home/ada"), Ok(free));
        assert!(found(MIN_FREE_BYTES).ok);
        let full = found(MIN_FREE_BYTES - 1);
        assert!(!full.ok);
        assert_eq!(full.message, "31 MiB free at /home/ada");
        assert!(full.hint.is_some());
    }
}
