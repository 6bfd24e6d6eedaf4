//! Timestamps and spans in whole microseconds, UTC. All stores use this precision.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Microseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub i64);

/// A length of time in microseconds.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Span(pub i64);

impl Span {
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000))
    }

    /// Converts for the standard library. A negative span becomes zero.
    pub fn as_duration(self) -> Duration {
        Duration::from_micros(u64::try_from(self.0).unwrap_or(0))
    }

    /// Whole seconds, rounded down.
    pub const fn as_seconds(self) -> i64 {
        self.0 / 1_000_000
    }
}

impl fmt::Display for Span {
    /// Writes the span as typed: `90s`, `20m`, `2h`.
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

/// Serde format of optional spans: whole seconds.
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

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a duration such as 90s, 20m or 2h")]
pub struct ParseSpanError {
    text: String,
}

impl FromStr for Span {
    type Err = ParseSpanError;

    /// Parses a positive whole number of seconds, minutes, hours or days.
    fn from_str(text: &str) -> Result<Self, ParseSpanError> {
        let invalid = || ParseSpanError {
            text: text.chars().take(40).collect(),
        };
        let unit = text.chars().next_back().ok_or_else(invalid)?;
        let seconds: i64 = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86400,
            _ => return Err(invalid()),
        };
        let digits = &text[..text.len() - unit.len_utf8()];
        // `parse` would also accept a sign.
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(invalid());
        }
        let number: i64 = digits.parse().map_err(|_| invalid())?;
        let seconds = number.checked_mul(seconds).filter(|seconds| *seconds > 0);
        let whole = seconds.filter(|seconds| *seconds <= i64::MAX / 1_000_000);
        whole.map(Self::from_seconds).ok_or_else(invalid)
    }
}

impl Timestamp {
    #[must_use]
    pub const fn saturating_add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// Returns the time since `earlier`. Negative if `earlier` is later.
    pub const fn span_since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// Milliseconds since 1970, as used in ids. Earlier times become 0.
    pub fn as_milliseconds(self) -> u64 {
        u64::try_from(self.0 / 1_000).unwrap_or(0)
    }
}

impl fmt::Display for Timestamp {
    /// Writes RFC 3339 with six decimals, which parses back exactly.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(timestamp) => write!(f, "{timestamp:.6}"),
            // Outside of jiff's range. Show the raw value instead of panicking.
            Err(_) => write!(f, "{}us", self.0),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a timestamp such as 2026-01-31T12:00:00Z")]
pub struct ParseTimestampError {
    text: String,
}

impl FromStr for Timestamp {
    type Err = ParseTimestampError;

    fn from_str(text: &str) -> Result<Self, ParseTimestampError> {
        if let Some(raw) = text
            .strip_suffix("us")
            .and_then(|digits| digits.parse().ok())
        {
            return Ok(Self(raw));
        }
        match text.parse::<jiff::Timestamp>() {
            Ok(timestamp) => Ok(Self(timestamp.as_microsecond())),
            Err(_) => Err(ParseTimestampError {
                text: text.to_owned(),
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
    fn timestamps_parse_what_they_display() {
        for raw in [0, 1, 999_999, 1_763_000_000_123_456, -5, i64::MIN, i64::MAX] {
            let timestamp = Timestamp(raw);
            assert_eq!(
                timestamp.to_string().parse::<Timestamp>().unwrap(),
                timestamp,
                "{timestamp}"
            );
        }
        assert_eq!(
            Timestamp(1_500_000).to_string(),
            "1970-01-01T00:00:01.500000Z"
        );
    }
}
