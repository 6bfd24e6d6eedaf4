//! Turns a plan's events into sentences for `planwright log`: when, who, what.

use plan::decision::DecisionNode;
use plan::event::PlanCreated;
use plan::judgement::{RuleCounts, RuleOutcome};
use plan::landing_options::LandingDestination;
use plan::plan::PlanOrigin;
use plan::review::{CommentPlace, DiffSide, ReviewComment};
use plan::stage::{FailureCategory, RefMove};
use plan::{Caller, Event, LandingOptions, Phase, QualifiedName, RecordedEvent, Timestamp};

use crate::commands::run::{headline_of, is_text_agent};
use crate::ui;

/// Width of goals, reasons and reports inside a line.
const MAX_TEXT_WIDTH: usize = 100;

/// Describes events in order. Remembers agents, landing options and ref moves for the events that follow.
#[derive(Default)]
pub struct EventNarrator {
    /// The person who reads it, told as `you`.
    reader: Option<Caller>,
    execution_agent: Option<QualifiedName>,
    /// The agent is a program that only prints text.
    prints_text: bool,
    /// The plan has a strategy of its own to tell about.
    has_strategy: bool,
    landing_options: LandingOptions,
    ref_moves: Vec<RefMove>,
}

impl EventNarrator {
    pub fn for_reader(reader: Caller) -> Self {
        Self {
            reader: Some(reader),
            ..Self::default()
        }
    }

    /// Describes an event in one line, and sent comments in one line each; empty for events that are not worth a line.
    pub fn narrate_line(&mut self, recorded: &RecordedEvent, when: &str) -> String {
        let Some(description) = self.describe_event(&recorded.event) else {
            return String::new();
        };
        let who = match (&recorded.event, &self.execution_agent) {
            // The process that drives the plan only reports this.
            (
                Event::ExecuteCompleted { .. }
                | Event::DecisionsRecorded { .. }
                | Event::Asked { .. }
                | Event::PermissionAsked { .. },
                Some(agent),
            ) => agent.to_string(),
            (Event::Failed { failure }, Some(agent))
                if failure.category == FailureCategory::Actor =>
            {
                agent.to_string()
            }
            (Event::Failed { .. }, _) => "the run".to_owned(),
            (_, _) => caller_name(&recorded.by),
        };
        // A process that works for the reader is named after them.
        let who = match &self.reader {
            Some(reader) if reader.name() == who => "you".to_owned(),
            Some(_) | None => who,
        };
        let mut lines = format!(
            "{}  {} {}\n",
            ui::style_text(ui::DIM, format!("{when:<9}")),
            ui::style_text(ui::BOLD, ui::truncate_line(&who, 40)),
            ui::truncate_line(&description, 300)
        );
        if let Event::Revised { comments, .. } = &recorded.event {
            for comment in comments {
                lines.push_str(&format!("           {}\n", describe_comment(comment)));
            }
        }
        lines
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
                let mut definitions = created.definitions.iter();
                self.prints_text =
                    is_text_agent(definitions.find(|one| one.name == created.actors.execution));
                self.has_strategy = created.strategy_wanted
                    || created.definitions.is_empty()
                    || created.actors.strategy != created.actors.execution;
                describe_created(created)
            }
            Event::GateHeld { counts, .. } if *counts == RuleCounts::default() => return None,
            Event::GateHeld { gate, counts, .. } => {
                format!("passed the {gate} gate: {}", describe_counts(counts))
            }
            Event::Claimed { phase, .. } => self.describe_claim(*phase)?,
            Event::DecisionsRecorded { decisions } => describe_decisions(decisions)?,
            Event::StrategizeCompleted { .. } if self.has_strategy => {
                "submitted the strategy".to_owned()
            }
            // Steps of the engine, which the events around them tell.
            Event::StrategizeCompleted { .. }
            | Event::BasesRecorded { .. }
            | Event::ExecuteEntered { .. }
            | Event::ChangesetSealed { .. }
            | Event::ApplyEntered { .. }
            | Event::ApplyPrepared { .. } => return None,
            Event::ExecuteCompleted { result, .. } => {
                let report = result.report.as_ref();
                let headline = report.map(|report| headline_of(report.as_str(), self.prints_text));
                append_detail("submitted the result", headline)
            }
            Event::ResultPicked { reduced, .. } => {
                let files = ui::pluralize(reduced.len() as u64, "file");
                format!("took parts out of the result, in {files}")
            }
            Event::Approved {
                by_profile: Some(profile),
                ..
            } => format!("approved the result under profile {profile}"),
            Event::Approved { options, .. } => {
                let message = options.message.as_ref();
                append_detail(
                    "approved the result",
                    message.map(plan::ErasableText::as_str),
                )
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
                format!("scheduled a retry for {}", format_timestamp(*retry_at))
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
                comments,
                dropped,
                automatic,
                ..
            } => {
                let commented = match comments.len() as u64 {
                    0 => String::new(),
                    count => format!(" with {}", ui::pluralize(count, "comment")),
                };
                let dropping = match dropped.len() as u64 {
                    0 => String::new(),
                    files => format!(" without {}", ui::pluralize(files, "file")),
                };
                let cause = match automatic {
                    true => ": rules failed",
                    false => "",
                };
                let sent = match to {
                    Phase::Strategize => {
                        format!("sent it back to the strategy{commented}{dropping}{cause}")
                    }
                    Phase::Execute | Phase::Apply => {
                        format!("sent it back{commented}{dropping}{cause}")
                    }
                };
                append_detail(
                    &sent,
                    Some(feedback.as_str()).filter(|text| !text.is_empty()),
                )
            }
            Event::Reverted { reason, .. } => {
                append_detail("sent it back to strategize", Some(reason.as_str()))
            }
            Event::Released { .. } => "released it".to_owned(),
            Event::Reclaimed { owner, .. } => format!("took it over from {owner}"),
            Event::Waived { rule, reason } => {
                let rule = &rule.name;
                append_detail(&format!("waived rule `{rule}`"), Some(reason.as_str()))
            }
            Event::RuledOn { rule, outcome, .. } => {
                let rule = &rule.name;
                match outcome {
                    RuleOutcome::Held => format!("confirmed rule `{rule}`"),
                    RuleOutcome::Failed(reason) | RuleOutcome::Broken(reason) => {
                        append_detail(&format!("rejected rule `{rule}`"), Some(reason))
                    }
                    RuleOutcome::Open(_) => format!("left rule `{rule}` open"),
                }
            }
            Event::Cancelled { reason, .. } => append_detail(
                "cancelled it",
                reason.as_ref().map(plan::ErasableText::as_str),
            ),
        })
    }

    fn describe_claim(&self, phase: Phase) -> Option<String> {
        match (phase, &self.execution_agent) {
            (Phase::Strategize, _) => self
                .has_strategy
                .then(|| "started to think about a strategy".to_owned()),
            (Phase::Execute, Some(agent)) => Some(format!("started agent {agent}")),
            // The log may be read from a later event on.
            (Phase::Execute, None) => Some("started to work".to_owned()),
            (Phase::Apply, _) => Some("started to land it".to_owned()),
        }
    }
}

/// Returns the caller's name; of a process, only who started it.
fn caller_name(by: &Caller) -> String {
    if let Caller::Agent(_) = by {
        return by.to_string();
    }
    holder_name(by.name()).to_owned()
}

/// Returns a holder's name without process id and time, which only make it unique.
pub fn holder_name(owner: &str) -> &str {
    let name = owner.split_once(" (").map_or(owner, |(name, _)| name);
    match name.split_once('-') {
        // Workers are named `worker PID-TIME`.
        Some((worker, _)) if worker.starts_with("worker ") => worker,
        _ => name,
    }
}

/// Formats a time to the second, in UTC.
pub fn format_timestamp(at: Timestamp) -> String {
    let text = at.to_string();
    match text.get(..19) {
        Some(seconds) => format!("{}Z", seconds.replace('T', " ")),
        None => text,
    }
}

/// Describes a comment of a review: where it is and what it says.
pub fn describe_comment(comment: &ReviewComment) -> String {
    let place = describe_place(&comment.place);
    let text = ui::truncate_line(comment.text.as_str(), MAX_TEXT_WIDTH);
    format!("{place} {text}")
}

/// Names the lines of a comment as `review add` takes them.
pub fn describe_place(place: &CommentPlace) -> String {
    let path = ui::escape_controls(&place.file.path.to_string());
    let lines = match (place.first_line, place.last_line) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    };
    match place.side {
        DiffSide::New => format!("{path}:{lines}"),
        DiffSide::Old => format!("{path}:{lines} (before the change)"),
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
    let target = match moved_branch(step) {
        Some(branch) => branch.to_owned(),
        None => "the working tree".to_owned(),
    };
    let (new, resource) = (short_commit(&step.new), display_resource(&step.resource));
    format!("{new} on {target} of {resource}")
}

/// The branch that moves; `None` if only the working tree changes.
fn moved_branch(step: &RefMove) -> Option<&str> {
    step.target.strip_prefix("refs/heads/")
}

/// `shop` for a project with one repository of the same name, else `shop/docs`.
pub fn display_resource(name: &str) -> &str {
    match name.split_once('/') {
        Some((project, resource)) if project == resource => resource,
        Some(_) | None => name,
    }
}

fn short_commit(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}
