//! Lengths of time as people write them: `30s`, `10m`, `1h`.

use plan::Span;

use super::problem::{Flaw, shown};
use super::tree::Node;
use super::value::text;

/// Each with the microseconds it stands for; the longest first.
const UNITS: [(&str, i64); 4] = [
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
];

/// A length of time greater than zero.
pub(super) fn span(node: &Node) -> Result<Span, Flaw> {
    let given = text(node).map_err(|flaw| flaw.hint(EXAMPLES))?;
    parse(&given).ok_or_else(|| {
        let given = shown(&given, 60);
        Flaw::new(node.at, format!("`{given}` is no length of time")).hint(EXAMPLES)
    })
}

const EXAMPLES: &str = "write a whole number and its unit: 500ms, 30s, 10m or 1h";

fn parse(given: &str) -> Option<Span> {
    let end = given.find(|char: char| !char.is_ascii_digit())?;
    let (number, unit) = given.split_at(end);
    let (_, micros) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let number: i64 = number.parse().ok().filter(|number| *number > 0)?;
    number.checked_mul(*micros).map(Span)
}

/// In the greatest unit of which it is a whole number. What is finer than all of them is rounded.
pub(super) fn span_text(span: Span) -> String {
    let whole = UNITS
        .iter()
        .find(|(_, micros)| span.0 >= *micros && span.0 % micros == 0);
    match whole {
        Some((unit, micros)) => format!("{}{unit}", span.0 / micros),
        None => format!("{}ms", (span.0 / 1_000).max(1)),
    }
}
