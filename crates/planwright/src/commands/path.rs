//! `planwright path`: opens a plan's sandboxes for a person and prints their paths.

use std::path::PathBuf;

use lifecycle::OpenSandbox;
use sandbox::SandboxOpening;
use serde_json::json;

use crate::cli::App;
use crate::commands::{CommandAnswer, PlanArg};
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::wire::UserMessage;
use api::view::SandboxView;

/// Print the path of a plan's sandbox, ready for you to enter
///
/// Cleans the repository's git configuration first, so that git runs nothing an agent configured. Your
/// edits there land only if you submit them.
#[derive(Debug, clap::Args)]
pub struct PathArgs {
    #[command(flatten)]
    plan: PlanArg,
}

pub fn run(args: &PathArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let plan_id = args.plan.resolve(app)?;
    let lifecycle = app.lifecycle()?;
    let sandboxes = lifecycle.sandboxes().open_sandboxes(plan_id)?;
    if sandboxes.is_empty() {
        return Err(CommandError::new(
            CommandExit::NotFound,
            "The plan has no sandbox: work has not started, or the sandbox was cleaned up.",
        )
        .with_hint(format!(
            "planwright status {}",
            lifecycle.short_handle(plan_id)?
        )));
    }
    let text: String = sandboxes
        .iter()
        .map(|one| format!("{}\n", one.sandbox.path.display()))
        .collect();
    let views = sandboxes.iter().map(|one| SandboxView::from(&one.sandbox));
    let views: Vec<SandboxView> = views.collect();
    let data = json!({ "plan_id": plan_id, "sandboxes": views });
    let mut answer = CommandAnswer::new(data, text).with_kept_lines();
    for one in &sandboxes {
        answer
            .messages
            .extend(sandbox_warnings(one, &one.sandbox.resource));
    }
    if sandboxes
        .iter()
        .any(|one| one.opened == SandboxOpening::InUse)
    {
        let handle = lifecycle.short_handle(plan_id)?;
        answer = answer.with_hint(format!("planwright diff {handle}"));
    }
    Ok(answer)
}

/// Returns warnings to show before a person runs git in a sandbox.
pub fn sandbox_warnings(one: &OpenSandbox, resource: &str) -> Vec<UserMessage> {
    let warn = |text: String| UserMessage {
        level: "warn",
        text,
    };
    let join_paths = |paths: &[PathBuf]| {
        let paths: Vec<String> = paths
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        paths.join(", ")
    };
    match &one.opened {
        SandboxOpening::InUse => vec![warn(format!(
            "{resource}: an agent is working there. Do not run git in it: git would run what the agent configured."
        ))],
        SandboxOpening::Clean(remarks) => {
            let mut messages = Vec::new();
            if !remarks.set_aside.is_empty() {
                messages.push(warn(format!(
                    "{resource}: moved these .git directories aside, because git would run what an agent configured there: {}",
                    join_paths(&remarks.set_aside)
                )));
            }
            if !remarks.bare.is_empty() {
                messages.push(warn(format!(
                    "{resource}: do not run git in {}: it looks like a bare repository, and git would use its \
                     configuration.",
                    join_paths(&remarks.bare)
                )));
            }
            messages
        }
    }
}
