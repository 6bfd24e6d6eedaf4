//! Asking the person at the terminal.

use std::io::{BufRead, IsTerminal, Write};

use crate::cli::Format;
use crate::signals;

/// Is there somebody who can be asked?
pub fn can_be_asked(format: Format) -> bool {
    format == Format::Human && std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks for a line; nothing if there are no more.
pub fn ask(question: &str) -> Option<String> {
    let mut stderr = anstream::stderr().lock();
    let _ = write!(stderr, "{question}").and_then(|()| stderr.flush());
    let mut line = String::new();
    match signals::ending_at_once(|| std::io::stdin().lock().read_line(&mut line)) {
        Ok(0) | Err(_) => {
            let _ = writeln!(stderr);
            None
        }
        Ok(_) => Some(line.trim().to_owned()),
    }
}
