//! Problems in YAML files: a one-line message with its position, and an excerpt of the source.

use unicode_width::UnicodeWidthStr;

/// A position in a file. Both numbers start at 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilePosition {
    pub line: usize,
    pub column: usize,
}

impl FilePosition {
    pub const START: Self = Self { line: 1, column: 1 };
}

/// A problem in a file. Displayed as `FILE:LINE:COLUMN: message`, which terminals and editors turn into a link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}:{line}:{column}: {message}")]
pub struct YamlProblem {
    /// The file name as the user gave it.
    pub origin: String,
    /// From 1.
    pub line: usize,
    /// Characters, from 1.
    pub column: usize,
    /// One line.
    pub message: String,
    /// How to fix it, in one line.
    pub hint: Option<String>,
}

impl YamlProblem {
    /// A problem that was found after parsing, in the value at `at`.
    pub fn at_position(origin: &str, at: FilePosition, message: impl AsRef<str>) -> Self {
        YamlFlaw::new(at, message).in_file(origin)
    }

    /// Returns the offending line of `source` with a caret underneath: two lines, no trailing line break.
    /// Long lines are cut around the caret.
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

/// An excerpt shows at most this many characters before the caret, and from the caret on.
const EXCERPT_CHARS_BEFORE: usize = 60;
const EXCERPT_CHARS_AFTER: usize = 40;

/// Messages are cut at this length, because they may quote long values.
const MAX_MESSAGE_CHARS: usize = 400;

/// A problem without the file name, which the readers do not know.
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

    /// Prefixes the message with the key whose value is wrong.
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

/// Cuts a text to `max_chars` characters and escapes terminal controls.
pub(super) fn truncate_escaped(text: &str, max_chars: usize) -> String {
    let mut shown = String::new();
    for (count, char) in text.chars().enumerate() {
        if count == max_chars {
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

/// Maps each character of a line to exactly one visible character, so that columns stay aligned.
fn visible_chars(line: &str) -> impl Iterator<Item = char> {
    line.chars().map(|char| match char {
        '\t' => ' ',
        char if is_terminal_control(char) => char::REPLACEMENT_CHARACTER,
        char => char,
    })
}

/// Control characters, and those that change the writing direction.
pub(super) fn is_terminal_control(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns a line as YAML counts them: ended by `\n`, `\r\n` or `\r`, without the byte-order mark.
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
    fn caret_is_under_the_character() {
        check("a: 1\nbad: 2\n", 2, 1, "2 | bad: 2\n  | ^");
        check("a: 1\r\nbad: 2\r\n", 2, 6, "2 | bad: 2\n  |      ^");
        check("a: 1\rbad: 2\r", 2, 6, "2 | bad: 2\n  |      ^");
        check("\u{feff}bad: 2", 1, 6, "1 | bad: 2\n  |      ^");
        check("\tb: 2", 1, 2, "1 |  b: 2\n  |  ^");
        check("🎉日本: b", 1, 6, "1 | 🎉日本: b\n  |         ^");
        check("e\u{301}: b", 1, 5, "1 | e\u{301}: b\n  |    ^");
    }

    #[test]
    fn excerpt_exists_for_any_position() {
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
    fn terminal_controls_are_escaped() {
        let source = "a: \u{1b}[31m\u{202e}red";
        let problem = YamlProblem::at_position("f", FilePosition::START, source);
        let output = problem.to_string() + &problem.excerpt(source);
        assert!(!output.contains(['\u{1b}', '\u{202e}']), "{output:?}");
    }
}
