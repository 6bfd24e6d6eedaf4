//! Patches for people to read: coloured, and with nothing in them that a terminal would obey.

use anstyle::Style;

use super::{BAD, BOLD, CODE, GOOD, clean_line, styled};

/// A patch as it is shown on a terminal.
pub fn patch(text: &[u8]) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut part = Part::Heading;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let (line, end) = match line.strip_suffix(b"\n") {
            Some(line) => (line, "\n"),
            None => (line, ""),
        };
        part = match line {
            [b'@', b'@', ..] => Part::Changes,
            // No line of a change begins like this.
            [b'd', ..] => Part::Heading,
            _ => part,
        };
        let style = style_of(line, part);
        shown.push_str(&styled(style, clean_line(line)));
        shown.push_str(end);
    }
    shown
}

/// What a line of a patch is part of.
#[derive(Clone, Copy)]
enum Part {
    /// Which file, and what happened to it.
    Heading,
    /// What changed in it.
    Changes,
}

fn style_of(line: &[u8], part: Part) -> Style {
    match (line.first(), part) {
        (Some(b'@'), Part::Changes) => CODE,
        (Some(b'+'), Part::Changes) => GOOD,
        (Some(b'-'), Part::Changes) => BAD,
        (_, Part::Changes) | (None, Part::Heading) => Style::new(),
        (Some(_), Part::Heading) => BOLD,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_and_goes_is_coloured_and_harmless() {
        let text =
            b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n--- old\n+\x1b[2J\r\n same\n";
        let shown = patch(text);
        assert!(shown.contains(&styled(BOLD, "--- a/x")), "{shown:?}");
        assert!(shown.contains(&styled(BAD, "--- old")), "{shown:?}");
        assert!(shown.contains(&styled(GOOD, "+\\u{1b}[2J\\r")), "{shown:?}");
        assert_eq!(shown.lines().count(), 7, "{shown:?}");
    }
}
