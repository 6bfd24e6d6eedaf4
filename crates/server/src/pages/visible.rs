//! Text of agents and files, made safe to look at: what would act or hide is shown instead.

use api::mark_hidden_characters;

/// Replaces control characters and invisible formatting by visible signs. Keeps line breaks and tabs.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for (character, is_hidden) in mark_hidden_characters(text) {
        match is_hidden {
            true => shown.push_str(&format!("\u{27e8}U+{:04X}\u{27e9}", u32::from(character))),
            false => shown.push(character),
        }
    }
    shown
}

/// How long ago something was, in one short word.
pub fn format_age(micros: i64) -> String {
    let seconds = micros.max(0) / 1_000_000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} m", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// How long something has been going on, as a clock that the page can count on.
pub fn format_elapsed(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elapsed_time_is_a_clock() {
        assert_eq!(format_elapsed(-3), "0:00");
        assert_eq!(format_elapsed(72), "1:12");
        assert_eq!(format_elapsed(3723), "1:02:03");
    }

    #[test]
    fn control_characters_are_shown() {
        assert_eq!(
            visible("a\u{1b}[31mb\r\n\tc"),
            "a\u{27e8}U+001B\u{27e9}[31mb\u{27e8}U+000D\u{27e9}\n\tc"
        );
        assert_eq!(visible("x\u{202e}y"), "x\u{27e8}U+202E\u{27e9}y");
        assert_eq!(visible("x\u{ad}y"), "x\u{27e8}U+00AD\u{27e9}y");
        assert_eq!(visible("na\u{ef}ve \u{1f600}"), "na\u{ef}ve \u{1f600}");
    }
}
