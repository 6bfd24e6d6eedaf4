//! Relative times.

use plan::{Span, Timestamp};

/// Formats an age: `5 min ago`. Times in the future count as `just now`.
pub fn format_age(now: Timestamp, then: Timestamp) -> String {
    let Span(micros) = now.span_since(then);
    let seconds = micros / 1_000_000;
    match seconds {
        ..60 => "just now".to_owned(),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// Formats how long it is until a time: `5 min`. Times in the past count as `0 s`.
pub fn format_delay(now: Timestamp, then: Timestamp) -> String {
    let Span(micros) = then.span_since(now);
    super::format_seconds(u64::try_from(micros / 1_000_000).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_ages() {
        let check = |seconds: i64, expected| {
            assert_eq!(
                format_age(Timestamp(seconds * 1_000_000), Timestamp(0)),
                expected
            );
        };
        check(0, "just now");
        check(-5, "just now");
        check(59, "just now");
        check(60, "1 min ago");
        check(7200, "2 h ago");
        check(200_000, "2 d ago");
    }
}
