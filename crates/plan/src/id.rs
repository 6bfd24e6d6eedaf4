//! Ids and counters as newtypes. Random bits come from the caller.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use ulid::Ulid;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not an id: an id is 26 characters, digits and letters without I, L, O, U")]
pub struct NotAnId {
    pub given: String,
}

macro_rules! ulid_newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u128);

        impl $name {
            /// Builds an id from a time in milliseconds and 80 random bits.
            pub fn from_parts(milliseconds: u64, random: u128) -> Self {
                Self(Ulid::from_parts(milliseconds, random).0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut buffer = [0; ulid::ULID_LEN];
                f.pad(Ulid(self.0).array_to_str(&mut buffer))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = NotAnId;

            fn from_str(given: &str) -> Result<Self, NotAnId> {
                // Accept only the canonical spelling. ULID parsing also reads `I`, `L` and `O` as
                // digits, which would give one id several spellings.
                let canonical = given.to_ascii_uppercase();
                match Ulid::from_string(&canonical) {
                    Ok(ulid) if Self(ulid.0).to_string() == canonical => Ok(Self(ulid.0)),
                    Ok(_) | Err(_) => Err(NotAnId { given: given.to_owned() }),
                }
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

ulid_newtype! {
    PlanId
}
ulid_newtype! {
    /// Id of a changeset: the changes of one unit of work.
    ChangesetId
}
ulid_newtype! {
    /// Id of one submission to the store. It tells after a lost connection whether the commit
    /// succeeded.
    CommandId
}

/// The number of a plan's lease. Only commands with the current epoch are accepted.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl Epoch {
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The number of events of a plan. Each event increments it.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct PlanVersion(pub u64);

impl PlanVersion {
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for PlanVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_parses_what_it_displays_in_either_case() {
        let id = PlanId::from_parts(1_700_000_000_000, 0x1234_5678_9abc_def0_1234);
        let shown = id.to_string();
        assert_eq!(shown.len(), 26);
        assert_eq!(shown.parse::<PlanId>().unwrap(), id);
        assert_eq!(shown.to_lowercase().parse::<PlanId>().unwrap(), id);
    }

    #[test]
    fn invalid_ids_are_refused() {
        for bad in [
            "",
            "x",
            "01ARZ3NDEKTSV4RRFFQ69G5FA",
            "81ARZ3NDEKTSV4RRFFQ69G5FAV",
            "01ARZ3NDEKTSV4RRFFQ69G5FIL",
        ] {
            assert!(bad.parse::<PlanId>().is_err(), "{bad}");
        }
    }
}
