//! Asks the person in the editor whether to land a result, and lands exactly the one that was shown.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use actors::Stop;
use lifecycle::Call;
use plan::landing_options::LandingDestination;
use plan::stage::WorkState;
use plan::{LandingOptions, Plan, PlanId, PlanStage};
use serde_json::{Value, json};
use store::PlanRow;

use super::connection::EditorConnection;
use super::editor_session::EditorSession;
use super::plan_summary::{ShownResult, list_hints, strip_style};
use crate::cli::App;
use crate::commands::{CommandAnswer, apply};
use crate::error::{CommandError, MentionedPlan};
use crate::exit::CommandExit;
use crate::home;

/// May the person land results from the editor?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditorLanding {
    Never,
    /// They put `--land` into the editor's configuration.
    Asks,
}

const LAND_OPTION: &str = "land";
const KEEP_OPTION: &str = "keep";

/// How often a pending question looks whether it is still wanted.
const ANSWER_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A question to the person about one result.
pub struct LandingOffer<'a> {
    pub app: &'a App,
    pub connection: &'a EditorConnection,
    pub session: &'a EditorSession,
    pub stop: &'a Stop,
}

/// What the person chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LandingChoice {
    Land,
    /// Anything but a clear yes.
    Keep,
}

impl LandingOffer<'_> {
    /// Asks, and lands the result if the person says so. Returns what to tell them; nothing if they keep it for later.
    pub fn ask_and_land(
        &self,
        row: &PlanRow,
        shown: &ShownResult,
    ) -> Result<Option<String>, CommandError> {
        if self.ask_person(&row.plan, shown)? == LandingChoice::Keep {
            let title = format!("{} (kept for later)", shown.title());
            self.update_call(
                &row.plan,
                shown,
                &json!({ "status": "completed", "title": title }),
            );
            return Ok(None);
        }
        let (status, text) = match self.land_shown(row.plan.id(), shown) {
            Ok(answer) => ("completed", self.describe_answer(answer)),
            Err(error) => ("failed", self.describe_error(error, row.plan.id())),
        };
        let outcome = json!({ "status": status, "rawOutput": text });
        self.update_call(&row.plan, shown, &outcome);
        Ok(Some(text))
    }

    fn ask_person(&self, plan: &Plan, shown: &ShownResult) -> Result<LandingChoice, CommandError> {
        let handle = self.app.lifecycle()?.short_handle(plan.id())?;
        let destination = describe_destination(plan, &shown.options);
        let title = format!(
            "Land r{} of {handle} {destination}: {}",
            shown.number, shown.total
        );
        let call = shown.to_tool_call(plan, &self.session.repository, &title, "pending");
        let pending = self.connection.send_request(
            "session/request_permission",
            &json!({
                "sessionId": self.session.id,
                "toolCall": call,
                "options": [
                    { "optionId": LAND_OPTION, "name": format!("Land {destination}"), "kind": "allow_once" },
                    { "optionId": KEEP_OPTION, "name": "Keep for later", "kind": "reject_once" },
                ],
            }),
        );
        loop {
            // The stop counts more than an answer that arrives at the same time.
            let answered = pending.receiver.recv_timeout(ANSWER_POLL_INTERVAL);
            if self.stop.is_requested() {
                self.connection.forget_request(pending.id);
                return Ok(LandingChoice::Keep);
            }
            match answered {
                Ok(answer) => return Ok(read_choice(answer.as_ref())),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(LandingChoice::Keep),
            }
        }
    }

    /// Lands the plan's result if it is still the one that was shown.
    fn land_shown(
        &self,
        plan_id: PlanId,
        shown: &ShownResult,
    ) -> Result<CommandAnswer, CommandError> {
        let row = self.app.lifecycle()?.get_plan(plan_id)?;
        let is_complete = matches!(row.plan.stage(), PlanStage::Execute(WorkState::Complete));
        let digest = row
            .plan
            .result()
            .map(|result| result.digest(&shown.options));
        if !is_complete || digest.as_ref() != Some(&shown.digest) {
            return Err(CommandError::new(
                CommandExit::Conflict,
                "The plan changed since you were asked. Nothing landed.",
            ));
        }
        // The person signs this: they chose it in their editor, which they allowed to ask. The version makes sure that
        // nothing comes between the comparison and the approval.
        let call = Call::by(home::current_person())
            .if_version(row.plan.version())
            .with_stop(self.stop);
        apply::land_plan(self.app, plan_id, &shown.options, &call)
    }

    /// Changes the tool call that shows the result.
    fn update_call(&self, plan: &Plan, shown: &ShownResult, fields: &Value) {
        let mut update = fields.clone();
        update["sessionUpdate"] = json!("tool_call_update");
        update["toolCallId"] = json!(shown.tool_call_id(plan));
        self.connection.send_update(&self.session.id, &update);
    }

    fn describe_answer(&self, answer: CommandAnswer) -> String {
        let hints = answer.messages.into_iter().map(|message| message.text);
        let hints = list_hints(self.app, hints);
        format!("{}\n{hints}", strip_style(answer.text.trim_end()))
    }

    fn describe_error(&self, error: CommandError, plan_id: PlanId) -> String {
        let mentioned = self
            .app
            .lifecycle()
            .and_then(|lifecycle| MentionedPlan::read(lifecycle, plan_id, &home::current_person()));
        let error = error.for_people("apply", mentioned.as_ref().ok());
        let hints = list_hints(self.app, error.hints);
        format!("Not landed. {}\n{hints}", strip_style(&error.message))
    }
}

/// Reads the answer to the question. Only the option that lands counts as a yes.
fn read_choice(answer: Option<&Value>) -> LandingChoice {
    let outcome = answer.map(|answer| &answer["outcome"]);
    let is_yes = outcome.is_some_and(|outcome| {
        outcome["outcome"] == "selected" && outcome["optionId"] == LAND_OPTION
    });
    match is_yes {
        true => LandingChoice::Land,
        false => LandingChoice::Keep,
    }
}

/// For example `on main`.
fn describe_destination(plan: &Plan, options: &LandingOptions) -> String {
    match &options.shape {
        LandingDestination::Branch(branch) => format!("on the new branch {branch}"),
        LandingDestination::Uncommitted => "in the working tree".to_owned(),
        LandingDestination::Commit => {
            let targets = plan.resources().iter();
            let targets = targets.map(|resource| match resource.target.as_deref() {
                Some(target) => target.strip_prefix("refs/heads/").unwrap_or(target),
                None => resource.name.as_str(),
            });
            format!("on {}", targets.collect::<Vec<_>>().join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_option_that_lands_is_a_yes() {
        let selected =
            |option: &str| json!({ "outcome": { "outcome": "selected", "optionId": option } });
        assert_eq!(
            read_choice(Some(&selected(LAND_OPTION))),
            LandingChoice::Land
        );
        for answer in [
            None,
            Some(json!(null)),
            Some(json!({})),
            Some(selected(KEEP_OPTION)),
            Some(selected("allow_once")),
            Some(json!({ "outcome": { "outcome": "cancelled" } })),
            Some(json!({ "outcome": { "outcome": "cancelled", "optionId": "land" } })),
            Some(json!({ "outcome": "selected", "optionId": "land" })),
        ] {
            assert_eq!(
                read_choice(answer.as_ref()),
                LandingChoice::Keep,
                "{answer:?}"
            );
        }
    }
}
