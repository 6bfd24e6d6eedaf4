//! Where each agent keeps its MCP servers, and how they are changed.

use std::path::PathBuf;

use clap::ValueEnum;
use serde_json::json;

use super::{SERVER_NAME, ServerEntry, SettingsFile, json_settings, settings, toml_settings};
use crate::actor_set::search_catalog;
use crate::error::CommandError;
use crate::exit::CommandExit;

/// An agent that can be a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum McpClient {
    /// Claude Code
    Claude,
    /// Codex
    Codex,
    /// Gemini CLI
    Gemini,
}

impl McpClient {
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
        }
    }
}

/// How the settings of a client are changed.
pub enum InstallMethod {
    /// By the client itself: a running one would overwrite an edited file.
    Commands(Vec<Vec<String>>),
    EditFile {
        file: SettingsFile,
        /// The new content of the file.
        text: String,
        /// The part of it that is new.
        shown: String,
    },
}

/// Finds out what to change; `None` if the client knows the server already. Fails on a malformed file.
pub fn find_method(
    client: McpClient,
    entry: &ServerEntry,
) -> Result<Option<InstallMethod>, CommandError> {
    let file = SettingsFile::read(settings_path(client)?)?;
    let edited = match client {
        McpClient::Claude => json_settings::set_server(&file, &json_entry(entry, Some("stdio")))?,
        McpClient::Gemini => json_settings::set_server(&file, &json_entry(entry, None))?,
        McpClient::Codex => toml_settings::set_server(&file, entry)?,
    };
    let Some(edited) = edited else {
        return Ok(None);
    };
    if client == McpClient::Claude
        && let Some(program) = find_program("claude")
    {
        let words = |words: &[&str]| -> Vec<String> {
            let program = std::iter::once(program.as_str());
            program
                .chain(words.iter().copied())
                .map(str::to_owned)
                .collect()
        };
        let mut commands = Vec::new();
        if edited.replaces_entry {
            commands.push(words(&["mcp", "remove", "--scope", "user", SERVER_NAME]));
        }
        let entry = json_entry(entry, Some("stdio")).to_string();
        commands.push(words(&[
            "mcp",
            "add-json",
            "--scope",
            "user",
            SERVER_NAME,
            &entry,
        ]));
        return Ok(Some(InstallMethod::Commands(commands)));
    }
    Ok(Some(InstallMethod::EditFile {
        file,
        text: edited.text,
        shown: edited.shown,
    }))
}

/// A settings file with the server in it.
pub struct EditedSettings {
    pub text: String,
    /// The part of it that is new.
    pub shown: String,
    /// The file had another entry of this name.
    pub replaces_entry: bool,
}

fn json_entry(entry: &ServerEntry, kind: Option<&str>) -> serde_json::Value {
    let mut value = json!({ "command": entry.command, "args": entry.arguments });
    if let Some(kind) = kind {
        value["type"] = json!(kind);
    }
    if !entry.variables.is_empty() {
        let variables = entry.variables.iter().cloned();
        value["env"] = variables
            .map(|(name, value)| (name, json!(value)))
            .collect();
    }
    value
}

fn settings_path(client: McpClient) -> Result<PathBuf, CommandError> {
    let directories = settings::read_client_directories();
    let path = match client {
        McpClient::Claude => match directories.claude_config {
            Some(directory) => Some(directory.join(".claude.json")),
            None => directories.home.map(|home| home.join(".claude.json")),
        },
        McpClient::Codex => directories
            .codex_home
            .or(directories.home.map(|home| home.join(".codex")))
            .map(|directory| directory.join("config.toml")),
        McpClient::Gemini => directories
            .home
            .map(|home| home.join(".gemini/settings.json")),
    };
    path.ok_or_else(|| {
        CommandError::new(CommandExit::Error, "Cannot find your home directory.")
            .with_hint("Set HOME.")
    })
}

/// Finds a program on the PATH.
fn find_program(name: &str) -> Option<String> {
    let search_path = search_catalog().search_path;
    let found = std::env::split_paths(&search_path)
        .map(|directory| directory.join(name))
        .find(|path| path.is_file());
    found.and_then(|path| path.to_str().map(str::to_owned))
}
