//! Tools for an agent about its own run: ask the person, record a decision, report progress.
//!
//! ```text
//! agent ──MCP on stdio── relay ──socket in the run's directory── worker
//! ```
//!
//! The worker serves the socket while the agent's program runs. The relay is a process of the agent, inside its
//! confinement, so nothing that arrives here is trusted. Landlock does not keep a confined program from sockets, so
//! each connection begins with a secret, which is in a file that only this run's programs can read.

mod asked_question;
mod call_allowance;
mod mcp_server_entry;
mod relay_connection;
mod relay_protocol;
mod tool_call;
mod tool_server;

use std::path::{Path, PathBuf};

use plan::transcript::TranscriptContent;

pub use relay_connection::{RelayConnection, RelayConnectionError};
pub use relay_protocol::{MAX_RELAY_LINE_BYTES, RunToolAnswer};

pub(crate) use asked_question::{AskedQuestion, END_AFTER_QUESTION};
pub(crate) use mcp_server_entry::{McpArguments, McpServerEntry};

use crate::secrets::SecretValues;
use crate::stream::EntryCleaner;
use crate::{Assignment, HostEnv, RunProgress, Workplace};
use tool_call::RunToolCall;
use tool_server::RunToolServer;

/// The tools of one run.
pub(crate) struct RunTools {
    server: RunToolServer,
    question: AskedQuestion,
    relay: Vec<String>,
}

impl RunTools {
    /// Opens the socket. `None` if this host has no relay, or no socket can be made there: an agent can work without.
    pub(crate) fn open(host_env: &HostEnv, workplace: &Workplace<'_>) -> Option<Self> {
        let words = host_env.tool_relay.iter();
        let mut relay = words
            .map(|word| word.to_str().map(str::to_owned))
            .collect::<Option<Vec<String>>>()?;
        if relay.is_empty() {
            return None;
        }
        let server = RunToolServer::bind(&workplace.run_dir).ok()?;
        relay.push(server.connection_file().to_str()?.to_owned());
        Some(Self {
            server,
            question: AskedQuestion::default(),
            relay,
        })
    }

    pub(crate) fn mcp_server(&self) -> McpServerEntry<'_> {
        McpServerEntry { relay: &self.relay }
    }

    pub(crate) fn question(&self) -> &AskedQuestion {
        &self.question
    }

    /// A confined program must be able to start the relay.
    pub(crate) fn relay_program(&self) -> PathBuf {
        self.relay.first().map(PathBuf::from).unwrap_or_default()
    }

    /// The relay reads from it where to connect.
    pub(crate) fn connection_file(&self) -> &Path {
        self.server.connection_file()
    }

    /// Runs the agent and answers its calls meanwhile. Every later call is refused.
    pub(crate) fn serve_while<T>(
        &self,
        (assignment, workplace): (&Assignment, &Workplace<'_>),
        secrets: &SecretValues,
        run: impl FnOnce() -> T,
    ) -> T {
        let cleaner = EntryCleaner::new(secrets, &assignment.sandboxes);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                let perform = |call: RunToolCall| {
                    self.perform(call.without_secrets(secrets), workplace, &cleaner)
                };
                self.server.serve(&perform);
            });
            // Also ends the thread after a panic.
            let _guard = self.server.end_on_drop();
            run()
        })
    }

    fn perform(
        &self,
        call: RunToolCall,
        workplace: &Workplace<'_>,
        cleaner: &EntryCleaner<'_>,
    ) -> RunToolAnswer {
        let refused = |why: &str| RunToolAnswer::Refused {
            why: why.to_owned(),
        };
        match call {
            RunToolCall::Ask { question } => match self.question.take(question) {
                true => RunToolAnswer::QuestionTaken,
                false => refused("this run has asked a question already"),
            },
            RunToolCall::RecordDecision(decision) => match workplace.record_decision {
                None => refused("decisions cannot be recorded here"),
                Some(record) => match record(decision) {
                    Ok(()) => RunToolAnswer::DecisionRecorded,
                    Err(why) => refused(&why),
                },
            },
            RunToolCall::ReportProgress { message, steps } => {
                let message = message.map(|text| TranscriptContent::Text { text });
                let steps = steps.map(|items| TranscriptContent::Checklist { items });
                for entry in message.into_iter().chain(steps) {
                    let entry = cleaner.clean_entry(entry);
                    (workplace.on_progress)(RunProgress::Entry(entry));
                }
                RunToolAnswer::ProgressShown
            }
        }
    }
}

/// The file in a run's directory that says where the tools are, and the secret.
fn connection_file(run_dir: &Path) -> PathBuf {
    run_dir.join("tools.json")
}
