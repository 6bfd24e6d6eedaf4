//! `planwright log --transcript`: what agents said, and what came of asking rules.

use std::io::{BufRead, BufReader};
use std::path::Path;

use actors::stream::{Aloud, Stream, aloud};
use plan::actor::{ActorKind, Output};
use plan::judgement::RuleOutcome;
use plan::{Plan, PlanId};
use sandbox::{CheckRecord, Run};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cli::App;
use crate::commands::Answer;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::ui;

/// How many lines of a run are told at most: the first and the last of them.
const MOST_LINES: usize = 20_000;

/// One line that an agent said.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    ms: u64,
    stream: String,
    text: String,
}

/// How a transcript is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// What was said, for people.
    Readable,
    /// Every line as it was written.
    Raw,
}

/// How much is shown of what a tool answered.
const LINES_OF_AN_ANSWER: usize = 8;

/// Shows the runs of a plan on this host.
pub fn show(app: &App, plan: PlanId, manner: Manner) -> Result<Answer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let row = lifecycle.get_plan(plan)?;
    let workshop = &lifecycle.hands()?.workshop;
    let runs = workshop.runs(plan).map_err(lifecycle::Error::Sandbox)?;
    let checks = workshop.checks(plan).map_err(lifecycle::Error::Sandbox)?;
    let mut text = String::new();
    let mut views: Vec<Value> = Vec::new();
    for run in &runs {
        let lines = lines_of(&run.transcript())?;
        text.push_str(&heading(run));
        let format = match manner {
            Manner::Readable => format_of(run, &row.plan),
            Manner::Raw => Output::Text,
        };
        text.push_str(&told_all(&lines, format));
        text.push_str(&answer_of(&lines, format));
        views.push(json!({ "epoch": run.epoch, "run": run.record, "lines": lines }));
    }
    if runs.is_empty() {
        text.push_str("No agent has worked on it on this host.\n");
    }
    let mut asked: Vec<Value> = Vec::new();
    for check in &checks {
        let lines = lines_of(&check.transcript)?;
        text.push_str(&heading_of_a_check(&check.record));
        let said = lines.iter().map(|line| told(line, Output::Text));
        text.extend(said);
        asked.push(json!({ "check": check.record, "lines": lines }));
    }
    Ok(Answer::new(
        json!({ "plan_id": row.plan.id, "runs": views, "checks": asked }),
        text,
    ))
}

/// The format in which the actor of a run writes.
fn format_of(run: &Run, plan: &Plan) -> Output {
    let actor = match &run.record {
        Some(record) => Some(&record.actor),
        None => plan.actor_in(plan.phase()),
    };
    let definition = actor.and_then(|actor| plan.definition(actor));
    match definition.map(|definition| &definition.kind) {
        Some(ActorKind::Command(line)) => line.output,
        Some(ActorKind::Human { .. }) | None => Output::Text,
    }
}

/// What an agent answered in the end, if it did not say so on the way.
fn answer_of(lines: &[Line], format: Output) -> String {
    let by_the_agent = || lines.iter().filter(|line| line.stream == "stdout");
    let has_spoken = by_the_agent().any(|line| {
        let said = aloud(format, &line.text);
        let is_spoken = |one: &Aloud| matches!(one, Aloud::Words(_) | Aloud::Piece(_));
        said.is_none_or(|said| said.iter().any(is_spoken))
    });
    if has_spoken || format == Output::Text {
        return String::new();
    }
    let mut stream = Stream::new(format, None);
    for line in by_the_agent() {
        stream.line(&line.text);
    }
    let answer = stream.end().answer;
    answer.map_or_else(String::new, |answer| format!("{}\n", ui::clean(&answer)))
}

/// Lines as people read them, with what was said in pieces put together.
fn told_all(lines: &[Line], format: Output) -> String {
    let mut text = String::new();
    for line in lines {
        let said = said_by_the_agent(line, format);
        match said.as_deref() {
            Some([]) => {}
            Some([Aloud::Piece(words)]) => text.push_str(&ui::clean(words)),
            Some(_) | None => {
                end_line(&mut text);
                text.push_str(&told(line, format));
            }
        }
    }
    end_line(&mut text);
    text
}

fn end_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

/// What a line says, if an agent wrote it in this format.
fn said_by_the_agent(line: &Line, format: Output) -> Option<Vec<Aloud>> {
    let by_the_agent = line.stream == "stdout";
    by_the_agent.then(|| aloud(format, &line.text)).flatten()
}

/// A line as people read it: said, done, answered.
fn told(line: &Line, format: Output) -> String {
    let by_the_agent = line.stream == "stdout";
    let Some(said) = said_by_the_agent(line, format) else {
        let style = if by_the_agent {
            anstyle::Style::new()
        } else {
            ui::DIM
        };
        return format!("{}\n", ui::styled(style, ui::clean(&line.text)));
    };
    said.iter().map(spoken).collect()
}

fn spoken(said: &Aloud) -> String {
    let words = ui::clean(said.words().trim_end());
    match said {
        Aloud::Words(_) | Aloud::Piece(_) => format!("{words}\n"),
        Aloud::Thought(_) => format!("{}\n", ui::styled(ui::DIM, words)),
        Aloud::Tool(_) => format!("{}\n", ui::styled(ui::CODE, format!("→ {words}"))),
        Aloud::Answer(_) => answered(&words),
        Aloud::Trouble(_) => format!("{}\n", ui::styled(ui::BAD, words)),
    }
}

/// What a tool answered, as far as people read on.
fn answered(words: &str) -> String {
    let mut text: String = words
        .lines()
        .take(LINES_OF_AN_ANSWER)
        .map(|line| {
            format!(
                "{}\n",
                ui::styled(ui::DIM, format!("  {}", ui::one_line(line, 160)))
            )
        })
        .collect();
    let more = words.lines().count().saturating_sub(LINES_OF_AN_ANSWER);
    if more > 0 {
        let left_out = format!("  … {} more", ui::count(more as u64, "line"));
        text.push_str(&format!("{}\n", ui::styled(ui::DIM, left_out)));
    }
    text
}

fn heading(run: &Run) -> String {
    let Some(record) = &run.record else {
        return format!(
            "{}\n",
            ui::styled(ui::BOLD, "== a run that goes on, or was killed ==")
        );
    };
    let parts = ui::run(record);
    format!("{}\n", ui::styled(ui::BOLD, format!("== {parts} ==")))
}

fn heading_of_a_check(check: &CheckRecord) -> String {
    let outcome = match &check.outcome {
        RuleOutcome::Held => "held",
        RuleOutcome::Failed(_) => "did not hold",
        RuleOutcome::Open(_) => "was not answered",
    };
    let words = format!("== rule {} {outcome} ==", check.rule);
    format!("{}\n", ui::styled(ui::BOLD, words))
}

/// The lines of a run. What an agent that was killed began to say is left out.
fn lines_of(path: &Path) -> Result<Vec<Line>, CommandError> {
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            let message = format!("{} cannot be read: {error}", path.display());
            return Err(CommandError::new(Exit::Error, message));
        }
    };
    let lines = BufReader::new(file).lines().map_while(Result::ok);
    let mut lines: Vec<Line> = lines
        .filter_map(|line| serde_json::from_str(&line).ok())
        .collect();
    if lines.len() > MOST_LINES {
        let left_out = lines.len() - MOST_LINES;
        let tail = lines.split_off(lines.len() - MOST_LINES / 2);
        lines.truncate(MOST_LINES / 2);
        lines.push(Line {
            ms: 0,
            stream: "note".to_owned(),
            text: format!("[{left_out} lines left out]"),
        });
        lines.extend(tail);
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_in_pieces_is_read_as_one() {
        let lines: Vec<Line> = [
            r#"{"type":"init","session_id":"s"}"#,
            r#"{"type":"message","role":"assistant","content":"Now","delta":true}"#,
            r#"{"type":"message","role":"assistant","content":" ","delta":true}"#,
            r#"{"type":"message","role":"assistant","content":"I look.","delta":true}"#,
            r#"{"type":"tool_use","tool_name":"read_file","parameters":{"path":"a.txt"}}"#,
            r#"{"type":"message","role":"assistant","content":"Done.\n","delta":true}"#,
            r#"{"type":"result","status":"success"}"#,
        ]
        .map(|text| Line {
            ms: 0,
            stream: "stdout".to_owned(),
            text: text.to_owned(),
        })
        .into();
        let text = anstream::adapter::strip_str(&told_all(&lines, Output::GeminiJson)).to_string();
        assert_eq!(text, "Now I look.\n→ read_file: a.txt\nDone.\n");
    }
}
