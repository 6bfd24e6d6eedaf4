//! Runs the user's `notify.command` when a plan needs them, fails or lands.

use plan::stage::ApplyState;
use plan::{Plan, PlanStage};

use crate::cli::App;
use crate::settings::SettingKey;

/// The notify command and the means to run it. Does nothing if no command is set.
pub struct PersonNotifier {
    command: Option<String>,
    sandboxes: Option<sandbox::Sandboxes>,
}

impl PersonNotifier {
    pub fn from_settings(app: &App) -> Self {
        let local_host = app
            .lifecycle()
            .ok()
            .and_then(|lifecycle| lifecycle.local_host().ok());
        Self {
            command: app.settings.get(SettingKey::Notify).value.clone(),
            sandboxes: local_host.map(|host| host.sandboxes.clone()),
        }
    }

    /// Runs the notify command for a plan that has stopped. Ignores failures of the command.
    pub fn notify(&self, plan: &Plan) {
        let (Some(command), Some(sandboxes), Some(kind)) =
            (&self.command, &self.sandboxes, notification_kind(plan))
        else {
            return;
        };
        let id = plan.id().to_string();
        let goal = plan.goal().first_line();
        let variables = [
            ("PLANWRIGHT_PLAN", id.as_str()),
            ("PLANWRIGHT_GOAL", goal),
            ("PLANWRIGHT_WHAT", kind),
        ];
        let _ = sandboxes.run_notify_command(command, &variables);
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
