//! What keeps a plan from going on: rules with their evidence, and other obstacles.

use std::sync::Arc;

use api::diagnosis::diagnose_plan;
use api::rule_marks::RuleMarks;
use api::view::{
    DiagnosisReason, HolderStatus, PlanDiagnosisView, RuleFindingOutcome, RuleFindingView,
};
use askama::Template;
use axum::extract::State;
use plan::changeset::TreePath;

use super::offered_forms::OfferedForms;
use super::plan_head::{PlanHead, read_head};
use super::visible::visible;
use super::{PageAnswer, render};
use crate::routes::request::UrlPath;
use crate::state::ServerState;

/// A rule of a plan's result.
#[derive(Default)]
pub struct RuleLine {
    pub name: String,
    pub scope: String,
    pub check: String,
    pub evidence: String,
    /// `failed`, `cannot run`, `asks you`, `not judged yet`, `advice` or `holds`.
    pub status: &'static str,
    pub class: &'static str,
    pub is_waivable: bool,
    pub asks_person: bool,
}

impl RuleLine {
    /// The icon of its status: its id in the shell, without `i-`.
    pub fn icon(&self) -> &'static str {
        match self.class {
            "good" => "landed",
            "bad" => "failed",
            "attention" => "question",
            _ => "waiting",
        }
    }
}

#[derive(Template)]
#[template(path = "why.html")]
struct WhyTemplate {
    head: PlanHead,
    forms: OfferedForms,
    rules: Vec<RuleLine>,
    reasons: Vec<String>,
    counts: Option<String>,
}

pub async fn show_why(
    State(state): State<Arc<ServerState>>,
    UrlPath(id): UrlPath<String>,
) -> PageAnswer {
    let plan_id = state.engine.resolve_plan(&id).await?;
    let template = state
        .engine
        .view("why", Some(plan_id), move |engine| {
            let (head, forms) = read_head(&engine, plan_id, "why")?;
            let diagnosis = diagnose_plan(engine.lifecycle, plan_id, engine.viewer)?;
            Ok(WhyTemplate {
                counts: describe_counts(&diagnosis),
                reasons: diagnosis
                    .reasons
                    .iter()
                    .filter_map(describe_reason)
                    .collect(),
                rules: list_rules(&diagnosis),
                head,
                forms,
            })
        })
        .await?;
    render(&template)
}

/// How many rules of the next gate hold or are waived; nothing if none.
pub fn describe_counts(diagnosis: &PlanDiagnosisView) -> Option<String> {
    let counts = &diagnosis.gate.as_ref()?.counts;
    let parts = [
        (counts.held, "holds", "hold"),
        (counts.waived, "is waived", "are waived"),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, several)| match count {
            1 => format!("1 rule {one}"),
            _ => format!("{count} rules {several}"),
        })
        .collect();
    (!parts.is_empty()).then(|| format!("{}.", parts.join(", ")))
}

/// How many paths of a conflict are listed.
const MAX_SHOWN_PATHS: usize = 20;

/// What is in the way of a result, with the paths it concerns.
fn describe_constraint(message: &str, paths: &[TreePath]) -> String {
    let mut text = format!("Nothing landed: {}", visible(message));
    for path in paths.iter().take(MAX_SHOWN_PATHS) {
        text.push_str(&format!("\n{}", visible(&path.to_string())));
    }
    if paths.len() > MAX_SHOWN_PATHS {
        text.push_str(&format!("\nand {} more", paths.len() - MAX_SHOWN_PATHS));
    }
    text
}

/// A sentence for what the rules of the page do not show.
fn describe_reason(reason: &DiagnosisReason) -> Option<String> {
    Some(match reason {
        DiagnosisReason::Held { owner, holder, .. } => {
            let owner = visible(owner);
            match holder {
                HolderStatus::Running | HolderStatus::LeaseValid => format!("{owner} works on it."),
                HolderStatus::LeaseExpired => {
                    format!(
                        "{owner} worked on it. Its lease has expired, so another worker may take over."
                    )
                }
            }
        }
        DiagnosisReason::Interrupted { owner, .. } => format!(
            "{} worked on it. Its process has ended, and the next worker takes over.",
            visible(owner)
        ),
        DiagnosisReason::RetryAt { at } => format!("It retries at {at}."),
        DiagnosisReason::ProjectPaused { project, by, .. } => {
            format!("Project {project} was paused by {}.", visible(by))
        }
        DiagnosisReason::ProjectDeleted { project } => {
            format!("Project {project}, which it works on, was deleted.")
        }
        DiagnosisReason::WaitingForHost { host } => {
            format!("It works on a repository on another host, {host}.")
        }
        DiagnosisReason::OverBudget(shortfall) => format!("It waits for budget: {shortfall}."),
        DiagnosisReason::WaitingForWorker { plans_ahead } => match plans_ahead {
            None | Some(0) => "It waits for a worker.".to_owned(),
            Some(1) => "It waits for a worker; 1 plan is due before it.".to_owned(),
            Some(several) => {
                format!("It waits for a worker; {several} plans are due before it.")
            }
        },
        DiagnosisReason::WaitingForProgram { agent } => format!(
            "Agent {agent} has no definition, so workers cannot run it. Another program must claim its phase."
        ),
        DiagnosisReason::ResultMissing => {
            "The result is gone: its private repository was deleted. Run in a terminal: planwright retry ID --fresh"
                .to_owned()
        }
        DiagnosisReason::ProfileNeedsPerson { profile } => {
            format!("Profile {profile} requires a person to continue.")
        }
        DiagnosisReason::ManualLanding { profile, cause } => {
            format!("Profile {profile} does not land {cause}: a person must.")
        }
        DiagnosisReason::Ended { by, .. } => format!("It ended, by {}.", visible(by)),
        DiagnosisReason::QuestionOpen(_) => "It waits for an answer; see above.".to_owned(),
        DiagnosisReason::PermissionOpen(request) => format!(
            "Its agent waits for permission to {}; see above.",
            visible(&request.summary)
        ),
        DiagnosisReason::Failed { message, .. } => format!("It failed: {}", visible(message)),
        DiagnosisReason::Constrained { message, paths, .. } => describe_constraint(message, paths),
        // The rules have cards of their own.
        DiagnosisReason::GateClosed { .. }
        | DiagnosisReason::RuleBlocks(_)
        | DiagnosisReason::RuleWarns(_)
        | DiagnosisReason::GateOpen { .. }
        | DiagnosisReason::CanContinue => return None,
    })
}

/// The rules of a plan's result, as far as they were judged: first those that did not pass at its next gate.
pub fn list_known_rules(diagnosis: &PlanDiagnosisView, marks: &RuleMarks) -> Vec<RuleLine> {
    let mut lines = list_rules(diagnosis);
    let groups = [
        (&marks.failed, "failed", "bad"),
        (&marks.open, "not judged yet", "waiting"),
        (&marks.held, "holds", "good"),
    ];
    for (names, status, class) in groups {
        for name in names {
            if lines.iter().all(|line| line.name != *name) {
                lines.push(RuleLine {
                    name: name.clone(),
                    status,
                    class,
                    ..RuleLine::default()
                });
            }
        }
    }
    lines
}

/// The rules at the plan's next gate that did not pass.
pub fn list_rules(diagnosis: &PlanDiagnosisView) -> Vec<RuleLine> {
    let reasons = diagnosis.reasons.iter();
    let lines = reasons.filter_map(|reason| {
        if let DiagnosisReason::RuleBlocks(finding) = reason {
            Some(show_blocking_rule(finding))
        } else if let DiagnosisReason::RuleWarns(finding) = reason {
            Some(show_rule(finding, "advice", "waiting"))
        } else {
            None
        }
    });
    lines.collect()
}

fn show_blocking_rule(finding: &RuleFindingView) -> RuleLine {
    let (status, class) = match finding.outcome {
        RuleFindingOutcome::Failed => ("failed", "bad"),
        RuleFindingOutcome::Broken => ("cannot run", "bad"),
        RuleFindingOutcome::NeedsPerson => ("asks you", "attention"),
        RuleFindingOutcome::Unchecked => ("not judged yet", "waiting"),
    };
    let asks_person = finding.outcome == RuleFindingOutcome::NeedsPerson;
    RuleLine {
        is_waivable: finding.waivable && !asks_person,
        asks_person,
        ..show_rule(finding, status, class)
    }
}

/// A rule that offers nothing to do.
fn show_rule(finding: &RuleFindingView, status: &'static str, class: &'static str) -> RuleLine {
    RuleLine {
        name: finding.rule.clone(),
        scope: finding.scope.clone(),
        check: visible(&finding.check),
        evidence: visible(&finding.evidence),
        status,
        class,
        is_waivable: false,
        asks_person: false,
    }
}
