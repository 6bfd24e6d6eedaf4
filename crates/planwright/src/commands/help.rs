//! `planwright help`: explains a command or a topic.

use clap::CommandFactory;
use serde_json::json;

use crate::cli::{App, Cli};
use crate::commands::CommandAnswer;
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::ui;

/// Explain a command or a topic (agents, exit-codes)
#[derive(Debug, clap::Args)]
pub struct HelpArgs {
    /// Command or topic
    words: Vec<String>,
}

pub fn run(args: &HelpArgs, _app: &App) -> Result<CommandAnswer, CommandError> {
    match args.words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["exit-codes"] => return Ok(describe_exit_codes()),
        ["agents" | "actors"] => {
            return Ok(CommandAnswer::new(
                json!({ "help": AGENTS_HELP }),
                AGENTS_HELP.to_owned(),
            ));
        }
        _ => {}
    }
    let mut command = Cli::command();
    command.build();
    let mut current = &mut command;
    for word in &args.words {
        current = current.find_subcommand_mut(word).ok_or_else(|| {
            let word = word.chars().take(60).collect::<String>();
            CommandError::usage(format!("Unknown command or topic `{word}`."))
                .with_hint("planwright help")
        })?;
    }
    let text = current.render_long_help().ansi().to_string();
    Ok(CommandAnswer::new(
        json!({ "help": current.render_long_help().to_string() }),
        text,
    ))
}

const AGENTS_HELP: &str = r#"An agent does the work of a plan. Any command can be one, such as your own script.

  cat > scribe.yaml <<'YAML'
  name: scribe
  kind: command
  command: [sh, ~/scribe.sh]
  YAML
  planwright agent add scribe.yaml
  planwright run --agent scribe "Water the plants"

It starts in a private copy of your repository. PLANWRIGHT_GOAL holds the goal; the file
PLANWRIGHT_ASSIGNMENT holds everything else, as JSON. What it changed there when it exits is the
result. Any exit code but 0 is a failure. A person can be an agent, too: `kind: human`.

  planwright agent show claude    a longer definition, to copy
  planwright agent list           which agents you can use here
"#;

fn describe_exit_codes() -> CommandAnswer {
    let mut table = ui::TextTable::new(["CODE", "MEANING"]);
    for exit in CommandExit::ALL {
        table.add_row([
            (exit.code().to_string(), ui::BOLD),
            (exit.description().to_owned(), anstyle::Style::new()),
        ]);
    }
    let codes: Vec<_> = CommandExit::ALL
        .into_iter()
        .map(|exit| json!({ "code": exit.code(), "meaning": exit.description() }))
        .collect();
    CommandAnswer::new(json!({ "exit_codes": codes }), table.to_string())
}
