//! Every call and every answer, written down while it happens. A line is complete or it is not there: a
//! player that is killed between two lines leaves a call without an answer, which is what happened.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use plan::PlanId;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::operation::{Answer, Call, CallId};

/// Nanoseconds on the clock that all processes of this machine share and nobody sets.
pub type Moment = u64;

/// The moment it is.
pub fn now() -> Moment {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// A call is about to be made.
    Called {
        /// When.
        at: Moment,
        /// Which.
        call: Call,
    },
    /// It was answered.
    Answered {
        /// When.
        at: Moment,
        /// Which.
        id: CallId,
        /// What.
        answer: Answer,
    },
    /// A page of the log of all plans was read.
    Read {
        /// By which reader.
        reader: u32,
        /// The events: plan and version.
        events: Vec<(PlanId, u64)>,
        /// Where it goes on.
        next: String,
    },
}

/// Where one player writes.
pub struct Pen(File);

impl Pen {
    /// A new file.
    pub fn new(path: &Path) -> io::Result<Self> {
        Ok(Self(File::options().create(true).append(true).open(path)?))
    }

    /// Writes a line in one piece, so that being killed cannot tear it.
    pub fn write(&mut self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_string(line).expect("BUG: a line always encodes");
        text.push('\n');
        self.0.write_all(text.as_bytes())
    }
}

/// A call with what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Made {
    /// The call.
    pub call: Call,
    /// When it was made.
    pub called_at: Moment,
    /// When it was answered, and what; nothing if the player was killed.
    pub answered: Option<(Moment, Answer)>,
}

impl Made {
    /// The answer, if there is one.
    pub fn answer(&self) -> Option<&Answer> {
        self.answered.as_ref().map(|(_, answer)| answer)
    }

    /// The plan it was about, or that came of it.
    pub fn about(&self) -> Option<PlanId> {
        let made = || match self.answer() {
            Some(Answer::Done(receipt)) => receipt.plan,
            _ => None,
        };
        self.call.operation.plan().or_else(made)
    }

    /// Whether it happened is not known to whoever called.
    pub fn is_open(&self) -> bool {
        matches!(self.answer(), None | Some(Answer::Unknown(_)))
    }
}

/// Everything that was written down.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// The calls, in the order of their names.
    pub calls: BTreeMap<CallId, Made>,
    /// What each reader of the log saw, in its order.
    pub readers: BTreeMap<u32, Vec<(PlanId, u64)>>,
}

impl History {
    /// Takes one more line.
    pub fn take(&mut self, line: Line) -> Result<(), String> {
        match line {
            Line::Called { at, call } => {
                let made = Made {
                    called_at: at,
                    answered: None,
                    call,
                };
                match self.calls.insert(made.call.id, made) {
                    None => Ok(()),
                    Some(other) => Err(format!("two calls are named {}", other.call.id)),
                }
            }
            Line::Answered { at, id, answer } => match self.calls.get_mut(&id) {
                Some(made) if made.answered.is_none() => {
                    made.answered = Some((at, answer));
                    Ok(())
                }
                Some(_) => Err(format!("call {id} was answered twice")),
                None => Err(format!("call {id} was answered and never made")),
            },
            Line::Read { reader, events, .. } => {
                self.readers.entry(reader).or_default().extend(events);
                Ok(())
            }
        }
    }

    /// Reads every file of a directory. The order of the lines of one file is the order in which they
    /// happened.
    pub fn read(directory: &Path) -> anyhow::Result<Self> {
        let mut files: Vec<_> = fs::read_dir(directory)?
            .map(|entry| Ok(entry?.path()))
            .collect::<io::Result<_>>()?;
        files.sort();
        let mut history = Self::default();
        for file in files {
            for line in lines(&file)? {
                history.take(line).map_err(anyhow::Error::msg)?;
            }
        }
        Ok(history)
    }
}

/// The complete lines of a file. What follows the last line break was cut off by a kill.
pub fn lines(file: &Path) -> anyhow::Result<Vec<Line>> {
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
