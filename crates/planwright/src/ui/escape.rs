//! Escapes untrusted text for the terminal: control characters, bidirectional overrides and invisible tags.
//! All file names, file contents, goals, questions and agent output pass through here.

/// Escapes everything a terminal would interpret, except line breaks and tabs.
pub fn escape_controls(text: &str) -> String {
    // CRLF is a normal line ending, not a control character to show.
    let text = text.replace("\r\n", "\n");
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        push_escaped(&mut shown, character);
    }
    shown
}

/// Escapes one line of a file in any encoding. A trailing `\r` is shown: in a diff it matters.
pub fn escape_line_bytes(line: &[u8]) -> String {
    let mut shown = String::with_capacity(line.len());
    for chunk in line.utf8_chunks() {
        for character in chunk.valid().chars() {
            push_escaped(&mut shown, character);
        }
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
        before.chars().for_each(|one| push_escaped(&mut shown, one));
        let length = colour_sequence_len(from).unwrap_or(0);
        shown.push_str(&from[..length]);
        rest = &from[length..];
        if length == 0 {
            push_escaped(&mut shown, '\u{1b}');
            rest = &rest[1..];
        }
    }
    rest.chars().for_each(|one| push_escaped(&mut shown, one));
    shown
}

/// The length of the colour sequence at the start of a text.
fn colour_sequence_len(text: &str) -> Option<usize> {
    let inner = text.strip_prefix("\u{1b}[")?;
    let end = inner.find(|one: char| !one.is_ascii_digit() && one != ';')?;
    inner[end..].starts_with('m').then_some(end + 3)
}

fn push_escaped(shown: &mut String, character: char) {
    match character {
        '\n' | '\t' => shown.push(character),
        _ if is_terminal_control(character) => shown.extend(character.escape_default()),
        _ => shown.push(character),
    }
}

/// Returns whether a terminal would do anything but show this character in place.
fn is_terminal_control(character: char) -> bool {
    let changes_direction = matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    // Unicode tags: invisible copies of ASCII that can hide text.
    let is_tag = matches!(character, '\u{e0000}'..='\u{e007f}');
    character.is_control() || changes_direction || is_tag
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
