//! Streams what happens during a prompt to the editor.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lifecycle::DriveProgress;
use plan::plan::ResultRemedy;
use plan::{Phase, Plan};
use serde_json::Value;

use super::connection::EditorConnection;
use super::session_update::{UpdateWriter, message_update, thought_update};
use crate::commands::run::DriveObserver;

/// Sends updates of one session.
#[derive(Clone)]
pub struct TurnObserver {
    connection: Arc<EditorConnection>,
    session_id: String,
    state: Arc<Mutex<ObserverState>>,
}

struct ObserverState {
    writer: UpdateWriter,
    /// The last remark, which is not repeated.
    last_remark: String,
}

impl TurnObserver {
    pub fn new(connection: &Arc<EditorConnection>, session_id: &str, repository: &Path) -> Self {
        let state = ObserverState {
            writer: UpdateWriter::new(repository),
            last_remark: String::new(),
        };
        Self {
            connection: Arc::clone(connection),
            session_id: session_id.to_owned(),
            state: Arc::new(Mutex::new(state)),
        }
    }

    pub fn send(&self, update: &Value) {
        self.connection.send_update(&self.session_id, update);
    }

    /// Says how things go, apart from what the agent says.
    pub fn send_remark(&self, text: &str) {
        let mut state = self.lock_state();
        if state.last_remark != text {
            state.last_remark = text.to_owned();
            self.send(&thought_update(text));
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, ObserverState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DriveObserver for TurnObserver {
    fn update(&self, plan: &Plan, progress: &DriveProgress) {
        match progress {
            DriveProgress::ActorStarted { actor, phase } => {
                self.send_remark(&match phase {
                    Phase::Strategize => format!("{actor} makes a strategy."),
                    Phase::Execute => format!("{actor} works in a private copy."),
                    Phase::Apply => "Landing.".to_owned(),
                });
            }
            DriveProgress::AgentRunning { isolation } => self.send_remark(isolation),
            DriveProgress::AgentEntry(entry) => {
                let update = self
                    .lock_state()
                    .writer
                    .describe_entry(plan.epoch(), &entry.content);
                if let Some(update) = update {
                    self.send(&update);
                }
            }
            DriveProgress::NearLimit(usage) => {
                self.send_remark(&format!("Nearing a limit: {usage}"));
            }
            DriveProgress::SentBack(remedy) => {
                let rules = plan
                    .unmet_rules()
                    .map(|unmet| format!("`{}`", unmet.rule.name));
                let rules = rules.collect::<Vec<_>>().join(", ");
                let next = match remedy {
                    ResultRemedy::Fix => "The agent fixes it.",
                    ResultRemedy::Revert => "The agent starts over.",
                };
                let text = format!("\n\nThe result does not meet {rules}. {next}\n\n");
                self.send(&message_update(&text));
            }
            DriveProgress::Retrying(reason) => self.send_remark(reason),
            // The end of the prompt says how these ended.
            DriveProgress::LandingStarted
            | DriveProgress::LandingEnded(_)
            | DriveProgress::Idle
            | DriveProgress::EngineFailure(_) => {}
        }
    }

    fn show_waiting(&self, reason: &str) {
        self.send_remark(&format!("Plan: {reason}."));
    }
}
