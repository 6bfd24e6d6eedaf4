//! `planwright completions`: prints shell completions.

use clap::CommandFactory;
use serde_json::json;

use crate::cli::{App, Cli};
use crate::commands::CommandAnswer;
use crate::error::CommandError;

/// Print shell completions
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// Shell to generate completions for
    shell: clap_complete::Shell,
}

pub fn run(args: &CompletionsArgs, _app: &App) -> Result<CommandAnswer, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "planwright", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    Ok(CommandAnswer::new(
        json!({ "shell": args.shell.to_string(), "script": script }),
        script,
    ))
}
