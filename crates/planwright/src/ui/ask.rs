//! Asking the person at the terminal.

use std::io::{BufRead, IsTerminal, Write};

use crate::cli::CliFormat;
use crate::signals;

/// Is there somebody who can be asked?
pub fn can_ask_person(format: CliFormat) -> bool {
    format == CliFormat::Human && std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks for a line; nothing if there are no more.
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
