//! `planwright completions`: prints shell completions.

use clap_complete::env::Shells;
use serde_json::json;

use crate::cli::App;
use crate::commands::CommandAnswer;
use crate::completion::COMPLETION_VARIABLE;
use crate::error::CommandError;

/// Print shell completions
///
/// They know your plans, agents, actions, projects, rules and settings.
///
/// In ~/.bashrc: source <(planwright completions bash)
///
/// In ~/.zshrc: source <(planwright completions zsh)
///
/// In ~/.config/fish/config.fish: planwright completions fish | source
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// Shell to generate completions for
    shell: clap_complete::Shell,
}

pub fn run(args: &CompletionsArgs, _app: &App) -> Result<CommandAnswer, CommandError> {
    let shell = args.shell.to_string();
    let shells = Shells::builtins();
    let completer = shells
        .completer(&shell)
        .expect("BUG: every shell has a completer");
    let mut script = Vec::new();
    let name = "planwright";
    completer
        .write_registration(COMPLETION_VARIABLE, name, name, name, &mut script)
        .expect("BUG: writing to memory does not fail");
    let script = String::from_utf8_lossy(&script).into_owned();
    Ok(CommandAnswer::new(
        json!({ "shell": args.shell.to_string(), "script": script }),
        script,
    ))
}
