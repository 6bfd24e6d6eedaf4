//! `planwright init`.

mod detect;
mod file;

use std::io::Write;
use std::path::Path;

use sandbox::{GitPlace, Site, SitePlace, look_at_git};
use serde_json::json;

use crate::cli::{App, Format};
use crate::commands::Answer;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::{in_force, settings, ui, wishes};

/// Set up the store and, in a repository, a planwright.yaml that fits it. Safe to repeat.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Write planwright.yaml without asking.
    #[arg(long)]
    yes: bool,
}

/// Creates what is missing.
pub fn run(args: &Args, app: &App) -> Result<Answer, CommandError> {
    // A file that is wrong is said before anything is made.
    let looked = look_at_git(&settings::surroundings(), Path::new("."), None);
    let (repository, why_not) = match looked {
        Ok(place) if !place.path.join(".git").exists() => (
            None,
            Some("the repository is bare: there is no working tree".to_owned()),
        ),
        Ok(place) => (Some(place), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let there = match &repository {
        Some(place) => wishes::read(&place.path.join("planwright.yaml"))?,
        None => None,
    };
    let (mut data, mut text) = store(app)?;
    let Some(place) = repository else {
        let mut answer = Answer::new(data, text);
        if let Some(why_not) = why_not {
            answer.messages.push(crate::wire::Message {
                level: "info",
                text: format!("No planwright.yaml is written here: {why_not}."),
            });
        }
        return Ok(answer.hint("In a repository with a commit: planwright init"));
    };
    let found = detect::look(&place.path);
    data["repository"] = json!(place.path.display().to_string());
    data["detected"] = json!({
        "agents": found.agents,
        "test": found.test,
        "setup": found.setup,
        "include": found.include,
    });
    let path = place.path.join("planwright.yaml");
    let next = next_command(&found);
    if there.is_some() {
        data["written"] = json!(false);
        text.push_str(&format!("{} is there already and well.\n", path.display()));
        text.push_str(&not_in_force(app, place));
        return Ok(Answer::new(data, text).hint(next));
    }
    let content = file::content(&found);
    if !args.yes {
        if app.format == Format::Human {
            show(&path, &content);
        }
        data["proposed"] = json!(content);
        if !agreed(app) {
            let mut answer = Answer::new(data, text).hint("planwright init --yes");
            answer.exit = Exit::NeedsPerson;
            answer.messages.insert(
                0,
                crate::wire::Message {
                    level: "info",
                    text: "planwright.yaml was not written.".to_owned(),
                },
            );
            return Ok(answer);
        }
    }
    write(&path, &content)?;
    data["written"] = json!(true);
    text.push_str(&format!("Wrote {}\n", path.display()));
    if args.yes && app.format == Format::Human {
        for line in content.lines() {
            text.push_str(&format!("  {line}\n"));
        }
    }
    text.push_str(&not_in_force(app, place));
    Ok(Answer::new(data, text).hint(next))
}

/// Says that the rules in the file are not committed, if that is so.
fn not_in_force(app: &App, place: GitPlace) -> String {
    let site = Site {
        name: "here".to_owned(),
        place: SitePlace::Git {
            path: place.path,
            target: place.branch,
        },
    };
    match in_force::other_rules_on(app, &site) {
        Some(branch) => {
            format!(
                "Its rules hold for plans that you make here. Commit it: on {branch} they hold for every plan.\n"
            )
        }
        None => String::new(),
    }
}

/// The one command to go on with.
fn next_command(found: &detect::Found) -> String {
    match found.agents.as_slice() {
        [] => "planwright actor list".to_owned(),
        [_] => "planwright run \"GOAL\"".to_owned(),
        [first, ..] => format!("planwright run --actor {first} \"GOAL\""),
    }
}

fn store(app: &App) -> Result<(serde_json::Value, String), CommandError> {
    let store = app.lifecycle()?.store();
    let existed = store.info()?.schema.is_some();
    let (_, schema) = store.migrate()?;
    let info = store.info()?;
    let what = if existed {
        "The store is ready"
    } else {
        "Created the store"
    };
    let text = format!(
        "{what}: {} (schema {schema})\n",
        ui::styled(ui::BOLD, &info.place)
    );
    let data = json!({
        "home": app.settings.home,
        "store": { "kind": info.kind, "place": info.place, "schema": schema },
        "created": !existed,
    });
    Ok((data, text))
}

fn show(path: &Path, content: &str) {
    let mut stderr = anstream::stderr().lock();
    let _ = writeln!(stderr, "{}:", ui::styled(ui::BOLD, path.display()));
    for line in content.lines() {
        let style = if line.trim_start().starts_with('#') {
            ui::DIM
        } else {
            anstyle::Style::new()
        };
        let _ = writeln!(stderr, "  {}", ui::styled(style, line));
    }
}

/// Does the person at the terminal want it written?
fn agreed(app: &App) -> bool {
    let answer = ui::can_be_asked(app.format).then(|| ui::ask("Write it? [Y/n] "));
    let answer = answer.flatten().map(|answer| answer.to_lowercase());
    matches!(answer.as_deref(), Some("" | "y" | "yes"))
}

/// Writes a file that must not be there yet: what somebody else wrote meanwhile stays.
fn write(path: &Path, content: &str) -> Result<(), CommandError> {
    let made = std::fs::File::create_new(path).and_then(|mut file| {
        file.write_all(content.as_bytes())?;
        file.sync_all()
    });
    made.map_err(|error| {
        CommandError::new(
            Exit::Error,
            format!("{} cannot be written: {error}", path.display()),
        )
    })
}
