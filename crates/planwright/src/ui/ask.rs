//! Prompts on the terminal.

use std::io::{BufRead, IsTerminal, Write};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::cli::CliFormat;
use crate::signals;

/// Returns whether prompts are possible: human format, and both stdin and stderr are a terminal.
pub fn can_ask_person(format: CliFormat) -> bool {
    format == CliFormat::Human && std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// How often an open prompt checks whether its question is still the right one.
const PROMPT_CHECK_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 300_000_000,
};

/// What came of a prompt whose question may become outdated.
pub enum PromptOutcome {
    Answered(String),
    /// The input ended.
    Closed,
    /// What was asked about changed before an answer came.
    Outdated,
}

/// Asks for one line, as long as `is_current` holds. A signal ends the process while it waits.
pub fn ask_person_while(question: &str, is_current: impl Fn() -> bool) -> PromptOutcome {
    signals::end_at_once_during(|| ask_beside_work(question, is_current))
}

/// Like [`ask_person_while`], while other threads work: a signal stops their work, and then `is_current` must not
/// hold any more.
pub fn ask_beside_work(question: &str, is_current: impl Fn() -> bool) -> PromptOutcome {
    {
        let mut stderr = anstream::stderr().lock();
        let _ = write!(stderr, "{question}").and_then(|()| stderr.flush());
    }
    loop {
        if is_input_ready() {
            let mut line = String::new();
            return match std::io::stdin().lock().read_line(&mut line) {
                // Whoever typed it may not have seen what changed since.
                Ok(1..) if !is_current() => PromptOutcome::Outdated,
                Ok(1..) => PromptOutcome::Answered(line.trim().to_owned()),
                Ok(0) | Err(_) => {
                    let _ = writeln!(std::io::stderr());
                    PromptOutcome::Closed
                }
            };
        }
        if !is_current() {
            let _ = writeln!(std::io::stderr());
            return PromptOutcome::Outdated;
        }
    }
}

/// Discards what was typed before a question was shown: it cannot be its answer.
pub fn discard_typed_input() {
    use rustix::termios::{QueueSelector, tcflush};
    let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
}

/// Waits a moment for input. A terminal hands over whole lines.
fn is_input_ready() -> bool {
    let stdin = std::io::stdin();
    let mut waited = [PollFd::new(&stdin, PollFlags::IN)];
    matches!(poll(&mut waited, Some(&PROMPT_CHECK_INTERVAL)), Ok(1..))
}

/// Asks for one line; `None` at the end of input. A signal ends the process while it waits.
pub fn ask_person(question: &str) -> Option<String> {
    let mut stderr = anstream::stderr().lock();
    let _ = write!(stderr, "{question}").and_then(|()| stderr.flush());
    let mut line = String::new();
    match signals::end_at_once_during(|| std::io::stdin().lock().read_line(&mut line)) {
        Ok(0) | Err(_) => {
            let _ = writeln!(stderr);
            None
        }
        Ok(_) => Some(line.trim().to_owned()),
    }
}
