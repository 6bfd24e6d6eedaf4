//! `planwright help`: explains a command or a topic.

use clap::CommandFactory;
use clap::builder::StyledStr;
use serde_json::json;

use crate::cli::{App, Cli};
use crate::commands::{COMMAND_GROUPS, CommandAnswer};
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::settings::SETTING_KEYS;
use crate::{completion, ui};

/// Explain a command or a topic: agents, rules, exit-codes, settings
#[derive(Debug, clap::Args)]
pub struct HelpArgs {
    /// Command or topic
    #[arg(add = completion::help_topics())]
    words: Vec<String>,
}

/// The topics besides commands.
pub const HELP_TOPICS: [&str; 4] = ["agents", "rules", "exit-codes", "settings"];

pub fn run(args: &HelpArgs, _app: &App) -> Result<CommandAnswer, CommandError> {
    let explain = |text: &str| {
        // A pipe gets no endless lines either.
        let text = ui::wrap_rows(text, ui::stdout_width().unwrap_or(80));
        Ok(CommandAnswer::new(json!({ "help": text }), text))
    };
    match args.words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["exit-codes"] => return Ok(describe_exit_codes()),
        ["settings"] => return Ok(describe_settings()),
        ["agents" | "actors"] => return explain(AGENTS_HELP),
        ["rules" | "invariants"] => return explain(RULES_HELP),
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

/// The help of the program itself: every command in a group, on one screen of 80 columns and 30 rows.
pub fn overview_help() -> StyledStr {
    let mut text = StyledStr::new();
    let fitted = ui::wrap_rows(&overview_text(), ui::stdout_width().unwrap_or(80));
    for line in fitted.lines() {
        let line = match line.split_once(':') {
            Some((heading, rest)) if is_heading(heading, rest) => {
                format!("{}{rest}", ui::style_text(ui::BOLD, format!("{heading}:")))
            }
            _ => line.to_owned(),
        };
        text.push_str(&format!("{line}\n"));
    }
    text
}

fn overview_text() -> String {
    let groups =
        COMMAND_GROUPS.map(|(group, names)| format!("{:<15}{names}\n", format!("{group}:")));
    format!("{OVERVIEW_START}\n{}\n{OVERVIEW_END}", groups.concat())
}

fn is_heading(text: &str, rest: &str) -> bool {
    let names_a_list = rest.is_empty() || rest.starts_with("  ");
    !text.starts_with(' ') && (names_a_list || matches!(text, "Usage" | "More"))
}

const OVERVIEW_START: &str = "\
Let any coding agent loose on your repository: it works in a private copy, your rules are checked in code, and what you approve lands once or not at all.

Usage: planwright [OPTIONS] [COMMAND]    without a command: what needs you

Every day:
  run      Start an agent on a goal and review the result, or continue a plan
  list     List plans, newest first
  status   Show a plan; without a handle, the one you used last
  diff     Show what a plan changed, even while an agent is working
  log      Show what happened to a plan, or what its agents said
  why      Explain why a plan is not moving, and what to do
  answer   Answer an agent's question
  revise   Send a result back with feedback
  retry    Try a failed plan again
  apply    Approve a result and land it
  undo     Undo a landed plan
  cancel   Give a plan up
";

const OVERVIEW_END: &str = "\
Options:
      --format <FORMAT>  human (default) or json
      --store <STORE>    sqlite:PATH or postgres://USER@HOST/DATABASE
  -h, --help
  -V, --version
More: planwright help COMMAND, and help agents, rules, exit-codes or settings
";

const AGENTS_HELP: &str = r#"An agent does the work of a plan. Any command can be one, such as your own script:

  cat > scribe.yaml <<'YAML'
  name: scribe
  kind: command
  command: [sh, ~/scribe.sh]
  YAML
  planwright agent add scribe.yaml
  planwright run --agent scribe "Water the plants"

It starts in a private copy of your repository. PLANWRIGHT_GOAL holds the goal. PLANWRIGHT_ASSIGNMENT names a file with everything else, as JSON. What it has changed when it exits is the result. An exit code other than 0 means that it failed.

Other kinds: `kind: acp` for programs that speak the Agent Client Protocol, `kind: human` for a person.

  planwright agent list           which agents you can use here
  planwright agent show claude    a longer definition, to copy
"#;

const RULES_HELP: &str = r#"A rule is a condition that a result must meet before it lands. Planwright checks it on the actual changes; the agent does not decide. Put the rules of a repository into its planwright.yaml, and commit that file:

  invariants:
    - name: tests
      # Runs in a clean checkout of the result.
      command: make test
      at: result
    - name: no-migrations
      forbid: db/**
    - name: small
      expr: totals.lines <= 400
      # Only warns.
      advisory: true
    - name: wording
      ask: Is this what we want to tell customers?

A plan follows the rules of the branch that it lands on. A result that fails a rule at `result` goes back to the agent, at most three times. If the command of a rule cannot run, you are asked at once.

  planwright rule list     the rules in force here
  planwright why           which rule blocks a plan, and what helps

To let one plan pass: planwright waive RULE --reason "TEXT"
"#;

fn describe_settings() -> CommandAnswer {
    let mut table = ui::TextTable::new(["SETTING", "MEANING"]);
    for key in SETTING_KEYS {
        table.add_row([
            (key.as_str().to_owned(), ui::BOLD),
            (key.explanation().to_owned(), anstyle::Style::new()),
        ]);
    }
    let settings: Vec<_> = SETTING_KEYS
        .into_iter()
        .map(|key| {
            json!({
                "key": key.as_str(),
                "meaning": key.explanation(),
                "variable": key.variable_name(),
            })
        })
        .collect();
    let text = format!(
        "{table}\nEach has a variable, such as PLANWRIGHT_LIMITS_COST.\n\
         Flags override variables, which override planwright.yaml, which overrides your config file.\n\
         To change one: planwright config set KEY VALUE\n"
    );
    CommandAnswer::new(json!({ "settings": settings }), text)
}

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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The commands that the overview names: those of the daily group, and those of the lists.
    fn listed_commands() -> Vec<String> {
        let mut listed = Vec::new();
        let mut is_daily = false;
        for line in overview_text().lines() {
            if line.ends_with(':') {
                is_daily = line == "Every day:";
            } else if let (true, Some(row)) = (is_daily, line.strip_prefix("  ")) {
                listed.extend(row.split(' ').next().map(str::to_owned));
            } else if let Some((_, names)) = line.split_once(":  ") {
                listed.extend(names.trim().split(", ").map(str::to_owned));
            }
        }
        listed
    }

    #[test]
    fn the_overview_names_every_command_once_and_fits_a_screen() {
        let listed = listed_commands();
        let command = Cli::command();
        let commands = command.get_subcommands();
        let commands: BTreeSet<String> = commands
            .filter(|one| !one.is_hide_set() && one.get_name() != "help")
            .map(|one| one.get_name().to_owned())
            .collect();
        assert_eq!(listed.len(), commands.len(), "{listed:?}");
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), commands);
        let overview = ui::wrap_rows(&overview_text(), 80);
        assert!(overview.lines().count() <= 30);
        for line in overview.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        let daily = overview.lines();
        let daily = daily.skip_while(|line| *line != "Every day:").skip(1);
        assert_eq!(daily.take_while(|line| !line.is_empty()).count(), 12);
    }
}
