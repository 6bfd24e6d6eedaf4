//! Reads both outputs of a program at once, line by line.

use std::io::Read;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use plan::actor::{ActorOutputFormat, CommandLine};
use plan::guard::{GuardBreach, ToolCall};
use plan::transcript::{NoticeLevel, TranscriptContent};

use super::entry_sender::EntrySender;
use super::line_reader::LineReader;
use super::transcript::TranscriptWriter;
use crate::excerpt::TextExcerpt;
use crate::secrets::SecretValues;
use crate::stream::{AgentStream, EntryCleaner, StreamSummary, find_error_in_line, text_of_line};
use crate::{Assignment, EarlierSession, Workplace};

/// Each pipe has its own thread, so a line may be read this much later than one that was written after it.
const MAX_PIPE_DELAY: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pipe {
    Output,
    Errors,
}

/// Reads standard output and standard error, each on its own thread.
pub(super) struct OutputReader<'a> {
    line: &'a CommandLine,
    secrets: &'a SecretValues,
    cleaner: EntryCleaner<'a>,
    pub(super) sender: EntrySender<'a>,
    state: Mutex<ReaderState<'a>>,
}

struct ReaderState<'a> {
    stream: AgentStream,
    errors: TextExcerpt,
    /// The last error on standard error, until the stream goes on.
    last_error: Option<(Instant, String)>,
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
        (assignment, workplace): (&Assignment, &'a Workplace<'_>),
        earlier: Option<EarlierSession>,
    ) -> Self {
        Self {
            line,
            secrets,
            cleaner: EntryCleaner::new(secrets, &assignment.sandboxes),
            sender: EntrySender::new(workplace.on_progress),
            state: Mutex::new(ReaderState {
                stream: AgentStream::new(line.output, earlier),
                errors: TextExcerpt::default(),
                last_error: None,
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
            let entries = self.process_line(pipe, &line, lines.is_buffer_empty());
            self.sender.send(entries);
        }
    }

    fn process_line(&self, pipe: Pipe, line: &str, is_drained: bool) -> Vec<TranscriptContent> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = match pipe {
            Pipe::Output => {
                state.transcript.record_line("stdout", line);
                let entries = state.stream.read_line(line);
                if !entries.is_empty() {
                    state
                        .last_error
                        .take_if(|(at, _)| at.elapsed() > MAX_PIPE_DELAY);
                }
                entries
            }
            Pipe::Errors => {
                state.transcript.record_line("stderr", line);
                state.errors.push(line);
                state.errors.push("\n");
                match self.line.output {
                    ActorOutputFormat::Text => vec![TranscriptContent::TextDelta {
                        text: text_of_line(line),
                    }],
                    output => {
                        let error = find_error_in_line(output, line);
                        if let Some(error) = &error {
                            state.last_error = Some((Instant::now(), error.clone()));
                        }
                        let level = NoticeLevel::Warning;
                        let notice = error.map(|text| TranscriptContent::Notice { level, text });
                        notice.into_iter().collect()
                    }
                }
            }
        };
        if is_drained {
            state.transcript.flush();
        }
        // Guards see inputs before they are shortened.
        for entry in &entries {
            if let TranscriptContent::ToolCall(call) = entry {
                state.calls = state.calls.saturating_add(1);
                let call = ToolCall {
                    tool: call.tool.clone(),
                    inputs: call.inputs.clone(),
                };
                let breach = self.line.guards.find_breach(&call, state.calls);
                state.breach = state.breach.take().or(breach);
            }
        }
        drop(state);
        let entries = entries.into_iter();
        entries
            .map(|entry| self.cleaner.clean_entry(entry))
            .collect()
    }

    /// The first tool call that the guards do not allow.
    pub(super) fn breach(&self) -> Option<GuardBreach> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.breach.clone()
    }

    pub(super) fn end(self) -> (StreamSummary, TextExcerpt, Option<String>) {
        self.sender.send_all();
        let state = self.state.into_inner();
        let state = state.unwrap_or_else(PoisonError::into_inner);
        state.transcript.flush();
        let mut summary = state.stream.finish();
        let hide = |text: String| self.secrets.hide_in_text(&text).into_owned();
        summary.answer = summary.answer.map(hide);
        summary.failure = summary.failure.map(hide);
        let last_error = state.last_error.map(|(_, error)| error);
        (summary, state.errors, last_error)
    }
}
