//! How agents are told to start the relay as a server of the Model Context Protocol.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use plan::actor::McpConfigFormat;
use serde_json::{Value, json};

use crate::command::run_dir::create_private_file;

/// Not `planwright`, which is how people name the server that lets agents start plans.
const SERVER_NAME: &str = "planwright-run";

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
    /// Files to read.
    pub(crate) files: Vec<PathBuf>,
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
        run_dir: &Path,
    ) -> std::io::Result<McpArguments> {
        let (program, arguments) = self.split();
        let mut given = McpArguments::default();
        match format {
            McpConfigFormat::Claude => {
                let server = json!({"type": "stdio", "command": program, "args": arguments});
                let settings = json!({"mcpServers": {SERVER_NAME: server}});
                let file = run_dir.join("mcp.json");
                serde_json::to_writer(create_private_file(&file)?, &settings)?;
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
