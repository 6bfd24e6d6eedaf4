//! `planwright sandbox`.

use clap::Subcommand;
use plan::PlanId;
use plan::stage::PathSummary;
use sandbox::ArchivedFiles;
use serde_json::{Value, json};

use crate::cli::App;
use crate::commands::Answer;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::ui;
use crate::wire::{Message, SandboxView};

/// Sandboxes: the private copies that plans are worked on in.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the plans that have sandboxes on this host.
    List,
    /// Remove the sandboxes of plans that have ended. Work that did not land is kept under
    /// refs/planwright/rescue.
    Clean {
        /// Only this plan; it must have ended.
        id: Option<String>,
    },
    /// Bring back the sandbox of work that was kept when it was cleaned up, and say where it is.
    Restore {
        /// The plan.
        id: String,
    },
}

impl Command {
    /// Carries it out.
    pub fn run(self, app: &App) -> Result<Answer, CommandError> {
        match self {
            Self::List => list(app),
            Self::Clean { id } => clean(id.as_deref(), app),
            Self::Restore { id } => restore(&id, app),
        }
    }
}

fn list(app: &App) -> Result<Answer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let mut table = ui::Table::new(["PLAN", "STANDING", "SANDBOX"]);
    let mut views = Vec::new();
    for plan in lifecycle.sandboxes()? {
        let row = match lifecycle.get_plan(plan) {
            Ok(row) => row,
            // Made for a plan of another store, or for one that was never committed.
            Err(lifecycle::Error::Refused(_)) => {
                table.row([
                    (plan.to_string(), ui::BOLD),
                    ("unknown".to_owned(), ui::WARN),
                    (String::new(), anstyle::Style::new()),
                ]);
                views.push(json!({ "plan_id": plan, "standing": "unknown", "paths": [] }));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let (standing, style) = app.standing(&row)?;
        let paths: Vec<String> = lifecycle
            .sandboxes_of(plan)
            .map(|found| {
                found
                    .iter()
                    .map(|one| one.path.display().to_string())
                    .collect()
            })
            .unwrap_or_default();
        table.row([
            (lifecycle.short_name(plan)?, ui::BOLD),
            (standing.to_owned(), style),
            (paths.join(" "), anstyle::Style::new()),
        ]);
        views.push(json!({ "plan_id": plan, "standing": standing, "paths": paths }));
    }
    let mut text = if views.is_empty() {
        "No sandboxes.\n".to_owned()
    } else {
        table.to_string()
    };
    let workshop = &lifecycle.hands()?.workshop;
    let archives = workshop.archives().map_err(lifecycle::Error::Sandbox)?;
    let archives: Vec<_> = archives
        .into_iter()
        .filter_map(|plan| Some((plan, workshop.archived(plan)?)))
        .collect();
    for (plan, path) in &archives {
        let path = ui::clean(&path.display().to_string());
        let handle = lifecycle.short_name(*plan)?;
        text.push_str(&format!("Ignored files of {handle} are kept in {path}\n"));
    }
    let archives: Vec<_> = archives
        .iter()
        .map(|(plan, path)| json!({ "plan_id": plan, "path": path }))
        .collect();
    Ok(Answer::new(
        json!({ "sandboxes": views, "archives": archives }),
        text,
    ))
}

fn clean(id: Option<&str>, app: &App) -> Result<Answer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let plans: Vec<PlanId> = match id {
        Some(id) => vec![app.plan(id)?],
        None => lifecycle.sandboxes()?,
    };
    let mut text = String::new();
    let mut views = Vec::new();
    let mut failed: Vec<String> = Vec::new();
    for plan in plans {
        let row = match lifecycle.get_plan(plan) {
            Ok(row) => row,
            Err(lifecycle::Error::Refused(_)) if id.is_none() => continue,
            Err(error) => return Err(error.into()),
        };
        if !row.plan.stage.is_final() {
            if id.is_some() {
                return Err(CommandError::new(
                    Exit::Conflict,
                    format!("The plan goes on ({}); its sandbox stays.", row.plan.stage),
                )
                .hint(format!("planwright cancel {plan}")));
            }
            continue;
        }
        let handle = lifecycle.short_name(plan)?;
        let tidied = match lifecycle.tidy(&row.plan) {
            Ok(tidied) => tidied,
            Err(error) if id.is_none() => {
                let error = CommandError::from(error);
                failed.push(format!("{handle} stays: {}", error.message));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        for kept in &tidied.kept {
            text.push_str(&format!(
                "{} {} kept as {}\n",
                ui::styled(ui::BOLD, &handle),
                kept.resource,
                kept.leftover.name
            ));
        }
        for archived in &tidied.archived {
            text.push_str(&archive_words(&handle, archived));
        }
        for place in &tidied.set_aside {
            text.push_str(&format!(
                "{} could not read all of the agent's repository; its files are kept in {}\n",
                ui::styled(ui::BOLD, &handle),
                place.display()
            ));
        }
        if tidied.removed {
            text.push_str(&format!("{} removed\n", ui::styled(ui::BOLD, &handle)));
        }
        let kept: Vec<_> = tidied.kept.iter().map(kept_view).collect();
        let set_aside: Vec<String> = tidied
            .set_aside
            .iter()
            .map(|place| place.display().to_string())
            .collect();
        let archived: Vec<_> = tidied.archived.iter().map(archive_view).collect();
        views.push(json!({
            "plan_id": plan, "removed": tidied.removed, "kept": kept, "archived": archived,
            "set_aside": set_aside,
        }));
    }
    if text.is_empty() && failed.is_empty() {
        text = "Nothing to clean up.\n".to_owned();
    }
    let mut answer = Answer::new(json!({ "cleaned": views }), text);
    if !failed.is_empty() {
        answer.exit = Exit::Error;
    }
    answer
        .messages
        .extend(failed.into_iter().map(|text| Message {
            level: "error",
            text,
        }));
    Ok(answer)
}

/// What was kept of ignored files, for people.
fn archive_words(handle: &str, archived: &ArchivedFiles) -> String {
    let handle = ui::styled(ui::BOLD, handle);
    let mut text = String::new();
    if archived.files > 0 {
        let files = ui::count(archived.files, "ignored file");
        let path = ui::clean(&archived.path.display().to_string());
        text.push_str(&format!("{handle} {files} kept in {path}\n"));
    }
    if !archived.not_kept.is_empty() {
        let names = ui::clean(&PathSummary::of(&archived.not_kept).to_string());
        text.push_str(&format!(
            "{handle} ignored files over the limit were not kept: {names}\n"
        ));
    }
    text
}

fn archive_view(archived: &ArchivedFiles) -> Value {
    json!({
        "path": archived.path,
        "files": archived.files,
        "bytes": archived.bytes,
        "not_kept": PathSummary::of(&archived.not_kept),
    })
}

fn restore(id: &str, app: &App) -> Result<Answer, CommandError> {
    let plan = app.plan(id)?;
    let restored = app.lifecycle()?.restore(plan)?;
    let agent_refs = app.lifecycle()?.agent_refs_of(plan)?;
    if restored.is_empty() && agent_refs.is_empty() {
        let archived = app.lifecycle()?.hands()?.workshop.archived(plan);
        let message = match archived {
            Some(path) => format!(
                "There is no work to restore. Ignored files of this plan are kept in {}",
                path.display()
            ),
            None => "Nothing of this plan was kept.".to_owned(),
        };
        return Err(CommandError::new(Exit::NotFound, message));
    }
    let text: String = restored
        .iter()
        .map(|sandbox| format!("{}\n", sandbox.path.display()))
        .collect();
    let data: Vec<SandboxView> = restored.iter().map(SandboxView::from).collect();
    let kept: Vec<_> = agent_refs.iter().map(kept_view).collect();
    let mut answer = Answer::new(
        json!({ "plan_id": plan, "sandboxes": data, "agent_refs": kept }),
        text,
    );
    answer
        .messages
        .extend(agent_refs.iter().map(|kept| Message {
            level: "info",
            text: format!(
                "Saved from the agent's repository: {} ({})",
                kept.leftover.name, kept.resource
            ),
        }));
    if let Some(kept) = agent_refs.first() {
        answer = answer.hint(format!("git log -p {}", kept.leftover.name));
    }
    Ok(answer)
}

fn kept_view(kept: &lifecycle::Kept) -> serde_json::Value {
    json!({ "resource": kept.resource, "ref": kept.leftover.name, "commit": kept.leftover.commit })
}
