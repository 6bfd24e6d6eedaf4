//! The end of a `run` session: shows the result and, on a terminal, asks what to do with it.

use std::io::Write;

use lifecycle::{Call, PartSelection};
use plan::actor::{ActorDefinition, ActorKind, ActorOutputFormat};
use plan::command::AnswerQuestion;
use plan::invariant::RuleName;
use plan::stage::{ApplyState, WorkState};
use plan::{Event, Plan, PlanId, PlanStage, RecordedEvent};
use serde_json::json;
use store::PlanRow;

use api::NextStep;
use api::PlanStanding;
use api::landing::default_landing_options;
use api::plans::{self, ReviseRequest, WaiveRequest};

use super::LandingConsent;
use crate::cli::App;
use crate::commands::{CommandAnswer, apply, diff, drop, hunk_picker, review};
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::ui::PromptOutcome;
use crate::{signals, ui};

/// How many of the next steps the end of a session shows. `planwright why` lists all.
const MAX_SHOWN_STEPS: usize = 3;
const MAX_REPORT_LINES: usize = 12;

/// How a session goes on after a person was asked.
pub enum SessionDecision {
    /// End the session with this answer.
    Answer(Box<CommandAnswer>),
    /// Drive the plan again: the person did what it was waiting for.
    Continue,
    /// Follow the plan: it changed elsewhere, for example on the page.
    Follow,
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
                ReviewChoice::Follow => return Ok(SessionDecision::Follow),
                ReviewChoice::End(answer) => return Ok(SessionDecision::Answer(answer)),
            }
            continue;
        }
        if is_complete && row.plan.has_targets() {
            match review_blocked_result(app, &row)? {
                ReviewChoice::AskAgain => {}
                ReviewChoice::Continue => return Ok(SessionDecision::Continue),
                ReviewChoice::Follow => return Ok(SessionDecision::Follow),
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
    Follow,
    End(Box<CommandAnswer>),
}

fn review_result(app: &App, row: &PlanRow) -> Result<ReviewChoice, CommandError> {
    let plan = row.plan.id();
    write_stderr(&describe_result(app, row)?);
    let menu = "[a]pply  [p]ick  [d]iff  [r]evise  drop [f]iles  [l]ater? ";
    let Prompted::Answer(chosen) = ask_about(app, row, menu) else {
        return Ok(ReviewChoice::Follow);
    };
    // What is decided is about the result that was shown.
    let call = app.new_call().if_version(row.plan.version());
    match chosen.as_deref() {
        Some("a" | "apply") => {
            let landed = apply::land_plan(app, plan, default_landing_options(&row.plan), &call);
            landed.map(|answer| ReviewChoice::End(Box::new(answer)))
        }
        Some("p" | "pick") => pick_and_land(app, row, &call),
        Some("d" | "diff") => {
            signals::end_at_once_during(|| diff::show_patch(app, plan))?;
            Ok(ReviewChoice::AskAgain)
        }
        Some("r" | "revise") => revise_with_comments(app, plan, &call),
        Some("f" | "x" | "files" | "drop" | "drop files") => {
            let Some(patterns) = ui::ask_person("Which files should be dropped? ") else {
                return Ok(ReviewChoice::AskAgain);
            };
            let selection = PartSelection {
                paths: patterns.split_whitespace().map(str::to_owned).collect(),
                ..PartSelection::default()
            };
            if !selection.paths.is_empty() {
                match drop::drop_parts(app, plan, &selection, &call) {
                    Ok(dropped) => write_stderr(&dropped.text),
                    Err(error) => write_stderr(&format!("{}\n", error.message)),
                }
            }
            Ok(ReviewChoice::AskAgain)
        }
        Some("l" | "later" | "q" | "quit") | None => {
            describe_plan(app, row).map(|answer| ReviewChoice::End(Box::new(answer)))
        }
        Some(_) => {
            write_stderr("Type a, p, d, r, f or l.\n");
            Ok(ReviewChoice::AskAgain)
        }
    }
}

/// Asks what to do with a result that rules keep from landing.
fn review_blocked_result(app: &App, row: &PlanRow) -> Result<ReviewChoice, CommandError> {
    let plan = row.plan.id();
    write_stderr(&describe_result(app, row)?);
    write_stderr(&describe_blocking_rules(row));
    let menu = "[r]evise  [w]aive  [d]iff  [l]ater? ";
    let Prompted::Answer(chosen) = ask_about(app, row, menu) else {
        return Ok(ReviewChoice::Follow);
    };
    let call = app.new_call().if_version(row.plan.version());
    match chosen.as_deref() {
        Some("r" | "revise") => revise_with_comments(app, plan, &call),
        Some("w" | "waive") => waive_rules(app, row),
        Some("d" | "diff") => {
            signals::end_at_once_during(|| diff::show_patch(app, plan))?;
            Ok(ReviewChoice::AskAgain)
        }
        Some("l" | "later" | "q" | "quit") | None => {
            describe_plan(app, row).map(|answer| ReviewChoice::End(Box::new(answer)))
        }
        Some(_) => {
            write_stderr("Type r, w, d or l.\n");
            Ok(ReviewChoice::AskAgain)
        }
    }
}

/// Lets the result pass the rules that block it, each for a reason. An empty reason skips the rule.
fn waive_rules(app: &App, row: &PlanRow) -> Result<ReviewChoice, CommandError> {
    let caller = crate::home::current_caller();
    let why = api::diagnosis::diagnose_plan(app.lifecycle()?, row.plan.id(), &caller)?;
    let rules = why.next_steps.into_iter().filter_map(|step| match step {
        NextStep::Waive { rule } => Some(rule),
        _ => None,
    });
    let mut waived = 0;
    for rule in rules {
        let question = format!("Why may it land without `{rule}`? ");
        let reason = ui::ask_person(&question).filter(|reason| !reason.is_empty());
        if let Some(reason) = reason {
            let request = WaiveRequest { rule, reason };
            plans::waive_rule(app.lifecycle()?, row.plan.id(), &request, &app.new_call())?;
            waived += 1;
        }
    }
    if waived == 0 {
        write_stderr("No rule was waived.\n");
    }
    Ok(ReviewChoice::AskAgain)
}

/// Lets the person pick hunks, and asks what to do with the choice.
fn pick_and_land(app: &App, row: &PlanRow, call: &Call) -> Result<ReviewChoice, CommandError> {
    let plan = row.plan.id();
    let picked = match hunk_picker::pick_hunks(app, plan) {
        Ok(picked) => picked,
        Err(error) => return ask_again_after(&error),
    };
    let question = format!(
        "{} accepted. [a]pply them  [d]rop the others  [r]evise  [b]ack? ",
        picked.describe()
    );
    let Prompted::Answer(chosen) = ask_about(app, row, &question) else {
        return Ok(ReviewChoice::Follow);
    };
    match chosen.as_deref() {
        Some("a" | "apply") => {
            if let Err(error) = picked.require_landable() {
                return ask_again_after(&error);
            }
            let options = default_landing_options(&row.plan);
            let rest = apply::RestHandling::Plan;
            let landed = apply::land_picked(app, plan, &picked, rest, options, call);
            landed.map(|answer| ReviewChoice::End(Box::new(answer)))
        }
        Some("d" | "drop") => {
            let rejected = picked.list_rejected();
            if rejected.is_empty() {
                write_stderr("No hunk is rejected.\n");
                return Ok(ReviewChoice::AskAgain);
            }
            let selection = PartSelection {
                hunks: rejected,
                ..PartSelection::default()
            };
            match drop::drop_parts(app, plan, &selection, call) {
                Ok(dropped) => write_stderr(&dropped.text),
                Err(error) => return ask_again_after(&error),
            }
            Ok(ReviewChoice::AskAgain)
        }
        Some("r" | "revise") => revise_with_comments(app, plan, call),
        Some(_) | None => Ok(ReviewChoice::AskAgain),
    }
}

fn ask_again_after(error: &CommandError) -> Result<ReviewChoice, CommandError> {
    write_stderr(&format!("{}\n", error.message));
    Ok(ReviewChoice::AskAgain)
}

/// Sends the plan back with a message and all draft comments.
fn revise_with_comments(
    app: &App,
    plan: PlanId,
    call: &Call,
) -> Result<ReviewChoice, CommandError> {
    let comments = review::list_drafts(app, plan)?;
    let question = match comments.len() as u64 {
        0 => "What should be improved? ".to_owned(),
        count => format!(
            "What should be improved ({} sent with it)? ",
            ui::pluralize(count, "comment")
        ),
    };
    let Some(text) = ui::ask_person(&question) else {
        return Ok(ReviewChoice::AskAgain);
    };
    if text.is_empty() && comments.is_empty() {
        return Ok(ReviewChoice::AskAgain);
    }
    let request = ReviseRequest {
        text,
        comments,
        ..ReviseRequest::default()
    };
    plans::revise_plan(app.lifecycle()?, plan, &request, call)?;
    Ok(ReviewChoice::Continue)
}

/// An answer at the terminal; `None` at the end of input.
enum Prompted {
    Answer(Option<String>),
    /// The plan changed elsewhere before the person answered.
    Outdated,
}

/// Asks about a plan as it was shown. Says so if it changes meanwhile, for example on the page.
fn ask_about(app: &App, row: &PlanRow, question: &str) -> Prompted {
    let is_current = || {
        let read = app.lifecycle().map(|it| it.get_plan(row.plan.id()));
        // A store that is unavailable is no news.
        !matches!(read, Ok(Ok(now)) if now.plan.version() != row.plan.version())
    };
    match ui::ask_person_while(question, is_current) {
        PromptOutcome::Answered(line) => Prompted::Answer(Some(line)),
        PromptOutcome::Closed => Prompted::Answer(None),
        PromptOutcome::Outdated => {
            write_stderr("The plan changed elsewhere.\n");
            Prompted::Outdated
        }
    }
}

/// Returns what the run came to, the agent's report, the diffstat and warnings.
fn describe_result(app: &App, row: &PlanRow) -> Result<String, CommandError> {
    let (lifecycle, plan) = (app.lifecycle()?, row.plan.id());
    let changes = diff::ChangeSummary::of_changes(&lifecycle.sandboxes().view_changes(plan)?, &[])?;
    let used = lifecycle.budgets().read_ledger(plan)?.plan.settled;
    let mut parts = vec![format!("{} done", ui::style_text(ui::GOOD, "✓"))];
    parts.push(changes.describe_total());
    if used.time >= 1_000_000 {
        parts.push(ui::format_seconds(used.time / 1_000_000));
    }
    if used.cost > 0 {
        parts.push(ui::format_money(used.cost));
    }
    let mut text = format!("{}\n", parts.join(" · "));
    text.push_str(&format_report(row));
    text.push_str(&changes.render_diffstat(diff::MAX_DIFFSTAT_LINES));
    if let Some(needed) = row.plan.manual_landing_reason() {
        let profile = row.plan.profile();
        let note = format!("Profile {profile} does not land {needed}: apply it yourself.");
        text.push_str(&format!("{}\n", ui::style_text(ui::WARN, note)));
    }
    if is_result_unchanged(&lifecycle.history().read_history(plan)?) {
        let note = "The result is the same as before it was sent back.";
        text.push_str(&format!("{}\n", ui::style_text(ui::WARN, note)));
    }
    Ok(text)
}

/// Returns whether the last two results are identical.
pub fn is_result_unchanged(history: &[RecordedEvent]) -> bool {
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

/// Returns the agent's report, shortened: of a program that only prints text, the end of what it printed.
fn format_report(row: &PlanRow) -> String {
    let report = row.plan.result().and_then(|result| result.report.as_ref());
    let Some(report) = report else {
        return String::new();
    };
    let lines: Vec<String> = ui::wrap_text(report.as_str(), ui::terminal_width());
    let surplus = lines.len().saturating_sub(MAX_REPORT_LINES);
    let shown = match prints_text(&row.plan) {
        true => &lines[surplus..],
        false => &lines[..lines.len() - surplus],
    };
    let mut text: String = shown.iter().map(|line| format!("{line}\n")).collect();
    if surplus > 0 {
        let left_out = ui::style_text(ui::DIM, "  …\n");
        match prints_text(&row.plan) {
            true => text.insert_str(0, &left_out),
            false => text.push_str(&left_out),
        }
    }
    text
}

/// The line of a report that says most: the first one, or the last one of a program that only prints text.
pub fn report_headline<'a>(plan: &Plan, report: &'a str) -> &'a str {
    headline_of(report, prints_text(plan))
}

pub fn headline_of(report: &str, is_printed_text: bool) -> &str {
    let lines = report.lines().filter(|line| !line.trim().is_empty());
    let mut lines = lines.map(str::trim);
    let headline = match is_printed_text {
        true => lines.next_back(),
        false => lines.next(),
    };
    headline.unwrap_or_default()
}

/// Returns whether the plan's agent is a program that only prints text.
fn prints_text(plan: &Plan) -> bool {
    is_text_agent(plan.actor_definition(&plan.actors().execution))
}

pub fn is_text_agent(definition: Option<&ActorDefinition>) -> bool {
    match definition.map(|definition| &definition.kind) {
        Some(ActorKind::Command(line)) => line.output == ActorOutputFormat::Text,
        Some(ActorKind::Acp(_) | ActorKind::Human { .. }) | None => false,
    }
}

fn ask_for_answer(app: &App, row: &PlanRow) -> Result<SessionDecision, CommandError> {
    let question = row.plan.stage().question();
    let question = question.map_or_else(String::new, |question| question.text.to_string());
    write_stderr(&format!("{}\n", ui::escape_controls(&question)));
    let Prompted::Answer(answer) = ask_about(app, row, "Answer (empty: later): ") else {
        return Ok(SessionDecision::Follow);
    };
    match answer.filter(|text| !text.is_empty()) {
        Some(text) => {
            let call = app.new_call().if_version(row.plan.version());
            app.lifecycle()?.submit_command(
                row.plan.id(),
                AnswerQuestion::new(text.clone()),
                &call,
            )?;
            Ok(SessionDecision::Continue)
        }
        None => describe_plan(app, row).map(SessionDecision::from),
    }
}

fn review_strategy(app: &App, row: &PlanRow) -> Result<SessionDecision, CommandError> {
    write_stderr(&describe_strategy(app, row)?);
    let Prompted::Answer(chosen) = ask_about(app, row, "[g]o on  [r]evise  [l]ater? ") else {
        return Ok(SessionDecision::Follow);
    };
    match chosen.as_deref() {
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

/// Lists the decisions of a strategy.
pub fn describe_strategy(app: &App, row: &PlanRow) -> Result<String, CommandError> {
    let decisions = app.lifecycle()?.history().read_decisions(row.plan.id())?;
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
        default_landing_options(&row.plan),
        &app.new_call(),
    )
}

/// What to print around the line with the plan's standing, and the exit code.
struct ClosingMessage {
    text_before: String,
    text_after: String,
    /// Shown before the plan's next commands.
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
            describe_review(app, row)?
        }
        PlanStage::Strategize(work) | PlanStage::Execute(work) => describe_work(app, row, work)?,
        PlanStage::Apply(landing) => describe_landing(landing, &row.plan),
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
    let next_commands = app
        .next_commands_after_judging(row)?
        .into_iter()
        .take(MAX_SHOWN_STEPS);
    for hint in closing.hints.into_iter().chain(next_commands) {
        answer = answer.with_hint(hint);
    }
    Ok(answer)
}

/// Keeps the first line and the end. `why` shows all of it.
fn shorten_evidence(found: &str) -> String {
    const MAX_LINES: usize = 10;
    let escaped = ui::escape_controls(found);
    let lines: Vec<&str> = escaped.lines().collect();
    match lines.len() > MAX_LINES + 1 {
        false => lines.join("\n"),
        true => {
            let end = lines[lines.len() - MAX_LINES..].join("\n");
            format!("{}\n…\n{end}", lines[0])
        }
    }
}

/// Lists the rules that block a plan, with their evidence.
pub fn describe_blocking_rules(row: &PlanRow) -> String {
    let format_rule = |rule: &RuleName, found: &str| {
        format!(
            "  `{rule}` failed: {}\n",
            shorten_evidence(found).replace('\n', "\n    ")
        )
    };
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

fn describe_review(app: &App, row: &PlanRow) -> Result<ClosingMessage, CommandError> {
    let mut closing = ClosingMessage::new(CommandExit::NeedsPerson);
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
            closing
        }
        WorkState::Cancelled(_) => ClosingMessage::new(CommandExit::NotLanded),
        WorkState::Queued(_) | WorkState::Processing(_) | WorkState::Complete => {
            ClosingMessage::new(CommandExit::NeedsPerson)
        }
    })
}

fn describe_landing(landing: &ApplyState, plan: &Plan) -> ClosingMessage {
    match landing {
        ApplyState::Applied(_) => {
            let report = plan.result();
            let report = report.and_then(|result| result.report.as_ref());
            let report = report.map(|report| format!("{}\n", ui::escape_controls(report.as_str())));
            ClosingMessage::new(CommandExit::Ok).with_text(report.unwrap_or_default())
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
