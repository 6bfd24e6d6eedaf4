//! What happened to a plan, as people tell it: who, and what they did.

use plan::decision::DecisionNode;
use plan::event::Created;
use plan::how::Shape;
use plan::judgement::{Counts, RuleOutcome};
use plan::plan::Origin;
use plan::stage::{RefMove, ResultContent};
use plan::{Caller, Event, How, Phase, Recorded, Timestamp};

use crate::ui;

/// How much of a text is told.
const WIDTH: usize = 100;

/// Tells one event after the other; what came before is known to it.
#[derive(Default)]
pub struct Story {
    how: How,
    moves: Vec<RefMove>,
}

impl Story {
    /// An event in a line: when, who, and what they did. Of what nobody asks about, nothing.
    pub fn line(&mut self, recorded: &Recorded) -> String {
        let Some(did) = self.told(&recorded.event) else {
            return String::new();
        };
        format!(
            "{}  {} {}\n",
            ui::styled(ui::DIM, moment(recorded.at)),
            ui::styled(ui::BOLD, ui::one_line(&who(&recorded.by), 40)),
            ui::one_line(&did, 300)
        )
    }

    /// Of an event about a landing, where to, what, and how.
    pub fn of_landing(&mut self, event: &Event) -> Option<String> {
        match event {
            Event::Approved { how, .. } => {
                self.how = how.clone();
                None
            }
            Event::ApplyPrepared { intent, .. } if !intent.moves.is_empty() => {
                self.moves.clone_from(&intent.moves);
                Some(each(&self.moves, about_to_move))
            }
            Event::Landed { .. } if !self.moves.is_empty() => {
                let way = match &self.how.shape {
                    Shape::Commit if self.how.merge => "as a merge commit",
                    Shape::Commit => "as one commit",
                    Shape::Branch(_) => "as a branch",
                    Shape::Uncommitted => "uncommitted",
                };
                Some(format!("{way}: {}", each(&self.moves, moved)))
            }
            _ => None,
        }
    }

    fn told(&mut self, event: &Event) -> Option<String> {
        let landing = self.of_landing(event);
        Some(match event {
            Event::Created(created) => made(created),
            Event::GateHeld { counts, .. } if *counts == Counts::default() => return None,
            Event::GateHeld { gate, counts, .. } => {
                format!("found the {gate} gate open: {}", counted(counts))
            }
            Event::Claimed { phase, .. } => began(*phase).to_owned(),
            Event::BasesRecorded { .. } => "made the sandbox ready".to_owned(),
            Event::DecisionsRecorded { decisions } => decided(decisions)?,
            Event::StrategizeCompleted { .. } => "handed in the strategy".to_owned(),
            Event::ExecuteEntered { .. } => "let it go on to execute".to_owned(),
            Event::ChangesetSealed { entries, .. } => {
                format!("handed in {}", ui::count(*entries, "change"))
            }
            Event::ExecuteCompleted { result, .. } => handed_in(result),
            Event::Approved { by_profile, .. } => match by_profile {
                Some(profile) => format!("approved the result by profile {profile}"),
                None => "approved the result".to_owned(),
            },
            Event::ApplyEntered { .. } => "let it go on to landing".to_owned(),
            Event::ApplyPrepared { .. } => with("is about to land it", landing.as_deref()),
            Event::ApplyWithdrawn { .. } => "did not land it; nothing was changed".to_owned(),
            Event::Landed { .. } => match landing {
                Some(landing) => format!("landed it {landing}"),
                None => "ended it: done".to_owned(),
            },
            Event::Constrained { constraint } => {
                with("could not land it", Some(constraint.message.as_str()))
            }
            Event::Failed { failure } => {
                format!(
                    "failed ({}): {}",
                    failure.category,
                    failure.message.as_str()
                )
            }
            Event::RetryScheduled { retry_at } => {
                format!("will try again at {}", moment(*retry_at))
            }
            Event::Retried { fresh: true, .. } => "asked for another try from scratch".to_owned(),
            Event::Retried { .. } => "asked for another try".to_owned(),
            Event::Asked { question } => with("asks", Some(question.text.as_str())),
            Event::Answered { answer, .. } => with("answered", Some(answer.as_str())),
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
                    files => format!(" without {}", ui::count(files, "file")),
                };
                let by_itself = match automatic {
                    true => ": its rules are not met",
                    false => "",
                };
                let sent = format!("sent it back to {to}{dropping}{by_itself}");
                with(&sent, Some(feedback.as_str()))
            }
            Event::Reverted { reason, .. } => {
                with("sent it back to strategize", Some(reason.as_str()))
            }
            Event::Released { .. } => "gave it back".to_owned(),
            Event::Reclaimed { owner, .. } => format!("took it over from {owner}"),
            Event::Waived { rule, reason } => {
                with(&format!("set rule {rule} aside"), Some(reason.as_str()))
            }
            Event::RuledOn { rule, outcome, .. } => match outcome {
                RuleOutcome::Held => format!("said that rule {rule} holds"),
                RuleOutcome::Failed(reason) => with(
                    &format!("said that rule {rule} does not hold"),
                    Some(reason),
                ),
                RuleOutcome::Open(_) => format!("left rule {rule} open"),
            },
            Event::Cancelled { reason, .. } => {
                with("cancelled it", reason.as_ref().map(plan::Text::as_str))
            }
        })
    }
}

/// Who did it, without the number of their process.
fn who(by: &Caller) -> String {
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
fn moment(at: Timestamp) -> String {
    let written = at.to_string();
    match written.get(..19) {
        Some(seconds) => format!("{}Z", seconds.replace('T', " ")),
        None => written,
    }
}

fn with(did: &str, what: Option<&str>) -> String {
    match what {
        Some(what) => format!("{did}: {}", ui::one_line(what, WIDTH)),
        None => did.to_owned(),
    }
}

fn made(created: &Created) -> String {
    let plan = match created.origin {
        Origin::Use => "made the plan".to_owned(),
        Origin::UndoOf(of) => format!("made the plan to take back {of}"),
        Origin::RestOf(of) => format!("made the plan of what was left of {of}"),
    };
    let goal = created.goal.as_str();
    with(&plan, Some(goal.strip_prefix("Undo: ").unwrap_or(goal)))
}

fn began(phase: Phase) -> &'static str {
    match phase {
        Phase::Strategize => "began to strategize",
        Phase::Execute => "began to work",
        Phase::Apply => "began to land it",
    }
}

/// What an actor decided; what the engine writes down beside it was told already.
fn decided(decisions: &[DecisionNode]) -> Option<String> {
    let choices: Vec<String> = decisions
        .iter()
        .filter(|node| node.kind.is_for_actors())
        .map(|node| ui::one_line(node.choice.as_str(), WIDTH))
        .collect();
    (!choices.is_empty()).then(|| format!("decided: {}", choices.join("; ")))
}

fn handed_in(result: &ResultContent) -> String {
    let report = result.report.as_ref().map(plan::Text::as_str);
    with("handed in the result", report)
}

/// How the rules of an open gate came out.
fn counted(counts: &Counts) -> String {
    let parts = [
        (counts.held, "kept"),
        (counts.waived, "waived"),
        (counts.advised, "only advice and not kept"),
    ];
    let parts = parts.into_iter().filter(|(number, _)| *number > 0);
    let parts: Vec<String> = parts
        .map(|(number, how)| format!("{} {how}", ui::count(number, "rule")))
        .collect();
    parts.join(", ")
}

fn each(moves: &[RefMove], told: fn(&RefMove) -> String) -> String {
    let moves: Vec<String> = moves.iter().map(told).collect();
    moves.join("; ")
}

fn about_to_move(step: &RefMove) -> String {
    let new = short(&step.new);
    match branch(step) {
        Some(branch) if step.old.bytes().all(|digit| digit == b'0') => {
            format!("{}: new branch {branch} at {new}", step.resource)
        }
        Some(branch) => format!("{}: {branch} {} → {new}", step.resource, short(&step.old)),
        None => format!("{}: working tree, {new}", step.resource),
    }
}

fn moved(step: &RefMove) -> String {
    let target = branch(step).unwrap_or("working tree");
    format!("{}: {target}, {}", step.resource, short(&step.new))
}

/// The branch that moves; nothing if it is the working tree alone.
fn branch(step: &RefMove) -> Option<&str> {
    step.target.strip_prefix("refs/heads/")
}

fn short(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}
