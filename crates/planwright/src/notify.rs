//! Telling a person who looks elsewhere: their own command, run when a plan needs them, failed or landed.

use plan::stage::Landing;
use plan::{Plan, Stage};

use crate::cli::App;
use crate::settings::Key;

/// Who is told, and how; can be taken to other threads.
pub struct Told {
    command: Option<String>,
    workshop: Option<sandbox::Workshop>,
}

impl Told {
    /// As the settings say.
    pub fn by(app: &App) -> Self {
        let hands = app
            .lifecycle()
            .ok()
            .and_then(|lifecycle| lifecycle.hands().ok());
        Self {
            command: app.settings.get(Key::Notify).value.clone(),
            workshop: hands.map(|hands| hands.workshop.clone()),
        }
    }

    /// Tells of a plan that goes no further by itself.
    pub fn tell(&self, plan: &Plan) {
        let (Some(command), Some(workshop), Some(what)) =
            (&self.command, &self.workshop, what(plan))
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
        let _ = workshop.notify(command, &variables);
    }
}

/// What there is to tell.
fn what(plan: &Plan) -> Option<&'static str> {
    if let Stage::Apply(Landing::Applied(_)) = &plan.stage {
        return Some("landed");
    }
    if plan.stage.failure().is_some() {
        return Some("failed");
    }
    plan.needs_person().then_some("needs-you")
}
