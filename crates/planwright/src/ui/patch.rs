//! Patches for people to read: coloured, and with nothing in them that a terminal would obey.

use anstyle::Style;

use super::{BAD, BOLD, CODE, GOOD, escape_line_bytes, style_text};

/// A patch as it is shown on a terminal.
pub fn render_patch(text: &[u8]) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut part = PatchSection::Heading;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let (line, end) = match line.strip_suffix(b"\n") {
            Some(line) => (line, "\n"),
            None => (line, ""),
        };
        part = match line {
            [b'@', b'@', ..] => PatchSection::Changes,
            // No line of a change begins like this.
            [b'd', ..] => PatchSection::Heading,
            _ => part,
        };
        let style = line_style(line, part);
        shown.push_str(&style_text(style, escape_line_bytes(line)));
        shown.push_str(end);
    }
    shown
}

/// What a line of a patch is part of.
#[derive(Clone, Copy)]
enum PatchSection {
    /// Which file, and what happened to it.
    Heading,
    /// What changed in it.
    Changes,
}

fn line_style(line: &[u8], part: PatchSection) -> Style {
    match (line.first(), part) {
        (Some(b'@'), PatchSection::Changes) => CODE,
        (Some(b'+'), PatchSection::Changes) => GOOD,
        (Some(b'-'), PatchSection::Changes) => BAD,
        (_, PatchSection::Changes) | (None, PatchSection::Heading) => Style::new(),
        (Some(_), PatchSection::Heading) => BOLD,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_and_goes_is_coloured_and_harmless() {
        let text =
            b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n--- old\n+\x1b[2J\r\n same\n";
        let shown = render_patch(text);
        assert!(shown.contains(&style_text(BOLD, "--- a/x")), "{shown:?}");
        assert!(shown.contains(&style_text(BAD, "--- old")), "{shown:?}");
        assert!(
            shown.contains(&style_text(GOOD, "+\\u{1b}[2J\\r")),
            "{shown:?}"
        );
        assert_eq!(shown.lines().count(), 7, "{shown:?}");
    }
}
