//! What an agent writes while it works, line by line: what it does now, what it used, what it said last,
//! and whether it says that it failed.
//!
//! The formats are the agents' own and grow as they do: what is not known is passed over, and a line that
//! is not of the format at all is text. Nothing here is believed; it is shown, and it is one part of how a
//! run is judged to have ended.

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

/// Reads one stream.
pub struct AgentStream {
    /// Nothing if it is text.
    reader: Option<FormatReader>,
    /// Lines that are not of the format; all of them if there is none.
    text: TextExcerpt,
    summary: StreamSummary,
}

/// Reads the events of one format.
enum FormatReader {
    Claude(claude::ClaudeReader),
    Codex(codex::CodexReader),
    Gemini(gemini::GeminiReader),
    Opencode,
}

/// Do streams of a format tell which tools are used?
pub(crate) fn reports_tool_calls(output: ActorOutputFormat) -> bool {
    match output {
        ActorOutputFormat::Text => false,
        ActorOutputFormat::CodexJson
        | ActorOutputFormat::ClaudeJson
        | ActorOutputFormat::GeminiJson
        | ActorOutputFormat::OpencodeJson => true,
    }
}

/// What streams of a format tell of the use of means.
pub fn metering_for_output(output: ActorOutputFormat) -> MeteringLevel {
    match output {
        ActorOutputFormat::Text => MeteringLevel::Time,
        ActorOutputFormat::CodexJson | ActorOutputFormat::GeminiJson => MeteringLevel::Tokens,
        ActorOutputFormat::ClaudeJson | ActorOutputFormat::OpencodeJson => MeteringLevel::Cost,
    }
}

/// Something a line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamUpdate {
    /// What is being done now, in one line.
    Step(String),
    /// A tool is used.
    ToolCall(ToolCall),
    /// What was used so far.
    UsageChanged(Usage),
}

/// What a stream said in all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamSummary {
    /// It took the conversation up; whoever ends before that has forgotten the one it was to go on with.
    pub session_started: bool,
    /// The agent's own name for the conversation.
    pub session: Option<String>,
    /// What it says it used.
    pub usage: Usage,
    /// Lost runs of the same conversation that are part of it.
    pub includes_usage_of: Vec<Epoch>,
    /// What it said last: its answer.
    pub answer: Option<String>,
    /// It says that it failed, with this.
    pub failure: Option<String>,
    /// What went wrong last, as long as nothing went on after it. At the end of a stream it is a failure.
    last_error: Option<String>,
}

impl AgentStream {
    /// A stream of this format, from its beginning, perhaps of a conversation that is gone on with.
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

    /// Takes one line, without its end.
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
            // A progress bar writes over itself: what counts is what it says last.
            let shown = line.trim_end_matches('\r').rsplit('\r').next();
            updates.extend(shown.and_then(to_single_line).map(StreamUpdate::Step));
        }
        if self.summary.usage != usage_before {
            updates.push(StreamUpdate::UsageChanged(self.summary.usage));
        }
        updates
    }

    /// It has ended.
    pub fn finish(self) -> StreamSummary {
        let mut summary = self.summary;
        summary.failure = summary.failure.or(summary.last_error.take());
        if summary.answer.is_none() && !self.text.is_blank() {
            summary.answer = Some(self.text.to_text());
        }
        summary
    }
}

/// A step in an agent's words.
fn push_step(text: &str, updates: &mut Vec<StreamUpdate>) {
    updates.extend(to_single_line(text).map(StreamUpdate::Step));
}

/// A step that names what is done and to what.
fn push_step_with(doing: &str, what: Option<&str>, updates: &mut Vec<StreamUpdate>) {
    match what.map(str::trim) {
        Some(what) if !what.is_empty() => push_step(&format!("{doing}: {what}"), updates),
        _ => push_step(doing, updates),
    }
}

/// A tool that is used, and on what.
fn push_tool_call(tool: &str, on: &[&str], updates: &mut Vec<StreamUpdate>) {
    updates.push(StreamUpdate::ToolCall(ToolCall {
        tool: tool.to_owned(),
        inputs: on.iter().map(|&on| on.to_owned()).collect(),
    }));
}

/// An answer as it is kept.
fn bounded_answer(text: &str) -> Option<String> {
    let excerpt = TextExcerpt::from_text(text);
    (!excerpt.is_blank()).then(|| excerpt.to_text())
}
