//! What an agent writes while it works, line by line: what it does now, what it used, what it said last,
//! and whether it says that it failed.
//!
//! The formats are the agents' own and grow as they do: what is not known is passed over, and a line that
//! is not of the format at all is text. Nothing here is believed; it is shown, and it is one part of how a
//! run is judged to have ended.

mod aloud;
mod claude;
mod codex;
mod gemini;
mod json;
mod opencode;

use plan::Epoch;
use plan::actor::Output;
use plan::guard::ToolCall;
use plan::ledger::Metering;

pub use aloud::{Aloud, aloud};
pub(crate) use json::micros;

use crate::excerpt::{Excerpt, one_line};
use crate::{Earlier, Usage};

/// Reads one stream.
pub struct Stream {
    /// Nothing if it is text.
    reader: Option<Reader>,
    /// Lines that are not of the format; all of them if there is none.
    text: Excerpt,
    heard: Heard,
}

/// Reads the events of one format.
enum Reader {
    Claude(claude::Claude),
    Codex(codex::Codex),
    Gemini(gemini::Gemini),
    Opencode,
}

/// Do streams of a format tell which tools are used?
pub(crate) fn tells_of_tools(output: Output) -> bool {
    match output {
        Output::Text => false,
        Output::CodexJson | Output::ClaudeJson | Output::GeminiJson | Output::OpencodeJson => true,
    }
}

/// What streams of a format tell of the use of means.
pub fn metering(output: Output) -> Metering {
    match output {
        Output::Text => Metering::Time,
        Output::CodexJson | Output::GeminiJson => Metering::Tokens,
        Output::ClaudeJson | Output::OpencodeJson => Metering::Cost,
    }
}

/// Something a line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// What is being done now, in one line.
    Step(String),
    /// A tool is used.
    Called(ToolCall),
    /// What was used so far.
    Used(Usage),
}

/// What a stream said in all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Heard {
    /// It took the conversation up; whoever ends before that has forgotten the one it was to go on with.
    pub began: bool,
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
    trouble: Option<String>,
}

impl Stream {
    /// A stream of this format, from its beginning, perhaps of a conversation that is gone on with.
    pub fn new(output: Output, earlier: Option<Earlier>) -> Self {
        Self {
            reader: match output {
                Output::Text => None,
                Output::ClaudeJson => Some(Reader::Claude(claude::Claude::default())),
                Output::CodexJson => Some(Reader::Codex(codex::Codex::new(earlier))),
                Output::GeminiJson => Some(Reader::Gemini(gemini::Gemini::default())),
                Output::OpencodeJson => Some(Reader::Opencode),
            },
            text: Excerpt::default(),
            heard: Heard::default(),
        }
    }

    /// Takes one line, without its end.
    pub fn line(&mut self, line: &str) -> Vec<Said> {
        let before = self.heard.usage;
        let mut said = Vec::new();
        let reader = self.reader.as_mut();
        if let Some((reader, (kind, event))) = reader.zip(json::event(line)) {
            let heard = &mut self.heard;
            match reader {
                Reader::Claude(claude) => claude.event(&kind, &event, heard, &mut said),
                Reader::Codex(codex) => codex.event(&kind, &event, heard, &mut said),
                Reader::Gemini(gemini) => gemini.event(&kind, &event, heard, &mut said),
                Reader::Opencode => opencode::event(&kind, &event, heard, &mut said),
            }
        } else {
            self.text.push(line);
            self.text.push("\n");
            // A progress bar writes over itself: what counts is what it says last.
            let shown = line.trim_end_matches('\r').rsplit('\r').next();
            said.extend(shown.and_then(one_line).map(Said::Step));
        }
        if self.heard.usage != before {
            said.push(Said::Used(self.heard.usage));
        }
        said
    }

    /// It has ended.
    pub fn end(self) -> Heard {
        let mut heard = self.heard;
        heard.failure = heard.failure.or(heard.trouble.take());
        if heard.answer.is_none() && !self.text.is_blank() {
            heard.answer = Some(self.text.text());
        }
        heard
    }
}

/// A step in an agent's words.
fn step(text: &str, said: &mut Vec<Said>) {
    said.extend(one_line(text).map(Said::Step));
}

/// A step that names what is done and to what.
fn step_with(doing: &str, what: Option<&str>, said: &mut Vec<Said>) {
    match what.map(str::trim) {
        Some(what) if !what.is_empty() => step(&format!("{doing}: {what}"), said),
        _ => step(doing, said),
    }
}

/// A tool that is used, and on what.
fn called(tool: &str, on: &[&str], said: &mut Vec<Said>) {
    said.push(Said::Called(ToolCall {
        tool: tool.to_owned(),
        on: on.iter().map(|&on| on.to_owned()).collect(),
    }));
}

/// An answer as it is kept.
fn answer(text: &str) -> Option<String> {
    let excerpt = Excerpt::of(text);
    (!excerpt.is_blank()).then(|| excerpt.text())
}
