//! `planwright config`: reads and changes the user's settings.

use clap::Subcommand;
use serde_json::json;

use crate::cli::App;
use crate::commands::CommandAnswer;
use crate::error::CommandError;
use crate::settings::{SETTING_KEYS, Setting, SettingKey, SettingRemoval};
use crate::ui;

/// Show and change your settings
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print one setting
    Get {
        #[arg(help = keys_help())]
        key: String,
    },
    /// Change a setting in your config file
    Set {
        #[arg(help = keys_help())]
        key: String,
        /// New value
        value: String,
    },
    /// Remove a setting from your config file
    Unset {
        #[arg(help = keys_help())]
        key: String,
    },
    /// List all settings
    List {
        /// Also show where each value comes from
        #[arg(long)]
        show_origin: bool,
    },
}

impl ConfigCommand {
    pub fn run(self, app: &App) -> Result<CommandAnswer, CommandError> {
        match self {
            Self::Get { key } => {
                let setting = app.settings.get(SettingKey::parse(&key)?);
                let text = format!("{}\n", setting.value.as_deref().unwrap_or_default());
                Ok(CommandAnswer::new(setting_view(setting), text))
            }
            Self::Set { key, value } => {
                let key = SettingKey::parse(&key)?;
                app.settings.write_setting(key, &value)?;
                let file = app.settings.file_path();
                let text = format!("{} = {value}  (in {})\n", key.as_str(), file.display());
                Ok(CommandAnswer::new(
                    json!({ "key": key.as_str(), "value": value, "file": file }),
                    text,
                ))
            }
            Self::Unset { key } => unset_setting(app, SettingKey::parse(&key)?),
            Self::List { show_origin } => Ok(list_settings(app, show_origin)),
        }
    }
}

fn keys_help() -> String {
    let keys: Vec<&str> = SETTING_KEYS.iter().map(|key| key.as_str()).collect();
    format!("One of {}", keys.join(", "))
}

fn unset_setting(app: &App, key: SettingKey) -> Result<CommandAnswer, CommandError> {
    let file = app.settings.file_path();
    let text = match app.settings.remove_setting(key)? {
        SettingRemoval::Removed => format!("{} is no longer in {}", key.as_str(), file.display()),
        SettingRemoval::NotPresent => format!("{} was not in {}", key.as_str(), file.display()),
    };
    Ok(CommandAnswer::new(
        json!({ "key": key.as_str(), "file": file }),
        format!("{text}\n"),
    ))
}

fn list_settings(app: &App, show_origin: bool) -> CommandAnswer {
    let mut table = if show_origin {
        ui::TextTable::new(["SETTING", "ORIGIN", "VALUE"])
    } else {
        ui::TextTable::new(["SETTING", "VALUE"])
    };
    for setting in app.settings.all() {
        let mut cells = vec![(setting.key.as_str().to_owned(), ui::BOLD)];
        if show_origin {
            cells.push((setting.origin.to_string(), ui::DIM));
        }
        cells.push((redact_password(setting), anstyle::Style::new()));
        table.add_row(cells);
    }
    let views: Vec<_> = app.settings.all().iter().map(setting_view).collect();
    CommandAnswer::new(
        json!({ "home": app.settings.home, "settings": views }),
        table.to_string(),
    )
}

fn setting_view(setting: &Setting) -> serde_json::Value {
    json!({
        "key": setting.key.as_str(),
        "value": setting.value.as_ref().map(|_| redact_password(setting)),
        "origin": setting.origin.to_string(),
    })
}

/// Returns the value; removes the password if it is a URL.
fn redact_password(setting: &Setting) -> String {
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
