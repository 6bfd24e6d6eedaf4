//! Moments and spans in whole microseconds, UTC: the one time domain of all stores.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A moment: microseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub i64);

/// A length of time in microseconds.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Span(pub i64);

impl Span {
    /// So many whole seconds.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000))
    }

    /// As the system waits for it; nothing if it is over already.
    pub fn as_duration(self) -> Duration {
        Duration::from_micros(u64::try_from(self.0).unwrap_or(0))
    }

    /// Whole seconds, rounded down.
    pub const fn as_seconds(self) -> i64 {
        self.0 / 1_000_000
    }
}

impl fmt::Display for Span {
    /// As it is typed: `90s`, `20m`, `2h`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.as_seconds();
        let text = match seconds {
            0 => format!("{}ms", self.0 / 1_000),
            _ if seconds % 3600 == 0 => format!("{}h", seconds / 3600),
            _ if seconds % 60 == 0 => format!("{}m", seconds / 60),
            _ => format!("{seconds}s"),
        };
        f.pad(&text)
    }
}

/// How a span is written where programs read it: in whole seconds.
pub(crate) mod in_seconds {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Span;

    pub(crate) fn serialize<S: Serializer>(
        span: &Option<Span>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        span.map(Span::as_seconds).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Span>, D::Error> {
        Ok(Option::<i64>::deserialize(deserializer)?.map(Span::from_seconds))
    }
}

/// Why a text is not a length of time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a length of time such as 90s, 20m or 2h")]
pub struct ParseSpanError {
    given: String,
}

impl FromStr for Span {
    type Err = ParseSpanError;

    /// A whole number of seconds, minutes, hours or days, more than none.
    fn from_str(given: &str) -> Result<Self, ParseSpanError> {
        let wrong = || ParseSpanError {
            given: given.chars().take(40).collect(),
        };
        let unit = given.chars().next_back().ok_or_else(wrong)?;
        let seconds: i64 = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86400,
            _ => return Err(wrong()),
        };
        let digits = &given[..given.len() - unit.len_utf8()];
        // `parse` would take a sign, too.
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong());
        }
        let number: i64 = digits.parse().map_err(|_| wrong())?;
        let seconds = number.checked_mul(seconds).filter(|seconds| *seconds > 0);
        let whole = seconds.filter(|seconds| *seconds <= i64::MAX / 1_000_000);
        whole.map(Self::from_seconds).ok_or_else(wrong)
    }
}

impl Timestamp {
    /// The moment `span` later.
    #[must_use]
    pub const fn saturating_add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// The time from `earlier` to this moment; negative if it is later.
    pub const fn span_since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// Milliseconds since the epoch, as ids carry them.
    pub fn as_milliseconds(self) -> u64 {
        u64::try_from(self.0 / 1_000).unwrap_or(0)
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 with six digits: sorts as text, reads back exactly.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(moment) => write!(f, "{moment:.6}"),
            // Outside of jiff's years; still shown, never a panic.
            Err(_) => write!(f, "{}us", self.0),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is not a moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a moment such as 2026-01-31T12:00:00Z")]
pub struct ParseTimestampError {
    given: String,
}

impl FromStr for Timestamp {
    type Err = ParseTimestampError;

    fn from_str(given: &str) -> Result<Self, ParseTimestampError> {
        if let Some(raw) = given
            .strip_suffix("us")
            .and_then(|digits| digits.parse().ok())
        {
            return Ok(Self(raw));
        }
        match given.parse::<jiff::Timestamp>() {
            Ok(moment) => Ok(Self(moment.as_microsecond())),
            Err(_) => Err(ParseTimestampError {
                given: given.to_owned(),
            }),
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_read_back_what_they_show() {
        for raw in [0, 1, 999_999, 1_763_000_000_123_456, -5, i64::MIN, i64::MAX] {
            let moment = Timestamp(raw);
            assert_eq!(
                moment.to_string().parse::<Timestamp>().unwrap(),
                moment,
                "{moment}"
            );
        }
        assert_eq!(
            Timestamp(1_500_000).to_string(),
            "1970-01-01T00:00:01.500000Z"
        );
    }
}
