//! `planwright drop`: takes parts out of a result, without running an agent.

use std::collections::BTreeSet;

use api::plans;
use api::results::{self, LineDetail, ResultRange};
use api::view::PickedPlanView;
use lifecycle::{Call, PartSelection, PickMode, PickOutcome};
use plan::{HunkId, PlanId};
use serde_json::json;

use crate::cli::App;
use crate::commands::{CommandAnswer, ConditionArgs};
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::ui;

/// Take parts out of a result; the rest stays as it is, and nothing lands until you apply it
#[derive(Debug, clap::Args)]
pub struct DropArgs {
    /// Plan ID or handle, or @ for the plan you used last
    id: String,
    /// Drop the changes to matching paths
    #[arg(value_name = "GLOB", required_unless_present_any = ["hunk", "restore"])]
    globs: Vec<String>,
    /// Drop this hunk, as listed by `diff --hunks`; repeat for more
    #[arg(long, value_name = "HUNK")]
    hunk: Vec<String>,
    /// Bring back what a partial landing left out, after it failed
    #[arg(long, conflicts_with_all = ["globs", "hunk"])]
    restore: bool,
    #[command(flatten)]
    conditions: ConditionArgs,
}

pub fn run(args: &DropArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let plan_id = app.resolve_plan(&args.id)?;
    let call = args.conditions.apply_to(app.new_call());
    if args.restore {
        return restore_whole_result(app, plan_id, &call);
    }
    let selection = PartSelection {
        hunks: resolve_hunks(app, plan_id, &args.hunk)?,
        paths: args.globs.clone(),
    };
    drop_parts(app, plan_id, &selection, &call)
}

fn restore_whole_result(
    app: &App,
    plan_id: PlanId,
    call: &Call,
) -> Result<CommandAnswer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let handle = lifecycle.short_handle(plan_id)?;
    match results::restore_whole_result(lifecycle, plan_id, call)? {
        PickOutcome::Unchanged => Ok(CommandAnswer::new(
            json!({ "plan_id": plan_id }),
            "Nothing to bring back: no part of the result waits.\n",
        )),
        PickOutcome::Picked { done, reduced } => {
            let text = format!(
                "{} The whole result is back.\n",
                ui::style_text(ui::BOLD, &handle)
            );
            let view = PickedPlanView {
                change: plans::view_change(lifecycle, &done)?,
                reduced,
            };
            Ok(CommandAnswer::new(view, text)
                .with_hint(format!("planwright diff {handle}"))
                .with_hint(format!("planwright apply {handle}")))
        }
    }
}

/// Drops the selected parts of a result.
pub fn drop_parts(
    app: &App,
    plan_id: PlanId,
    selection: &PartSelection,
    call: &Call,
) -> Result<CommandAnswer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let outcome = results::pick_parts(
        lifecycle,
        plan_id,
        None,
        selection,
        PickMode::DropSelected,
        call,
    )?;
    let handle = lifecycle.short_handle(plan_id)?;
    match outcome {
        PickOutcome::Unchanged => Ok(CommandAnswer::new(
            json!({ "plan_id": plan_id }),
            "Nothing to drop.\n",
        )),
        PickOutcome::Picked { done, reduced } => {
            let files = ui::pluralize(reduced.len() as u64, "file");
            let text = format!(
                "{} Dropped changes to {files}. Earlier results are kept: planwright diff {handle} r1\n",
                ui::style_text(ui::BOLD, &handle)
            );
            let view = PickedPlanView {
                change: plans::view_change(lifecycle, &done)?,
                reduced,
            };
            Ok(CommandAnswer::new(view, text)
                .with_hint(format!("planwright diff {handle}"))
                .with_hint(format!("planwright apply {handle}")))
        }
    }
}

/// Finds the hunks of the current result that these prefixes name.
pub fn resolve_hunks(
    app: &App,
    plan_id: PlanId,
    prefixes: &[String],
) -> Result<BTreeSet<HunkId>, CommandError> {
    if prefixes.is_empty() {
        return Ok(BTreeSet::new());
    }
    let view = results::list_hunks(
        app.lifecycle()?,
        plan_id,
        ResultRange::Current,
        &[],
        LineDetail::None,
    )?;
    let files = view.files.iter();
    let known: BTreeSet<HunkId> = files
        .flat_map(|file| file.hunks.iter().map(|hunk| hunk.id))
        .collect();
    prefixes
        .iter()
        .map(|prefix| find_hunk(&known, prefix))
        .collect()
}

fn find_hunk(known: &BTreeSet<HunkId>, prefix: &str) -> Result<HunkId, CommandError> {
    let list_hint = "List the hunks of the current result: planwright diff ID --hunks";
    let is_prefix = prefix.len() >= 4 && prefix.bytes().all(|digit| digit.is_ascii_hexdigit());
    if !is_prefix {
        return Err(CommandError::usage(format!(
            "`{prefix}` is not a hunk. A hunk is named by the first digits of its id, at least four."
        ))
        .with_hint(list_hint));
    }
    let prefix = prefix.to_ascii_lowercase();
    let mut matching = known
        .iter()
        .filter(|id| id.to_string().starts_with(&prefix));
    match (matching.next(), matching.next()) {
        (Some(hunk), None) => Ok(*hunk),
        (None, _) => Err(CommandError::new(
            CommandExit::NotFound,
            format!("The result has no hunk {prefix}."),
        )
        .with_kind("unknown_hunk")
        .with_hint(list_hint)),
        (Some(_), Some(_)) => Err(CommandError::usage(format!(
            "Several hunks start with {prefix}. Give more digits."
        ))
        .with_hint(list_hint)),
    }
}
