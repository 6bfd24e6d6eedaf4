//! Escapes untrusted text for the terminal: control characters, and what changes the direction of text or cannot be
//! seen. All file names, file contents, goals, questions and agent output pass through here.

use api::mark_hidden_characters;

/// Escapes everything a terminal would interpret, except line breaks and tabs.
pub fn escape_controls(text: &str) -> String {
    // CRLF is a normal line ending, not a control character to show.
    let text = text.replace("\r\n", "\n");
    let mut shown = String::with_capacity(text.len());
    push_escaped(&mut shown, &text);
    shown
}

/// Escapes one line of a file in any encoding. A trailing `\r` is shown: in a diff it matters.
pub fn escape_line_bytes(line: &[u8]) -> String {
    let mut shown = String::with_capacity(line.len());
    for chunk in line.utf8_chunks() {
        push_escaped(&mut shown, chunk.valid());
        for byte in chunk.invalid() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    }
    shown
}

/// Escapes a finished output text except colour sequences. The last line of defence for text that was not
/// escaped when it was inserted.
pub fn escape_except_colours(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        let (before, from) = rest.split_at(at);
        push_escaped(&mut shown, before);
        let length = colour_sequence_len(from).unwrap_or(0);
        shown.push_str(&from[..length]);
        rest = &from[length..];
        if length == 0 {
            push_escaped(&mut shown, "\u{1b}");
            rest = &rest[1..];
        }
    }
    push_escaped(&mut shown, rest);
    shown
}

/// The length of the colour sequence at the start of a text.
fn colour_sequence_len(text: &str) -> Option<usize> {
    let inner = text.strip_prefix("\u{1b}[")?;
    let end = inner.find(|one: char| !one.is_ascii_digit() && one != ';')?;
    inner[end..].starts_with('m').then_some(end + 3)
}

fn push_escaped(shown: &mut String, text: &str) {
    for (character, is_hidden) in mark_hidden_characters(text) {
        match is_hidden {
            true => shown.extend(character.escape_default()),
            false => shown.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(escape_controls("a\u{1b}[2J\rb\u{7}"), r"a\u{1b}[2J\rb\u{7}");
        assert_eq!(
            escape_controls("a\u{202e}b\u{2066}c\u{9b}"),
            r"a\u{202e}b\u{2066}c\u{9b}"
        );
        assert_eq!(
            escape_controls("pay\u{200b}pal\u{ad}\u{feff}\u{2060}"),
            r"pay\u{200b}pal\u{ad}\u{feff}\u{2060}"
        );
        assert_eq!(escape_controls("one\r\n\ttwo ✓ é 👩‍🚀"), "one\n\ttwo ✓ é 👩‍🚀");
        assert_eq!(escape_line_bytes(b"caf\xe9\r"), r"caf\xe9\r");
    }

    #[test]
    fn only_colour_sequences_are_kept() {
        let bold = "\u{1b}[1mbold\u{1b}[0m";
        assert_eq!(escape_except_colours(bold), bold);
        assert_eq!(
            escape_except_colours("\u{1b}[2J\u{1b}]0;x\u{7}\u{1b}[31;1mred\u{1b}[m\u{202e}\u{1b}"),
            "\\u{1b}[2J\\u{1b}]0;x\\u{7}\u{1b}[31;1mred\u{1b}[m\\u{202e}\\u{1b}"
        );
    }
}
