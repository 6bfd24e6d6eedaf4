//! What happened to a plan, as people tell it: who, and what they did.

use plan::decision::DecisionNode;
use plan::event::PlanCreated;
use plan::how::LandingDestination;
use plan::judgement::{RuleCounts, RuleOutcome};
use plan::plan::PlanOrigin;
use plan::stage::{RefMove, ResultContent};
use plan::{Caller, Event, LandingOptions, Phase, RecordedEvent, Timestamp};

use crate::ui;

/// How much of a text is told.
const MAX_TEXT_WIDTH: usize = 100;

/// Tells one event after the other; what came before is known to it.
#[derive(Default)]
pub struct EventNarrator {
    landing_options: LandingOptions,
    ref_moves: Vec<RefMove>,
}

impl EventNarrator {
    /// An event in a line: when, who, and what they did. Of what nobody asks about, nothing.
    pub fn narrate_line(&mut self, recorded: &RecordedEvent) -> String {
        let Some(did) = self.describe_event(&recorded.event) else {
            return String::new();
        };
        format!(
            "{}  {} {}\n",
            ui::style_text(ui::DIM, format_timestamp(recorded.at)),
            ui::style_text(ui::BOLD, ui::truncate_line(&caller_name(&recorded.by), 40)),
            ui::truncate_line(&did, 300)
        )
    }

    /// Of an event about a landing, where to, what, and how.
    pub fn describe_landing_event(&mut self, event: &Event) -> Option<String> {
        match event {
            Event::Approved { how, .. } => {
                self.landing_options = how.clone();
                None
            }
            Event::ApplyPrepared { intent, .. } if !intent.moves.is_empty() => {
                self.ref_moves.clone_from(&intent.moves);
                Some(describe_moves(&self.ref_moves, describe_planned_move))
            }
            Event::Landed { .. } if !self.ref_moves.is_empty() => {
                let way = match &self.landing_options.shape {
                    LandingDestination::Commit if self.landing_options.merge => "as a merge commit",
                    LandingDestination::Commit => "as one commit",
                    LandingDestination::Branch(_) => "as a branch",
                    LandingDestination::Uncommitted => "uncommitted",
                };
                Some(format!(
                    "{way}: {}",
                    describe_moves(&self.ref_moves, describe_done_move)
                ))
            }
            _ => None,
        }
    }

    fn describe_event(&mut self, event: &Event) -> Option<String> {
        let landing = self.describe_landing_event(event);
        Some(match event {
            Event::Created(created) => describe_created(created),
            Event::GateHeld { counts, .. } if *counts == RuleCounts::default() => return None,
            Event::GateHeld { gate, counts, .. } => {
                format!("found the {gate} gate open: {}", describe_counts(counts))
            }
            Event::Claimed { phase, .. } => describe_claim(*phase).to_owned(),
            Event::BasesRecorded { .. } => "made the sandbox ready".to_owned(),
            Event::DecisionsRecorded { decisions } => describe_decisions(decisions)?,
            Event::StrategizeCompleted { .. } => "handed in the strategy".to_owned(),
            Event::ExecuteEntered { .. } => "let it go on to execute".to_owned(),
            Event::ChangesetSealed { entries, .. } => {
                format!("handed in {}", ui::pluralize(*entries, "change"))
            }
            Event::ExecuteCompleted { result, .. } => describe_result(result),
            Event::Approved { by_profile, .. } => match by_profile {
                Some(profile) => format!("approved the result by profile {profile}"),
                None => "approved the result".to_owned(),
            },
            Event::ApplyEntered { .. } => "let it go on to landing".to_owned(),
            Event::ApplyPrepared { .. } => append_detail("is about to land it", landing.as_deref()),
            Event::ApplyWithdrawn { .. } => "did not land it; nothing was changed".to_owned(),
            Event::Landed { .. } => match landing {
                Some(landing) => format!("landed it {landing}"),
                None => "ended it: done".to_owned(),
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
                format!("will try again at {}", format_timestamp(*retry_at))
            }
            Event::Retried { fresh: true, .. } => "asked for another try from scratch".to_owned(),
            Event::Retried { .. } => "asked for another try".to_owned(),
            Event::Asked { question } => append_detail("asks", Some(question.text.as_str())),
            Event::Answered { answer, .. } => append_detail("answered", Some(answer.as_str())),
            Event::QuestionExpired => "waited in vain for an answer".to_owned(),
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
                let by_itself = match automatic {
                    true => ": its rules are not met",
                    false => "",
                };
                let sent = format!("sent it back to {to}{dropping}{by_itself}");
                append_detail(&sent, Some(feedback.as_str()))
            }
            Event::Reverted { reason, .. } => {
                append_detail("sent it back to strategize", Some(reason.as_str()))
            }
            Event::Released { .. } => "gave it back".to_owned(),
            Event::Reclaimed { owner, .. } => format!("took it over from {owner}"),
            Event::Waived { rule, reason } => {
                append_detail(&format!("set rule {rule} aside"), Some(reason.as_str()))
            }
            Event::RuledOn { rule, outcome, .. } => match outcome {
                RuleOutcome::Held => format!("said that rule {rule} holds"),
                RuleOutcome::Failed(reason) => append_detail(
                    &format!("said that rule {rule} does not hold"),
                    Some(reason),
                ),
                RuleOutcome::Open(_) => format!("left rule {rule} open"),
            },
            Event::Cancelled { reason, .. } => append_detail(
                "cancelled it",
                reason.as_ref().map(plan::ErasableText::as_str),
            ),
        })
    }
}

/// Who did it, without the number of their process.
fn caller_name(by: &Caller) -> String {
    let name = match by {
        Caller::Person(name) | Caller::Worker(name) => name,
    };
    let name = name
        .split_once(" (")
        .map_or(name.as_str(), |(name, _)| name);
    match name.split_once('-') {
        // A worker is called by the number of its process and the moment.
        Some((worker, _)) if worker.starts_with("worker ") => worker.to_owned(),
        _ => name.to_owned(),
    }
}

/// A moment as it is read; nobody reads microseconds.
fn format_timestamp(at: Timestamp) -> String {
    let written = at.to_string();
    match written.get(..19) {
        Some(seconds) => format!("{}Z", seconds.replace('T', " ")),
        None => written,
    }
}

fn append_detail(did: &str, what: Option<&str>) -> String {
    match what {
        Some(what) => format!("{did}: {}", ui::truncate_line(what, MAX_TEXT_WIDTH)),
        None => did.to_owned(),
    }
}

fn describe_created(created: &PlanCreated) -> String {
    let plan = match created.origin {
        PlanOrigin::Use => "made the plan".to_owned(),
        PlanOrigin::UndoOf(of) => format!("made the plan to take back {of}"),
        PlanOrigin::RestOf(of) => format!("made the plan of what was left of {of}"),
    };
    let goal = created.goal.as_str();
    append_detail(&plan, Some(goal.strip_prefix("Undo: ").unwrap_or(goal)))
}

fn describe_claim(phase: Phase) -> &'static str {
    match phase {
        Phase::Strategize => "began to strategize",
        Phase::Execute => "began to work",
        Phase::Apply => "began to land it",
    }
}

/// What an actor decided; what the engine writes down beside it was told already.
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
    append_detail("handed in the result", report)
}

/// How the rules of an open gate came out.
fn describe_counts(counts: &RuleCounts) -> String {
    let parts = [
        (counts.held, "kept"),
        (counts.waived, "waived"),
        (counts.advised, "only advice and not kept"),
    ];
    let parts = parts.into_iter().filter(|(number, _)| *number > 0);
    let parts: Vec<String> = parts
        .map(|(number, how)| format!("{} {how}", ui::pluralize(number, "rule")))
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

/// The branch that moves; nothing if it is the working tree alone.
fn moved_branch(step: &RefMove) -> Option<&str> {
    step.target.strip_prefix("refs/heads/")
}

fn short_commit(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}
