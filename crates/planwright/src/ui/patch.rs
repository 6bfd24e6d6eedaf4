//! Renders patches for people: coloured, with control characters escaped.

use anstyle::Style;

use super::{BAD, BOLD, CODE, GOOD, escape_line_bytes, style_text};

pub fn render_patch(text: &[u8]) -> String {
    let mut rendered = String::with_capacity(text.len());
    let mut section = PatchSection::Heading;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let (line, end) = match line.strip_suffix(b"\n") {
            Some(line) => (line, "\n"),
            None => (line, ""),
        };
        section = match line {
            [b'@', b'@', ..] => PatchSection::Changes,
            // Only `diff --git` begins with `d`: lines of a hunk begin with `+`, `-`, `\` or a space.
            [b'd', ..] => PatchSection::Heading,
            _ => section,
        };
        let style = line_style(line, section);
        rendered.push_str(&style_text(style, escape_line_bytes(line)));
        rendered.push_str(end);
    }
    rendered
}

#[derive(Clone, Copy)]
enum PatchSection {
    /// From `diff --git` to the first `@@`.
    Heading,
    /// Hunks, from the first `@@` on.
    Changes,
}

fn line_style(line: &[u8], section: PatchSection) -> Style {
    match (line.first(), section) {
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
    fn patches_are_coloured_and_escaped() {
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
