//! Formats an assignment as a prompt: the task first, then what to do now, then the context. Empty
//! sections are skipped.

use std::fmt::Write;

use plan::Phase;
use plan::decision::DecisionKind;

use crate::{Assignment, Finding};

/// The whole assignment, for a new session.
pub fn build_prompt(assignment: &Assignment) -> String {
    let mut text = String::new();
    push_section(&mut text, "Task", &assignment.goal);
    if let Some(description) = &assignment.description {
        push_paragraph(&mut text, description);
    }
    push_arguments(&mut text, assignment);
    push_section(&mut text, "What to do now", phase_instructions(assignment));
    push_sandboxes(&mut text, assignment);
    push_run_purpose(&mut text, assignment);
    push_strategy(&mut text, assignment);
    push_rules(&mut text, assignment);
    let earlier = match assignment.feedback.split_last() {
        Some((_, earlier)) if assignment.revises => earlier,
        _ => &assignment.feedback,
    };
    push_notes(&mut text, "Feedback on earlier results", earlier);
    push_notes(
        &mut text,
        "Answers to earlier questions",
        &assignment.answers,
    );
    push_notes(&mut text, "Earlier attempts", &assignment.findings);
    push_closing(&mut text, assignment);
    text
}

/// What is new, for a session in which the agent worked on this before.
pub fn build_resume_prompt(assignment: &Assignment) -> String {
    let mut text = String::new();
    push_section(&mut text, "Task (unchanged)", &assignment.goal);
    push_section(&mut text, "What to do now", phase_instructions(assignment));
    push_paragraph(
        &mut text,
        "Continue from the current files; they may differ from what you remember.",
    );
    push_sandboxes(&mut text, assignment);
    push_run_purpose(&mut text, assignment);
    if !assignment.revises {
        push_strategy(&mut text, assignment);
        let last_note = |found: &[Finding]| found.last().cloned().into_iter().collect::<Vec<_>>();
        push_notes(
            &mut text,
            "Answer to your question",
            &last_note(&assignment.answers),
        );
        push_notes(
            &mut text,
            "How the last attempt ended",
            &last_note(&assignment.findings),
        );
    }
    push_rules(&mut text, assignment);
    push_closing(&mut text, assignment);
    text
}

fn phase_instructions(assignment: &Assignment) -> &'static str {
    match (assignment.phase, assignment.read_only) {
        (Phase::Strategize, _) => {
            "Work out how to do the task. Read what you need, but do not change any file: changes made now \
             are thrown away. Your last message is the strategy that the task will be carried out by: say \
             what to change, where, in which order, and how to tell that it works."
        }
        (Phase::Execute | Phase::Apply, true) => {
            "Answer the task by reading. Do not change any file: nothing you change is kept. Your last \
             message is the result."
        }
        (Phase::Execute | Phase::Apply, false) => {
            "Do the task. Change the files in the current directory, which is a private copy: what you \
             leave in them is the result, and a person reviews it before it is brought in. You need not \
             commit. Do not ask whether to continue. End with a short summary of what you changed."
        }
    }
}

/// Why this run happens, if it is not the first one.
fn push_run_purpose(text: &mut String, assignment: &Assignment) {
    if assignment.revises
        && let Some(feedback) = assignment.feedback.last()
    {
        push_section(text, "Feedback on your result", &feedback.full_text());
        push_paragraph(
            text,
            "The current directory holds that result. Change it accordingly and leave the rest as it is.",
        );
    }
    if !assignment.conflicts.is_empty() {
        push_section(
            text,
            "Conflicts to resolve",
            "The target has changed and was merged into these files. Resolve every conflict in them \
             so that both sides' intent holds, and leave no conflict markers:",
        );
        push_list(text, assignment.conflicts.iter().map(String::as_str));
    }
    if !assignment.dropped.is_empty() {
        push_section(
            text,
            "Leave these alone",
            "A person reverted your changes to these paths. Do not change them again unless you are asked to:",
        );
        push_list(text, assignment.dropped.iter().map(String::as_str));
    }
    if !assignment.taken_out.is_empty() {
        push_section(
            text,
            "Parts that were taken out",
            "A person took parts of your changes to these paths out of the result. Leave the files as they \
             are now. Do not make these changes again unless you are asked to:",
        );
        push_list(text, assignment.taken_out.iter().map(String::as_str));
    }
}

fn push_arguments(text: &mut String, assignment: &Assignment) {
    let arguments = assignment
        .arguments
        .iter()
        .map(|(name, value)| match value.to_json() {
            serde_json::Value::String(value) => format!("{name}: {value}"),
            value => format!("{name}: {value}"),
        });
    push_list(
        text,
        arguments.collect::<Vec<_>>().iter().map(String::as_str),
    );
}

/// A single sandbox is the current directory and need not be listed.
fn push_sandboxes(text: &mut String, assignment: &Assignment) {
    if assignment.sandboxes.len() < 2 {
        return;
    }
    push_paragraph(text, "The task is about several directories:");
    let lines: Vec<String> = assignment
        .sandboxes
        .iter()
        .map(|sandbox| format!("{}: {}", sandbox.resource, sandbox.path.display()))
        .collect();
    push_list(text, lines.iter().map(String::as_str));
}

fn push_strategy(text: &mut String, assignment: &Assignment) {
    let chosen: Vec<&str> = assignment
        .strategy
        .iter()
        .filter(|node| match node.kind {
            // The task, the rules and what people said have their own sections.
            DecisionKind::PromptDefinition
            | DecisionKind::InvariantEnforced
            | DecisionKind::UserIntervention => false,
            DecisionKind::StrategyChoice
            | DecisionKind::ResourceSelection
            | DecisionKind::ImplementationChoice
            | DecisionKind::ToolInvocation
            | DecisionKind::ErrorRecovery
            | DecisionKind::ValidationResponse => true,
        })
        .map(|node| node.choice.as_str().trim())
        .filter(|choice| !choice.is_empty() && *choice != assignment.goal.trim())
        .collect();
    match chosen.as_slice() {
        [] => {}
        [one] => push_section(text, "Strategy", one),
        several => {
            push_heading(text, "Strategy");
            push_list(text, several.iter().copied());
        }
    }
}

fn push_rules(text: &mut String, assignment: &Assignment) {
    if assignment.rules.is_empty() {
        return;
    }
    push_section(text, "Rules", "The result is checked against these:");
    let lines: Vec<String> = assignment
        .rules
        .iter()
        .map(|rule| {
            let advice = if rule.advisory { " (advisory)" } else { "" };
            format!("{}: {}{advice}", rule.name, rule.says)
        })
        .collect();
    push_list(text, lines.iter().map(String::as_str));
}

fn push_notes(text: &mut String, title: &str, notes: &[Finding]) {
    if notes.is_empty() {
        return;
    }
    push_heading(text, title);
    let lines: Vec<String> = notes
        .iter()
        .map(|finding| match finding.about.trim() {
            "" => finding.full_text(),
            about => format!("{about}: {}", finding.full_text()),
        })
        .collect();
    push_list(text, lines.iter().map(String::as_str));
}

fn push_closing(text: &mut String, assignment: &Assignment) {
    if let Some(seconds) = assignment.limits.seconds {
        let limit = match seconds {
            ..120 => format!("{seconds} seconds"),
            _ => format!("{} minutes", seconds / 60),
        };
        push_paragraph(text, &format!("You have {limit}."));
    }
    push_paragraph(
        text,
        "Only if you cannot continue without a person's answer: write {\"outcome\": \"ask\", \"question\": \
         \"…\"} to the file that the environment variable PLANWRIGHT_REPORT names, and end.",
    );
}

fn push_section(text: &mut String, title: &str, body: &str) {
    push_heading(text, title);
    push_paragraph(text, body);
}

fn push_heading(text: &mut String, title: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    let _ = writeln!(text, "# {title}");
}

fn push_paragraph(text: &mut String, body: &str) {
    let _ = writeln!(text, "\n{}", body.trim());
}

/// One item per line; further lines of an item are indented.
fn push_list<'a>(text: &mut String, items: impl Iterator<Item = &'a str>) {
    for (index, item) in items.enumerate() {
        if index == 0 {
            text.push('\n');
        }
        let _ = writeln!(text, "- {}", item.trim().replace('\n', "\n  "));
    }
}
