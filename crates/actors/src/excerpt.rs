//! Text of unknown length in bounded memory, and texts that fit in a line.

use std::collections::VecDeque;

/// Bytes kept of the beginning, and of the end.
const EACH: usize = 32 * 1024;

/// Longest line shown of a run, in characters.
const LINE: usize = 200;

/// The beginning and the end of a text, with what lies between them left out.
#[derive(Debug, Clone, Default)]
pub(crate) struct Excerpt {
    head: String,
    tail: VecDeque<u8>,
    omitted: usize,
}

impl Excerpt {
    pub(crate) fn of(text: &str) -> Self {
        let mut excerpt = Self::default();
        excerpt.push(text);
        excerpt
    }

    pub(crate) fn push(&mut self, text: &str) {
        let taken = if self.tail.is_empty() && self.omitted == 0 {
            text.floor_char_boundary(EACH - self.head.len())
        } else {
            0
        };
        self.head.push_str(&text[..taken]);
        let rest = &text.as_bytes()[taken..];
        let kept = &rest[rest.len().saturating_sub(EACH)..];
        self.omitted += rest.len() - kept.len();
        let surplus = (self.tail.len() + kept.len()).saturating_sub(EACH);
        self.tail.drain(..surplus);
        self.omitted += surplus;
        self.tail.extend(kept);
    }

    pub(crate) fn is_blank(&self) -> bool {
        self.head.trim().is_empty() && self.tail.iter().all(u8::is_ascii_whitespace)
    }

    /// The text, trimmed.
    pub(crate) fn text(&self) -> String {
        let (front, back) = self.tail.as_slices();
        let tail = [front, back].concat();
        // What was dropped may have ended within a character.
        let start = tail.iter().position(|byte| !is_continuation(*byte));
        let tail = String::from_utf8_lossy(&tail[start.unwrap_or(tail.len())..]);
        let whole = if self.omitted == 0 {
            format!("{}{tail}", self.head)
        } else {
            format!(
                "{}\n[… {} bytes left out …]\n{tail}",
                self.head, self.omitted
            )
        };
        whole.trim().to_owned()
    }

    /// The last lines, at most so many bytes of them.
    pub(crate) fn ending(&self, most: usize) -> String {
        let text = self.text();
        let start = text.ceil_char_boundary(text.len().saturating_sub(most));
        let ending = &text[start..];
        match ending.split_once('\n') {
            Some((_, lines)) if start > 0 => lines.to_owned(),
            _ => ending.to_owned(),
        }
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// What a text says in one line that a terminal only shows: no escapes, no control characters, none that
/// turn the direction of writing. None if that leaves nothing.
pub(crate) fn one_line(text: &str) -> Option<String> {
    let mut line = String::new();
    let mut length = 0;
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            '\u{1b}' => skip_escape(&mut chars),
            char if char.is_whitespace() => {
                if !line.is_empty() && !line.ends_with(' ') {
                    line.push(' ');
                    length += 1;
                }
            }
            char if char.is_control() || turns_direction(char) => {}
            char => {
                line.push(char);
                length += 1;
            }
        }
        if length > LINE {
            let end = line.char_indices().nth(LINE - 1).map_or(0, |(at, _)| at);
            line.truncate(end);
            line.push('…');
            break;
        }
    }
    line.truncate(line.trim_end().len());
    (!line.is_empty()).then_some(line)
}

/// A text of several lines that a terminal only shows, as [`one_line`] is one of one.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            '\u{1b}' => skip_escape(&mut chars),
            '\n' | '\t' => plain.push(char),
            char if char.is_control() || turns_direction(char) => {}
            char => plain.push(char),
        }
    }
    plain
}

/// The rest of what began with ESC: of a sequence up to its final letter, of a title up to its bell.
fn skip_escape(chars: &mut std::str::Chars<'_>) {
    match chars.next() {
        Some('[') => {
            chars.find(|char| ('\u{40}'..='\u{7e}').contains(char));
        }
        Some(']') => {
            chars.find(|char| matches!(char, '\u{7}' | '\\'));
        }
        Some(_) | None => {}
    }
}

fn turns_direction(char: char) -> bool {
    matches!(char, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_text_is_kept_whole() {
        let mut excerpt = Excerpt::default();
        assert!(excerpt.is_blank());
        excerpt.push("one\n");
        excerpt.push("two\n");
        assert_eq!(excerpt.text(), "one\ntwo");
        assert_eq!(excerpt.ending(100), "one\ntwo");
        assert_eq!(excerpt.ending(5), "two");
    }

    #[test]
    fn of_a_long_text_beginning_and_end_are_kept() {
        let mut excerpt = Excerpt::default();
        for number in 0..100_000 {
            excerpt.push(&format!("é {number}\n"));
        }
        let text = excerpt.text();
        assert!(text.starts_with("é 0\n") && text.ends_with("é 99999"));
        assert!(text.contains("bytes left out") && text.len() < 2 * EACH + 64);
        assert!(!text.contains('\u{fffd}'));
    }

    #[test]
    fn one_large_piece_is_cut_as_well() {
        let text = Excerpt::of(&"é".repeat(1_000_000)).text();
        assert!(text.len() < 2 * EACH + 64 && !text.contains('\u{fffd}'));
    }

    #[test]
    fn a_line_only_shows() {
        let check = |given: &str, expected: Option<&str>| {
            assert_eq!(one_line(given).as_deref(), expected, "{given:?}");
        };
        check("", None);
        check(" \t\r\n\u{1b}[0m", None);
        check("  a\tb\nc  ", Some("a b c"));
        check(
            "\u{1b}[31;1mred\u{1b}[0m \u{1b}]0;title\u{7}x",
            Some("red x"),
        );
        check("a\u{202e}b\u{0}c", Some("abc"));
        assert_eq!(plain("a\u{1b}[1mb\r\n\tc\u{9b}\u{202e}\u{0}d"), "ab\n\tcd");
        let long = one_line(&"ü".repeat(1000)).unwrap();
        assert_eq!(long.chars().count(), LINE);
        assert!(long.ends_with('…'));
    }
}
