//! A person as an actor: asks a question and is done once it is answered.

use plan::time::Span;
use plan::{Phase, PlanId};

use crate::{Actor, Assignment, Report, ReportOutcome, Workplace};

#[derive(Debug, Clone, Default)]
pub struct HumanActor {
    /// How long the person has to answer.
    pub timeout: Option<Span>,
}

impl Actor for HumanActor {
    /// `answers` has only answers since the phase was entered, so the last one is to this question.
    fn work(&self, assignment: &Assignment, _workplace: &Workplace<'_>) -> Report {
        match assignment.answers.last() {
            Some(answer) => Report {
                summary: Some(answer.text.clone()),
                ..Report::with_outcome(ReportOutcome::Done)
            },
            None => Report::with_outcome(ReportOutcome::NeedsAnswer {
                question: write_question(assignment),
                timeout: self.timeout,
            }),
        }
    }
}

fn write_question(assignment: &Assignment) -> String {
    let goal = assignment.goal.trim();
    let shell_command = format_shell_command(assignment.plan);
    let mut text = match (assignment.phase, assignment.read_only) {
        (Phase::Strategize, _) => {
            format!("How should this be done? {goal}\nAnswer with the strategy.")
        }
        (Phase::Execute | Phase::Apply, true) => {
            format!(
                "What is the result? {goal}\nLook around with `{shell_command}` and answer with it."
            )
        }
        (Phase::Execute | Phase::Apply, false) => format!(
            "Please do this: {goal}\nWork in the sandbox (`{shell_command}`) and answer with what you did when \
             it is done."
        ),
    };
    if assignment.revises
        && let Some(feedback) = assignment.feedback.last()
    {
        text += &format!("\nYour result was sent back: {}", feedback.full_text());
    }
    if !assignment.conflicts.is_empty() {
        text += &format!(
            "\nResolve the conflicts in: {}",
            assignment.conflicts.join(", ")
        );
    }
    text
}

fn format_shell_command(plan_id: PlanId) -> String {
    format!("planwright shell {plan_id}")
}
