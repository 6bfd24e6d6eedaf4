//! `planwright path`.

use serde_json::json;

use crate::cli::App;
use crate::commands::Answer;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::wire::SandboxView;

/// Print where a plan's sandbox is. Edits there land only if they are handed in.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The plan.
    id: String,
}

/// Prints it.
pub fn run(args: &Args, app: &App) -> Result<Answer, CommandError> {
    let plan = app.plan(&args.id)?;
    let sandboxes = app.lifecycle()?.sandboxes_of(plan)?;
    if sandboxes.is_empty() {
        return Err(CommandError::new(
            Exit::NotFound,
            "The plan has no sandbox: nobody has begun to work on it, or it was cleaned up.",
        )
        .hint(format!("planwright status {}", args.id)));
    }
    let text: String = sandboxes
        .iter()
        .map(|sandbox| format!("{}\n", sandbox.path.display()))
        .collect();
    let data: Vec<SandboxView> = sandboxes.iter().map(SandboxView::from).collect();
    Ok(Answer::new(
        json!({ "plan_id": plan, "sandboxes": data }),
        text,
    ))
}
