//! `planwright why`: explains why a plan is not moving.

use api::view::{
    DiagnosisReason, HolderStatus, PlanDiagnosisView, RuleFindingOutcome, RuleFindingView,
    WaitReason,
};
use plan::Timestamp;
use plan::judgement::RuleCounts;
use plan::stage::FailureCategory;
use serde_json::json;

use crate::cli::App;
use crate::commands::event_narrator::holder_name;
use crate::commands::overview::describe_wait;
use crate::commands::rule::describe_scope;
use crate::commands::{CommandAnswer, PlanArg};
use crate::error::CommandError;
use crate::ui;

/// Explain why a plan is not moving and what to do about it
#[derive(Debug, clap::Args)]
pub struct WhyArgs {
    #[command(flatten)]
    plan: PlanArg,
}

pub fn run(args: &WhyArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let plan_id = args.plan.resolve(app)?;
    let caller = crate::home::current_caller();
    let why = api::diagnosis::diagnose_plan(app.lifecycle()?, plan_id, &caller)?;
    let now = app.clock.now();
    let reasons = why.reasons.iter();
    let reasons: Vec<String> = reasons
        .map(|reason| describe_reason(reason, &why, now))
        .collect();
    // A result with rules to meet first is not waiting for its review.
    let is_blocked = why
        .reasons
        .iter()
        .any(|reason| matches!(reason, DiagnosisReason::RuleBlocks(_)));
    let is_told = |reason: &DiagnosisReason| {
        !is_blocked || !matches!(reason, DiagnosisReason::ProfileNeedsPerson { .. })
    };
    let told = why.reasons.iter().zip(&reasons);
    let text: String = told
        .filter(|(reason, _)| is_told(reason))
        .map(|(_, words)| format!("{words}\n"))
        .collect();
    let data = json!({
        "plan_id": plan_id,
        "phase": why.phase,
        "state": why.state,
        "reasons": reasons,
        "details": why.reasons,
        "gate": why.gate,
        "options": why.options,
    });
    let mut answer = CommandAnswer::new(data, text);
    for command in app.commands_for_steps(plan_id, &why.next_steps)? {
        answer = answer.with_hint(command);
    }
    Ok(answer)
}

/// Puts a reason into a sentence.
pub fn describe_reason(
    reason: &DiagnosisReason,
    why: &PlanDiagnosisView,
    now: Timestamp,
) -> String {
    let (phase, state) = (why.phase.as_str(), why.state);
    let cannot_start = |wait: WaitReason| format!("It can't start: {}", describe_wait(&wait));
    match reason {
        DiagnosisReason::Ended { by, at } => {
            let verb = match state {
                "cancelled" => "Cancelled",
                _ => "Landed",
            };
            let age = ui::format_age(now, *at);
            match *by == crate::home::current_caller().to_string() {
                true => format!("You {} it {age}", verb.to_lowercase()),
                false => format!("{verb} {age} by {by}"),
            }
        }
        DiagnosisReason::Held {
            owner,
            since,
            holder,
        } => {
            let lease = match holder {
                HolderStatus::Running => "its process is running on this host",
                HolderStatus::LeaseValid => "its lease is valid",
                HolderStatus::LeaseExpired => "its lease has expired and can be reclaimed",
            };
            let age = ui::format_age(now, *since);
            let owner = holder_name(owner);
            format!("{owner} is working on it, started {age}; {lease}")
        }
        DiagnosisReason::Interrupted { owner, since } => format!(
            "{} started to work on it {}, but its process has ended; the next worker takes over",
            holder_name(owner),
            ui::format_age(now, *since)
        ),
        DiagnosisReason::QuestionOpen(question) => format!(
            "It is waiting for an answer: {}",
            ui::escape_controls(&question.text)
        ),
        DiagnosisReason::PermissionOpen(request) => format!(
            "Its agent is waiting for permission to {} ({})",
            ui::escape_controls(&request.summary),
            ui::escape_controls(&request.reason)
        ),
        DiagnosisReason::Failed {
            category, message, ..
        } => match category {
            FailureCategory::Actor => format!("The agent failed: {}", ui::escape_controls(message)),
            _ => format!("It failed ({category}): {}", ui::escape_controls(message)),
        },
        DiagnosisReason::RetryAt { at } => {
            format!("It retries in {}", ui::format_delay(now, *at))
        }
        DiagnosisReason::ProjectPaused { project, by, at } => {
            cannot_start(WaitReason::ProjectPaused {
                project: project.clone(),
                at: *at,
                by: by.clone(),
            })
        }
        DiagnosisReason::ProjectDeleted { project } => cannot_start(WaitReason::ProjectDeleted {
            project: project.clone(),
        }),
        DiagnosisReason::WaitingForHost { host } => {
            format!("It is waiting for host {host}, which has its repository")
        }
        DiagnosisReason::OverBudget(shortfall) => format!("It is waiting for budget: {shortfall}"),
        DiagnosisReason::WaitingForWorker { plans_ahead } => {
            let queue = match plans_ahead {
                Some(0) | None => String::new(),
                Some(1) => "; 1 plan is ahead of it".to_owned(),
                Some(several) => format!("; {several} plans are ahead of it"),
            };
            format!("Waiting for a worker{queue}")
        }
        DiagnosisReason::WaitingForProgram { agent } => format!(
            "Agent `{agent}` has no definition, so workers cannot run it. Another program must claim the {phase} \
             phase (planwright plumbing start-{phase})"
        ),
        DiagnosisReason::Constrained {
            message,
            paths,
            commits,
            ..
        } => {
            let mut text = format!("Nothing landed: {}", ui::escape_controls(message));
            for path in paths.iter().take(20) {
                text.push_str(&format!("\n  {path}"));
            }
            for commit in commits.iter().take(5) {
                let commit: String = commit.chars().take(10).collect();
                text.push_str(&format!("\n  changed by {commit}"));
            }
            text
        }
        DiagnosisReason::ResultMissing => {
            "The result is gone: its private repository was deleted. Only new work can replace it"
                .to_owned()
        }
        DiagnosisReason::ProfileNeedsPerson { profile } => {
            let step = match (phase, state) {
                ("execute", "complete") => "review the result",
                ("strategize", "complete") => "look at the strategy",
                _ => "start it",
            };
            format!("Waiting for you to {step} (profile {profile})")
        }
        DiagnosisReason::ManualLanding { profile, cause } => {
            format!("Profile {profile} does not land {cause}: a person must apply it")
        }
        DiagnosisReason::GateClosed { .. } => "Rules block the plan".to_owned(),
        DiagnosisReason::CanContinue => format!("The plan can continue ({phase}/{state})"),
        DiagnosisReason::RuleBlocks(finding) => {
            let outcome = match finding.outcome {
                RuleFindingOutcome::NeedsPerson | RuleFindingOutcome::Unchecked => "is pending",
                RuleFindingOutcome::Broken => "cannot run",
                RuleFindingOutcome::Failed => "failed",
            };
            let gate = finding.gate;
            describe_finding(&format!("Can't {gate}: rule"), finding, outcome)
        }
        DiagnosisReason::RuleWarns(finding) => {
            describe_finding("Warning: advisory rule", finding, "failed")
        }
        DiagnosisReason::GateOpen { gate, counts } => match describe_counts(counts) {
            Some(counts) => format!("Ready to {gate}: {counts}"),
            None => format!("No rule applies before {gate}"),
        },
    }
}

fn describe_finding(start: &str, finding: &RuleFindingView, outcome: &str) -> String {
    let rule = &finding.rule;
    let evidence = ui::escape_controls(&finding.evidence);
    let check = ui::escape_controls(&finding.check);
    let scope = describe_scope(&finding.scope);
    format!("{start} `{rule}` {outcome}: {evidence}\n    {check}  ({scope})")
}

/// Counts the rules of an open gate, by outcome; `None` if there are none.
fn describe_counts(counts: &RuleCounts) -> Option<String> {
    let parts: Vec<String> = [
        (counts.held, "passed", "passed"),
        (counts.waived, "is waived", "are waived"),
        (
            counts.advised,
            "failed but is advisory",
            "failed but are advisory",
        ),
    ]
    .into_iter()
    .filter(|(number, _, _)| *number > 0)
    .map(|(number, one, several)| {
        let verb = if number == 1 { one } else { several };
        format!("{} {verb}", ui::pluralize(number, "rule"))
    })
    .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}
