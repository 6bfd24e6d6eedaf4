//! Turns a plan's events into sentences for `planwright log`: when, who, what.

use plan::decision::DecisionNode;
use plan::event::PlanCreated;
use plan::judgement::{RuleCounts, RuleOutcome};
use plan::landing_options::LandingDestination;
use plan::plan::PlanOrigin;
use plan::stage::{RefMove, ResultContent};
use plan::{Caller, Event, LandingOptions, Phase, QualifiedName, RecordedEvent, Timestamp};

use crate::ui;

/// Width of goals, reasons and reports inside a line.
const MAX_TEXT_WIDTH: usize = 100;

/// Describes events in order. Remembers agents, landing options and ref moves for the events that follow.
#[derive(Default)]
pub struct EventNarrator {
    execution_agent: Option<QualifiedName>,
    landing_options: LandingOptions,
    ref_moves: Vec<RefMove>,
}

impl EventNarrator {
    /// Describes an event in one line; empty for events that are not worth a line.
    pub fn narrate_line(&mut self, recorded: &RecordedEvent) -> String {
        let Some(description) = self.describe_event(&recorded.event) else {
            return String::new();
        };
        format!(
            "{}  {} {}\n",
            ui::style_text(ui::DIM, format_timestamp(recorded.at)),
            ui::style_text(ui::BOLD, ui::truncate_line(&caller_name(&recorded.by), 40)),
            ui::truncate_line(&description, 300)
        )
    }

    /// Describes an event about a landing: target, commits and form. `None` for other events.
    pub fn describe_landing_event(&mut self, event: &Event) -> Option<String> {
        match event {
            Event::Approved { options, .. } => {
                self.landing_options = options.clone();
                None
            }
            Event::ApplyPrepared { intent, .. } if !intent.moves.is_empty() => {
                self.ref_moves.clone_from(&intent.moves);
                Some(describe_moves(&self.ref_moves, describe_planned_move))
            }
            Event::Landed { .. } if !self.ref_moves.is_empty() => {
                let form = match &self.landing_options.shape {
                    LandingDestination::Commit if self.landing_options.merge => "as a merge commit",
                    LandingDestination::Commit => "as one commit",
                    LandingDestination::Branch(_) => "as a branch",
                    LandingDestination::Uncommitted => "uncommitted",
                };
                Some(format!(
                    "{form}: {}",
                    describe_moves(&self.ref_moves, describe_done_move)
                ))
            }
            _ => None,
        }
    }

    fn describe_event(&mut self, event: &Event) -> Option<String> {
        let landing = self.describe_landing_event(event);
        Some(match event {
            Event::Created(created) => {
                self.execution_agent = Some(created.actors.execution.clone());
                describe_created(created)
            }
            Event::GateHeld { counts, .. } if *counts == RuleCounts::default() => return None,
            Event::GateHeld { gate, counts, .. } => {
                format!("passed the {gate} gate: {}", describe_counts(counts))
            }
            Event::Claimed { phase, .. } => self.describe_claim(*phase),
            Event::BasesRecorded { .. } => "prepared the sandbox".to_owned(),
            Event::DecisionsRecorded { decisions } => describe_decisions(decisions)?,
            Event::StrategizeCompleted { .. } => "submitted the strategy".to_owned(),
            Event::ExecuteEntered { .. } => "moved it to execute".to_owned(),
            Event::ChangesetSealed { entries, .. } => {
                format!("submitted {}", ui::pluralize(*entries, "change"))
            }
            Event::ExecuteCompleted { result, .. } => describe_result(result),
            Event::ResultPicked { reduced, .. } => {
                let files = ui::pluralize(reduced.len() as u64, "file");
                format!("took parts out of the result, in {files}")
            }
            Event::Approved { by_profile, .. } => match by_profile {
                Some(profile) => format!("approved the result under profile {profile}"),
                None => "approved the result".to_owned(),
            },
            Event::ApplyEntered { .. } => "moved it to apply".to_owned(),
            Event::ApplyPrepared { .. } => {
                append_detail("prepared the landing", landing.as_deref())
            }
            Event::ApplyWithdrawn { .. } => "withdrew the landing; nothing changed".to_owned(),
            Event::Landed { .. } => match landing {
                Some(landing) => format!("landed it {landing}"),
                None => "finished it".to_owned(),
            },
            Event::Constrained { constraint } => {
                append_detail("could not land it", Some(constraint.message.as_str()))
            }
            Event::Failed { failure } => {
                format!(
                    "failed ({}): {}",
                    failure.category,
                    failure.message.as_str()
                )
            }
            Event::RetryScheduled { retry_at } => {
                format!("will retry at {}", format_timestamp(*retry_at))
            }
            Event::Retried { fresh: true, .. } => "requested a retry from scratch".to_owned(),
            Event::Retried { .. } => "requested a retry".to_owned(),
            Event::Asked { question } => append_detail("asks", Some(question.text.as_str())),
            Event::Answered { answer, .. } => append_detail("answered", Some(answer.as_str())),
            Event::QuestionExpired => "got no answer in time".to_owned(),
            Event::PermissionAsked { call, .. } => {
                append_detail("asks whether it may", Some(call.summary.as_str()))
            }
            Event::PermissionAnswered { allowed: true, .. } => "allowed it once".to_owned(),
            Event::PermissionAnswered { allowed: false, .. } => "rejected it".to_owned(),
            Event::Revised {
                to,
                feedback,
                dropped,
                automatic,
                ..
            } => {
                let dropping = match dropped.len() as u64 {
                    0 => String::new(),
                    files => format!(" without {}", ui::pluralize(files, "file")),
                };
                let cause = match automatic {
                    true => ": rules failed",
                    false => "",
                };
                let sent = format!("sent it back to {to}{dropping}{cause}");
                append_detail(&sent, Some(feedback.as_str()))
            }
            Event::Reverted { reason, .. } => {
                append_detail("sent it back to strategize", Some(reason.as_str()))
            }
            Event::Released { .. } => "released it".to_owned(),
            Event::Reclaimed { owner, .. } => format!("took it over from {owner}"),
            Event::Waived { rule, reason } => {
                append_detail(&format!("waived rule {rule}"), Some(reason.as_str()))
            }
            Event::RuledOn { rule, outcome, .. } => match outcome {
                RuleOutcome::Held => format!("confirmed rule {rule}"),
                RuleOutcome::Failed(reason) | RuleOutcome::Broken(reason) => {
                    append_detail(&format!("rejected rule {rule}"), Some(reason))
                }
                RuleOutcome::Open(_) => format!("left rule {rule} open"),
            },
            Event::Cancelled { reason, .. } => append_detail(
                "cancelled it",
                reason.as_ref().map(plan::ErasableText::as_str),
            ),
        })
    }

    fn describe_claim(&self, phase: Phase) -> String {
        match (phase, &self.execution_agent) {
            (Phase::Strategize, _) => "started to strategize".to_owned(),
            (Phase::Execute, Some(agent)) => format!("started agent {agent}"),
            // The log may be read from a later event on.
            (Phase::Execute, None) => "started to work".to_owned(),
            (Phase::Apply, _) => "started to land it".to_owned(),
        }
    }
}

/// Returns the caller's name without process id and time.
fn caller_name(by: &Caller) -> String {
    if let Caller::Agent(_) = by {
        return by.to_string();
    }
    let name = by.name();
    let name = name.split_once(" (").map_or(name, |(name, _)| name);
    match name.split_once('-') {
        // Workers are named `worker PID-TIME`; the time is only there to make the name unique.
        Some((worker, _)) if worker.starts_with("worker ") => worker.to_owned(),
        _ => name.to_owned(),
    }
}

/// Formats a time to the second, in UTC.
pub(super) fn format_timestamp(at: Timestamp) -> String {
    let text = at.to_string();
    match text.get(..19) {
        Some(seconds) => format!("{}Z", seconds.replace('T', " ")),
        None => text,
    }
}

fn append_detail(action: &str, detail: Option<&str>) -> String {
    match detail {
        Some(detail) => format!("{action}: {}", ui::truncate_line(detail, MAX_TEXT_WIDTH)),
        None => action.to_owned(),
    }
}

fn describe_created(created: &PlanCreated) -> String {
    let plan = match created.origin {
        PlanOrigin::Use => "created the plan".to_owned(),
        PlanOrigin::UndoOf(of) => format!("created the plan to undo {of}"),
        PlanOrigin::RestOf(of) => format!("created the plan with the rest of {of}"),
    };
    let goal = created.goal.as_str();
    append_detail(&plan, Some(goal.strip_prefix("Undo: ").unwrap_or(goal)))
}

/// Describes decisions by agents. Leaves out those the engine records, which other events already describe.
fn describe_decisions(decisions: &[DecisionNode]) -> Option<String> {
    let choices: Vec<String> = decisions
        .iter()
        .filter(|node| node.kind.is_for_actors())
        .map(|node| ui::truncate_line(node.choice.as_str(), MAX_TEXT_WIDTH))
        .collect();
    (!choices.is_empty()).then(|| format!("decided: {}", choices.join("; ")))
}

fn describe_result(result: &ResultContent) -> String {
    let report = result.report.as_ref().map(plan::ErasableText::as_str);
    append_detail("submitted the result", report)
}

/// Counts the rules of a gate that was passed, by outcome.
fn describe_counts(counts: &RuleCounts) -> String {
    let parts = [
        (counts.held, "held"),
        (counts.waived, "waived"),
        (counts.advised, "failed (advisory)"),
    ];
    let parts = parts.into_iter().filter(|(number, _)| *number > 0);
    let parts: Vec<String> = parts
        .map(|(number, outcome)| format!("{} {outcome}", ui::pluralize(number, "rule")))
        .collect();
    parts.join(", ")
}

fn describe_moves(moves: &[RefMove], describe: fn(&RefMove) -> String) -> String {
    let moves: Vec<String> = moves.iter().map(describe).collect();
    moves.join("; ")
}

fn describe_planned_move(step: &RefMove) -> String {
    let new = short_commit(&step.new);
    match moved_branch(step) {
        Some(branch) if step.old.bytes().all(|digit| digit == b'0') => {
            format!("{}: new branch {branch} at {new}", step.resource)
        }
        Some(branch) => format!(
            "{}: {branch} {} → {new}",
            step.resource,
            short_commit(&step.old)
        ),
        None => format!("{}: working tree, {new}", step.resource),
    }
}

fn describe_done_move(step: &RefMove) -> String {
    let target = moved_branch(step).unwrap_or("working tree");
    format!("{}: {target}, {}", step.resource, short_commit(&step.new))
}

/// The branch that moves; `None` if only the working tree changes.
fn moved_branch(step: &RefMove) -> Option<&str> {
    step.target.strip_prefix("refs/heads/")
}

fn short_commit(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}
