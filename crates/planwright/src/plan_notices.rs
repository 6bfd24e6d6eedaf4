//! Words the notices about a new plan.

use api::plans::PlanNotice;

use crate::ui;
use crate::wire::UserMessage;

pub fn describe_notices(notices: &[PlanNotice]) -> Vec<UserMessage> {
    notices.iter().flat_map(describe_notice).collect()
}

fn describe_notice(notice: &PlanNotice) -> Vec<UserMessage> {
    match notice {
        PlanNotice::UnconfinedSetup { resource } => info(format!(
            "{resource}: the setup command runs unconfined, with your permissions, because of your setting \
             sandbox.unconfined."
        )),
        PlanNotice::UncommittedRules { resource, branch } => info(format!(
            "{resource}: the rules in planwright.yaml differ from those on {branch}; this plan must meet both."
        )),
        PlanNotice::UncommittedConfig { resource } => info(format!(
            "{resource}: planwright.yaml has uncommitted changes; the current version is used."
        )),
        PlanNotice::UncommittedFiles { resource, count } => info(format!(
            "{resource}: {} not visible to the agent. To include uncommitted changes, pass --with-changes",
            ui::pluralize(*count as u64, "uncommitted file")
        )),
        PlanNotice::UndefinedActor { actor, works } => {
            let consequence = match works {
                true => "the plan waits until another program claims its work",
                false => "a person must answer its ask rules",
            };
            info(format!(
                "Agent `{actor}` is not defined here; {consequence}."
            ))
        }
        PlanNotice::OtherActionInRepository { action, file } => with_hint(
            info(format!(
                "Used action `{action}` from your store, not the one in {}.",
                file.display()
            )),
            format!(
                "To use the repository's action from now on: planwright action archive {action}"
            ),
        ),
        PlanNotice::ProjectPaused { project } => with_hint(
            vec![UserMessage {
                level: "warn",
                text: format!(
                    "Project {project} is paused: nothing will start until it is resumed."
                ),
            }],
            format!("planwright project resume {project}"),
        ),
    }
}

fn info(text: String) -> Vec<UserMessage> {
    vec![UserMessage {
        level: "info",
        text,
    }]
}

fn with_hint(mut messages: Vec<UserMessage>, text: String) -> Vec<UserMessage> {
    messages.push(UserMessage {
        level: "hint",
        text,
    });
    messages
}
