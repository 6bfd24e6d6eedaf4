//! `planwright diff`: shows a plan's changes.

use std::io::{IsTerminal, Write};
use std::process::Stdio;

use lifecycle::ResourceChanges;
use plan::stage::{IgnoredPaths, PathSummary};
use sandbox::{DiffFormat, SandboxError};
use serde_json::json;

use crate::cli::{App, CliFormat};
use crate::commands::CommandAnswer;
use crate::error::CommandError;
use crate::ui;

/// Show what a plan changed, even while an agent is working
#[derive(Debug, clap::Args)]
pub struct DiffArgs {
    /// Plan ID or handle, or @ for the plan you used last
    id: String,
    /// Show a summary of changed lines per file
    #[arg(long, conflicts_with_all = ["name_only", "patch"])]
    stat: bool,
    /// Show only the names of changed files
    #[arg(long, conflicts_with = "patch")]
    name_only: bool,
    /// Show the full diff (default)
    #[arg(long)]
    patch: bool,
    /// Show only these paths
    #[arg(last = true, value_name = "PATHSPEC")]
    paths: Vec<String>,
}

pub fn run(args: &DiffArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let plan_id = app.resolve_plan(&args.id)?;
    let lifecycle = app.lifecycle()?;
    let diffs = lifecycle.sandboxes().view_changes(plan_id)?;
    if diffs.is_empty() {
        let text =
            "Nothing to compare: the plan has no repository, or work on it has not started.\n";
        return Ok(CommandAnswer::new(
            json!({ "plan_id": plan_id, "resources": [] }),
            text,
        ));
    }
    let shape = if args.stat {
        DiffFormat::Stat
    } else if args.name_only {
        DiffFormat::NameOnly
    } else {
        DiffFormat::Patch
    };
    if app.format == CliFormat::Json {
        return changes_as_json(app, plan_id, &diffs, args);
    }
    show_changes(&diffs, shape, &args.paths)?;
    Ok(CommandAnswer::new(json!(null), String::new()))
}

/// Shows a plan's full diff on standard output.
pub fn show_patch(app: &App, plan_id: plan::PlanId) -> Result<(), CommandError> {
    show_changes(
        &app.lifecycle()?.sandboxes().view_changes(plan_id)?,
        DiffFormat::Patch,
        &[],
    )
}

/// Writes diffs to standard output: for a terminal with colours and escaped control characters, otherwise
/// byte for byte, so that `git apply` accepts them.
fn show_changes(
    diffs: &[ResourceChanges],
    shape: DiffFormat,
    paths: &[String],
) -> Result<(), CommandError> {
    for diff in diffs {
        if diffs.len() > 1 {
            let mut stdout = anstream::stdout().lock();
            let heading = ui::style_text(ui::BOLD, format!("== {} ==", diff.resource));
            let _ = writeln!(stdout, "{heading}");
        }
        let shown = if std::io::stdout().is_terminal() {
            show_on_terminal(diff, shape, paths)
        } else {
            diff.comparison.show_diff(shape, paths, Stdio::inherit())
        };
        shown.map_err(lifecycle::LifecycleError::Sandbox)?;
        if shape == DiffFormat::Stat {
            let _ = write!(
                anstream::stdout().lock(),
                "{}",
                describe_ignored(&diff.ignored)
            );
        }
    }
    Ok(())
}

/// Lists ignored files that were added, withheld or left out; empty if there are none.
pub fn describe_ignored(paths: &IgnoredPaths) -> String {
    let mut text = String::new();
    let IgnoredPaths {
        forced,
        withheld,
        left_out,
    } = paths;
    let mut add_note = |paths: &PathSummary, label: &str, style| {
        if !paths.is_empty() {
            let names = ui::escape_controls(&paths.to_string());
            let note = format!("{label} ({}): {names}", paths.count);
            text.push_str(&format!("{}\n", ui::style_text(style, note)));
        }
    };
    add_note(forced, "Ignored by git, added by the agent", ui::WARN);
    add_note(
        withheld,
        "Not captured, because it existed before the agent started",
        ui::WARN,
    );
    add_note(left_out, "Ignored by git and left out", ui::DIM);
    text
}

/// Shows a diff on the terminal; full diffs go through git's pager.
fn show_on_terminal(
    diff: &ResourceChanges,
    shape: DiffFormat,
    paths: &[String],
) -> Result<(), SandboxError> {
    let text = diff.comparison.diff_text(shape, paths)?;
    let shown = match shape {
        DiffFormat::Patch => ui::render_patch(&text),
        DiffFormat::Stat | DiffFormat::NameOnly => {
            ui::escape_controls(&String::from_utf8_lossy(&text))
        }
    };
    let colourless =
        anstream::AutoStream::choice(&std::io::stdout()) == anstream::ColorChoice::Never;
    let shown = match colourless {
        true => anstream::adapter::strip_str(&shown).to_string(),
        false => shown,
    };
    let in_pager = shape == DiffFormat::Patch && diff.comparison.show_in_pager(shown.as_bytes());
    if !in_pager {
        // A closed standard output is not an error.
        let _ = write!(anstream::stdout().lock(), "{shown}");
    }
    Ok(())
}

fn changes_as_json(
    app: &App,
    plan_id: plan::PlanId,
    diffs: &[ResourceChanges],
    args: &DiffArgs,
) -> Result<CommandAnswer, CommandError> {
    let mut resources = Vec::new();
    for diff in diffs {
        let counted = diff
            .comparison
            .count_lines(&args.paths)
            .map_err(lifecycle::LifecycleError::Sandbox)?;
        let patch = if args.patch {
            let text = diff
                .comparison
                .diff_text(DiffFormat::Patch, &args.paths)
                .map_err(lifecycle::LifecycleError::Sandbox)?;
            json!(String::from_utf8_lossy(&text))
        } else {
            json!(null)
        };
        resources.push(json!({
            "resource": diff.resource,
            "files": counted,
            "insertions": counted.iter().filter_map(|file| file.insertions).sum::<u64>(),
            "deletions": counted.iter().filter_map(|file| file.deletions).sum::<u64>(),
            "patch": patch,
            "ignored": diff.ignored,
        }));
    }
    let view = api::plans::get_plan_view(app.lifecycle()?, plan_id)?;
    Ok(CommandAnswer::new(
        json!({ "plan_id": plan_id, "resources": resources, "changesets": view.changesets }),
        String::new(),
    ))
}

/// Returns the diffstat and the notes on ignored files.
pub fn summarize_changes(
    diffs: &[ResourceChanges],
    paths: &[String],
) -> Result<String, CommandError> {
    let mut text = String::new();
    for diff in diffs {
        if diffs.len() > 1 {
            text.push_str(&format!("{}\n", ui::style_text(ui::BOLD, &diff.resource)));
        }
        let shown = diff
            .comparison
            .diff_text(DiffFormat::Stat, paths)
            .map_err(lifecycle::LifecycleError::Sandbox)?;
        text.push_str(&ui::escape_controls(&String::from_utf8_lossy(&shown)));
        text.push_str(&describe_ignored(&diff.ignored));
    }
    Ok(text)
}
