//! Reads a new plan's goal from the command line, standard input or the user's editor.

use std::io::{IsTerminal, Read};

use plan::ErasableText;

use super::RunArgs;
use crate::cli::App;
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::{home, settings};

/// Initial content of the editor. Lines that start with `#` are removed from the goal.
const EDITOR_TEMPLATE: &str = "\n# Describe the goal. Lines that start with # are ignored; an empty goal \
                               aborts.\n";

/// Returns the goal, trimmed. Fails if it is empty.
pub fn read_goal(args: &RunArgs, app: &App) -> Result<String, CommandError> {
    let text = match (&args.goal, args.what.as_deref()) {
        (Some(goal), _) => goal.clone(),
        (None, Some("-")) => read_from_stdin()?,
        (None, Some(what)) => what.to_owned(),
        (None, None) => read_from_editor(app)?,
    };
    let text = text.trim();
    if text.is_empty() {
        return Err(
            CommandError::usage("The goal is empty; nothing was started.")
                .with_hint("planwright run \"Describe the change\""),
        );
    }
    Ok(text.to_owned())
}

fn read_from_stdin() -> Result<String, CommandError> {
    // Over the limit even after a cut-off last character is dropped, so that the engine refuses it.
    const MAX_GOAL_BYTES: usize = ErasableText::MAX_BYTES + 4;
    let unreadable = |error: &dyn std::fmt::Display| {
        CommandError::new(CommandExit::Error, format!("Can't read the goal: {error}"))
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
        // The read limit cut the last character in half.
        bytes.truncate(error.valid_up_to());
    }
    String::from_utf8(bytes).map_err(|error| unreadable(&error))
}

fn read_from_editor(app: &App) -> Result<String, CommandError> {
    edit_text(app, "goal", EDITOR_TEMPLATE)?.ok_or_else(|| {
        CommandError::usage("No goal given.")
            .with_hint("planwright run \"Describe the change\"")
            .with_hint("From standard input: planwright run -")
    })
}

/// Opens a text in the person's editor and returns its lines that do not start with `#`. `None` without an editor or
/// a terminal.
pub fn edit_text(app: &App, name: &str, template: &str) -> Result<Option<String>, CommandError> {
    let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let Some(editor) = settings::find_editor().filter(|_| terminal) else {
        return Ok(None);
    };
    let directory = &app.settings.home;
    let file = directory.join(format!("{name}-{}.md", std::process::id()));
    let failed = |error: std::io::Error| {
        CommandError::new(CommandExit::Error, format!("{}: {error}", file.display()))
    };
    home::make_private_directory(directory).map_err(failed)?;
    home::write_private_file(&file, template).map_err(failed)?;
    let edited = sandbox::run_editor(&file, &editor).map_err(lifecycle::LifecycleError::Sandbox);
    let text = std::fs::read_to_string(&file).map_err(failed);
    let _ = std::fs::remove_file(&file);
    edited?;
    let lines = text?;
    let written = lines.lines().filter(|line| !line.starts_with('#'));
    Ok(Some(written.collect::<Vec<_>>().join("\n")))
}
