//! Keeps texts of unknown length in bounded memory, and makes them safe to print.

use std::collections::VecDeque;

/// How many bytes are kept of the beginning, and of the end.
const MAX_BYTES_PER_END: usize = 32 * 1024;

/// The beginning and the end of a text; the middle is omitted.
#[derive(Debug, Clone, Default)]
pub(crate) struct TextExcerpt {
    head: String,
    tail: VecDeque<u8>,
    omitted_bytes: usize,
}

impl TextExcerpt {
    pub(crate) fn from_text(text: &str) -> Self {
        let mut excerpt = Self::default();
        excerpt.push(text);
        excerpt
    }

    pub(crate) fn push(&mut self, text: &str) {
        let head_bytes = if self.tail.is_empty() && self.omitted_bytes == 0 {
            text.floor_char_boundary(MAX_BYTES_PER_END - self.head.len())
        } else {
            0
        };
        self.head.push_str(&text[..head_bytes]);
        let rest = &text.as_bytes()[head_bytes..];
        let kept = &rest[rest.len().saturating_sub(MAX_BYTES_PER_END)..];
        self.omitted_bytes += rest.len() - kept.len();
        let surplus = (self.tail.len() + kept.len()).saturating_sub(MAX_BYTES_PER_END);
        self.tail.drain(..surplus);
        self.omitted_bytes += surplus;
        self.tail.extend(kept);
    }

    pub(crate) fn is_blank(&self) -> bool {
        self.head.trim().is_empty() && self.tail.iter().all(u8::is_ascii_whitespace)
    }

    /// The text, trimmed, with a note about omitted bytes.
    pub(crate) fn to_text(&self) -> String {
        let (front, back) = self.tail.as_slices();
        let tail = [front, back].concat();
        // The omitted part may end within a character.
        let start = tail.iter().position(|byte| !is_utf8_continuation(*byte));
        let tail = String::from_utf8_lossy(&tail[start.unwrap_or(tail.len())..]);
        let whole = if self.omitted_bytes == 0 {
            format!("{}{tail}", self.head)
        } else {
            format!(
                "{}\n[… {} bytes left out …]\n{tail}",
                self.head, self.omitted_bytes
            )
        };
        whole.trim().to_owned()
    }

    /// The last lines, at most `max_bytes`.
    pub(crate) fn last_lines(&self, max_bytes: usize) -> String {
        let text = self.to_text();
        let start = text.ceil_char_boundary(text.len().saturating_sub(max_bytes));
        let ending = &text[start..];
        match ending.split_once('\n') {
            Some((_, lines)) if start > 0 => lines.to_owned(),
            _ => ending.to_owned(),
        }
    }
}

/// Cuts out the middle of a text that is longer than `max_bytes`, with a note.
pub(crate) fn shorten_text(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(max_bytes / 2);
    let tail = text.ceil_char_boundary(text.len() - max_bytes / 2);
    let omitted_bytes = tail - head;
    format!(
        "{}\n[… {omitted_bytes} bytes left out …]\n{}",
        &text[..head],
        &text[tail..]
    )
}

fn is_utf8_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// Makes a text safe to print: no escape sequences, no control characters but line breaks and tabs, no
/// direction marks.
pub(crate) fn strip_control_chars(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            '\u{1b}' => skip_escape(&mut chars),
            '\n' | '\t' => plain.push(char),
            char if char.is_control() || is_bidi_control(char) => {}
            char => plain.push(char),
        }
    }
    plain
}

/// Skips the rest of an escape sequence: up to its final letter, or the bell after a title.
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

fn is_bidi_control(char: char) -> bool {
    matches!(char, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_text_is_kept_completely() {
        let mut excerpt = TextExcerpt::default();
        assert!(excerpt.is_blank());
        excerpt.push("one\n");
        excerpt.push("two\n");
        assert_eq!(excerpt.to_text(), "one\ntwo");
        assert_eq!(excerpt.last_lines(100), "one\ntwo");
        assert_eq!(excerpt.last_lines(5), "two");
    }

    #[test]
    fn long_text_keeps_its_beginning_and_end() {
        let mut excerpt = TextExcerpt::default();
        for number in 0..100_000 {
            excerpt.push(&format!("é {number}\n"));
        }
        let text = excerpt.to_text();
        assert!(text.starts_with("é 0\n") && text.ends_with("é 99999"));
        assert!(text.contains("bytes left out") && text.len() < 2 * MAX_BYTES_PER_END + 64);
        assert!(!text.contains('\u{fffd}'));
    }

    #[test]
    fn one_large_push_is_cut_too() {
        let text = TextExcerpt::from_text(&"é".repeat(1_000_000)).to_text();
        assert!(text.len() < 2 * MAX_BYTES_PER_END + 64 && !text.contains('\u{fffd}'));
    }

    #[test]
    fn control_chars_are_stripped() {
        let check = |text: &str, expected: &str| {
            assert_eq!(strip_control_chars(text), expected, "{text:?}");
        };
        check("\u{1b}[31;1mred\u{1b}[0m \u{1b}]0;title\u{7}x", "red x");
        check("a\u{1b}[1mb\r\n\tc\u{9b}\u{202e}\u{0}d", "ab\n\tcd");
    }

    #[test]
    fn shortened_text_keeps_its_beginning_and_end() {
        assert_eq!(shorten_text("short", 5), "short");
        let text = format!("first {} last", "é".repeat(1000));
        let shortened = shorten_text(&text, 100);
        assert!(shortened.starts_with("first é") && shortened.ends_with("é last"));
        assert!(
            shortened.contains("bytes left out") && shortened.len() < 140,
            "{shortened}"
        );
    }
}
