//! Which characters of untrusted text must be shown as codes, because they act on the text around them or cannot be
//! seen. The terminal and the page write the codes differently.

/// Each character of a text, and whether it must be shown as a code. Line breaks and tabs are not hidden.
pub fn mark_hidden_characters(text: &str) -> impl Iterator<Item = (char, bool)> {
    let mut previous = None;
    let mut rest = text.chars();
    std::iter::from_fn(move || {
        let character = rest.next()?;
        let next = rest.clone().next();
        let joins_emoji = character == ZERO_WIDTH_JOINER
            && previous.is_some_and(is_emoji)
            && next.is_some_and(is_emoji);
        // What modifies an emoji stands between it and the joiner.
        if !is_emoji_modifier(character) {
            previous = Some(character);
        }
        Some((character, is_hidden(character) && !joins_emoji))
    })
}

const ZERO_WIDTH_JOINER: char = '\u{200d}';

fn is_hidden(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        // Invisible: soft hyphen, fillers, zero-width characters, word joiners, annotations.
        '\u{ad}'
        | '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200d}'
        | '\u{2060}'..='\u{2065}'
        | '\u{206a}'..='\u{206f}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        // Changes the direction of text, so that code looks different from what it does.
        | '\u{61c}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}'
        // Line breaks that most programs do not know.
        | '\u{2028}'
        | '\u{2029}'
        // Tags, an invisible copy of ASCII, and selectors that can carry any bytes.
        | '\u{e0000}'..='\u{e0fff}' => true,
        _ => character.is_control(),
    }
}

/// The blocks that hold emoji. They contain other symbols, too, which a joiner does not change.
fn is_emoji(character: char) -> bool {
    matches!(character, '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
        && !is_emoji_modifier(character)
}

/// The selector of the emoji form, and skin tones.
fn is_emoji_modifier(character: char) -> bool {
    matches!(character, '\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden_in(text: &str) -> String {
        let marked = mark_hidden_characters(text).filter(|(_, is_hidden)| *is_hidden);
        marked.map(|(character, _)| character).collect()
    }

    #[test]
    fn characters_that_act_or_cannot_be_seen_are_hidden() {
        for hidden in [
            "\u{200b}", "\u{200d}", "\u{200f}", "\u{202a}", "\u{202e}", "\u{2060}",
        ] {
            assert_eq!(hidden_in(&format!("a{hidden}b")), hidden);
        }
        for hidden in [
            "\u{2069}",
            "\u{feff}",
            "\u{ad}",
            "\u{e0041}",
            "\u{e0100}",
            "\u{1b}",
        ] {
            assert_eq!(hidden_in(&format!("a{hidden}b")), hidden);
        }
        assert_eq!(
            hidden_in("one\n\ttwo \u{e9} \u{65e5}\u{672c} \u{5d0}\u{5d1} \u{a0}"),
            ""
        );
    }

    #[test]
    fn joiners_between_emoji_are_not_hidden() {
        for emoji in ["👩‍🚀", "❤️‍🔥", "🧑🏽‍🤝‍🧑🏻", "👨‍👩‍👧‍👦", "🏳️‍🌈"]
        {
            assert!(emoji.contains(ZERO_WIDTH_JOINER));
            assert_eq!(hidden_in(&format!("a {emoji} b")), "", "{emoji}");
        }
        assert_eq!(
            hidden_in("a🚀\u{200d}b\u{200d}🚀\u{200d}"),
            "\u{200d}\u{200d}\u{200d}"
        );
    }
}
