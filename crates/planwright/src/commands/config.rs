//! `planwright config`.

use clap::Subcommand;
use serde_json::json;

use crate::cli::App;
use crate::commands::Answer;
use crate::error::CommandError;
use crate::settings::{KEYS, Key, Removal, Setting};
use crate::ui;

/// Settings of this user.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show one setting.
    Get {
        #[arg(help = keys())]
        key: String,
    },
    /// Change one setting in the user's file.
    Set {
        #[arg(help = keys())]
        key: String,
        /// Its new value.
        value: String,
    },
    /// Take one setting out of the user's file.
    Unset {
        #[arg(help = keys())]
        key: String,
    },
    /// Show all settings.
    List {
        /// Also say where each was said.
        #[arg(long)]
        show_origin: bool,
    },
}

impl Command {
    /// Carries it out.
    pub fn run(self, app: &App) -> Result<Answer, CommandError> {
        match self {
            Self::Get { key } => {
                let setting = app.settings.get(Key::parse(&key)?);
                let text = format!("{}\n", setting.value.as_deref().unwrap_or_default());
                Ok(Answer::new(view(setting), text))
            }
            Self::Set { key, value } => {
                let key = Key::parse(&key)?;
                app.settings.write(key, &value)?;
                let file = app.settings.file();
                let text = format!("{} = {value}  (in {})\n", key.as_str(), file.display());
                Ok(Answer::new(
                    json!({ "key": key.as_str(), "value": value, "file": file }),
                    text,
                ))
            }
            Self::Unset { key } => unset(app, Key::parse(&key)?),
            Self::List { show_origin } => Ok(list(app, show_origin)),
        }
    }
}

/// What can be set, for whoever asks how.
fn keys() -> String {
    let keys: Vec<&str> = KEYS.iter().map(|key| key.as_str()).collect();
    format!("One of {}", keys.join(", "))
}

fn unset(app: &App, key: Key) -> Result<Answer, CommandError> {
    let file = app.settings.file();
    let said = match app.settings.remove(key)? {
        Removal::Removed => format!("{} is no longer in {}", key.as_str(), file.display()),
        Removal::WasNotThere => format!("{} was not in {}", key.as_str(), file.display()),
    };
    Ok(Answer::new(
        json!({ "key": key.as_str(), "file": file }),
        format!("{said}\n"),
    ))
}

fn list(app: &App, show_origin: bool) -> Answer {
    let mut table = if show_origin {
        ui::Table::new(["SETTING", "ORIGIN", "VALUE"])
    } else {
        ui::Table::new(["SETTING", "VALUE"])
    };
    for setting in app.settings.all() {
        let mut cells = vec![(setting.key.as_str().to_owned(), ui::BOLD)];
        if show_origin {
            cells.push((setting.origin.to_string(), ui::DIM));
        }
        cells.push((shown(setting), anstyle::Style::new()));
        table.row(cells);
    }
    let views: Vec<_> = app.settings.all().iter().map(view).collect();
    Answer::new(
        json!({ "home": app.settings.home, "settings": views }),
        table.to_string(),
    )
}

fn view(setting: &Setting) -> serde_json::Value {
    json!({
        "key": setting.key.as_str(),
        "value": setting.value.as_ref().map(|_| shown(setting)),
        "origin": setting.origin.to_string(),
    })
}

/// The value without a password.
fn shown(setting: &Setting) -> String {
    let value = setting.value.clone().unwrap_or_default();
    let Some((scheme, rest)) = value.split_once("://") else {
        return value;
    };
    match rest.rsplit_once('@') {
        Some((credentials, place)) => {
            let user = credentials.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}@{place}")
        }
        None => value,
    }
}
