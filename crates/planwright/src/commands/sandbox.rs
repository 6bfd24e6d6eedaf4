//! `planwright sandbox`: lists, cleans up and restores sandboxes on this host.

use api::sandboxes::{self, CleanedSandboxes};
use api::view::{RestoredSandboxesView, SandboxCleanupView, SandboxListView};
use clap::Subcommand;
use lifecycle::CleanupReport;
use plan::stage::PathSummary;
use sandbox::ArchivedFiles;
use serde::Serialize;

use crate::cli::App;
use crate::commands::CommandAnswer;
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::wire::UserMessage;
use crate::{completion, ui};

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
        #[arg(add = completion::plans())]
        id: Option<String>,
    },
    /// Restore a cleaned-up sandbox from the kept work and print its path
    Restore {
        /// Plan ID or handle, or @ for the plan you used last
        #[arg(add = completion::plans())]
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
    let found = sandboxes::list_sandboxes(lifecycle)?;
    let mut table = ui::TextTable::new(["PLAN", "STATE", "SANDBOX"]);
    for one in &found.sandboxes {
        let paths: Vec<String> = one
            .paths
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        let (handle, standing, style) = match one.standing {
            Some(standing) => (
                lifecycle.short_handle(one.plan_id)?,
                standing.as_str(),
                ui::standing_style(standing),
            ),
            None => (one.plan_id.to_string(), "unknown", ui::WARN),
        };
        table.add_row([
            (handle, ui::BOLD),
            (standing.to_owned(), style),
            (paths.join(" "), anstyle::Style::new()),
        ]);
    }
    let mut text = if found.sandboxes.is_empty() {
        "No sandboxes.\n".to_owned()
    } else {
        table.to_string()
    };
    for archive in &found.archives {
        let path = ui::escape_controls(&archive.path.display().to_string());
        let handle = lifecycle.short_handle(archive.plan_id)?;
        text.push_str(&format!("Ignored files of {handle} are kept in {path}\n"));
    }
    Ok(CommandAnswer::new(SandboxListView::from(&found), text))
}

/// What `sandbox clean` did to each plan's sandboxes.
#[derive(Debug, Serialize)]
struct SandboxCleanView {
    cleaned: Vec<SandboxCleanupView>,
}

fn clean_sandboxes(id: Option<&str>, app: &App) -> Result<CommandAnswer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let results = match id {
        Some(id) => {
            let plan_id = app.resolve_plan(id)?;
            let report = sandboxes::clean_plan_sandboxes(lifecycle, plan_id)?;
            vec![CleanedSandboxes {
                plan_id,
                result: Ok(report),
            }]
        }
        None => sandboxes::clean_all_sandboxes(lifecycle)?,
    };
    let mut text = String::new();
    let mut cleaned = Vec::new();
    let mut failed: Vec<String> = Vec::new();
    for CleanedSandboxes { plan_id, result } in results {
        let handle = lifecycle.short_handle(plan_id)?;
        match result {
            Ok(report) => {
                text.push_str(&describe_cleanup(&handle, &report));
                cleaned.push(SandboxCleanupView::new(plan_id, &report));
            }
            Err(error) => {
                let error = CommandError::from(error);
                failed.push(format!("{handle} was not removed: {}", error.message));
            }
        }
    }
    if text.is_empty() && failed.is_empty() {
        text = "Nothing to clean up.\n".to_owned();
    }
    let mut answer = CommandAnswer::new(SandboxCleanView { cleaned }, text);
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

fn describe_cleanup(handle: &str, report: &CleanupReport) -> String {
    let bold = ui::style_text(ui::BOLD, handle);
    let mut text = String::new();
    for kept in &report.rescued {
        text.push_str(&format!(
            "{bold} {} kept as {}\n",
            kept.resource, kept.leftover.ref_name
        ));
    }
    for archived in &report.archived {
        text.push_str(&describe_archive(handle, archived));
    }
    for place in &report.preserved_dirs {
        text.push_str(&format!(
            "{bold} the agent's repository is not fully readable; its files are kept in {}\n",
            place.display()
        ));
    }
    if report.is_removed {
        text.push_str(&format!("{bold} removed\n"));
    }
    text
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

fn restore_sandbox(id: &str, app: &App) -> Result<CommandAnswer, CommandError> {
    let plan_id = app.resolve_plan(id)?;
    let restored = sandboxes::restore_sandboxes(app.lifecycle()?, plan_id)?;
    let text: String = restored
        .sandboxes
        .iter()
        .map(|sandbox| format!("{}\n", sandbox.path.display()))
        .collect();
    let view = RestoredSandboxesView::new(plan_id, &restored);
    let mut answer = CommandAnswer::new(view, text);
    let agent_refs = &restored.agent_refs;
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
