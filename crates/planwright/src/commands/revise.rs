//! `planwright revise`: sends a result back with feedback.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use api::plans::{self, RevertRequest, ReviseRequest};
use plan::changeset::TreePath;

use crate::cli::App;
use crate::commands::plan_arg::resolve_plan_and_text;
use crate::commands::{CommandAnswer, ConditionArgs, continue_unless_detached, shell};
use crate::completion;
use crate::error::CommandError;

/// Send a result back to the agent with feedback
#[derive(Debug, clap::Args)]
#[command(override_usage = "planwright revise [OPTIONS] [PLAN] <TEXT>")]
pub struct ReviseArgs {
    /// Plan ID or handle; @- is the plan used before [default: the plan last used here]
    #[arg(value_name = "PLAN", add = completion::plans())]
    first: Option<String>,
    /// Feedback for the agent
    #[arg(value_name = "TEXT")]
    second: Option<String>,
    /// Have the agent think of another strategy first, instead of continuing with this one
    #[arg(long, conflicts_with_all = ["drop", "by_hand"])]
    rethink: bool,
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
    let words = (args.first.as_deref(), args.second.as_deref());
    let (plan_id, text) = resolve_plan_and_text(app, words.0, words.1, "revise", "\"TEXT\"")?;
    if args.rethink {
        let request = RevertRequest {
            reason: text.to_owned(),
        };
        let done = plans::revert_plan(app.lifecycle()?, plan_id, &request, &call)?;
        return continue_unless_detached(args.detach, app, &done);
    }
    let mut request = ReviseRequest {
        text: text.to_owned(),
        ..ReviseRequest::default()
    };
    for pattern in &args.drop {
        match pattern.to_str() {
            Some(glob) => request.drop.push(glob.to_owned()),
            None => request.drop_paths.push(parse_tree_path(pattern)?),
        }
    }
    if args.by_hand {
        plans::revise_plan_by_hand(app.lifecycle()?, plan_id, &request, &call)?;
        return shell::work_by_hand(app, plan_id, args.allow_markers);
    }
    let done = plans::revise_plan(app.lifecycle()?, plan_id, &request, &call)?;
    continue_unless_detached(args.detach, app, &done)
}

pub fn parse_tree_path(path: &OsString) -> Result<TreePath, CommandError> {
    TreePath::new(path.clone().into_vec()).map_err(|error| CommandError::usage(error.to_string()))
}
