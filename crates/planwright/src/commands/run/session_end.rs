//! The end of a `run` session: shows the result and, on a terminal, asks what to do with it.

use std::io::Write;

use plan::invariant::RuleName;
use plan::stage::{ApplyState, WorkState};
use plan::{Event, Plan, PlanId, PlanStage, RecordedEvent};
use serde_json::json;
use store::PlanRow;

use api::PlanStanding;

use super::LandingConsent;
use crate::cli::App;
use crate::commands::{CommandAnswer, apply, diff, revise};
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::{signals, ui};

/// How a session goes on after a person was asked.
pub enum SessionDecision {
    /// End the session with this answer.
    Answer(Box<CommandAnswer>),
    /// Drive the plan again: the person did what it was waiting for.
    Continue,
}

/// Lands the result if consent was given; otherwise asks on a terminal, or describes the plan.
pub fn ask_person(
    app: &App,
    plan_id: PlanId,
    consent: LandingConsent,
) -> Result<SessionDecision, CommandError> {
    loop {
        let row = app.lifecycle()?.get_plan(plan_id)?;
        let is_complete = matches!(row.plan.stage(), PlanStage::Execute(WorkState::Complete));
        let to_review = is_complete && row.plan.has_targets() && !row.is_blocked();
        if to_review && consent == LandingConsent::Given {
            return land_result(app, plan_id, &row).map(SessionDecision::from);
        }
        if !ui::can_ask_person(app.format) {
            return describe_plan(app, &row).map(SessionDecision::from);
        }
        if to_review {
            match review_result(app, &row)? {
                ReviewChoice::AskAgain => {}
                ReviewChoice::Continue => return Ok(SessionDecision::Continue),
                ReviewChoice::End(answer) => return Ok(SessionDecision::Answer(answer)),
            }
            continue;
        }
        return match row.plan.stage() {
            PlanStage::Strategize(WorkState::AwaitingInput(_))
            | PlanStage::Execute(WorkState::AwaitingInput(_)) => ask_for_answer(app, &row),
            PlanStage::Strategize(WorkState::Complete) if !row.is_blocked() => {
                review_strategy(app, &row)
            }
            PlanStage::Strategize(_) | PlanStage::Execute(_) | PlanStage::Apply(_) => {
                describe_plan(app, &row).map(SessionDecision::from)
            }
        };
    }
}

enum ReviewChoice {
    AskAgain,
    Continue,
    End(Box<CommandAnswer>),
}

fn review_result(app: &App, row: &PlanRow) -> Result<ReviewChoice, CommandError> {
    let (lifecycle, plan) = (app.lifecycle()?, row.plan.id());
    write_stderr(&describe_result(app, row)?);
    let chosen = ui::ask_person("[a]pply  [d]iff  [r]evise  drop [f]iles  [l]ater? ");
    match chosen.as_deref() {
        Some("a" | "apply") => {
            land_result(app, plan, row).map(|answer| ReviewChoice::End(Box::new(answer)))
        }
        Some("d" | "diff") => {
            signals::end_at_once_during(|| diff::show_patch(app, plan))?;
            Ok(ReviewChoice::AskAgain)
        }
        Some("r" | "revise") => {
            let Some(text) =
                ui::ask_person("What should be improved? ").filter(|text| !text.is_empty())
            else {
                return Ok(ReviewChoice::AskAgain);
            };
            lifecycle.revise_plan(plan, &text, Vec::new(), &app.new_call())?;
            Ok(ReviewChoice::Continue)
        }
        Some("f" | "files" | "drop" | "drop files") => {
            let Some(patterns) = ui::ask_person("Which files should be dropped? ") else {
                return Ok(ReviewChoice::AskAgain);
            };
            let mut dropped = Vec::new();
            for pattern in patterns.split_whitespace() {
                match revise::match_changed_paths(app, plan, &pattern.into()) {
                    Ok(paths) => dropped.extend(paths),
                    Err(error) => {
                        write_stderr(&format!("{}\n", error.message));
                        return Ok(ReviewChoice::AskAgain);
                    }
                }
            }
            if dropped.is_empty() {
                return Ok(ReviewChoice::AskAgain);
            }
            lifecycle.revise_plan(
                plan,
                "Leave the dropped files as they were.",
                dropped,
                &app.new_call(),
            )?;
            Ok(ReviewChoice::Continue)
        }
        Some("l" | "later") | None => {
            describe_plan(app, row).map(|answer| ReviewChoice::End(Box::new(answer)))
        }
        Some(_) => {
            write_stderr("Type a, d, r, f or l.\n");
            Ok(ReviewChoice::AskAgain)
        }
    }
}

/// Returns the agent's report, the diffstat and warnings.
fn describe_result(app: &App, row: &PlanRow) -> Result<String, CommandError> {
    let (lifecycle, plan) = (app.lifecycle()?, row.plan.id());
    let mut text = format_report(row);
    text.push_str(&diff::summarize_changes(
        &lifecycle.sandboxes().view_changes(plan)?,
        &[],
    )?);
    if let Some(needed) = row.plan.manual_landing_reason() {
        let profile = row.plan.profile();
        let note = format!("Profile {profile} does not land {needed}: apply it yourself.");
        text.push_str(&format!("{}\n", ui::style_text(ui::WARN, note)));
    }
    if is_result_unchanged(&lifecycle.read_history(plan)?) {
        let note = "The result is the same as before it was sent back.";
        text.push_str(&format!("{}\n", ui::style_text(ui::WARN, note)));
    }
    Ok(text)
}

/// Returns whether the last two results are identical.
fn is_result_unchanged(history: &[RecordedEvent]) -> bool {
    let results = history
        .iter()
        .rev()
        .filter_map(|recorded| match &recorded.event {
            Event::ExecuteCompleted { result, .. } => Some(&result.trees),
            _ => None,
        });
    let mut trees = results.map(|trees| trees.iter().map(|tree| &tree.tree));
    match (trees.next(), trees.next()) {
        (Some(last), Some(previous)) => last.eq(previous),
        (None, _) | (_, None) => false,
    }
}

/// Returns the agent's report, shortened.
fn format_report(row: &PlanRow) -> String {
    const MAX_REPORT_LINES: usize = 12;
    let report = row.plan.result().and_then(|result| result.report.as_ref());
    let Some(report) = report else {
        return String::new();
    };
    let lines = report.as_str().lines().count();
    let mut text: String = report
        .as_str()
        .lines()
        .take(MAX_REPORT_LINES)
        .map(|line| format!("  {}\n", ui::truncate_line(line, 110)))
        .collect();
    if lines > MAX_REPORT_LINES {
        text.push_str("  …\n");
    }
    text
}

fn ask_for_answer(app: &App, row: &PlanRow) -> Result<SessionDecision, CommandError> {
    let question = row.plan.stage().question();
    let question = question.map_or_else(String::new, |question| question.text.to_string());
    write_stderr(&format!("{}\n", ui::escape_controls(&question)));
    match ui::ask_person("Answer (empty: later): ").filter(|text| !text.is_empty()) {
        Some(text) => {
            app.lifecycle()?
                .answer_question(row.plan.id(), &text, &app.new_call())?;
            Ok(SessionDecision::Continue)
        }
        None => describe_plan(app, row).map(SessionDecision::from),
    }
}

fn review_strategy(app: &App, row: &PlanRow) -> Result<SessionDecision, CommandError> {
    write_stderr(&describe_strategy(app, row)?);
    match ui::ask_person("[g]o on  [r]evise  [l]ater? ").as_deref() {
        Some("g" | "go" | "go on") => Ok(SessionDecision::Continue),
        Some("r" | "revise") => {
            let Some(text) =
                ui::ask_person("What should be improved? ").filter(|text| !text.is_empty())
            else {
                return describe_plan(app, row).map(SessionDecision::from);
            };
            app.lifecycle()?
                .revise_plan(row.plan.id(), &text, Vec::new(), &app.new_call())?;
            Ok(SessionDecision::Continue)
        }
        Some(_) | None => describe_plan(app, row).map(SessionDecision::from),
    }
}

fn describe_strategy(app: &App, row: &PlanRow) -> Result<String, CommandError> {
    let decisions = app.lifecycle()?.read_decisions(row.plan.id())?;
    let mut text = String::new();
    for node in decisions.iter().skip(1) {
        text.push_str(&ui::escape_controls(node.choice.as_str()));
        text.push('\n');
    }
    if text.is_empty() {
        text.push_str("The strategy is the goal itself.\n");
    }
    Ok(text)
}

fn land_result(app: &App, plan_id: PlanId, row: &PlanRow) -> Result<CommandAnswer, CommandError> {
    apply::land_plan(
        app,
        plan_id,
        apply::default_landing_options(row),
        &app.new_call(),
    )
}

/// What to print around the line with the plan's standing, and the exit code.
struct ClosingMessage {
    text_before: String,
    text_after: String,
    /// Shown before the plan's usual next command.
    hints: Vec<String>,
    exit: CommandExit,
}

impl ClosingMessage {
    fn new(exit: CommandExit) -> Self {
        Self {
            text_before: String::new(),
            text_after: String::new(),
            hints: Vec::new(),
            exit,
        }
    }

    fn with_text(self, after: String) -> Self {
        Self {
            text_after: after,
            ..self
        }
    }

    fn with_hint(mut self, hint: String) -> Self {
        self.hints.push(hint);
        self
    }
}

/// Answers with where the plan stands, the next commands and a matching exit code.
fn describe_plan(app: &App, row: &PlanRow) -> Result<CommandAnswer, CommandError> {
    let handle = app.lifecycle()?.short_handle(row.plan.id())?;
    let standing = PlanStanding::of_row(row);
    let closing = match row.plan.stage() {
        PlanStage::Strategize(_) | PlanStage::Execute(_) | PlanStage::Apply(_)
            if row.is_blocked() =>
        {
            ClosingMessage::new(CommandExit::Blocked).with_text(describe_blocking_rules(row))
        }
        PlanStage::Strategize(WorkState::Complete) => {
            ClosingMessage::new(CommandExit::NeedsPerson).with_text(describe_strategy(app, row)?)
        }
        PlanStage::Execute(WorkState::Complete) if row.plan.has_targets() => {
            describe_review(app, row, &handle)?
        }
        PlanStage::Strategize(work) | PlanStage::Execute(work) => {
            describe_work(app, row, work, &handle)?
        }
        PlanStage::Apply(landing) => describe_landing(landing, &row.plan, &handle),
    };
    let text = format!(
        "{}{} {}\n{}",
        closing.text_before,
        ui::style_text(ui::BOLD, &handle),
        ui::style_standing(standing),
        closing.text_after
    );
    let mut answer = CommandAnswer::new(
        json!(api::plans::get_plan_view(app.lifecycle()?, row.plan.id())?),
        text,
    );
    answer.exit = closing.exit;
    for hint in closing.hints.into_iter().chain(app.next_command(row)?) {
        answer = answer.with_hint(hint);
    }
    Ok(answer)
}

/// Returns whether any run of the plan left a transcript on this host.
fn has_transcript(app: &App, row: &PlanRow) -> Result<bool, CommandError> {
    let runs = app
        .lifecycle()?
        .local_host()?
        .sandboxes
        .runs()
        .list_runs(row.plan.id());
    let runs = runs.map_err(lifecycle::LifecycleError::Sandbox)?;
    Ok(runs.iter().any(|run| run.transcript_path().exists()))
}

/// Lists the rules that block a plan, with their evidence.
fn describe_blocking_rules(row: &PlanRow) -> String {
    let format_rule =
        |rule: &RuleName, found: &str| format!("  {rule}: {}\n", ui::escape_controls(found));
    match row.current_verdict() {
        Some(verdict) => {
            let failed = verdict.failed.iter();
            failed
                .map(|one| format_rule(&one.rule.name, &one.evidence))
                .collect()
        }
        None => {
            let unmet = row.plan.unmet_rules();
            unmet
                .map(|one| format_rule(&one.rule.name, one.evidence.as_str()))
                .collect()
        }
    }
}

fn describe_review(app: &App, row: &PlanRow, handle: &str) -> Result<ClosingMessage, CommandError> {
    let mut closing = ClosingMessage::new(CommandExit::NeedsPerson)
        .with_hint(format!("planwright diff {handle}"))
        .with_hint(format!("planwright revise {handle} \"TEXT\""));
    // On a terminal, the review prompt has just shown it.
    if !ui::can_ask_person(app.format) {
        closing.text_before = describe_result(app, row)?;
    }
    Ok(closing)
}

fn describe_work(
    app: &App,
    row: &PlanRow,
    work: &WorkState,
    handle: &str,
) -> Result<ClosingMessage, CommandError> {
    Ok(match work {
        WorkState::AwaitingInput(question) => ClosingMessage::new(CommandExit::NeedsPerson)
            .with_text(indent_text(question.text.as_str())),
        WorkState::Errored(failure) => {
            let mut closing = ClosingMessage::new(CommandExit::NotLanded)
                .with_text(indent_text(failure.message.as_str()));
            if let Err(error) = app.lifecycle()?.sandboxes().check_resource_paths(&row.plan) {
                closing.hints.extend(CommandError::from(error).hints);
            }
            // An agent that failed to start leaves no transcript.
            if has_transcript(app, row)? {
                closing = closing.with_hint(format!("planwright log {handle} --transcript"));
            }
            closing
        }
        WorkState::Cancelled(_) => ClosingMessage::new(CommandExit::NotLanded),
        WorkState::Queued(_) | WorkState::Processing(_) | WorkState::Complete => {
            ClosingMessage::new(CommandExit::NeedsPerson)
        }
    })
}

fn describe_landing(landing: &ApplyState, plan: &Plan, handle: &str) -> ClosingMessage {
    match landing {
        ApplyState::Applied(_) => {
            let report = plan.result();
            let report = report.and_then(|result| result.report.as_ref());
            let report = report.map(|report| format!("{}\n", ui::escape_controls(report.as_str())));
            let closing =
                ClosingMessage::new(CommandExit::Ok).with_text(report.unwrap_or_default());
            if plan.has_targets() {
                closing.with_hint(format!("planwright undo {handle}"))
            } else {
                closing
            }
        }
        ApplyState::Constrained(constraint) => ClosingMessage::new(CommandExit::Conflict)
            .with_text(indent_text(constraint.message.as_str())),
        ApplyState::Errored(failure) => ClosingMessage::new(CommandExit::NotLanded)
            .with_text(indent_text(failure.message.as_str())),
        ApplyState::AwaitingInput(..) | ApplyState::Queued(..) | ApplyState::Processing(..) => {
            ClosingMessage::new(CommandExit::NeedsPerson)
        }
        ApplyState::Cancelled(_) => ClosingMessage::new(CommandExit::NotLanded),
    }
}

fn indent_text(text: &str) -> String {
    format!("  {}\n", ui::escape_controls(text))
}

impl From<CommandAnswer> for SessionDecision {
    fn from(answer: CommandAnswer) -> Self {
        Self::Answer(Box::new(answer))
    }
}

fn write_stderr(text: &str) {
    let _ = write!(anstream::stderr().lock(), "{text}");
}
