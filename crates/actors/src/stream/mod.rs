//! Decodes what an agent writes while it works, one decoder per format: transcript entries, and a summary
//! of the run with its session, usage, answer and failure.
//!
//! The formats belong to the agents and change with them. Unknown events are skipped, and a line in
//! another format is treated as text. Nothing here is trusted: it is shown, and is one input to how
//! a run is judged.

mod aider;
mod claude;
mod codex;
mod copilot;
mod entry_cleaner;
pub(crate) mod entry_collector;
mod gemini;
pub(crate) mod json;
mod kimi;
mod opencode;
pub(crate) mod session_usage;
mod stderr_error;
pub(crate) mod tool_call;
mod vibe;

use plan::Epoch;
use plan::actor::ActorOutputFormat;
use plan::ledger::MeteringLevel;
use plan::transcript::{TranscriptContent, Usage};

pub(crate) use entry_cleaner::EntryCleaner;
pub(crate) use json::dollars_to_micros;
pub(crate) use stderr_error::find_error_in_line;

use crate::EarlierSession;
use crate::excerpt::TextExcerpt;
use entry_collector::EntryCollector;

pub struct AgentStream {
    /// `None` for text output.
    reader: Option<FormatReader>,
    /// Lines that are not in the format.
    text: TextExcerpt,
    collector: EntryCollector,
}

enum FormatReader {
    Claude(claude::ClaudeReader),
    Codex(codex::CodexReader),
    Gemini(gemini::GeminiReader),
    Opencode,
    Aider(aider::AiderReader),
    Copilot,
    Kimi,
    Vibe,
}

/// What usage streams of this format report.
pub fn metering_for_output(output: ActorOutputFormat) -> MeteringLevel {
    match output {
        ActorOutputFormat::Text
        | ActorOutputFormat::CopilotJson
        | ActorOutputFormat::KimiJson
        | ActorOutputFormat::VibeJson => MeteringLevel::Time,
        ActorOutputFormat::CodexJson | ActorOutputFormat::GeminiJson => MeteringLevel::Tokens,
        ActorOutputFormat::AiderText
        | ActorOutputFormat::ClaudeJson
        | ActorOutputFormat::OpencodeJson => MeteringLevel::Cost,
    }
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
                    Some(FormatReader::Claude(claude::ClaudeReader::new(earlier)))
                }
                ActorOutputFormat::CodexJson => {
                    Some(FormatReader::Codex(codex::CodexReader::new(earlier)))
                }
                ActorOutputFormat::GeminiJson => {
                    Some(FormatReader::Gemini(gemini::GeminiReader::default()))
                }
                ActorOutputFormat::OpencodeJson => Some(FormatReader::Opencode),
                ActorOutputFormat::AiderText => {
                    Some(FormatReader::Aider(aider::AiderReader::default()))
                }
                ActorOutputFormat::CopilotJson => Some(FormatReader::Copilot),
                ActorOutputFormat::KimiJson => Some(FormatReader::Kimi),
                ActorOutputFormat::VibeJson => Some(FormatReader::Vibe),
            },
            text: TextExcerpt::default(),
            collector: EntryCollector::default(),
        }
    }

    /// Decodes one line, without its line break. Texts are as the agent wrote them: not shortened, and
    /// not safe to print.
    pub fn read_line(&mut self, line: &str) -> Vec<TranscriptContent> {
        let collector = &mut self.collector;
        let usage_before = collector.summary.usage;
        let is_read = match self.reader.as_mut() {
            Some(reader) => reader.read_line(line, collector),
            None => false,
        };
        if !is_read {
            self.text.push(line);
            self.text.push("\n");
            collector.add_piece(&text_of_line(line));
        }
        if collector.summary.usage != usage_before {
            collector.add_usage();
        }
        collector.take_entries()
    }

    /// Ends the stream.
    pub fn finish(mut self) -> StreamSummary {
        if let Some(FormatReader::Aider(aider)) = self.reader {
            aider.finish(&mut self.collector);
        }
        let mut summary = self.collector.summary;
        summary.failure = summary.failure.or(summary.last_error.take());
        if summary.answer.is_none() && !self.text.is_blank() {
            summary.answer = Some(self.text.to_text());
        }
        summary
    }
}

impl FormatReader {
    /// Reads a line. Returns `false` if it is not in the format.
    fn read_line(&mut self, line: &str, collector: &mut EntryCollector) -> bool {
        match self {
            Self::Aider(aider) => {
                aider.read_line(line, collector);
                return true;
            }
            Self::Kimi => {
                let message = json::parse_object(line);
                if let Some(message) = &message {
                    kimi::read_message(message, collector);
                }
                return message.is_some();
            }
            Self::Claude(_)
            | Self::Codex(_)
            | Self::Gemini(_)
            | Self::Opencode
            | Self::Copilot
            | Self::Vibe => {}
        }
        let Some((kind, event)) = json::parse_event(line) else {
            return false;
        };
        match self {
            Self::Claude(claude) => claude.read_event(&kind, &event, collector),
            Self::Codex(codex) => codex.read_event(&kind, &event, collector),
            Self::Gemini(gemini) => gemini.read_event(&kind, &event, collector),
            Self::Opencode => opencode::read_event(&kind, &event, collector),
            Self::Copilot => copilot::read_event(&kind, &event, collector),
            Self::Vibe => vibe::read_event(&kind, &event, collector),
            Self::Aider(_) | Self::Kimi => {}
        }
        true
    }
}

/// A line of plain output as text of the transcript. A progress bar overwrites itself: only its last state
/// is kept.
pub(crate) fn text_of_line(line: &str) -> String {
    let shown = line.trim_end_matches('\r').rsplit('\r').next();
    format!("{}\n", shown.unwrap_or_default())
}
