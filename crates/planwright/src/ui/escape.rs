//! Text from outside, made harmless for a terminal: what would be obeyed, or would turn what is read into
//! something else, is shown instead. File names, files, goals, questions and all that agents say pass
//! through here.

/// Control characters are shown, not obeyed; lines and tabs stay.
pub fn escape_controls(text: &str) -> String {
    // The end of a line as some systems write it is nothing to be shown.
    let text = text.replace("\r\n", "\n");
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        push_escaped(&mut shown, character);
    }
    shown
}

/// The same of a line of a file, which may be in any encoding, and whose end may matter.
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

/// A text of ours with all that went into it: nothing but its colours is obeyed, wherever it comes from.
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

/// How long the colour is that a text begins with.
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

/// Would a terminal do something else than to show it where it stands?
fn is_terminal_control(character: char) -> bool {
    let turns_direction = matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    // A second alphabet that nobody sees.
    let is_tag = matches!(character, '\u{e0000}'..='\u{e007f}');
    character.is_control() || turns_direction || is_tag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        assert_eq!(escape_controls("a\u{1b}[2J\rb\u{7}"), r"a\u{1b}[2J\rb\u{7}");
        assert_eq!(
            escape_controls("a\u{202e}b\u{2066}c\u{9b}"),
            r"a\u{202e}b\u{2066}c\u{9b}"
        );
        assert_eq!(escape_controls("one\r\n\ttwo ✓ é 👩‍🚀"), "one\n\ttwo ✓ é 👩‍🚀");
        assert_eq!(escape_line_bytes(b"caf\xe9\r"), r"caf\xe9\r");
    }

    #[test]
    fn colours_of_ours_stay() {
        let bold = "\u{1b}[1mbold\u{1b}[0m";
        assert_eq!(escape_except_colours(bold), bold);
        assert_eq!(
            escape_except_colours("\u{1b}[2J\u{1b}]0;x\u{7}\u{1b}[31;1mred\u{1b}[m\u{202e}\u{1b}"),
            "\\u{1b}[2J\\u{1b}]0;x\\u{7}\u{1b}[31;1mred\u{1b}[m\\u{202e}\\u{1b}"
        );
    }
}
