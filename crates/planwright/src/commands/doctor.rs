//! `planwright doctor`.

use std::path::Path;

use lifecycle::{CrashRemnant, LandingOutcome};
use serde_json::{Value, json};

use crate::cli::App;
use crate::commands::CommandAnswer;
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::{actor_set, settings, ui};

/// Check that everything Planwright needs is well.
#[derive(Debug, clap::Args)]
pub struct DoctorArgs {
    /// Mend what can be mended: migrate the store, take back expired leases, finish landings and
    /// remove what landed plans left.
    #[arg(long)]
    fix: bool,
}

struct DoctorFinding {
    name: &'static str,
    ok: bool,
    message: String,
    hint: Option<String>,
}

/// Looks at home, settings and store.
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
    let well = findings.iter().all(|finding| finding.ok);
    let views: Vec<Value> = findings
        .iter()
        .map(|finding| json!({ "check": finding.name, "ok": finding.ok, "says": finding.message }))
        .collect();
    let mut answer = CommandAnswer::new(json!({ "checks": views, "fixed": fixed }), text);
    answer.exit = if well {
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
    let (good, says) = match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => (true, format!("{}", path.display())),
        Ok(_) => (false, format!("{} is not a directory", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            (true, format!("{} does not exist yet", path.display()))
        }
        Err(error) => (false, format!("{}: {error}", path.display())),
    };
    let hint = (!good).then(|| "Set PLANWRIGHT_HOME to a directory of your own.".to_owned());
    DoctorFinding {
        name: "home",
        ok: good,
        message: says,
        hint,
    }
}

/// Less than this is too little to work with.
const MIN_FREE_BYTES: u64 = 32 << 20;

/// Is there room for sandboxes, results and, unless it is elsewhere, the store?
fn check_free_space(path: &Path, free: std::io::Result<u64>) -> DoctorFinding {
    let (good, says) = match free {
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
        ok: good,
        message: says,
        hint: (!good).then(|| "Free space: planwright sandbox clean".to_owned()),
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
    let repairs = lifecycle.find_crash_remnants()?;
    for (number, what) in repairs.iter().enumerate() {
        let owner = format!("doctor {}-{number}", std::process::id());
        let outcome = lifecycle.recover_remnant(what, &owner, &app.new_call())?;
        fixed.push(match what {
            CrashRemnant::UnfinishedLanding(plan) => match outcome {
                Some(LandingOutcome::NeedsAnswer(_)) => {
                    format!("asked what is to become of plan {plan}")
                }
                Some(LandingOutcome::NotLanded(_)) => {
                    format!("settled plan {plan}: it did not land")
                }
                Some(LandingOutcome::Constrained(_)) => {
                    format!("took back the landing of plan {plan}")
                }
                Some(LandingOutcome::Landed { .. }) | None => {
                    format!("finished the landing of plan {plan}")
                }
            },
            CrashRemnant::LeftoverSandboxes(plan) => {
                format!("removed what plan {plan} left after landing")
            }
        });
    }
    for plan in lifecycle.reclaim_expired_leases(100, &app.new_call())? {
        fixed.push(format!("took back the expired lease of plan {}", plan.id));
    }
    Ok(fixed)
}

/// Is git there, and new enough?
fn check_git() -> DoctorFinding {
    let (good, says) = match sandbox::git_version(&settings::read_git_env()) {
        Ok(version) => (true, format!("git {version}")),
        Err(error) => (false, error.to_string()),
    };
    let needed = sandbox::minimum_git_version();
    DoctorFinding {
        name: "git",
        ok: good,
        message: says,
        hint: (!good).then(|| format!("Install git {needed} or later, on the PATH.")),
    }
}

/// Which of the well-known agents are installed? None is no defect: any command can be one.
fn check_agents() -> DoctorFinding {
    let found = actor_set::installed_presets();
    let names: Vec<String> = found.iter().map(|(one, _)| one.name.to_string()).collect();
    DoctorFinding {
        name: "agents",
        ok: true,
        message: if names.is_empty() {
            "none that are known; any command can be one".to_owned()
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

/// What crashes left of landings. Without a store there was none.
fn check_landings(app: &App) -> Option<DoctorFinding> {
    let lifecycle = app.lifecycle().ok()?;
    lifecycle.store().read_info().ok()?.schema_version?;
    let found = lifecycle.find_crash_remnants().ok()?;
    let landings = found
        .iter()
        .filter(|one| matches!(one, CrashRemnant::UnfinishedLanding(_)))
        .count();
    let (good, says) = if landings > 0 {
        let count = ui::pluralize(landings as u64, "landing");
        (false, format!("{count} left unfinished by a crash"))
    } else if found.is_empty() {
        (true, "nothing left over".to_owned())
    } else {
        let count = ui::pluralize(found.len() as u64, "landed plan");
        (true, format!("{count} with remains to be removed"))
    };
    Some(DoctorFinding {
        name: "landings",
        ok: good,
        message: says,
        hint: (!found.is_empty()).then(|| "planwright doctor --fix".to_owned()),
    })
}

fn check_store(app: &App) -> Vec<DoctorFinding> {
    let bad = |error: CommandError| DoctorFinding {
        name: "store",
        ok: false,
        message: error.message,
        hint: error.hints.into_iter().next(),
    };
    let lifecycle = match app.lifecycle() {
        Ok(lifecycle) => lifecycle,
        Err(error) => return vec![bad(error)],
    };
    let store = lifecycle.store();
    let info = match store.read_info() {
        Ok(info) => info,
        Err(error) => return vec![bad(error.into())],
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
    // What cannot be read is not well, whatever its files are like.
    if let Err(error) = store.list_expired_leases(1) {
        return vec![bad(error.into())];
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
        Err(error) => findings.push(bad(error.into())),
    }
    match store.list_expired_leases(100) {
        Ok(expired) => findings.push(DoctorFinding {
            name: "leases",
            ok: true,
            message: format!("{} expired", expired.len()),
            hint: (!expired.is_empty()).then(|| "planwright doctor --fix".to_owned()),
        }),
        Err(error) => findings.push(bad(error.into())),
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_nearly_full_is_not_well() {
        let found = |free| check_free_space(Path::new("/home/ada"), Ok(free));
        assert!(found(MIN_FREE_BYTES).ok);
        let full = found(MIN_FREE_BYTES - 1);
        assert!(!full.ok);
        assert_eq!(full.message, "31 MiB free at /home/ada");
        assert!(full.hint.is_some());
    }
}
