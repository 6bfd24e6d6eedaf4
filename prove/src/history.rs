//! The calls and answers of all clients, recorded while they happen.
//!
//! Each line is written with one write, so it is complete or absent. A client that is killed between two lines leaves a
//! call without an answer, which is exactly what happened.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use plan::PlanId;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::operation::{CallAnswer, CallId, ClientCall};

/// Nanoseconds on the monotonic clock, which all processes of a machine share.
pub type MonotonicNanos = u64;

/// Reads the monotonic clock.
pub fn monotonic_now() -> MonotonicNanos {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// One line of a history file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HistoryLine {
    /// A call is about to be made.
    Called {
        at: MonotonicNanos,
        call: ClientCall,
    },
    /// A call was answered.
    Answered {
        at: MonotonicNanos,
        call_id: CallId,
        answer: CallAnswer,
    },
    /// A reader read a page of the log of all plans.
    Read {
        reader: u32,
        /// Plan and version of each event.
        events: Vec<(PlanId, u64)>,
        /// The cursor of the next page.
        next: String,
    },
}

/// Appends lines to the history file of one client.
pub struct HistoryWriter(File);

impl HistoryWriter {
    /// Opens or creates the file.
    pub fn new(path: &Path) -> io::Result<Self> {
        Ok(Self(File::options().create(true).append(true).open(path)?))
    }

    /// Appends a line with a single write, so that a kill cannot tear it.
    pub fn append_line(&mut self, line: &HistoryLine) -> io::Result<()> {
        let mut text = serde_json::to_string(line).expect("BUG: a line always encodes");
        text.push('\n');
        self.0.write_all(text.as_bytes())
    }
}

/// A call and its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedCall {
    pub call: ClientCall,
    pub called_at: MonotonicNanos,
    /// Absent if the client was killed before the answer arrived.
    pub answered: Option<(MonotonicNanos, CallAnswer)>,
}

impl RecordedCall {
    /// The answer, if one arrived.
    pub fn answer(&self) -> Option<&CallAnswer> {
        self.answered.as_ref().map(|(_, answer)| answer)
    }

    /// The plan the call refers to, or the plan it created.
    pub fn plan_id(&self) -> Option<PlanId> {
        let created = || match self.answer() {
            Some(CallAnswer::Done(receipt)) => receipt.plan_id,
            _ => None,
        };
        self.call.operation.plan_id().or_else(created)
    }

    /// The client does not know whether the call took effect.
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(self.answer(), None | Some(CallAnswer::Unknown(_)))
    }
}

/// The recorded calls and log pages of all clients.
#[derive(Debug, Clone, Default)]
pub struct CallHistory {
    pub calls: BTreeMap<CallId, RecordedCall>,
    /// The events each log reader saw, in reading order.
    pub readers: BTreeMap<u32, Vec<(PlanId, u64)>>,
}

impl CallHistory {
    /// Adds a line. Fails if the line contradicts an earlier one.
    pub fn add_line(&mut self, line: HistoryLine) -> Result<(), String> {
        match line {
            HistoryLine::Called { at, call } => {
                let recorded = RecordedCall {
                    called_at: at,
                    answered: None,
                    call,
                };
                match self.calls.insert(recorded.call.id, recorded) {
                    None => Ok(()),
                    Some(other) => Err(format!("two calls have the id {}", other.call.id)),
                }
            }
            HistoryLine::Answered {
                at,
                call_id,
                answer,
            } => match self.calls.get_mut(&call_id) {
                Some(recorded) if recorded.answered.is_none() => {
                    recorded.answered = Some((at, answer));
                    Ok(())
                }
                Some(_) => Err(format!("call {call_id} has two answers")),
                None => Err(format!("call {call_id} has an answer but was never made")),
            },
            HistoryLine::Read { reader, events, .. } => {
                self.readers.entry(reader).or_default().extend(events);
                Ok(())
            }
        }
    }

    /// Reads all history files of a directory. The lines of one file are in the order in which they happened.
    pub fn read_directory(directory: &Path) -> anyhow::Result<Self> {
        let mut files: Vec<_> = fs::read_dir(directory)?
            .map(|entry| Ok(entry?.path()))
            .collect::<io::Result<_>>()?;
        files.sort();
        let mut history = Self::default();
        for file in files {
            for line in read_history_file(&file)? {
                history.add_line(line).map_err(anyhow::Error::msg)?;
            }
        }
        Ok(history)
    }
}

/// Reads the complete lines of a file. A kill may have cut off the text after the last line break.
pub fn read_history_file(file: &Path) -> anyhow::Result<Vec<HistoryLine>> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error.into()),
    };
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    complete
        .lines()
        .map(|line| Ok(serde_json::from_str(line)?))
        .collect()
}
