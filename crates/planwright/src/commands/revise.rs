//! `planwright revise`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use plan::changeset::TreePath;

use crate::cli::App;
use crate::commands::{Answer, Conditions, moved};
use crate::error::CommandError;

/// Send a result back with feedback.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The plan.
    id: String,
    /// What to do better.
    text: String,
    /// A path that goes back to where it was; repeat it for more.
    #[arg(long, value_name = "PATH")]
    drop: Vec<OsString>,
    #[command(flatten)]
    conditions: Conditions,
}

/// Sends it back.
pub fn run(args: &Args, app: &App) -> Result<Answer, CommandError> {
    let call = args.conditions.apply(app.call());
    let dropped = args
        .drop
        .iter()
        .map(tree_path)
        .collect::<Result<Vec<_>, _>>()?;
    let done = app
        .lifecycle()?
        .revise(app.plan(&args.id)?, &args.text, dropped, &call)?;
    moved(app, &done)
}

/// A path of the tree, from the command line.
pub fn tree_path(path: &OsString) -> Result<TreePath, CommandError> {
    TreePath::new(path.clone().into_vec()).map_err(|error| CommandError::usage(error.to_string()))
}
