//! What is to be done: from the command line, from standard input, or from the person's editor.

use std::io::{IsTerminal, Read};

use plan::ErasableText;

use super::RunArgs;
use crate::cli::App;
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::{home, settings};

/// Shown in the editor; lines like these are no part of the goal.
const EDITOR_TEMPLATE: &str = "\n# What is to be done? Lines that begin with # are left out; nothing at all \
                        means to leave it.\n";

/// The goal of a new plan.
pub fn read_goal(args: &RunArgs, app: &App) -> Result<String, CommandError> {
    let text = match (&args.goal, args.what.as_deref()) {
        (Some(goal), _) => goal.clone(),
        (None, Some("-")) => read_from_stdin()?,
        (None, Some(what)) => what.to_owned(),
        (None, None) => read_from_editor(app)?,
    };
    let text = text.trim();
    if text.is_empty() {
        return Err(CommandError::usage("There is no goal; nothing was begun.")
            .with_hint("planwright run \"Say what is to be done\""));
    }
    Ok(text.to_owned())
}

fn read_from_stdin() -> Result<String, CommandError> {
    // Enough to be too long with every letter whole.
    const MAX_GOAL_BYTES: usize = ErasableText::MAX_BYTES + 4;
    let unreadable = |error: &dyn std::fmt::Display| {
        CommandError::new(
            CommandExit::Error,
            format!("The goal cannot be read: {error}"),
        )
    };
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take(MAX_GOAL_BYTES as u64)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(&error))?;
    if let Err(error) = std::str::from_utf8(&bytes)
        && error.error_len().is_none()
        && bytes.len() == MAX_GOAL_BYTES
    {
        // The last letter goes on in what was not read.
        bytes.truncate(error.valid_up_to());
    }
    String::from_utf8(bytes).map_err(|error| unreadable(&error))
}

fn read_from_editor(app: &App) -> Result<String, CommandError> {
    let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let Some(editor) = settings::find_editor().filter(|_| terminal) else {
        return Err(CommandError::usage("There is no goal.")
            .with_hint("planwright run \"Say what is to be done\"")
            .with_hint("From standard input: planwright run -"));
    };
    let directory = &app.settings.home;
    let file = directory.join(format!("goal-{}.md", std::process::id()));
    let failed = |error: std::io::Error| {
        CommandError::new(CommandExit::Error, format!("{}: {error}", file.display()))
    };
    home::make_private_directory(directory).map_err(failed)?;
    home::write_private_file(&file, EDITOR_TEMPLATE).map_err(failed)?;
    let sandboxes = &app.lifecycle()?.local_host()?.sandboxes;
    let edited = sandboxes
        .run_editor(&file, &editor)
        .map_err(lifecycle::LifecycleError::Sandbox);
    let text = std::fs::read_to_string(&file).map_err(failed);
    let _ = std::fs::remove_file(&file);
    edited?;
    let lines = text?;
    let goal_lines = lines.lines().filter(|line| !line.starts_with('#'));
    Ok(goal_lines.collect::<Vec<_>>().join("\n"))
}
