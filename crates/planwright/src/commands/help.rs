//! `planwright help`.

use clap::CommandFactory;
use serde_json::json;

use crate::cli::{App, Cli};
use crate::commands::Answer;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::ui;

/// Explain a command, or a topic: actors, exit-codes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The words of the command, or the topic.
    words: Vec<String>,
}

/// Explains.
pub fn run(args: &Args, _app: &App) -> Result<Answer, CommandError> {
    match args.words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["exit-codes"] => return Ok(exit_codes()),
        ["actors"] => return Ok(Answer::new(json!({ "help": ACTORS }), ACTORS.to_owned())),
        _ => {}
    }
    let mut command = Cli::command();
    command.build();
    let mut current = &mut command;
    for word in &args.words {
        current = current.find_subcommand_mut(word).ok_or_else(|| {
            let word = word.chars().take(60).collect::<String>();
            CommandError::usage(format!("There is no command or topic `{word}`."))
                .hint("planwright help")
        })?;
    }
    let text = current.render_long_help().ansi().to_string();
    Ok(Answer::new(
        json!({ "help": current.render_long_help().to_string() }),
        text,
    ))
}

/// How anything becomes an actor.
const ACTORS: &str = r#"An actor does the work of a plan: any command does, such as a script of your own.

  cat > scribe.yaml <<'YAML'
  name: scribe
  kind: command
  command: [sh, ~/scribe.sh]
  YAML
  planwright actor add scribe.yaml
  planwright run --actor scribe "Water the plants"

It is started in a private copy of your repository. PLANWRIGHT_GOAL says what for, the file
PLANWRIGHT_ASSIGNMENT everything else, as JSON. What it changed there when it ends is the result;
any exit code but 0 is a failure. A person is an actor, too: `kind: human`.

  planwright actor show claude    a longer definition, to copy
  planwright actor list           who can work here
"#;

fn exit_codes() -> Answer {
    let mut table = ui::Table::new(["CODE", "MEANING"]);
    for exit in Exit::ALL {
        table.row([
            (exit.code().to_string(), ui::BOLD),
            (exit.meaning().to_owned(), anstyle::Style::new()),
        ]);
    }
    let codes: Vec<_> = Exit::ALL
        .into_iter()
        .map(|exit| json!({ "code": exit.code(), "meaning": exit.meaning() }))
        .collect();
    Answer::new(json!({ "exit_codes": codes }), table.to_string())
}
