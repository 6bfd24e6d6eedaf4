//! Passes on tool calls that wait for a person while a prompt runs: as a question in the editor if the person allowed
//! that, else as the command that answers.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use actors::Stop;
use api::plans::{self, PermissionDecision};
use api::view::PermissionView;
use lifecycle::{Call, Lifecycle};
use plan::{Digest, PlanId};
use serde_json::{Value, json};

use super::connection::EditorConnection;
use super::landing_offer::EditorLanding;
use super::session_update::message_update;
use super::turn_observer::TurnObserver;
use crate::error::CommandError;
use crate::home;
use crate::invocation::ProgramInvocation;
use crate::step_commands::answer_permission_command;

const ALLOW_OPTION: &str = "allow";
const REJECT_OPTION: &str = "reject";

/// Upper bound for one wait, so that the end of the prompt is noticed soon.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Asks about the tool calls of one plan, beside its work.
pub struct PermissionOffer<'a> {
    pub lifecycle: &'a Lifecycle,
    pub invocation: ProgramInvocation,
    pub connection: &'a EditorConnection,
    pub observer: &'a TurnObserver,
    pub session_id: &'a str,
    pub plan_id: PlanId,
    /// Only with `--land`, a person is known to answer in the editor.
    pub landing: EditorLanding,
    /// The prompt was cancelled.
    pub stop: &'a Stop,
    /// The work ended.
    pub work_ended: &'a Stop,
}

/// What the person chose in the editor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PermissionChoice {
    Allow,
    Reject,
    /// The question stays open, to be answered elsewhere.
    Undecided,
}

impl PermissionOffer<'_> {
    /// Passes on each call once, until the work ends.
    pub fn offer_until_ended(&self) {
        let mut commits = self.lifecycle.watch_commits().ok();
        let mut last_offered = None;
        while !self.is_over() {
            if let Some(request) = self.read_request()
                && last_offered != Some(request.request)
            {
                last_offered = Some(request.request);
                self.offer(&request);
            }
            let waited = commits.as_mut().map(|it| it.wait_for_commit(POLL_INTERVAL));
            if !matches!(waited, Some(Ok(_))) {
                self.work_ended.wait_for_request(POLL_INTERVAL);
            }
        }
    }

    fn is_over(&self) -> bool {
        self.work_ended.is_requested() || self.stop.is_requested()
    }

    fn read_request(&self) -> Option<PermissionView> {
        let row = self.lifecycle.get_plan(self.plan_id).ok()?;
        PermissionView::of_plan(&row.plan)
    }

    fn offer(&self, request: &PermissionView) {
        let choice = match self.landing {
            EditorLanding::Asks => self.ask_person(request),
            EditorLanding::Never => PermissionChoice::Undecided,
        };
        match choice {
            PermissionChoice::Allow => self.answer(request, true),
            PermissionChoice::Reject => self.answer(request, false),
            PermissionChoice::Undecided if self.is_open(request.request) => {
                self.show_commands(request);
            }
            PermissionChoice::Undecided => {}
        }
    }

    fn ask_person(&self, request: &PermissionView) -> PermissionChoice {
        let shown = request.input.as_deref().unwrap_or(&request.summary);
        let text = format!("{shown}\n\nYou are asked because {}.", request.reason);
        let pending = self.connection.send_request(
            "session/request_permission",
            &json!({
                "sessionId": self.session_id,
                "toolCall": {
                    "toolCallId": format!("permission-{}", request.request),
                    "title": request.summary,
                    "kind": request.tool_kind.as_str(),
                    "status": "pending",
                    "content": [{ "type": "content", "content": { "type": "text", "text": text } }],
                    "rawInput": { "tool": request.tool, "input": request.input },
                },
                "options": [
                    { "optionId": ALLOW_OPTION, "name": "Allow once", "kind": "allow_once" },
                    { "optionId": REJECT_OPTION, "name": "Reject", "kind": "reject_once" },
                ],
            }),
        );
        loop {
            // The end of the work counts more than an answer that arrives at the same time.
            let answered = pending.receiver.recv_timeout(POLL_INTERVAL);
            if self.is_over() || !self.is_open(request.request) {
                self.connection.forget_request(pending.id);
                return PermissionChoice::Undecided;
            }
            match answered {
                Ok(answer) => return read_choice(answer.as_ref()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return PermissionChoice::Undecided,
            }
        }
    }

    /// Answers in the person's name: they chose it in their editor, which they allowed to ask. The digest makes sure
    /// that it is the call they were shown.
    fn answer(&self, request: &PermissionView, allow: bool) {
        let decision = PermissionDecision {
            request: request.request.to_string(),
            allow,
        };
        let call = Call::by(home::current_person());
        let answered = plans::answer_permission(self.lifecycle, self.plan_id, &decision, &call);
        if let Err(error) = answered {
            self.observer
                .send_remark(&CommandError::from(error).message);
        }
    }

    fn show_commands(&self, request: &PermissionView) {
        let Ok(handle) = self.lifecycle.short_handle(self.plan_id) else {
            return;
        };
        let commands = ["allow", "reject"].map(|word| {
            let command = answer_permission_command(request.request, &handle, word);
            format!("- `{}`\n", self.invocation.render_hint(&command))
        });
        let text = format!("Decide it on the page, or type:\n\n{}\n", commands.concat());
        self.observer.send(&message_update(&text));
    }

    /// If the store is unavailable, the question counts as open.
    fn is_open(&self, request: Digest) -> bool {
        let Ok(row) = self.lifecycle.get_plan(self.plan_id) else {
            return true;
        };
        let open = row.plan.stage().open_permission();
        open.is_some_and(|question| question.digest == request)
    }
}

/// Reads the answer to the question. Only the options that were offered count.
fn read_choice(answer: Option<&Value>) -> PermissionChoice {
    let outcome = answer.map(|answer| &answer["outcome"]);
    let Some(outcome) = outcome.filter(|outcome| outcome["outcome"] == "selected") else {
        return PermissionChoice::Undecided;
    };
    match outcome["optionId"].as_str() {
        Some(ALLOW_OPTION) => PermissionChoice::Allow,
        Some(REJECT_OPTION) => PermissionChoice::Reject,
        Some(_) | None => PermissionChoice::Undecided,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_offered_options_decide() {
        let selected =
            |option: &str| json!({ "outcome": { "outcome": "selected", "optionId": option } });
        let check = |answer: Option<Value>, expected| {
            assert_eq!(read_choice(answer.as_ref()), expected, "{answer:?}");
        };
        check(Some(selected("allow")), PermissionChoice::Allow);
        check(Some(selected("reject")), PermissionChoice::Reject);
        for answer in [
            None,
            Some(json!({})),
            Some(selected("allow_once")),
            Some(json!({ "outcome": { "outcome": "cancelled", "optionId": "allow" } })),
            Some(json!({ "outcome": "selected", "optionId": "allow" })),
        ] {
            check(answer, PermissionChoice::Undecided);
        }
    }
}
