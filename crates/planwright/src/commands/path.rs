//! `planwright path`.

use std::path::PathBuf;

use lifecycle::OpenSandbox;
use sandbox::Opened;
use serde_json::json;

use crate::cli::App;
use crate::commands::Answer;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::wire::{Message, SandboxView};

/// Print the path of a plan's sandbox, ready for you to enter
///
/// The repository there gets a clean configuration first, so that git runs nothing that an agent configured. Edits there land
/// only if they are handed in.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The plan.
    id: String,
}

/// Opens it, and prints where it is.
pub fn run(args: &Args, app: &App) -> Result<Answer, CommandError> {
    let plan = app.plan(&args.id)?;
    let lifecycle = app.lifecycle()?;
    let sandboxes = lifecycle.open_sandboxes(plan)?;
    if sandboxes.is_empty() {
        return Err(CommandError::new(
            Exit::NotFound,
            "The plan has no sandbox: nobody has begun to work on it, or it was cleaned up.",
        )
        .hint(format!("planwright status {}", args.id)));
    }
    let text: String = sandboxes
        .iter()
        .map(|one| format!("{}\n", one.sandbox.path.display()))
        .collect();
    let views = sandboxes.iter().map(|one| SandboxView::from(&one.sandbox));
    let views: Vec<SandboxView> = views.collect();
    let mut answer = Answer::new(json!({ "plan_id": plan, "sandboxes": views }), text);
    for one in &sandboxes {
        answer.messages.extend(remarks(one, &one.sandbox.resource));
    }
    if sandboxes.iter().any(|one| one.opened == Opened::InUse) {
        let handle = lifecycle.short_name(plan)?;
        answer = answer.hint(format!("planwright diff {handle}"));
    }
    Ok(answer)
}

/// What a person should know before they run git in a sandbox.
pub fn remarks(one: &OpenSandbox, resource: &str) -> Vec<Message> {
    let warn = |text: String| Message {
        level: "warn",
        text,
    };
    let named = |paths: &[PathBuf]| {
        let named: Vec<String> = paths
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        named.join(", ")
    };
    match &one.opened {
        Opened::InUse => vec![warn(format!(
            "{resource}: somebody is working there. Do not run git in it: git would run what an agent configured."
        ))],
        Opened::Clean(remarks) => {
            let mut messages = Vec::new();
            if !remarks.set_aside.is_empty() {
                messages.push(warn(format!(
                    "{resource}: moved these .git directories aside, because git would run what an agent configured there: {}",
                    named(&remarks.set_aside)
                )));
            }
            if !remarks.bare.is_empty() {
                messages.push(warn(format!(
                    "{resource}: do not run git in {}: it looks like a bare repository, and git would use its \
                     configuration.",
                    named(&remarks.bare)
                )));
            }
            messages
        }
    }
}
