//! `planwright config`: reads and changes the user's settings.

use std::path::Path;

use clap::Subcommand;
use plan::QualifiedName;
use serde_json::json;

use crate::cli::App;
use crate::commands::CommandAnswer;
use crate::error::{CommandError, unknown_actor_error};
use crate::settings::{SETTING_KEYS, Setting, SettingKey, SettingRemoval};
use crate::{actor_set, completion, current_repository, home, repository_config, ui};

/// Show and change your settings
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print one setting
    Get {
        #[arg(help = keys_help(), add = completion::settings())]
        key: String,
    },
    /// Change a setting in your config file
    Set {
        #[arg(help = keys_help(), add = completion::settings())]
        key: String,
        /// New value
        value: String,
    },
    /// Remove a setting from your config file
    Unset {
        #[arg(help = keys_help(), add = completion::settings())]
        key: String,
    },
    /// List all settings
    ///
    /// Shows every setting with its value, where the value comes from, and what it does.
    List {
        /// Accepted for compatibility: origins are always shown
        #[arg(long, hide = true)]
        show_origin: bool,
    },
}

impl ConfigCommand {
    pub fn run(self, app: &App) -> Result<CommandAnswer, CommandError> {
        match self {
            Self::Get { key } => {
                let setting = app.settings.get(SettingKey::parse(&key)?);
                let text = format!("{}\n", setting.value.as_deref().unwrap_or_default());
                Ok(CommandAnswer::new(setting_view(setting), text).with_kept_lines())
            }
            Self::Set { key, value } => {
                let key = SettingKey::parse(&key)?;
                key.check_value(&value)?;
                if key == SettingKey::Actor {
                    require_known_agent(app, &value)?;
                }
                app.settings.write_setting(key, &value)?;
                let file = app.settings.file_path();
                let text = format!(
                    "{} = {value}  (in {})\n",
                    key.as_str(),
                    home::display_path(&file)
                );
                Ok(CommandAnswer::new(
                    json!({ "key": key.as_str(), "value": value, "file": file }),
                    text,
                ))
            }
            Self::Unset { key } => unset_setting(app, SettingKey::parse(&key)?),
            Self::List { show_origin: _ } => Ok(list_settings(app)),
        }
    }
}

/// Refuses a misspelt agent now, not when a plan fails over it.
fn require_known_agent(app: &App, name: &str) -> Result<(), CommandError> {
    let name = name
        .parse::<QualifiedName>()
        .map_err(|error| CommandError::usage(error.to_string()))?;
    let in_repository = match current_repository::find_checkout_root() {
        Some(root) => repository_config::read_for_repository(&root)?.actors,
        None => Vec::new(),
    };
    let catalog = actor_set::read_catalog(&app.settings.home)?;
    // A definition that cannot be read exists; the plan that needs it says what is wrong with it.
    match catalog.find_definition(&name, &in_repository) {
        Ok(Some(_)) | Err(_) => Ok(()),
        Ok(None) => Err(unknown_actor_error(
            &name,
            &catalog.known_names(&in_repository),
        )),
    }
}

fn keys_help() -> String {
    let keys: Vec<&str> = SETTING_KEYS.iter().map(|key| key.as_str()).collect();
    format!("One of {}", keys.join(", "))
}

fn unset_setting(app: &App, key: SettingKey) -> Result<CommandAnswer, CommandError> {
    let file = app.settings.file_path();
    let shown = home::display_path(&file);
    let text = match app.settings.remove_setting(key)? {
        SettingRemoval::Removed => format!("Removed {} from {shown}", key.as_str()),
        SettingRemoval::NotPresent => format!("{} was not in {shown}", key.as_str()),
    };
    Ok(CommandAnswer::new(
        json!({ "key": key.as_str(), "file": file }),
        format!("{text}\n"),
    ))
}

/// Lists the settings in two lines each: the value with its origin, and what the setting does.
fn list_settings(app: &App) -> CommandAnswer {
    let mut text = String::new();
    for setting in app.settings.all() {
        let name = ui::style_text(ui::BOLD, setting.key.as_str());
        let value = match setting.value {
            Some(_) => format!(
                "{} {}",
                display_value(setting),
                ui::style_text(ui::DIM, format!("({})", setting.origin))
            ),
            None => ui::style_text(ui::DIM, "not set").to_string(),
        };
        let explanation = ui::style_text(ui::DIM, setting.key.explanation());
        text.push_str(&format!("{name} = {value}\n    {explanation}\n"));
    }
    let views: Vec<_> = app.settings.all().iter().map(setting_view).collect();
    CommandAnswer::new(
        json!({ "home": app.settings.home, "settings": views }),
        text,
    )
}

fn setting_view(setting: &Setting) -> serde_json::Value {
    json!({
        "key": setting.key.as_str(),
        "value": setting.value.as_ref().map(|_| redact_password(setting)),
        "origin": setting.origin.to_string(),
        "meaning": setting.key.explanation(),
    })
}

/// The value for people: without a password, and with a short path.
fn display_value(setting: &Setting) -> String {
    let value = redact_password(setting);
    match value.strip_prefix("sqlite:") {
        Some(path) => format!("sqlite:{}", home::display_path(Path::new(path))),
        None => value,
    }
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
