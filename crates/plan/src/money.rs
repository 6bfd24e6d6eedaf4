//! Money in whole millionths of the reported currency: sums never drift.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Millionths of a US dollar, the currency agents report in.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Money(pub u64);

/// Digits behind the point.
const DIGITS: usize = 6;

/// The most that any store holds.
const MAX_MICROS: u64 = i64::MAX.unsigned_abs();

impl fmt::Display for Money {
    /// As people write it, in whole cents, the started one included: `$0.42`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cents = self.0.div_ceil(10_000);
        f.pad(&format!("${}.{:02}", cents / 100, cents % 100))
    }
}

/// Why a text is no amount of money.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is no amount of money such as 2.50")]
pub struct ParseMoneyError {
    given: String,
}

impl FromStr for Money {
    type Err = ParseMoneyError;

    /// `2.50`, `$2.50` or `3`: more than nothing, to the millionth.
    fn from_str(given: &str) -> Result<Self, ParseMoneyError> {
        let wrong = || ParseMoneyError {
            given: given.chars().take(40).collect(),
        };
        let amount = given.strip_prefix('$').unwrap_or(given);
        let (whole, part) = amount.split_once('.').unwrap_or((amount, "0"));
        let digits =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(part) || part.len() > DIGITS {
            return Err(wrong());
        }
        let whole: u64 = whole.parse().map_err(|_| wrong())?;
        let part: u64 = format!("{part:0<DIGITS$}").parse().map_err(|_| wrong())?;
        let micros = whole
            .checked_mul(1_000_000)
            .and_then(|micros| micros.checked_add(part))
            .filter(|micros| (1..=MAX_MICROS).contains(micros));
        micros.map(Self).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_read_to_the_millionth() {
        let read = |text: &str| text.parse::<Money>().map(|money| money.0);
        assert_eq!(read("2.50"), Ok(2_500_000));
        assert_eq!(read("$3"), Ok(3_000_000));
        assert_eq!(read("0.000001"), Ok(1));
        for wrong in [
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
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_started_cent_is_shown_whole() {
        assert_eq!(Money(2_500_000).to_string(), "$2.50");
        assert_eq!(Money(1).to_string(), "$0.01");
        assert_eq!(Money(0).to_string(), "$0.00");
    }
}
