//! Reads what an agent writes while it works: its current step, its usage, its answer, and whether
//! it reports a failure.
//!
//! The formats belong to the agents and change with them. Unknown events are skipped, and a line in
//! another format is treated as text. Nothing here is trusted: it is shown, and is one input to how
//! a run is judged.

mod claude;
mod codex;
mod gemini;
mod json;
mod opencode;
mod transcript_entry;

use plan::Epoch;
use plan::actor::ActorOutputFormat;
use plan::guard::ToolCall;
use plan::ledger::MeteringLevel;

pub(crate) use json::dollars_to_micros;
pub use transcript_entry::{TranscriptEntry, parse_transcript_line};

use crate::excerpt::{TextExcerpt, to_single_line};
use crate::{EarlierSession, Usage};

pub struct AgentStream {
    /// `None` for text output.
    reader: Option<FormatReader>,
    /// Lines that are not in the format.
    text: TextExcerpt,
    summary: StreamSummary,
}

enum FormatReader {
    Claude(claude::ClaudeReader),
    Codex(codex::CodexReader),
    Gemini(gemini::GeminiReader),
    Opencode,
}

/// Do streams of this format report tool calls?
pub(crate) fn reports_tool_calls(output: ActorOutputFormat) -> bool {
    match output {
        ActorOutputFormat::Text => false,
        ActorOutputFormat::CodexJson
        | ActorOutputFormat::ClaudeJson
        | ActorOutputFormat::GeminiJson
        | ActorOutputFormat::OpencodeJson => true,
    }
}

/// What usage streams of this format report.
pub fn metering_for_output(output: ActorOutputFormat) -> MeteringLevel {
    match output {
        ActorOutputFormat::Text => MeteringLevel::Time,
        ActorOutputFormat::CodexJson | ActorOutputFormat::GeminiJson => MeteringLevel::Tokens,
        ActorOutputFormat::ClaudeJson | ActorOutputFormat::OpencodeJson => MeteringLevel::Cost,
    }
}

/// What a line reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamUpdate {
    /// What the agent is doing now, in one line.
    Step(String),
    ToolCall(ToolCall),
    /// Total usage so far.
    UsageChanged(Usage),
}

/// What a stream reported in total.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamSummary {
    /// It took up the session. An agent that ends before that has lost the session it was to
    /// resume.
    pub session_started: bool,
    /// The agent's own id for the session.
    pub session: Option<String>,
    /// As reported by the agent.
    pub usage: Usage,
    /// Lost runs of the same session whose usage is included.
    pub includes_usage_of: Vec<Epoch>,
    /// The last text of the agent.
    pub answer: Option<String>,
    /// The failure that the agent reported.
    pub failure: Option<String>,
    /// The last error, until something else happens. At the end of a stream it counts as a failure.
    last_error: Option<String>,
}

impl AgentStream {
    /// A stream from its beginning; `earlier` is the session that it resumes.
    pub fn new(output: ActorOutputFormat, earlier: Option<EarlierSession>) -> Self {
        Self {
            reader: match output {
                ActorOutputFormat::Text => None,
                ActorOutputFormat::ClaudeJson => {
                    Some(FormatReader::Claude(claude::ClaudeReader::default()))
                }
                ActorOutputFormat::CodexJson => {
                    Some(FormatReader::Codex(codex::CodexReader::new(earlier)))
                }
                ActorOutputFormat::GeminiJson => {
                    Some(FormatReader::Gemini(gemini::GeminiReader::default()))
                }
                ActorOutputFormat::OpencodeJson => Some(FormatReader::Opencode),
            },
            text: TextExcerpt::default(),
            summary: StreamSummary::default(),
        }
    }

    /// Reads one line, without its line break.
    pub fn read_line(&mut self, line: &str) -> Vec<StreamUpdate> {
        let usage_before = self.summary.usage;
        let mut updates = Vec::new();
        let reader = self.reader.as_mut();
        if let Some((reader, (kind, event))) = reader.zip(json::parse_event(line)) {
            let summary = &mut self.summary;
            match reader {
                FormatReader::Claude(claude) => {
                    claude.read_event(&kind, &event, summary, &mut updates)
                }
                FormatReader::Codex(codex) => {
                    codex.read_event(&kind, &event, summary, &mut updates)
                }
                FormatReader::Gemini(gemini) => {
                    gemini.read_event(&kind, &event, summary, &mut updates)
                }
                FormatReader::Opencode => {
                    opencode::read_event(&kind, &event, summary, &mut updates)
                }
            }
        } else {
            self.text.push(line);
            self.text.push("\n");
            // A progress bar overwrites itself: show only its last state.
            let shown = line.trim_end_matches('\r').rsplit('\r').next();
            updates.extend(shown.and_then(to_single_line).map(StreamUpdate::Step));
        }
        if self.summary.usage != usage_before {
            updates.push(StreamUpdate::UsageChanged(self.summary.usage));
        }
        updates
    }

    /// Ends the stream.
    pub fn finish(self) -> StreamSummary {
        let mut summary = self.summary;
        summary.failure = summary.failure.or(summary.last_error.take());
        if summary.answer.is_none() && !self.text.is_blank() {
            summary.answer = Some(self.text.to_text());
        }
        summary
    }
}

fn push_step(text: &str, updates: &mut Vec<StreamUpdate>) {
    updates.extend(to_single_line(text).map(StreamUpdate::Step));
}

/// A step with an operation and its object.
fn push_step_with(doing: &str, what: Option<&str>, updates: &mut Vec<StreamUpdate>) {
    match what.map(str::trim) {
        Some(what) if !what.is_empty() => push_step(&format!("{doing}: {what}"), updates),
        _ => push_step(doing, updates),
    }
}

fn push_tool_call(tool: &str, inputs: &[&str], updates: &mut Vec<StreamUpdate>) {
    updates.push(StreamUpdate::ToolCall(ToolCall {
        tool: tool.to_owned(),
        inputs: inputs.iter().map(|&input| input.to_owned()).collect(),
    }));
}

/// Shortens an answer; `None` if it is blank.
fn bounded_answer(text: &str) -> Option<String> {
    let excerpt = TextExcerpt::from_text(text);
    (!excerpt.is_blank()).then(|| excerpt.to_text())
}
