//! Wraps lines at words, so that a terminal does not break them inside a word.

use std::io::IsTerminal;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

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
    let lines = text.split('\n').enumerate().map(|(index, line)| {
        let own_indent = line.len() - line.trim_start().len();
        match index {
            0 => wrap_line(line, start, indent, width),
            _ => wrap_line(line, 0, own_indent.min(width / 2), width),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Wraps lines that may be rows of columns: further lines start below the last column of their row that
/// leaves room enough.
pub fn wrap_rows(text: &str, width: usize) -> String {
    let lines = text.split('\n').map(|line| {
        let indent = find_last_column(line, width.saturating_sub(MIN_COLUMN_WIDTH));
        match width < indent + MIN_COLUMN_WIDTH {
            true => line.to_owned(),
            false => wrap_line(line, 0, indent, width),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Where the last column of a line starts; columns have two spaces or more between them.
fn find_last_column(line: &str, max_start: usize) -> usize {
    let plain = anstream::adapter::strip_str(line).to_string();
    let (mut start, mut column, mut spaces) = (0, 0, 2);
    for character in plain.chars() {
        if character == ' ' {
            spaces += 1;
        } else {
            if spaces >= 2 && column <= max_start {
                start = column;
            }
            spaces = 0;
        }
        column += character.width().unwrap_or(0);
    }
    start
}

fn wrap_line(line: &str, start: usize, indent: usize, width: usize) -> String {
    let own_indent = line.len() - line.trim_start().len();
    let mut wrapped = line[..own_indent].to_owned();
    let mut column = start + own_indent;
    let mut is_empty = true;
    let mut spaces = 0;
    for word in split_units(&line[own_indent..], width) {
        let word_width = display_width(word);
        if !is_empty && !word.is_empty() && column + spaces + word_width > width {
            wrapped.push('\n');
            wrapped.push_str(&" ".repeat(indent));
            column = indent;
        } else if !word.is_empty() {
            wrapped.push_str(&" ".repeat(spaces));
            column += spaces;
        }
        if word.is_empty() {
            // One more space between words, or at the end of the line.
            spaces += 1;
            continue;
        }
        wrapped.push_str(word);
        column += word_width;
        (is_empty, spaces) = (false, 1);
    }
    wrapped
}

/// The parts of a line that stay whole: words or, in a line such as `claude · 9900 tokens · $0.11`, its facts.
fn split_units(line: &str, width: usize) -> Vec<&str> {
    let facts: Vec<&str> = line.split_inclusive(" · ").map(drop_last_space).collect();
    let is_short = |fact: &&str| display_width(fact) <= width / 2;
    match facts.len() > 1 && facts.iter().all(is_short) {
        true => facts,
        false => line.split(' ').collect(),
    }
}

fn drop_last_space(fact: &str) -> &str {
    match fact.strip_suffix(' ') {
        Some(rest) if rest.ends_with('·') => rest,
        Some(_) | None => fact,
    }
}

/// The width of a text on the terminal, without its colours.
fn display_width(text: &str) -> usize {
    anstream::adapter::strip_str(text).to_string().width()
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

    #[test]
    fn colours_take_no_room() {
        let bold = "\u{1b}[1mone two\u{1b}[0m three four five";
        check(bold, 0, 0, 24, bold);
        check(
            bold,
            0,
            2,
            22,
            "\u{1b}[1mone two\u{1b}[0m three four\n  five",
        );
    }

    #[test]
    fn rows_wrap_below_their_last_column() {
        let check =
            |text: &str, width, expected: &str| assert_eq!(wrap_rows(text, width), expected);
        check(
            "  state    needs review of the whole result\n  cost     $1",
            36,
            "  state    needs review of the whole\n           result\n  cost     $1",
        );
        check(
            "    one two three four five six seven",
            30,
            "    one two three four five\n    six seven",
        );
        // The last column would be too narrow.
        check(
            "a long first column of words  b c d e",
            32,
            "a long first column of words  b\nc d e",
        );
        check(
            "claude · executed · 9900 tokens",
            24,
            "claude · executed ·\n9900 tokens",
        );
    }
}
