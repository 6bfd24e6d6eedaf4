//! Runs the user's `notify.command` when a plan needs them, fails or lands.

use lifecycle::DriveProgress;
use plan::stage::ApplyState;
use plan::transcript::{PermissionStatus, TranscriptContent};
use plan::{Plan, PlanStage};

use crate::cli::App;
use crate::settings::SettingKey;

/// The notify command. Does nothing if no command is set.
pub struct PersonNotifier {
    command: Option<String>,
}

impl PersonNotifier {
    pub fn from_settings(app: &App) -> Self {
        Self {
            command: app.settings.get(SettingKey::Notify).value.clone(),
        }
    }

    /// Runs the notify command if a plan has stopped, or its agent waits for a person.
    pub fn observe(&self, plan: &Plan, progress: &DriveProgress) {
        let needs_attention = match progress {
            DriveProgress::Idle => true,
            DriveProgress::AgentEntry(entry) => match &entry.content {
                TranscriptContent::Permission(permission) => {
                    permission.status == PermissionStatus::Asked
                }
                _ => false,
            },
            _ => false,
        };
        if needs_attention {
            self.notify(plan);
        }
    }

    /// Runs the notify command for a plan that has stopped or asks. Ignores failures of the command.
    pub fn notify(&self, plan: &Plan) {
        let (Some(command), Some(kind)) = (&self.command, notification_kind(plan)) else {
            return;
        };
        let id = plan.id().to_string();
        let goal = plan.goal().first_line();
        let variables = [
            ("PLANWRIGHT_PLAN", id.as_str()),
            ("PLANWRIGHT_GOAL", goal),
            ("PLANWRIGHT_WHAT", kind),
        ];
        let _ = sandbox::run_notify_command(command, &variables);
    }
}

/// The value of `PLANWRIGHT_WHAT`; `None` for a plan that was cancelled.
fn notification_kind(plan: &Plan) -> Option<&'static str> {
    if let PlanStage::Apply(ApplyState::Applied(_)) = plan.stage() {
        return Some("landed");
    }
    if plan.stage().failure().is_some() {
        return Some("failed");
    }
    (!plan.stage().is_final()).then_some("needs-you")
}
