//! `planwright doctor`.

use std::path::Path;

use lifecycle::{Driven, Mendable};
use serde_json::{Value, json};

use crate::cli::App;
use crate::commands::Answer;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::{crew, settings, ui};

/// Check that everything Planwright needs is well.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Mend what can be mended: migrate the store, take back expired leases, finish landings and
    /// remove what landed plans left.
    #[arg(long)]
    fix: bool,
}

struct Finding {
    name: &'static str,
    good: bool,
    says: String,
    hint: Option<String>,
}

/// Looks at home, settings and store.
pub fn run(args: &Args, app: &App) -> Result<Answer, CommandError> {
    let mut findings = vec![home(app)];
    let mut fixed = Vec::new();
    if args.fix {
        fixed = fix(app)?;
    }
    findings.push(room(
        &app.settings.home,
        sandbox::free_bytes(&app.settings.home),
    ));
    findings.push(git());
    findings.push(agents());
    findings.push(isolation());
    findings.extend(store(app));
    findings.extend(remains(app));
    let mut text = String::new();
    for finding in &findings {
        let mark = if finding.good {
            ui::styled(ui::GOOD, "ok ")
        } else {
            ui::styled(ui::BAD, "bad")
        };
        text.push_str(&format!(
            "{mark}  {:<8}  {}\n",
            finding.name,
            ui::clean(&finding.says)
        ));
    }
    for done in &fixed {
        text.push_str(&format!("{}  {done}\n", ui::styled(ui::GOOD, "fixed")));
    }
    let well = findings.iter().all(|finding| finding.good);
    let views: Vec<Value> = findings
        .iter()
        .map(|finding| json!({ "check": finding.name, "ok": finding.good, "says": finding.says }))
        .collect();
    let mut answer = Answer::new(json!({ "checks": views, "fixed": fixed }), text);
    answer.exit = if well { Exit::Ok } else { Exit::Error };
    for hint in findings.into_iter().filter_map(|finding| finding.hint) {
        answer = answer.hint(hint);
    }
    Ok(answer)
}

fn home(app: &App) -> Finding {
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
    Finding {
        name: "home",
        good,
        says,
        hint,
    }
}

/// Less than this is too little to work with.
const MIN_FREE_BYTES: u64 = 32 << 20;

/// Is there room for sandboxes, results and, unless it is elsewhere, the store?
fn room(path: &Path, free: std::io::Result<u64>) -> Finding {
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
    Finding {
        name: "room",
        good,
        says,
        hint: (!good).then(|| "Free space: planwright sandbox clean".to_owned()),
    }
}

fn fix(app: &App) -> Result<Vec<String>, CommandError> {
    let lifecycle = app.lifecycle()?;
    let mut fixed = Vec::new();
    let (before, after) = lifecycle.store().migrate()?;
    if before != after {
        fixed.push(format!(
            "migrated the store from schema {before} to {after}"
        ));
    }
    let mendable = lifecycle.mendable()?;
    for (number, what) in mendable.iter().enumerate() {
        let owner = format!("doctor {}-{number}", std::process::id());
        let driven = lifecycle.mend(what, &owner, &app.call())?;
        fixed.push(match what {
            Mendable::Landing(plan) => match driven {
                Some(Driven::Asks(_)) => format!("asked what is to become of plan {plan}"),
                Some(Driven::NotLanded(_)) => format!("settled plan {plan}: it did not land"),
                Some(Driven::Constrained(_)) => format!("took back the landing of plan {plan}"),
                Some(Driven::Landed { .. }) | None => {
                    format!("finished the landing of plan {plan}")
                }
            },
            Mendable::Remains(plan) => format!("removed what plan {plan} left after landing"),
        });
    }
    for plan in lifecycle.reclaim_expired(100, &app.call())? {
        fixed.push(format!("took back the expired lease of plan {}", plan.id));
    }
    Ok(fixed)
}

/// Is git there, and new enough?
fn git() -> Finding {
    let (good, says) = match sandbox::git_version(&settings::surroundings()) {
        Ok(version) => (true, format!("git {version}")),
        Err(error) => (false, error.to_string()),
    };
    let needed = sandbox::minimum_version();
    Finding {
        name: "git",
        good,
        says,
        hint: (!good).then(|| format!("Install git {needed} or later, on the PATH.")),
    }
}

/// Which of the well-known agents are installed? None is no defect: any command can be one.
fn agents() -> Finding {
    let found = crew::installed_presets();
    let names: Vec<String> = found.iter().map(|(one, _)| one.name.to_string()).collect();
    Finding {
        name: "agents",
        good: true,
        says: if names.is_empty() {
            "none that are known; any command can be one".to_owned()
        } else {
            names.join(", ")
        },
        hint: None,
    }
}

/// How far can actors be confined here?
fn isolation() -> Finding {
    Finding {
        name: "actors",
        good: true,
        says: sandbox::offered().to_string(),
        hint: None,
    }
}

/// What crashes left of landings. Without a store there was none.
fn remains(app: &App) -> Option<Finding> {
    let lifecycle = app.lifecycle().ok()?;
    lifecycle.store().info().ok()?.schema?;
    let found = lifecycle.mendable().ok()?;
    let landings = found
        .iter()
        .filter(|one| matches!(one, Mendable::Landing(_)))
        .count();
    let (good, says) = if landings > 0 {
        let count = ui::count(landings as u64, "landing");
        (false, format!("{count} left unfinished by a crash"))
    } else if found.is_empty() {
        (true, "nothing left over".to_owned())
    } else {
        let count = ui::count(found.len() as u64, "landed plan");
        (true, format!("{count} with remains to be removed"))
    };
    Some(Finding {
        name: "landings",
        good,
        says,
        hint: (!found.is_empty()).then(|| "planwright doctor --fix".to_owned()),
    })
}

fn store(app: &App) -> Vec<Finding> {
    let bad = |error: CommandError| Finding {
        name: "store",
        good: false,
        says: error.message,
        hint: error.hints.into_iter().next(),
    };
    let lifecycle = match app.lifecycle() {
        Ok(lifecycle) => lifecycle,
        Err(error) => return vec![bad(error)],
    };
    let store = lifecycle.store();
    let info = match store.info() {
        Ok(info) => info,
        Err(error) => return vec![bad(error.into())],
    };
    let Some(schema) = info.schema else {
        let says = format!("{} ({}) does not exist yet", info.place, info.kind);
        let hint = Some("planwright init".to_owned());
        return vec![Finding {
            name: "store",
            good: true,
            says,
            hint,
        }];
    };
    // What cannot be read is not well, whatever its files are like.
    if let Err(error) = store.expired(1) {
        return vec![bad(error.into())];
    }
    let mut findings = vec![Finding {
        name: "store",
        good: true,
        says: format!("{} ({}, schema {schema})", info.place, info.kind),
        hint: None,
    }];
    match store.check() {
        Ok(problems) if problems.is_empty() => {
            findings.push(Finding {
                name: "files",
                good: true,
                says: "no damage found".to_owned(),
                hint: None,
            });
        }
        Ok(problems) => findings.push(Finding {
            name: "files",
            good: false,
            says: problems.join("; "),
            hint: Some("planwright store verify".to_owned()),
        }),
        Err(error) => findings.push(bad(error.into())),
    }
    match store.expired(100) {
        Ok(expired) => findings.push(Finding {
            name: "leases",
            good: true,
            says: format!("{} expired", expired.len()),
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
        let found = |free| room(Path::new("/home/ada"), Ok(free));
        assert!(found(MIN_FREE_BYTES).good);
        let full = found(MIN_FREE_BYTES - 1);
        assert!(!full.good);
        assert_eq!(full.says, "31 MiB free at /home/ada");
        assert!(full.hint.is_some());
    }
}
