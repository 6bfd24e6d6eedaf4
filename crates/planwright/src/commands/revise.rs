//! `planwright revise`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use plan::PlanId;
use plan::changeset::TreePath;

use crate::cli::App;
use crate::commands::{Answer, Conditions, go_on_unless, shell};
use crate::error::CommandError;
use crate::exit::Exit;

/// Send a result back with feedback.
#[derive(Debug, clap::Args)]
pub struct Args {
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
    conditions: Conditions,
}

/// Sends it back.
pub fn run(args: &Args, app: &App) -> Result<Answer, CommandError> {
    let call = args.conditions.apply(app.call());
    let lifecycle = app.lifecycle()?;
    let plan = app.plan(&args.id)?;
    let mut dropped = Vec::new();
    for pattern in &args.drop {
        dropped.extend(matching(app, plan, pattern)?);
    }
    let done = lifecycle.revise(plan, &args.text, dropped, &call)?;
    if args.by_hand {
        return shell::by_hand(app, plan, args.allow_markers);
    }
    go_on_unless(args.detach, app, &done)
}

/// The changed paths a pattern means. Of a plan without a repository only a name can be taken.
pub fn matching(
    app: &App,
    plan: PlanId,
    pattern: &OsString,
) -> Result<Vec<TreePath>, CommandError> {
    let lifecycle = app.lifecycle()?;
    let row = lifecycle.get_plan(plan)?;
    let Some(text) = pattern.to_str().filter(|_| row.plan.has_targets()) else {
        return Ok(vec![tree_path(pattern)?]);
    };
    let mut found = Vec::new();
    for looked in lifecycle.look(plan)? {
        found.extend(
            looked
                .look
                .changed(&[text.to_owned()])
                .map_err(lifecycle::Error::Sandbox)?,
        );
    }
    if found.is_empty() {
        return Err(CommandError::new(
            Exit::NotFound,
            format!("No change of the plan matches `{text}`."),
        )
        .hint(format!("planwright diff {plan} --name-only")));
    }
    Ok(found)
}

/// A path of the tree, from the command line.
pub fn tree_path(path: &OsString) -> Result<TreePath, CommandError> {
    TreePath::new(path.clone().into_vec()).map_err(|error| CommandError::usage(error.to_string()))
}
