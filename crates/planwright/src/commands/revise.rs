//! `planwright revise`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use plan::PlanId;
use plan::changeset::TreePath;

use crate::cli::App;
use crate::commands::{CommandAnswer, ConditionArgs, continue_unless_detached, shell};
use crate::error::CommandError;
use crate::exit::CommandExit;

/// Send a result back with feedback.
#[derive(Debug, clap::Args)]
pub struct ReviseArgs {
    /// The plan.
    id: String,
    /// What to do better.
    text: String,
    /// Changed paths that go back to where they were, by name or pattern; repeat it for more.
    #[arg(long, value_name = "GLOB")]
    drop: Vec<OsString>,
    /// Do it yourself: opens a shell in the sandbox, and hands your version in when you leave it.
    #[arg(long)]
    by_hand: bool,
    /// Submit even if conflict markers remain.
    #[arg(long, requires = "by_hand")]
    allow_markers: bool,
    /// Leave the work to a worker instead of doing it here.
    #[arg(long, conflicts_with = "by_hand")]
    detach: bool,
    #[command(flatten)]
    conditions: ConditionArgs,
}

/// Sends it back.
pub fn run(args: &ReviseArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let call = args.conditions.apply_to(app.new_call());
    let lifecycle = app.lifecycle()?;
    let plan_id = app.resolve_plan(&args.id)?;
    let mut dropped = Vec::new();
    for pattern in &args.drop {
        dropped.extend(match_changed_paths(app, plan_id, pattern)?);
    }
    let done = lifecycle.revise_plan(plan_id, &args.text, dropped, &call)?;
    if args.by_hand {
        return shell::work_by_hand(app, plan_id, args.allow_markers);
    }
    continue_unless_detached(args.detach, app, &done)
}

/// The changed paths a pattern means. Of a plan without a repository only a name can be taken.
pub fn match_changed_paths(
    app: &App,
    plan_id: PlanId,
    pattern: &OsString,
) -> Result<Vec<TreePath>, CommandError> {
    let lifecycle = app.lifecycle()?;
    let row = lifecycle.get_plan(plan_id)?;
    let Some(text) = pattern.to_str().filter(|_| row.plan.has_targets()) else {
        return Ok(vec![parse_tree_path(pattern)?]);
    };
    let mut found = Vec::new();
    for diff in lifecycle.view_changes(plan_id)? {
        found.extend(
            diff.comparison
                .list_changed_paths(&[text.to_owned()])
                .map_err(lifecycle::LifecycleError::Sandbox)?,
        );
    }
    if found.is_empty() {
        return Err(CommandError::new(
            CommandExit::NotFound,
            format!("No change of the plan matches `{text}`."),
        )
        .with_hint(format!("planwright diff {plan_id} --name-only")));
    }
    Ok(found)
}

/// A path of the tree, from the command line.
pub fn parse_tree_path(path: &OsString) -> Result<TreePath, CommandError> {
    TreePath::new(path.clone().into_vec()).map_err(|error| CommandError::usage(error.to_string()))
}
