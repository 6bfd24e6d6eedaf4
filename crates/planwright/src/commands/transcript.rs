//! `planwright log --transcript`: shows agents' transcripts and the output of rule checks.

use std::io::{BufRead, BufReader};
use std::path::Path;

use actors::stream::{AgentStream, TranscriptEntry, parse_transcript_line};
use plan::actor::{ActorKind, ActorOutputFormat};
use plan::judgement::RuleOutcome;
use plan::{Plan, PlanId};
use sandbox::{CheckRecord, RecordedRun};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cli::App;
use crate::commands::CommandAnswer;
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::ui;

/// Lines shown per run. Longer transcripts keep the first and the last half.
const MAX_TRANSCRIPT_LINES: usize = 20_000;

/// One line of an agent's output, as stored in the transcript file.
#[derive(Debug, Serialize, Deserialize)]
struct RunOutputLine {
    ms: u64,
    stream: String,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TranscriptStyle {
    /// Parsed messages and tool calls.
    Readable,
    /// Lines as the agent wrote them.
    Raw,
}

/// Lines shown of a tool's result.
const MAX_RESULT_LINES: usize = 8;

/// Shows the runs and rule checks of a plan on this host.
pub fn show_transcript(
    app: &App,
    plan_id: PlanId,
    style: TranscriptStyle,
) -> Result<CommandAnswer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let row = lifecycle.get_plan(plan_id)?;
    let sandboxes = &lifecycle.local_host()?.sandboxes;
    let runs = sandboxes
        .runs()
        .list_runs(plan_id)
        .map_err(lifecycle::LifecycleError::Sandbox)?;
    let checks = sandboxes
        .runs()
        .list_check_runs(plan_id)
        .map_err(lifecycle::LifecycleError::Sandbox)?;
    let mut text = String::new();
    let mut views: Vec<Value> = Vec::new();
    for run in &runs {
        let lines = read_lines(&run.transcript_path())?;
        text.push_str(&run_heading(run));
        let format = match style {
            TranscriptStyle::Readable => output_format(run, &row.plan),
            TranscriptStyle::Raw => ActorOutputFormat::Text,
        };
        text.push_str(&render_lines(&lines, format));
        text.push_str(&final_answer(&lines, format));
        views.push(json!({ "epoch": run.epoch, "run": run.record, "lines": lines }));
    }
    if runs.is_empty() {
        text.push_str("No agent has worked on this plan on this host.\n");
    }
    let mut check_views: Vec<Value> = Vec::new();
    for check in &checks {
        let lines = read_lines(&check.transcript)?;
        text.push_str(&check_heading(&check.record));
        let rendered = lines
            .iter()
            .map(|line| render_line(line, ActorOutputFormat::Text));
        text.extend(rendered);
        check_views.push(json!({ "check": check.record, "lines": lines }));
    }
    Ok(CommandAnswer::new(
        json!({ "plan_id": row.plan.id(), "runs": views, "checks": check_views }),
        text,
    ))
}

fn output_format(run: &RecordedRun, plan: &Plan) -> ActorOutputFormat {
    let actor = match &run.record {
        Some(record) => Some(&record.actor),
        None => plan.actor_for_phase(plan.phase()),
    };
    let definition = actor.and_then(|actor| plan.actor_definition(actor));
    match definition.map(|definition| &definition.kind) {
        Some(ActorKind::Command(line)) => line.output,
        Some(ActorKind::Human { .. }) | None => ActorOutputFormat::Text,
    }
}

/// Returns an agent's final answer if no message in the transcript contains one.
fn final_answer(lines: &[RunOutputLine], format: ActorOutputFormat) -> String {
    let agent_lines = || lines.iter().filter(|line| line.stream == "stdout");
    let has_message = agent_lines().any(|line| {
        let entries = parse_transcript_line(format, &line.text);
        let is_message = |one: &TranscriptEntry| {
            matches!(
                one,
                TranscriptEntry::Message(_) | TranscriptEntry::MessageDelta(_)
            )
        };
        entries.is_none_or(|entries| entries.iter().any(is_message))
    });
    if has_message || format == ActorOutputFormat::Text {
        return String::new();
    }
    let mut stream = AgentStream::new(format, None);
    for line in agent_lines() {
        stream.read_line(&line.text);
    }
    let answer = stream.finish().answer;
    answer.map_or_else(String::new, |answer| {
        format!("{}\n", ui::escape_controls(&answer))
    })
}

/// Renders lines, joining messages that were streamed in pieces.
fn render_lines(lines: &[RunOutputLine], format: ActorOutputFormat) -> String {
    let mut text = String::new();
    for line in lines {
        let entries = parse_agent_line(line, format);
        match entries.as_deref() {
            Some([]) => {}
            Some([TranscriptEntry::MessageDelta(words)]) => {
                text.push_str(&ui::escape_controls(words))
            }
            Some(_) | None => {
                end_partial_line(&mut text);
                text.push_str(&render_line(line, format));
            }
        }
    }
    end_partial_line(&mut text);
    text
}

fn end_partial_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

/// Parses a line of the agent's standard output; `None` if it is not in this format.
fn parse_agent_line(
    line: &RunOutputLine,
    format: ActorOutputFormat,
) -> Option<Vec<TranscriptEntry>> {
    let is_from_agent = line.stream == "stdout";
    is_from_agent
        .then(|| parse_transcript_line(format, &line.text))
        .flatten()
}

fn render_line(line: &RunOutputLine, format: ActorOutputFormat) -> String {
    let is_from_agent = line.stream == "stdout";
    let Some(entries) = parse_agent_line(line, format) else {
        let style = if is_from_agent {
            anstyle::Style::new()
        } else {
            ui::DIM
        };
        return format!(
            "{}\n",
            ui::style_text(style, ui::escape_controls(&line.text))
        );
    };
    entries.iter().map(render_entry).collect()
}

fn render_entry(entry: &TranscriptEntry) -> String {
    let words = ui::escape_controls(entry.text().trim_end());
    match entry {
        TranscriptEntry::Message(_) | TranscriptEntry::MessageDelta(_) => format!("{words}\n"),
        TranscriptEntry::Thinking(_) => format!("{}\n", ui::style_text(ui::DIM, words)),
        TranscriptEntry::ToolUse(_) => {
            format!("{}\n", ui::style_text(ui::CODE, format!("→ {words}")))
        }
        TranscriptEntry::ToolResult(_) => render_tool_result(&words),
        TranscriptEntry::Error(_) => format!("{}\n", ui::style_text(ui::BAD, words)),
    }
}

fn render_tool_result(words: &str) -> String {
    let mut text: String = words
        .lines()
        .take(MAX_RESULT_LINES)
        .map(|line| {
            format!(
                "{}\n",
                ui::style_text(ui::DIM, format!("  {}", ui::truncate_line(line, 160)))
            )
        })
        .collect();
    let more = words.lines().count().saturating_sub(MAX_RESULT_LINES);
    if more > 0 {
        let left_out = format!("  … {} more", ui::pluralize(more as u64, "line"));
        text.push_str(&format!("{}\n", ui::style_text(ui::DIM, left_out)));
    }
    text
}

fn run_heading(run: &RecordedRun) -> String {
    let Some(record) = &run.record else {
        return format!(
            "{}\n",
            ui::style_text(ui::BOLD, "== run in progress, or killed ==")
        );
    };
    let parts = ui::describe_run(record);
    format!("{}\n", ui::style_text(ui::BOLD, format!("== {parts} ==")))
}

fn check_heading(check: &CheckRecord) -> String {
    let outcome = match &check.outcome {
        RuleOutcome::Held => "held",
        RuleOutcome::Failed(_) => "failed",
        RuleOutcome::Open(_) => "is unanswered",
    };
    let words = format!("== rule {} {outcome} ==", check.rule);
    format!("{}\n", ui::style_text(ui::BOLD, words))
}

/// Reads a run's lines. Skips an incomplete last line, which a killed process may leave.
fn read_lines(path: &Path) -> Result<Vec<RunOutputLine>, CommandError> {
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            let message = format!("{} cannot be read: {error}", path.display());
            return Err(CommandError::new(CommandExit::Error, message));
        }
    };
    let lines = BufReader::new(file).lines().map_while(Result::ok);
    let mut lines: Vec<RunOutputLine> = lines
        .filter_map(|line| serde_json::from_str(&line).ok())
        .collect();
    if lines.len() > MAX_TRANSCRIPT_LINES {
        let left_out = lines.len() - MAX_TRANSCRIPT_LINES;
        let tail = lines.split_off(lines.len() - MAX_TRANSCRIPT_LINES / 2);
        lines.truncate(MAX_TRANSCRIPT_LINES / 2);
        lines.push(RunOutputLine {
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
    fn streamed_messages_are_joined() {
        let lines: Vec<RunOutputLine> = [
            r#"{"type":"init","session_id":"s"}"#,
            r#"{"type":"message","role":"assistant","content":"Now","delta":true}"#,
            r#"{"type":"message","role":"assistant","content":" ","delta":true}"#,
            r#"{"type":"message","role":"assistant","content":"I look.","delta":true}"#,
            r#"{"type":"tool_use","tool_name":"read_file","parameters":{"path":"a.txt"}}"#,
            r#"{"type":"message","role":"assistant","content":"Done.\n","delta":true}"#,
            r#"{"type":"result","status":"success"}"#,
        ]
        .map(|text| RunOutputLine {
            ms: 0,
            stream: "stdout".to_owned(),
            text: text.to_owned(),
        })
        .into();
        let text =
            anstream::adapter::strip_str(&render_lines(&lines, ActorOutputFormat::GeminiJson))
                .to_string();
        assert_eq!(text, "Now I look.\n→ read_file: a.txt\nDone.\n");
    }
}
