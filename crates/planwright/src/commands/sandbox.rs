//! `planwright sandbox`: lists, cleans up and restores sandboxes on this host.

use clap::Subcommand;
use plan::PlanId;
use plan::stage::PathSummary;
use sandbox::ArchivedFiles;
use serde_json::{Value, json};

use crate::cli::App;
use crate::commands::CommandAnswer;
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::ui;
use crate::wire::UserMessage;
use api::view::SandboxView;

/// Manage sandboxes: the private copies agents work in
#[derive(Debug, Subcommand)]
pub enum SandboxCommand {
    /// List the plans with sandboxes on this host
    List,
    /// Remove the sandboxes of finished plans
    ///
    /// Work that did not land is kept under refs/planwright/rescue.
    Clean {
        /// Clean only this plan, which must be finished
        id: Option<String>,
    },
    /// Restore a cleaned-up sandbox from the kept work and print its path
    Restore {
        /// Plan ID or handle, or @ for the plan you used last
        id: String,
    },
}

impl SandboxCommand {
    pub fn run(self, app: &App) -> Result<CommandAnswer, CommandError> {
        match self {
            Self::List => list_sandboxes(app),
            Self::Clean { id } => clean_sandboxes(id.as_deref(), app),
            Self::Restore { id } => restore_sandbox(&id, app),
        }
    }
}

fn list_sandboxes(app: &App) -> Result<CommandAnswer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let mut table = ui::TextTable::new(["PLAN", "STANDING", "SANDBOX"]);
    let mut views = Vec::new();
    for plan in lifecycle.sandboxes().plans_with_sandboxes()? {
        let row = match lifecycle.get_plan(plan) {
            Ok(row) => row,
            // The sandbox belongs to another store, or its plan was never committed.
            Err(lifecycle::LifecycleError::Refused(_)) => {
                table.add_row([
                    (plan.to_string(), ui::BOLD),
                    ("unknown".to_owned(), ui::WARN),
                    (String::new(), anstyle::Style::new()),
                ]);
                views.push(json!({ "plan_id": plan, "standing": "unknown", "paths": [] }));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let standing = api::plans::find_standing(lifecycle, &row)?;
        let paths: Vec<String> = lifecycle
            .sandboxes()
            .list_sandboxes(plan)
            .map(|found| {
                found
                    .iter()
                    .map(|one| one.path.display().to_string())
                    .collect()
            })
            .unwrap_or_default();
        table.add_row([
            (lifecycle.short_handle(plan)?, ui::BOLD),
            (standing.as_str().to_owned(), ui::standing_style(standing)),
            (paths.join(" "), anstyle::Style::new()),
        ]);
        views.push(json!({ "plan_id": plan, "standing": standing, "paths": paths }));
    }
    let mut text = if views.is_empty() {
        "No sandboxes.\n".to_owned()
    } else {
        table.to_string()
    };
    let sandboxes = &lifecycle.local_host()?.sandboxes;
    let archives = sandboxes
        .rescue()
        .list_archived_plans()
        .map_err(lifecycle::LifecycleError::Sandbox)?;
    let archives: Vec<_> = archives
        .into_iter()
        .filter_map(|plan| Some((plan, sandboxes.rescue().find_archive(plan)?)))
        .collect();
    for (plan, path) in &archives {
        let path = ui::escape_controls(&path.display().to_string());
        let handle = lifecycle.short_handle(*plan)?;
        text.push_str(&format!("Ignored files of {handle} are kept in {path}\n"));
    }
    let archives: Vec<_> = archives
        .iter()
        .map(|(plan, path)| json!({ "plan_id": plan, "path": path }))
        .collect();
    Ok(CommandAnswer::new(
        json!({ "sandboxes": views, "archives": archives }),
        text,
    ))
}

fn clean_sandboxes(id: Option<&str>, app: &App) -> Result<CommandAnswer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let plans: Vec<PlanId> = match id {
        Some(id) => vec![app.resolve_plan(id)?],
        None => lifecycle.sandboxes().plans_with_sandboxes()?,
    };
    let mut text = String::new();
    let mut views = Vec::new();
    let mut failed: Vec<String> = Vec::new();
    for plan in plans {
        let row = match lifecycle.get_plan(plan) {
            Ok(row) => row,
            Err(lifecycle::LifecycleError::Refused(_)) if id.is_none() => continue,
            Err(error) => return Err(error.into()),
        };
        if !row.plan.stage().is_final() {
            if id.is_some() {
                return Err(CommandError::new(
                    CommandExit::Conflict,
                    format!(
                        "The plan is not finished ({}); its sandbox is kept.",
                        row.plan.stage()
                    ),
                )
                .with_hint(format!("planwright cancel {plan}")));
            }
            continue;
        }
        let handle = lifecycle.short_handle(plan)?;
        let cleanup = match lifecycle.sandboxes().clean_sandboxes(&row.plan) {
            Ok(cleanup) => cleanup,
            Err(error) if id.is_none() => {
                let error = CommandError::from(error);
                failed.push(format!("{handle} was not removed: {}", error.message));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        for kept in &cleanup.rescued {
            text.push_str(&format!(
                "{} {} kept as {}\n",
                ui::style_text(ui::BOLD, &handle),
                kept.resource,
                kept.leftover.ref_name
            ));
        }
        for archived in &cleanup.archived {
            text.push_str(&describe_archive(&handle, archived));
        }
        for place in &cleanup.preserved_dirs {
            text.push_str(&format!(
                "{} the agent's repository is not fully readable; its files are kept in {}\n",
                ui::style_text(ui::BOLD, &handle),
                place.display()
            ));
        }
        if cleanup.is_removed {
            text.push_str(&format!("{} removed\n", ui::style_text(ui::BOLD, &handle)));
        }
        let kept: Vec<_> = cleanup.rescued.iter().map(kept_view).collect();
        let set_aside: Vec<String> = cleanup
            .preserved_dirs
            .iter()
            .map(|place| place.display().to_string())
            .collect();
        let archived: Vec<_> = cleanup.archived.iter().map(archive_view).collect();
        views.push(json!({
            "plan_id": plan, "removed": cleanup.is_removed, "kept": kept, "archived": archived,
            "set_aside": set_aside,
        }));
    }
    if text.is_empty() && failed.is_empty() {
        text = "Nothing to clean up.\n".to_owned();
    }
    let mut answer = CommandAnswer::new(json!({ "cleaned": views }), text);
    if !failed.is_empty() {
        answer.exit = CommandExit::Error;
    }
    answer
        .messages
        .extend(failed.into_iter().map(|text| UserMessage {
            level: "error",
            text,
        }));
    Ok(answer)
}

fn describe_archive(handle: &str, archived: &ArchivedFiles) -> String {
    let handle = ui::style_text(ui::BOLD, handle);
    let mut text = String::new();
    if archived.files > 0 {
        let files = ui::pluralize(archived.files, "ignored file");
        let path = ui::escape_controls(&archived.path.display().to_string());
        text.push_str(&format!("{handle} {files} kept in {path}\n"));
    }
    if !archived.omitted.is_empty() {
        let names = ui::escape_controls(&PathSummary::from_paths(&archived.omitted).to_string());
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
        "not_kept": PathSummary::from_paths(&archived.omitted),
    })
}

fn restore_sandbox(id: &str, app: &App) -> Result<CommandAnswer, CommandError> {
    let plan_id = app.resolve_plan(id)?;
    let restored = app.lifecycle()?.sandboxes().restore_sandboxes(plan_id)?;
    let agent_refs = app.lifecycle()?.sandboxes().list_agent_refs(plan_id)?;
    if restored.is_empty() && agent_refs.is_empty() {
        let archived = app
            .lifecycle()?
            .local_host()?
            .sandboxes
            .rescue()
            .find_archive(plan_id);
        let message = match archived {
            Some(path) => format!(
                "There is no work to restore. Ignored files of this plan are kept in {}",
                path.display()
            ),
            None => "Nothing was kept for this plan.".to_owned(),
        };
        return Err(CommandError::new(CommandExit::NotFound, message));
    }
    let text: String = restored
        .iter()
        .map(|sandbox| format!("{}\n", sandbox.path.display()))
        .collect();
    let data: Vec<SandboxView> = restored.iter().map(SandboxView::from).collect();
    let kept: Vec<_> = agent_refs.iter().map(kept_view).collect();
    let mut answer = CommandAnswer::new(
        json!({ "plan_id": plan_id, "sandboxes": data, "agent_refs": kept }),
        text,
    );
    answer
        .messages
        .extend(agent_refs.iter().map(|kept| UserMessage {
            level: "info",
            text: format!(
                "Saved from the agent's repository: {} ({})",
                kept.leftover.ref_name, kept.resource
            ),
        }));
    if let Some(kept) = agent_refs.first() {
        answer = answer.with_hint(format!("git log -p {}", kept.leftover.ref_name));
    }
    Ok(answer)
}

fn kept_view(kept: &lifecycle::RescuedWork) -> serde_json::Value {
    json!({ "resource": kept.resource, "ref": kept.leftover.ref_name, "commit": kept.leftover.commit })
}
