//! Listening to a program: both of its outputs at once, line by line.

use std::io::Read;
use std::sync::{Mutex, PoisonError};

use plan::actor::{CommandLine, Output};
use plan::guard::Breach;

use super::lines::Lines;
use super::teller::Teller;
use super::transcript::Transcript;
use crate::excerpt::{Excerpt, one_line};
use crate::secrets::Secrets;
use crate::stream::{Heard, Said, Stream};
use crate::{Earlier, Workplace};

/// Which of its outputs a program writes to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pipe {
    Output,
    Errors,
}

/// Listens to both outputs of a program at once.
pub(super) struct Ear<'a> {
    line: &'a CommandLine,
    secrets: &'a Secrets,
    pub(super) teller: Teller<'a>,
    memory: Mutex<Memory<'a>>,
}

struct Memory<'a> {
    stream: Stream,
    errors: Excerpt,
    transcript: &'a mut Transcript,
    /// How often a tool was used.
    calls: u32,
    breach: Option<Breach>,
}

impl<'a> Ear<'a> {
    pub(super) fn new(
        line: &'a CommandLine,
        secrets: &'a Secrets,
        transcript: &'a mut Transcript,
        workplace: &'a Workplace<'_>,
        earlier: Option<Earlier>,
    ) -> Self {
        Self {
            line,
            secrets,
            teller: Teller::new(workplace.progress),
            memory: Mutex::new(Memory {
                stream: Stream::new(line.output, earlier),
                errors: Excerpt::default(),
                transcript,
                calls: 0,
                breach: None,
            }),
        }
    }

    pub(super) fn listen(&self, pipe: Pipe, reader: impl Read) {
        let mut lines = Lines::new(reader, self.secrets.longest());
        // A pipe that cannot be read is at its end: how the program ended is told elsewhere.
        while let Ok(Some(line)) = lines.next() {
            let line = self.secrets.hide_in_line(&line);
            for said in self.take(pipe, &line, lines.is_drained()) {
                self.teller.tell(match said {
                    // What was written otherwise in the line is readable now.
                    Said::Step(step) => Said::Step(self.secrets.hide(&step).into_owned()),
                    said @ (Said::Used(_) | Said::Called(_)) => said,
                });
            }
        }
    }

    fn take(&self, pipe: Pipe, line: &str, is_drained: bool) -> Vec<Said> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let said = match pipe {
            Pipe::Output => {
                memory.transcript.record("stdout", line);
                memory.stream.line(line)
            }
            Pipe::Errors => {
                memory.transcript.record("stderr", line);
                memory.errors.push(line);
                memory.errors.push("\n");
                let is_shown = self.line.output == Output::Text;
                let step = one_line(line).filter(|_| is_shown);
                step.map(Said::Step).into_iter().collect()
            }
        };
        if is_drained {
            memory.transcript.flush();
        }
        for said in &said {
            if let Said::Called(call) = said {
                memory.calls = memory.calls.saturating_add(1);
                let breach = self.line.guards.breach(call, memory.calls);
                memory.breach = memory.breach.take().or(breach);
            }
        }
        said
    }

    /// The first call that its guards speak against.
    pub(super) fn breach(&self) -> Option<Breach> {
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.breach.clone()
    }

    pub(super) fn end(self) -> (Heard, Excerpt) {
        self.teller.end();
        let memory = self.memory.into_inner();
        let memory = memory.unwrap_or_else(PoisonError::into_inner);
        memory.transcript.flush();
        let mut heard = memory.stream.end();
        let hide = |text: String| self.secrets.hide(&text).into_owned();
        heard.answer = heard.answer.map(hide);
        heard.failure = heard.failure.map(hide);
        (heard, memory.errors)
    }
}
