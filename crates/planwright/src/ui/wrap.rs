//! Wraps lines at words, so that a terminal does not break them inside a word.

use std::io::IsTerminal;

use unicode_width::UnicodeWidthStr;

use super::terminal_width;

/// A narrower column is not wrapped: it would become a column of single words.
const MIN_COLUMN_WIDTH: usize = 20;

/// The width in columns if standard output is a terminal.
pub fn stdout_width() -> Option<usize> {
    std::io::stdout().is_terminal().then(terminal_width)
}

/// The width in columns if standard error is a terminal.
pub fn stderr_width() -> Option<usize> {
    std::io::stderr().is_terminal().then(terminal_width)
}

/// Wraps a text that starts at a column. Further lines start at `indent`. Lines of the text keep their own indent.
pub fn wrap_hanging(text: &str, start: usize, indent: usize, width: usize) -> String {
    if width < indent + MIN_COLUMN_WIDTH {
        return text.to_owned();
    }
    let mut wrapped = String::new();
    let mut column = start;
    for (index, line) in text.split('\n').enumerate() {
        let own_indent = line.len() - line.trim_start().len();
        if index > 0 {
            wrapped.push('\n');
            column = 0;
        }
        wrapped.push_str(&line[..own_indent]);
        column += own_indent;
        let next_indent = match index {
            0 => indent,
            _ => own_indent.min(width / 2),
        };
        for (position, word) in line[own_indent..].split(' ').enumerate() {
            let space = usize::from(position > 0);
            if position > 0 && column + space + word.width() > width {
                wrapped.push('\n');
                wrapped.push_str(&" ".repeat(next_indent));
                column = next_indent;
            } else if position > 0 {
                wrapped.push(' ');
                column += 1;
            }
            wrapped.push_str(word);
            column += word.width();
        }
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, start: usize, indent: usize, width: usize, expected: &str) {
        assert_eq!(wrap_hanging(text, start, indent, width), expected);
    }

    #[test]
    fn lines_break_at_words_and_keep_their_indent() {
        let text = "one two three four five six";
        check(text, 0, 0, 80, text);
        check(text, 4, 4, 24, "one two three four\n    five six");
        check(
            "a\n  bb cc dd ee ff gg hh ii",
            0,
            0,
            20,
            "a\n  bb cc dd ee ff gg\n  hh ii",
        );
        // A word that does not fit is not broken.
        let long = "https://example.org/a/very/long/address";
        check(
            &format!("see {long} now"),
            0,
            2,
            22,
            &format!("see\n  {long}\n  now"),
        );
        check(text, 0, 30, 40, text);
        check("", 0, 0, 40, "");
    }
}
