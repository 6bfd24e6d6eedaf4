//! What is to be done: from the command line, from standard input, or from the person's editor.

use std::io::{IsTerminal, Read};

use plan::Text;

use super::Args;
use crate::cli::App;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::{home, settings};

/// Shown in the editor; lines like these are no part of the goal.
const TEMPLATE: &str = "\n# What is to be done? Lines that begin with # are left out; nothing at all \
                        means to leave it.\n";

/// The goal of a new plan.
pub fn read(args: &Args, app: &App) -> Result<String, CommandError> {
    let text = match (&args.goal, args.what.as_deref()) {
        (Some(goal), _) => goal.clone(),
        (None, Some("-")) => from_input()?,
        (None, Some(what)) => what.to_owned(),
        (None, None) => from_editor(app)?,
    };
    let text = text.trim();
    if text.is_empty() {
        return Err(CommandError::usage("There is no goal; nothing was begun.")
            .hint("planwright run \"Say what is to be done\""));
    }
    Ok(text.to_owned())
}

fn from_input() -> Result<String, CommandError> {
    // Enough to be too long with every letter whole.
    const MOST: usize = Text::MAX_BYTES + 4;
    let unreadable = |error: &dyn std::fmt::Display| {
        CommandError::new(Exit::Error, format!("The goal cannot be read: {error}"))
    };
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take(MOST as u64)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(&error))?;
    if let Err(error) = std::str::from_utf8(&bytes)
        && error.error_len().is_none()
        && bytes.len() == MOST
    {
        // The last letter goes on in what was not read.
        bytes.truncate(error.valid_up_to());
    }
    String::from_utf8(bytes).map_err(|error| unreadable(&error))
}

fn from_editor(app: &App) -> Result<String, CommandError> {
    let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let Some(editor) = settings::editor().filter(|_| terminal) else {
        return Err(CommandError::usage("There is no goal.")
            .hint("planwright run \"Say what is to be done\"")
            .hint("From standard input: planwright run -"));
    };
    let directory = &app.settings.home;
    let file = directory.join(format!("goal-{}.md", std::process::id()));
    let failed = |error: std::io::Error| {
        CommandError::new(Exit::Error, format!("{}: {error}", file.display()))
    };
    home::make_private_directory(directory).map_err(failed)?;
    home::write_private_file(&file, TEMPLATE).map_err(failed)?;
    let workshop = &app.lifecycle()?.hands()?.workshop;
    let edited = workshop
        .edit(&file, &editor)
        .map_err(lifecycle::Error::Sandbox);
    let text = std::fs::read_to_string(&file).map_err(failed);
    let _ = std::fs::remove_file(&file);
    edited?;
    let lines = text?;
    let said = lines.lines().filter(|line| !line.starts_with('#'));
    Ok(said.collect::<Vec<_>>().join("\n"))
}
