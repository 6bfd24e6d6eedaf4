//! `planwright revise`: sends a result back with feedback.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use plan::PlanId;
use plan::changeset::TreePath;

use crate::cli::App;
use crate::commands::{CommandAnswer, ConditionArgs, continue_unless_detached, shell};
use crate::error::CommandError;
use crate::exit::CommandExit;

/// Send a result back to the agent with feedback
#[derive(Debug, clap::Args)]
pub struct ReviseArgs {
    /// Plan ID or handle, or @ for the plan you used last
    id: String,
    /// Feedback for the agent
    text: String,
    /// Drop the changes to matching paths; repeat for more
    #[arg(long, value_name = "GLOB")]
    drop: Vec<OsString>,
    /// Edit the result yourself: open a shell in the sandbox and submit your version when it exits
    #[arg(long)]
    by_hand: bool,
    /// Submit even if conflict markers remain
    #[arg(long, requires = "by_hand")]
    allow_markers: bool,
    /// Leave the work to a worker instead of continuing here
    #[arg(long, conflicts_with = "by_hand")]
    detach: bool,
    #[command(flatten)]
    conditions: ConditionArgs,
}

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

/// Returns the changed paths that match a pattern. For a plan without targets, the pattern is taken as a path.
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
    for diff in lifecycle.sandboxes().view_changes(plan_id)? {
        found.extend(
            diff.comparison
                .list_changed_paths(&[text.to_owned()])
                .map_err(lifecycle::LifecycleError::Sandbox)?,
        );
    }
    if found.is_empty() {
        return Err(CommandError::new(
            CommandExit::NotFound,
            format!("No changed path matches `{text}`."),
        )
        .with_hint(format!("planwright diff {plan_id} --name-only")));
    }
    Ok(found)
}

pub fn parse_tree_path(path: &OsString) -> Result<TreePath, CommandError> {
    TreePath::new(path.clone().into_vec()).map_err(|error| CommandError::usage(error.to_string()))
}
