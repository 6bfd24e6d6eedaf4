//! Prompts on the terminal.

use std::io::{BufRead, IsTerminal, Write};

use crate::cli::CliFormat;
use crate::signals;

/// Returns whether prompts are possible: human format, and both stdin and stderr are a terminal.
pub fn can_ask_person(format: CliFormat) -> bool {
    format == CliFormat::Human && std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
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
