//! Money in whole millionths of a dollar, so that sums are exact.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Millionths of a US dollar, the currency agents report in.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Money(pub u64);

/// Digits after the decimal point.
const DIGITS: usize = 6;

/// Stores keep amounts as signed 64-bit integers.
const MAX_MICROS: u64 = i64::MAX.unsigned_abs();

impl fmt::Display for Money {
    /// Writes at least whole cents, and below a dollar up to four decimals: `$1.05`, `$0.42`, `$0.0421`. Rounds up.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths_of_mills = self.0.div_ceil(100);
        if self.0 >= 1_000_000 || tenths_of_mills.is_multiple_of(100) {
            let cents = self.0.div_ceil(10_000);
            return f.pad(&format!("${}.{:02}", cents / 100, cents % 100));
        }
        let text = format!("$0.{tenths_of_mills:04}");
        f.pad(text.trim_end_matches('0'))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an amount of money such as 2.50")]
pub struct ParseMoneyError {
    text: String,
}

impl FromStr for Money {
    type Err = ParseMoneyError;

    /// Parses `2.50`, `$2.50` or `3`. The amount must be positive, with at most six decimals.
    fn from_str(text: &str) -> Result<Self, ParseMoneyError> {
        let invalid = || ParseMoneyError {
            text: text.chars().take(40).collect(),
        };
        let amount = text.strip_prefix('$').unwrap_or(text);
        let (whole, part) = amount.split_once('.').unwrap_or((amount, "0"));
        let digits =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(part) || part.len() > DIGITS {
            return Err(invalid());
        }
        let whole: u64 = whole.parse().map_err(|_| invalid())?;
        let part: u64 = format!("{part:0<DIGITS$}").parse().map_err(|_| invalid())?;
        let micros = whole
            .checked_mul(1_000_000)
            .and_then(|micros| micros.checked_add(part))
            .filter(|micros| (1..=MAX_MICROS).contains(micros));
        micros.map(Self).ok_or_else(invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_parses_to_the_millionth() {
        let read = |text: &str| text.parse::<Money>().map(|money| money.0);
        assert_eq!(read("2.50"), Ok(2_500_000));
        assert_eq!(read("$3"), Ok(3_000_000));
        assert_eq!(read("0.000001"), Ok(1));
        for invalid in [
            "",
            "$",
            ".",
            "1.",
            ".5",
            "-1",
            "+1",
            "0",
            "0.0",
            "1e3",
            "1,5",
            "0.0000001",
            "one",
            "9223372036855",
        ] {
            assert!(read(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn display_has_four_decimals_below_a_dollar() {
        for (micros, text) in [
            (2_500_000, "$2.50"),
            (1_234_567, "$1.24"),
            (420_000, "$0.42"),
            (42_100, "$0.0421"),
            (42_101, "$0.0422"),
            (120_500, "$0.1205"),
            (125_000, "$0.125"),
            (999_999, "$1.00"),
            (1, "$0.0001"),
            (0, "$0.00"),
        ] {
            assert_eq!(Money(micros).to_string(), text, "{micros}");
        }
    }
}
