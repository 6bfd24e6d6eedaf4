//! Reads both outputs of a program at once, line by line.

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

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pipe {
    Output,
    Errors,
}

/// Reads standard output and standard error, each on its own thread.
pub(super) struct OutputReader<'a> {
    line: &'a CommandLine,
    secrets: &'a SecretValues,
    pub(super) throttle: ProgressThrottle<'a>,
    state: Mutex<ReaderState<'a>>,
}

struct ReaderState<'a> {
    stream: AgentStream,
    errors: TextExcerpt,
    transcript: &'a mut TranscriptWriter,
    /// How many tool calls were reported.
    calls: u32,
    breach: Option<GuardBreach>,
}

impl<'a> OutputReader<'a> {
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
            throttle: ProgressThrottle::new(workplace.on_progress),
            state: Mutex::new(ReaderState {
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
        // A pipe that cannot be read counts as ended. The exit status is reported separately.
        while let Ok(Some(line)) = lines.next_line() {
            let line = self.secrets.hide_in_line(&line);
            for update in self.process_line(pipe, &line, lines.is_buffer_empty()) {
                self.throttle.report_update(match update {
                    // Characters that were escaped in the line are readable now.
                    StreamUpdate::Step(step) => {
                        StreamUpdate::Step(self.secrets.hide_in_text(&step).into_owned())
                    }
                    update @ (StreamUpdate::UsageChanged(_) | StreamUpdate::ToolCall(_)) => update,
                });
            }
        }
    }

    fn process_line(&self, pipe: Pipe, line: &str, is_drained: bool) -> Vec<StreamUpdate> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let updates = match pipe {
            Pipe::Output => {
                state.transcript.record_line("stdout", line);
                state.stream.read_line(line)
            }
            Pipe::Errors => {
                state.transcript.record_line("stderr", line);
                state.errors.push(line);
                state.errors.push("\n");
                let is_shown = self.line.output == ActorOutputFormat::Text;
                let step = to_single_line(line).filter(|_| is_shown);
                step.map(StreamUpdate::Step).into_iter().collect()
            }
        };
        if is_drained {
            state.transcript.flush();
        }
        for update in &updates {
            if let StreamUpdate::ToolCall(call) = update {
                state.calls = state.calls.saturating_add(1);
                let breach = self.line.guards.find_breach(call, state.calls);
                state.breach = state.breach.take().or(breach);
            }
        }
        updates
    }

    /// The first tool call that the guards do not allow.
    pub(super) fn breach(&self) -> Option<GuardBreach> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.breach.clone()
    }

    pub(super) fn end(self) -> (StreamSummary, TextExcerpt) {
        self.throttle.flush_all();
        let state = self.state.into_inner();
        let state = state.unwrap_or_else(PoisonError::into_inner);
        state.transcript.flush();
        let mut summary = state.stream.finish();
        let hide = |text: String| self.secrets.hide_in_text(&text).into_owned();
        summary.answer = summary.answer.map(hide);
        summary.failure = summary.failure.map(hide);
        (summary, state.errors)
    }
}
