//! The end of a session: what came of the plan, and what a person may want to do now.

use std::io::Write;

use plan::invariant::RuleName;
use plan::stage::{Landing, Work};
use plan::{Event, Plan, PlanId, Recorded, Stage};
use serde_json::json;
use store::PlanRow;

use super::Consent;
use crate::cli::App;
use crate::commands::{Answer, apply, diff, revise};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::{signals, ui};

/// What a person wants.
pub enum Wish {
    /// To know this, and nothing else for now.
    Answer(Box<Answer>),
    /// The plan to go on: they did what it waited for.
    GoOn,
}

/// Says what came of a plan and, on a terminal, asks what is to be done.
pub fn ask(app: &App, plan: PlanId, consent: Consent) -> Result<Wish, CommandError> {
    loop {
        let row = app.lifecycle()?.get_plan(plan)?;
        let reviewed = matches!(row.plan.stage, Stage::Execute(Work::Complete));
        let to_review = reviewed && row.plan.has_targets() && !row.is_blocked();
        if to_review && consent == Consent::Given {
            return land(app, plan, &row).map(Wish::from);
        }
        if !ui::can_be_asked(app.format) {
            return told(app, &row).map(Wish::from);
        }
        if to_review {
            match review(app, &row)? {
                Chosen::Again => {}
                Chosen::GoOn => return Ok(Wish::GoOn),
                Chosen::End(answer) => return Ok(Wish::Answer(answer)),
            }
            continue;
        }
        return match &row.plan.stage {
            Stage::Strategize(Work::AwaitingInput(_)) | Stage::Execute(Work::AwaitingInput(_)) => {
                answer(app, &row)
            }
            Stage::Strategize(Work::Complete) if !row.is_blocked() => strategy(app, &row),
            Stage::Strategize(_) | Stage::Execute(_) | Stage::Apply(_) => {
                told(app, &row).map(Wish::from)
            }
        };
    }
}

/// What was chosen at a review.
enum Chosen {
    /// To be asked again.
    Again,
    /// The plan goes on.
    GoOn,
    /// Nothing more.
    End(Box<Answer>),
}

fn review(app: &App, row: &PlanRow) -> Result<Chosen, CommandError> {
    let (lifecycle, plan) = (app.lifecycle()?, row.plan.id);
    say(&result_of(app, row)?);
    let chosen = ui::ask("[a]pply  [d]iff  [r]evise  drop [f]iles  [l]ater? ");
    match chosen.as_deref() {
        Some("a" | "apply") => land(app, plan, row).map(|answer| Chosen::End(Box::new(answer))),
        Some("d" | "diff") => {
            signals::ending_at_once(|| diff::show_patch(app, plan))?;
            Ok(Chosen::Again)
        }
        Some("r" | "revise") => {
            let Some(text) = ui::ask("What is to be done better? ").filter(|text| !text.is_empty())
            else {
                return Ok(Chosen::Again);
            };
            lifecycle.revise(plan, &text, Vec::new(), &app.call())?;
            Ok(Chosen::GoOn)
        }
        Some("f" | "files" | "drop" | "drop files") => {
            let Some(patterns) = ui::ask("Which files go back to where they were? ") else {
                return Ok(Chosen::Again);
            };
            let mut dropped = Vec::new();
            for pattern in patterns.split_whitespace() {
                match revise::matching(app, plan, &pattern.into()) {
                    Ok(paths) => dropped.extend(paths),
                    Err(error) => {
                        say(&format!("{}\n", error.message));
                        return Ok(Chosen::Again);
                    }
                }
            }
            if dropped.is_empty() {
                return Ok(Chosen::Again);
            }
            lifecycle.revise(
                plan,
                "Leave the dropped files as they were.",
                dropped,
                &app.call(),
            )?;
            Ok(Chosen::GoOn)
        }
        Some("l" | "later") | None => told(app, row).map(|answer| Chosen::End(Box::new(answer))),
        Some(_) => {
            say("Type a, d, r, f or l.\n");
            Ok(Chosen::Again)
        }
    }
}

/// What is to be reviewed: what the agent said of it, and what changed.
fn result_of(app: &App, row: &PlanRow) -> Result<String, CommandError> {
    let (lifecycle, plan) = (app.lifecycle()?, row.plan.id);
    let mut text = report(row);
    text.push_str(&diff::summary(&lifecycle.look(plan)?, &[])?);
    if let Some(needed) = row.plan.keeps_profile_from_landing() {
        let profile = row.plan.profile;
        let note = format!("Profile {profile} does not land {needed}: apply it yourself.");
        text.push_str(&format!("{}\n", ui::styled(ui::WARN, note)));
    }
    if is_as_before(&lifecycle.history(plan)?) {
        let note = "It is what it was before it was sent back.";
        text.push_str(&format!("{}\n", ui::styled(ui::WARN, note)));
    }
    Ok(text)
}

/// Did whoever worked on it last leave it as the one before had?
fn is_as_before(history: &[Recorded]) -> bool {
    let results = history
        .iter()
        .rev()
        .filter_map(|recorded| match &recorded.event {
            Event::ExecuteCompleted { result, .. } => Some(&result.trees),
            _ => None,
        });
    let mut trees = results.map(|trees| trees.iter().map(|tree| &tree.tree));
    match (trees.next(), trees.next()) {
        (Some(last), Some(before)) => last.eq(before),
        (None, _) | (_, None) => false,
    }
}

/// What the agent said about its work, as far as people read on.
fn report(row: &PlanRow) -> String {
    const LINES: usize = 12;
    let report = row
        .plan
        .result
        .as_ref()
        .and_then(|result| result.report.as_ref());
    let Some(report) = report else {
        return String::new();
    };
    let lines = report.as_str().lines().count();
    let mut text: String = report
        .as_str()
        .lines()
        .take(LINES)
        .map(|line| format!("  {}\n", ui::one_line(line, 110)))
        .collect();
    if lines > LINES {
        text.push_str("  …\n");
    }
    text
}

fn answer(app: &App, row: &PlanRow) -> Result<Wish, CommandError> {
    let question = row.plan.stage.question();
    let question = question.map_or_else(String::new, |question| question.text.to_string());
    say(&format!("{}\n", ui::clean(&question)));
    match ui::ask("Answer (nothing: later): ").filter(|text| !text.is_empty()) {
        Some(text) => {
            app.lifecycle()?.answer(row.plan.id, &text, &app.call())?;
            Ok(Wish::GoOn)
        }
        None => told(app, row).map(Wish::from),
    }
}

fn strategy(app: &App, row: &PlanRow) -> Result<Wish, CommandError> {
    say(&strategy_of(app, row)?);
    match ui::ask("[g]o on  [r]evise  [l]ater? ").as_deref() {
        Some("g" | "go" | "go on") => Ok(Wish::GoOn),
        Some("r" | "revise") => {
            let Some(text) = ui::ask("What is to be done better? ").filter(|text| !text.is_empty())
            else {
                return told(app, row).map(Wish::from);
            };
            app.lifecycle()?
                .revise(row.plan.id, &text, Vec::new(), &app.call())?;
            Ok(Wish::GoOn)
        }
        Some(_) | None => told(app, row).map(Wish::from),
    }
}

/// What was decided, for people to read.
fn strategy_of(app: &App, row: &PlanRow) -> Result<String, CommandError> {
    let decisions = app.lifecycle()?.decisions(row.plan.id)?;
    let mut text = String::new();
    for node in decisions.iter().skip(1) {
        text.push_str(&ui::clean(node.choice.as_str()));
        text.push('\n');
    }
    if text.is_empty() {
        text.push_str("The goal is the strategy.\n");
    }
    Ok(text)
}

fn land(app: &App, plan: PlanId, row: &PlanRow) -> Result<Answer, CommandError> {
    apply::land(app, plan, apply::usual(row), &app.call())
}

/// What is told of a plan beside where it stands.
struct Told {
    /// What comes before that.
    before: String,
    /// What comes after it.
    after: String,
    /// What can be done beside the usual next step.
    hints: Vec<String>,
    exit: Exit,
}

impl Told {
    fn new(exit: Exit) -> Self {
        Self {
            before: String::new(),
            after: String::new(),
            hints: Vec::new(),
            exit,
        }
    }

    fn saying(self, after: String) -> Self {
        Self { after, ..self }
    }

    fn hint(mut self, hint: String) -> Self {
        self.hints.push(hint);
        self
    }
}

/// Where the plan stands, how to go on, and the exit code that says so.
fn told(app: &App, row: &PlanRow) -> Result<Answer, CommandError> {
    let handle = app.lifecycle()?.short_name(row.plan.id)?;
    let (standing, style) = ui::standing(row);
    let told = match &row.plan.stage {
        Stage::Strategize(_) | Stage::Execute(_) | Stage::Apply(_) if row.is_blocked() => {
            Told::new(Exit::Blocked).saying(blocked_by(row))
        }
        Stage::Strategize(Work::Complete) => {
            Told::new(Exit::NeedsPerson).saying(strategy_of(app, row)?)
        }
        Stage::Execute(Work::Complete) if row.plan.has_targets() => to_review(app, row, &handle)?,
        Stage::Strategize(work) | Stage::Execute(work) => of_work(app, row, work, &handle)?,
        Stage::Apply(landing) => of_landing(landing, &row.plan, &handle),
    };
    let text = format!(
        "{}{} {}\n{}",
        told.before,
        ui::styled(ui::BOLD, &handle),
        ui::styled(style, standing),
        told.after
    );
    let mut answer = Answer::new(json!(app.view(row.plan.id)?), text);
    answer.exit = told.exit;
    for hint in told.hints.into_iter().chain(app.next_command(row)?) {
        answer = answer.hint(hint);
    }
    Ok(answer)
}

/// Did an actor get as far as to say something?
fn has_a_transcript(app: &App, row: &PlanRow) -> Result<bool, CommandError> {
    let runs = app.lifecycle()?.hands()?.workshop.runs(row.plan.id);
    let runs = runs.map_err(lifecycle::Error::Sandbox)?;
    Ok(runs.iter().any(|run| run.transcript().exists()))
}

/// The rules that hold a plan, and what was found.
fn blocked_by(row: &PlanRow) -> String {
    let said = |rule: &RuleName, found: &str| format!("  {rule}: {}\n", ui::clean(found));
    match row.verdict_now() {
        Some(verdict) => {
            let failed = verdict.failed.iter();
            failed
                .map(|one| said(&one.rule.name, &one.evidence))
                .collect()
        }
        None => {
            let unmet = row.plan.unmet();
            unmet
                .map(|one| said(&one.rule.name, one.evidence.as_str()))
                .collect()
        }
    }
}

fn to_review(app: &App, row: &PlanRow, handle: &str) -> Result<Told, CommandError> {
    let mut told = Told::new(Exit::NeedsPerson)
        .hint(format!("planwright diff {handle}"))
        .hint(format!("planwright revise {handle} \"TEXT\""));
    // Whoever was asked has just seen it.
    if !ui::can_be_asked(app.format) {
        told.before = result_of(app, row)?;
    }
    Ok(told)
}

fn of_work(app: &App, row: &PlanRow, work: &Work, handle: &str) -> Result<Told, CommandError> {
    Ok(match work {
        Work::AwaitingInput(question) => {
            Told::new(Exit::NeedsPerson).saying(indented(question.text.as_str()))
        }
        Work::Errored(failure) => {
            let mut told = Told::new(Exit::NotLanded).saying(indented(failure.message.as_str()));
            if let Err(error) = app.lifecycle()?.check_places(&row.plan) {
                told.hints.extend(CommandError::from(error).hints);
            }
            // Whoever could not even begin said nothing.
            if has_a_transcript(app, row)? {
                told = told.hint(format!("planwright log {handle} --transcript"));
            }
            told
        }
        Work::Cancelled(_) => Told::new(Exit::NotLanded),
        Work::Queued(_) | Work::Processing(_) | Work::Complete => Told::new(Exit::NeedsPerson),
    })
}

fn of_landing(landing: &Landing, plan: &Plan, handle: &str) -> Told {
    match landing {
        Landing::Applied(_) => {
            let report = plan.result.as_ref();
            let report = report.and_then(|result| result.report.as_ref());
            let report = report.map(|report| format!("{}\n", ui::clean(report.as_str())));
            let told = Told::new(Exit::Ok).saying(report.unwrap_or_default());
            if plan.has_targets() {
                told.hint(format!("planwright undo {handle}"))
            } else {
                told
            }
        }
        Landing::Constrained(constraint) => {
            Told::new(Exit::Conflict).saying(indented(constraint.message.as_str()))
        }
        Landing::Errored(failure) => {
            Told::new(Exit::NotLanded).saying(indented(failure.message.as_str()))
        }
        Landing::AwaitingInput(..) | Landing::Queued(..) | Landing::Processing(..) => {
            Told::new(Exit::NeedsPerson)
        }
        Landing::Cancelled(_) => Told::new(Exit::NotLanded),
    }
}

fn indented(text: &str) -> String {
    format!("  {}\n", ui::clean(text))
}

impl From<Answer> for Wish {
    fn from(answer: Answer) -> Self {
        Self::Answer(Box::new(answer))
    }
}

fn say(text: &str) {
    let _ = write!(anstream::stderr().lock(), "{text}");
}
