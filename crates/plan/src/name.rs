//! Names of actions, actors and projects: `[namespace/]name`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Namespace of a bare name. Not shown to people.
const LOCAL_NAMESPACE: &str = "local";

/// Includes namespace and slash.
const MAX_NAME_LENGTH: usize = 128;

/// A name such as `tidy` (meaning `local/tidy`) or `acme/tidy`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QualifiedName(String);

impl QualifiedName {
    /// Returns the name with its namespace, as stored.
    pub fn full_name(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for QualifiedName {
    /// Writes the name as people do: without namespace if it is local.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.strip_prefix("local/").unwrap_or(&self.0);
        f.pad(shown)
    }
}

impl fmt::Debug for QualifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a name: {why}", shorten_for_message(.text))]
pub struct ParseNameError {
    text: String,
    why: &'static str,
}

impl FromStr for QualifiedName {
    type Err = ParseNameError;

    fn from_str(text: &str) -> Result<Self, ParseNameError> {
        let refuse = |why| {
            Err(ParseNameError {
                text: text.to_owned(),
                why,
            })
        };
        let (namespace, name) = text.split_once('/').unwrap_or((LOCAL_NAMESPACE, text));
        for part in [namespace, name] {
            if part.is_empty() {
                return refuse("a part is empty");
            }
            if !part
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b))
            {
                return refuse(
                    "use lower-case letters, digits, `-`, `_` and `.`, as in `tidy` or `acme/tidy`",
                );
            }
            if !part.starts_with(|c: char| c.is_ascii_alphanumeric()) {
                return refuse("each part starts with a letter or a digit");
            }
        }
        if namespace.len() + 1 + name.len() > MAX_NAME_LENGTH {
            return refuse("it is longer than 128 characters");
        }
        Ok(Self(format!("{namespace}/{name}")))
    }
}

impl Serialize for QualifiedName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for QualifiedName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Bounds the error message: bad input can be a megabyte long.
fn shorten_for_message(text: &str) -> String {
    if text.chars().count() <= 60 {
        return text.escape_debug().to_string();
    }
    let head: String = text.chars().take(57).collect();
    format!("{}...", head.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_its_namespace_has_at_most_128_characters() {
        let check = |length: usize, fits: bool| {
            // With `acme/` before it.
            let text = format!("acme/{}", "x".repeat(length - 5));
            assert_eq!(text.parse::<QualifiedName>().is_ok(), fits, "{length}");
        };
        check(127, true);
        check(128, true);
        check(129, false);
        let name: QualifiedName = "tidy".parse().unwrap();
        assert_eq!(format!("{name:?}"), "local/tidy");
    }

    #[test]
    fn a_bare_name_is_local_and_shown_bare() {
        let name: QualifiedName = "tidy-up_2.0".parse().unwrap();
        assert_eq!(
            (name.full_name(), name.to_string().as_str()),
            ("local/tidy-up_2.0", "tidy-up_2.0")
        );
        assert_eq!("local/tidy-up_2.0".parse::<QualifiedName>().unwrap(), name);
        assert_eq!(
            "acme/tidy".parse::<QualifiedName>().unwrap().to_string(),
            "acme/tidy"
        );
    }

    #[test]
    fn invalid_names_are_refused() {
        let long = "x".repeat(200);
        for bad in [
            "", "/", "a/", "/a", "a/b/c", "Tidy", "ti dy", "-x", "..", "a\nb", "ü", "a\0", &long,
        ] {
            assert!(bad.parse::<QualifiedName>().is_err(), "{bad:?}");
        }
    }
}
