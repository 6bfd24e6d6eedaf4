//! What is wrong with a file, and where: one line for a message, two for an excerpt.

use unicode_width::UnicodeWidthStr;

/// A place in a file. Both numbers start at 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilePosition {
    /// The line.
    pub line: usize,
    /// The character in the line.
    pub column: usize,
}

impl FilePosition {
    /// Where a file starts.
    pub const START: Self = Self { line: 1, column: 1 };
}

/// What is wrong with a file. Shown as `FILE:LINE:COLUMN: message`, which terminals and editors
/// turn into a link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}:{line}:{column}: {message}")]
pub struct YamlProblem {
    /// The file, as the person named it.
    pub origin: String,
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// What is wrong, in one line.
    pub message: String,
    /// What would be right, in one line.
    pub hint: Option<String>,
}

impl YamlProblem {
    /// A problem that was found after the file was read, in a value that stands at `at`.
    pub fn at_position(origin: &str, at: FilePosition, message: impl AsRef<str>) -> Self {
        YamlFlaw::new(at, message).in_file(origin)
    }

    /// The offending line of `source`, the text this problem is about, with a caret underneath:
    /// two lines, without a line break at the end. Long lines are cut around the caret.
    pub fn excerpt(&self, source: &str) -> String {
        let line = nth_line(source, self.line);
        let target = self.column.saturating_sub(1);
        let start = target.saturating_sub(EXCERPT_CHARS_BEFORE);
        let cut = if start > 0 { "…" } else { "" };
        let before: String = visible_chars(line)
            .skip(start)
            .take(target - start)
            .collect();
        let after: String = visible_chars(line)
            .skip(target)
            .take(EXCERPT_CHARS_AFTER)
            .collect();
        let more = if visible_chars(line)
            .nth(target + EXCERPT_CHARS_AFTER)
            .is_some()
        {
            "…"
        } else {
            ""
        };
        let number = self.line.to_string();
        let gutter = " ".repeat(number.len());
        let indent = " ".repeat(cut.width() + before.width());
        format!("{number} | {cut}{before}{after}{more}\n{gutter} | {indent}^")
    }
}

/// Most characters of a line that an excerpt shows before and from the caret on.
const EXCERPT_CHARS_BEFORE: usize = 60;
const EXCERPT_CHARS_AFTER: usize = 40;

/// Longest message: what it quotes may be a megabyte.
const MAX_MESSAGE_CHARS: usize = 400;

/// A problem in a file whose name the finder does not know.
#[derive(Debug)]
pub(super) struct YamlFlaw {
    at: FilePosition,
    message: String,
    hint: Option<String>,
}

impl YamlFlaw {
    pub(super) fn new(at: FilePosition, message: impl AsRef<str>) -> Self {
        Self {
            at,
            message: truncate_escaped(message.as_ref(), MAX_MESSAGE_CHARS),
            hint: None,
        }
    }

    pub(super) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same flaw, told of the value of a key.
    pub(super) fn under_key(mut self, key: &str) -> Self {
        self.message = format!("`{key}`: {}", self.message);
        self
    }

    pub(super) fn in_file(self, origin: &str) -> YamlProblem {
        YamlProblem {
            origin: origin.to_owned(),
            line: self.at.line,
            column: self.at.column,
            message: self.message,
            hint: self.hint,
        }
    }
}

/// A text cut to `most` characters, with what a terminal would act on written out.
pub(super) fn truncate_escaped(text: &str, most: usize) -> String {
    let mut shown = String::new();
    for (count, char) in text.chars().enumerate() {
        if count == most {
            shown.push('…');
            break;
        }
        if is_terminal_control(char) {
            shown.extend(char.escape_default());
        } else {
            shown.push(char);
        }
    }
    shown
}

/// The characters of a line, each in one visible character of its own.
fn visible_chars(line: &str) -> impl Iterator<Item = char> {
    line.chars().map(|char| match char {
        '\t' => ' ',
        char if is_terminal_control(char) => char::REPLACEMENT_CHARACTER,
        char => char,
    })
}

/// Control characters, and those that turn the direction of writing.
pub(super) fn is_terminal_control(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A line as YAML counts them: ended by `\n`, `\r\n` or `\r`; without the byte-order mark.
fn nth_line(source: &str, number: usize) -> &str {
    let mut rest = source.trim_start_matches('\u{feff}');
    for _ in 1..number {
        let Some(end) = rest.find(['\n', '\r']) else {
            return "";
        };
        let ending = if rest[end..].starts_with("\r\n") {
            2
        } else {
            1
        };
        rest = &rest[end + ending..];
    }
    rest.split(['\n', '\r']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, line: usize, column: usize, expected: &str) {
        let problem = YamlProblem::at_position("f", FilePosition { line, column }, "m");
        assert_eq!(problem.excerpt(source), expected);
    }

    #[test]
    fn the_caret_stands_under_the_character() {
        check("a: 1\nbad: 2\n", 2, 1, "2 | bad: 2\n  | ^");
        check("a: 1\r\nbad: 2\r\n", 2, 6, "2 | bad: 2\n  |      ^");
        check("a: 1\rbad: 2\r", 2, 6, "2 | bad: 2\n  |      ^");
        check("\u{feff}bad: 2", 1, 6, "1 | bad: 2\n  |      ^");
        check("\tb: 2", 1, 2, "1 |  b: 2\n  |  ^");
        check("🎉日本: b", 1, 6, "1 | 🎉日本: b\n  |         ^");
        check("e\u{301}: b", 1, 5, "1 | e\u{301}: b\n  |    ^");
    }

    #[test]
    fn an_excerpt_exists_for_any_place() {
        check("", 1, 1, "1 | \n  | ^");
        check("a", 7, 9, "7 | \n  | ^");
        check("a", 0, 0, "0 | a\n  | ^");
    }

    #[test]
    fn long_lines_are_cut_around_the_caret() {
        let problem = YamlProblem::at_position(
            "f",
            FilePosition {
                line: 1,
                column: 5000,
            },
            "m",
        );
        let excerpt = problem.excerpt(&"é".repeat(200_000));
        let (line, caret) = excerpt.split_once('\n').unwrap();
        assert_eq!(line.chars().count(), "1 | ".len() + 1 + 60 + 40 + 1);
        assert_eq!(caret.chars().count(), "  | ".len() + 1 + 60 + 1);
    }

    #[test]
    fn nothing_reaches_a_terminal_that_it_would_act_on() {
        let source = "a: \u{1b}[31m\u{202e}red";
        let problem = YamlProblem::at_position("f", FilePosition::START, source);
        let output = problem.to_string() + &problem.excerpt(source);
        assert!(!output.contains(['\u{1b}', '\u{202e}']), "{output:?}");
    }
}
