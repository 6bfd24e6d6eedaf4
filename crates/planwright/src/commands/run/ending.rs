//! The end of a session: what came of the plan, and what a person may want to do now.

use std::io::Write;

use plan::stage::{Landing, Work};
use plan::{PlanId, Stage};
use serde_json::json;
use store::PlanRow;

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
pub fn ask(app: &App, plan: PlanId, yes: bool) -> Result<Wish, CommandError> {
    loop {
        let row = app.lifecycle()?.get_plan(plan)?;
        let reviewed = matches!(row.plan.stage, Stage::Execute(Work::Complete));
        let to_review = reviewed && row.plan.has_targets() && !row.is_blocked();
        if to_review && yes {
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
    say(&report(row));
    say(&diff::summary(&lifecycle.look(plan)?, &[])?);
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

/// Where the plan stands, how to go on, and the exit code that says so.
fn told(app: &App, row: &PlanRow) -> Result<Answer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let handle = lifecycle.short_name(row.plan.id)?;
    let (standing, style) = ui::standing(row);
    let mut text = format!(
        "{} {}\n",
        ui::styled(ui::BOLD, &handle),
        ui::styled(style, standing)
    );
    let mut hints = Vec::new();
    let next = app.next_command(row)?;
    let exit = match &row.plan.stage {
        Stage::Strategize(_) | Stage::Execute(_) | Stage::Apply(_) if row.is_blocked() => {
            Exit::Blocked
        }
        Stage::Strategize(Work::Complete) => {
            text.push_str(&strategy_of(app, row)?);
            Exit::NeedsPerson
        }
        Stage::Execute(Work::Complete) if row.plan.has_targets() => {
            // Whoever was asked has just seen it.
            if !ui::can_be_asked(app.format) {
                text.insert_str(0, &diff::summary(&lifecycle.look(row.plan.id)?, &[])?);
                text.insert_str(0, &report(row));
            }
            hints.push(format!("planwright diff {handle}"));
            hints.push(format!("planwright revise {handle} \"TEXT\""));
            Exit::NeedsPerson
        }
        Stage::Strategize(work) | Stage::Execute(work) => match work {
            Work::AwaitingInput(question) => {
                text.push_str(&format!("  {}\n", ui::clean(question.text.as_str())));
                Exit::NeedsPerson
            }
            Work::Errored(failure) => {
                text.push_str(&format!("  {}\n", ui::clean(failure.message.as_str())));
                if let Err(error) = lifecycle.check_places(&row.plan) {
                    hints.extend(CommandError::from(error).hints);
                }
                // Whoever could not even begin said nothing.
                if has_a_transcript(app, row)? {
                    hints.push(format!("planwright log {handle} --transcript"));
                }
                Exit::NotLanded
            }
            Work::Cancelled(_) => Exit::NotLanded,
            Work::Queued(_) | Work::Processing(_) | Work::Complete => Exit::NeedsPerson,
        },
        Stage::Apply(landing) => match landing {
            Landing::Applied(_) => {
                if let Some(report) = row
                    .plan
                    .result
                    .as_ref()
                    .and_then(|result| result.report.as_ref())
                {
                    text.push_str(&format!("{}\n", ui::clean(report.as_str())));
                }
                if row.plan.has_targets() {
                    hints.push(format!("planwright undo {handle}"));
                }
                Exit::Ok
            }
            Landing::Constrained(constraint) => {
                text.push_str(&format!("  {}\n", ui::clean(constraint.message.as_str())));
                Exit::Conflict
            }
            Landing::Errored(failure) => {
                text.push_str(&format!("  {}\n", ui::clean(failure.message.as_str())));
                Exit::NotLanded
            }
            Landing::AwaitingInput(..) | Landing::Queued(..) | Landing::Processing(..) => {
                Exit::NeedsPerson
            }
            Landing::Cancelled(_) => Exit::NotLanded,
        },
    };
    let mut answer = Answer::new(json!(app.view(row.plan.id)?), text);
    answer.exit = exit;
    for hint in hints.into_iter().chain(next) {
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

impl From<Answer> for Wish {
    fn from(answer: Answer) -> Self {
        Self::Answer(Box::new(answer))
    }
}

fn say(text: &str) {
    let _ = write!(anstream::stderr().lock(), "{text}");
}
