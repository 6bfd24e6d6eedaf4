//! Listening to a program: both of its outputs at once, line by line.

use std::io::Read;
use std::sync::{Mutex, PoisonError};

use plan::actor::{ActorOutputFormat, CommandLine};
use plan::guard::GuardBreach;

use super::line_reader::LineReader;
use super::progress_throttle::ProgressThrottle;
use super::transcript::TranscriptWriter;
use crate::excerpt::{TextExcerpt, to_single_line};
use crate::secrets::SecretValues;
use crate::stream::{AgentStream, StreamSummary, StreamUpdate};
use crate::{EarlierSession, Workplace};

/// Which of its outputs a program writes to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pipe {
    Output,
    Errors,
}

/// Listens to both outputs of a program at once.
pub(super) struct Ear<'a> {
    line: &'a CommandLine,
    secrets: &'a SecretValues,
    pub(super) teller: ProgressThrottle<'a>,
    memory: Mutex<Memory<'a>>,
}

struct Memory<'a> {
    stream: AgentStream,
    errors: TextExcerpt,
    transcript: &'a mut TranscriptWriter,
    /// How often a tool was used.
    calls: u32,
    breach: Option<GuardBreach>,
}

impl<'a> Ear<'a> {
    pub(super) fn new(
        line: &'a CommandLine,
        secrets: &'a SecretValues,
        transcript: &'a mut TranscriptWriter,
        workplace: &'a Workplace<'_>,
        earlier: Option<EarlierSession>,
    ) -> Self {
        Self {
            line,
            secrets,
            teller: ProgressThrottle::new(workplace.on_progress),
            memory: Mutex::new(Memory {
                stream: AgentStream::new(line.output, earlier),
                errors: TextExcerpt::default(),
                transcript,
                calls: 0,
                breach: None,
            }),
        }
    }

    pub(super) fn listen(&self, pipe: Pipe, reader: impl Read) {
        let mut lines = LineReader::new(reader, self.secrets.longest_len());
        // A pipe that cannot be read is at its end: how the program ended is told elsewhere.
        while let Ok(Some(line)) = lines.next_line() {
            let line = self.secrets.hide_in_line(&line);
            for said in self.take(pipe, &line, lines.is_buffer_empty()) {
                self.teller.report_update(match said {
                    // What was written otherwise in the line is readable now.
                    StreamUpdate::Step(step) => {
                        StreamUpdate::Step(self.secrets.hide_in_text(&step).into_owned())
                    }
                    said @ (StreamUpdate::UsageChanged(_) | StreamUpdate::ToolCall(_)) => said,
                });
            }
        }
    }

    fn take(&self, pipe: Pipe, line: &str, is_drained: bool) -> Vec<StreamUpdate> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let said = match pipe {
            Pipe::Output => {
                memory.transcript.record_line("stdout", line);
                memory.stream.read_line(line)
            }
            Pipe::Errors => {
                memory.transcript.record_line("stderr", line);
                memory.errors.push(line);
                memory.errors.push("\n");
                let is_shown = self.line.output == ActorOutputFormat::Text;
                let step = to_single_line(line).filter(|_| is_shown);
                step.map(StreamUpdate::Step).into_iter().collect()
            }
        };
        if is_drained {
            memory.transcript.flush();
        }
        for said in &said {
            if let StreamUpdate::ToolCall(call) = said {
                memory.calls = memory.calls.saturating_add(1);
                let breach = self.line.guards.find_breach(call, memory.calls);
                memory.breach = memory.breach.take().or(breach);
            }
        }
        said
    }

    /// The first call that its guards speak against.
    pub(super) fn breach(&self) -> Option<GuardBreach> {
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.breach.clone()
    }

    pub(super) fn end(self) -> (StreamSummary, TextExcerpt) {
        self.teller.flush_all();
        let memory = self.memory.into_inner();
        let memory = memory.unwrap_or_else(PoisonError::into_inner);
        memory.transcript.flush();
        let mut heard = memory.stream.finish();
        let hide = |text: String| self.secrets.hide_in_text(&text).into_owned();
        heard.answer = heard.answer.map(hide);
        heard.failure = heard.failure.map(hide);
        (heard, memory.errors)
    }
}
