//! Asks at the terminal about tool calls that the agent of a session waits for.

use std::time::Duration;

use actors::Stop;
use api::plans::{self, PermissionDecision};
use api::view::PermissionView;
use lifecycle::{Call, Lifecycle};
use plan::actor::ActorKind;
use plan::{Digest, Plan, PlanId};

use crate::ui::{self, ProgressDisplay, PromptOutcome};

/// Upper bound for one wait for a commit, so that the end of the session is noticed soon.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Asks about tool calls, beside the work of a session.
pub struct PermissionPrompter<'a> {
    pub lifecycle: &'a Lifecycle,
    pub plan_id: PlanId,
    pub display: &'a ProgressDisplay,
    /// What answers are submitted with.
    pub call: Call,
    /// The session was interrupted.
    pub session_stop: &'a Stop,
    /// The work of the session ended.
    pub work_ended: &'a Stop,
}

/// Returns whether any agent of the plan may ask.
pub fn may_ask_permission(plan: &Plan) -> bool {
    let mut definitions = plan.definitions().iter();
    definitions.any(|definition| matches!(definition.kind, ActorKind::Acp(_)))
}

impl PermissionPrompter<'_> {
    /// Asks about each call, until the work ends or nobody can be asked any more.
    pub fn ask_until_ended(&self) {
        let mut commits = self.lifecycle.watch_commits().ok();
        let mut last_asked = None;
        while !self.is_over() {
            if let Some(request) = self.read_request()
                && last_asked != Some(request.request)
            {
                last_asked = Some(request.request);
                if !self.ask(&request) {
                    return;
                }
            }
            let waited = commits.as_mut().map(|it| it.wait_for_commit(POLL_INTERVAL));
            if !matches!(waited, Some(Ok(_))) {
                self.work_ended.wait_for_request(POLL_INTERVAL);
            }
        }
    }

    fn is_over(&self) -> bool {
        self.work_ended.is_requested() || self.session_stop.is_requested()
    }

    fn read_request(&self) -> Option<PermissionView> {
        let row = self.lifecycle.get_plan(self.plan_id).ok()?;
        PermissionView::of_plan(&row.plan)
    }

    /// Returns whether there is still somebody to ask.
    fn ask(&self, request: &PermissionView) -> bool {
        let _pause = self.display.pause();
        ui::discard_typed_input();
        write_stderr(&describe_request(request));
        loop {
            let is_current = || !self.is_over() && self.is_open(request.request);
            let allow = match ui::ask_beside_work("Allow it once? [y]es  [n]o ", is_current) {
                PromptOutcome::Answered(word) => match word.to_lowercase().as_str() {
                    "y" | "yes" | "allow" => true,
                    "n" | "no" | "reject" => false,
                    _ => continue,
                },
                PromptOutcome::Outdated => {
                    if !self.session_stop.is_requested() {
                        write_stderr("It was decided elsewhere, or the run ended.\n");
                    }
                    return true;
                }
                PromptOutcome::Closed => return false,
            };
            let decision = PermissionDecision {
                request: request.request.to_string(),
                allow,
            };
            let answered =
                plans::answer_permission(self.lifecycle, self.plan_id, &decision, &self.call);
            if let Err(error) = answered {
                write_stderr(&format!(
                    "{}\n",
                    crate::error::CommandError::from(error).message
                ));
            }
            return true;
        }
    }

    /// Ignores an unavailable store.
    fn is_open(&self, request: Digest) -> bool {
        let Ok(row) = self.lifecycle.get_plan(self.plan_id) else {
            return true;
        };
        let open = row.plan.stage().open_permission();
        open.is_some_and(|question| question.digest == request)
    }
}

fn describe_request(request: &PermissionView) -> String {
    let mut text = format!(
        "{} {}\n",
        ui::style_text(ui::WARN, "? The agent wants to"),
        ui::escape_controls(&request.summary)
    );
    if let Some(input) = &request.input {
        for line in ui::wrap_text(input, ui::terminal_width().saturating_sub(4)) {
            text.push_str(&format!("  {}\n", ui::style_text(ui::DIM, line)));
        }
    }
    let reason = ui::escape_controls(&request.reason);
    text.push_str(&format!("  You are asked because {reason}.\n"));
    text
}

fn write_stderr(text: &str) {
    use std::io::Write;
    let _ = write!(anstream::stderr().lock(), "{text}");
}
