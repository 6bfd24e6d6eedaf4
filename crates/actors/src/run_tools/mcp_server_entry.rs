//! How agents are told to start the relay as a server of the Model Context Protocol.

use std::ffi::OsString;
use std::path::Path;

use plan::actor::McpConfigFormat;
use serde_json::{Value, json};

use crate::HostEnv;
use crate::command::run_dir::create_private_file;

/// Not `planwright`, which is how people name the server that lets agents start plans.
const SERVER_NAME: &str = "planwright-run";

/// Where Gemini CLI looks for settings that those of the user override, and the file it reads without the variable.
const GEMINI_DEFAULTS_VARIABLE: &str = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH";
const GEMINI_DEFAULTS_FILE: &str = "/etc/gemini-cli/system-defaults.json";

/// The server that an agent is given for its run.
pub(crate) struct McpServerEntry<'a> {
    /// The program and its arguments.
    pub(super) relay: &'a [String],
}

/// What a program gets so that it starts the server.
#[derive(Debug, Default)]
pub(crate) struct McpArguments {
    /// Follow the other arguments.
    pub(crate) words: Vec<OsString>,
    pub(crate) variables: Vec<(OsString, OsString)>,
    /// Files to read.
    pub(crate) files: Vec<std::path::PathBuf>,
}

impl McpServerEntry<'_> {
    /// As in `session/new` of the Agent Client Protocol.
    pub(crate) fn to_acp(&self) -> Value {
        let (program, arguments) = self.split();
        json!({"name": SERVER_NAME, "command": program, "args": arguments, "env": []})
    }

    /// Writes the settings that the program reads, if it takes them from a file.
    pub(crate) fn for_program(
        &self,
        format: McpConfigFormat,
        (run_dir, host_env): (&Path, &HostEnv),
    ) -> std::io::Result<McpArguments> {
        let (program, arguments) = self.split();
        let mut given = McpArguments::default();
        match format {
            McpConfigFormat::Claude => {
                let server = json!({"type": "stdio", "command": program, "args": arguments});
                let file = write_settings(run_dir, &server)?;
                given.words = vec!["--mcp-config".into(), file.clone().into()];
                given.files = vec![file];
            }
            McpConfigFormat::Codex => {
                // A JSON string is a TOML string, too.
                let setting = |key: &str, value: Value| {
                    OsString::from(format!("mcp_servers.{SERVER_NAME}.{key}={value}"))
                };
                let (command, arguments) = (json!(program), json!(arguments));
                given.words = vec![
                    "-c".into(),
                    setting("command", command),
                    "-c".into(),
                    setting("args", arguments),
                ];
            }
            McpConfigFormat::Gemini => {
                // The defaults of an administrator would be lost.
                let has_defaults = host_env.variable(GEMINI_DEFAULTS_VARIABLE).is_some()
                    || Path::new(GEMINI_DEFAULTS_FILE).exists();
                if !has_defaults {
                    // Its tools must not ask before each call: nobody could answer.
                    let server = json!({"command": program, "args": arguments, "trust": true});
                    let file = write_settings(run_dir, &server)?;
                    let variable = GEMINI_DEFAULTS_VARIABLE.into();
                    given.variables = vec![(variable, file.clone().into())];
                    given.files = vec![file];
                }
            }
        }
        Ok(given)
    }

    fn split(&self) -> (&str, &[String]) {
        match self.relay {
            [program, arguments @ ..] => (program, arguments),
            [] => ("", &[]),
        }
    }
}

fn write_settings(run_dir: &Path, server: &Value) -> std::io::Result<std::path::PathBuf> {
    let file = run_dir.join("mcp.json");
    let settings = json!({"mcpServers": {SERVER_NAME: server}});
    serde_json::to_writer(create_private_file(&file)?, &settings)?;
    Ok(file)
}
