//! Telling a person who looks elsewhere: their own command, run when a plan needs them, failed or landed.

use plan::stage::ApplyState;
use plan::{Plan, PlanStage};

use crate::cli::App;
use crate::settings::SettingKey;

/// Who is told, and how; can be taken to other threads.
pub struct PersonNotifier {
    command: Option<String>,
    sandboxes: Option<sandbox::Sandboxes>,
}

impl PersonNotifier {
    /// As the settings say.
    pub fn from_settings(app: &App) -> Self {
        let local_host = app
            .lifecycle()
            .ok()
            .and_then(|lifecycle| lifecycle.local_host().ok());
        Self {
            command: app.settings.get(SettingKey::Notify).value.clone(),
            sandboxes: local_host.map(|hands| hands.sandboxes.clone()),
        }
    }

    /// Tells of a plan that goes no further by itself.
    pub fn notify(&self, plan: &Plan) {
        let (Some(command), Some(workshop), Some(what)) =
            (&self.command, &self.sandboxes, notification_kind(plan))
        else {
            return;
        };
        let id = plan.id.to_string();
        let goal = plan.goal.first_line();
        let variables = [
            ("PLANWRIGHT_PLAN", id.as_str()),
            ("PLANWRIGHT_GOAL", goal),
            ("PLANWRIGHT_WHAT", what),
        ];
        let _ = workshop.run_notify_command(command, &variables);
    }
}

/// What there is to tell.
fn notification_kind(plan: &Plan) -> Option<&'static str> {
    if let PlanStage::Apply(ApplyState::Applied(_)) = &plan.stage {
        return Some("landed");
    }
    if plan.stage.failure().is_some() {
        return Some("failed");
    }
    (!plan.stage.is_final()).then_some("needs-you")
}
