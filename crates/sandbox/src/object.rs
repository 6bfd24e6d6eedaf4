//! Names of git objects.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The hash of a commit, tree or blob: 40 or 64 hexadecimal digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ObjectId(String);

/// Why a text is not the hash of an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the hash of an object")]
pub struct InvalidObjectId(String);

impl ObjectId {
    /// As git writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// How git writes "nothing" where an object could stand: as many zeros.
    pub fn null_id(&self) -> Self {
        Self("0".repeat(self.0.len()))
    }

    /// Nothing at all?
    pub fn is_null(&self) -> bool {
        self.0.bytes().all(|digit| digit == b'0')
    }

    /// What git calls the way it was hashed.
    pub(crate) fn object_format(&self) -> &'static str {
        if self.0.len() == 64 { "sha256" } else { "sha1" }
    }

    /// The beginning of it, as people are shown.
    pub fn short(&self) -> &str {
        &self.0[..10]
    }
}

impl FromStr for ObjectId {
    type Err = InvalidObjectId;

    fn from_str(given: &str) -> Result<Self, InvalidObjectId> {
        let digits = given
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if digits && matches!(given.len(), 40 | 64) {
            Ok(Self(given.to_owned()))
        } else {
            Err(InvalidObjectId(given.chars().take(80).collect()))
        }
    }
}

impl TryFrom<String> for ObjectId {
    type Error = InvalidObjectId;

    fn try_from(given: String) -> Result<Self, InvalidObjectId> {
        given.parse()
    }
}

impl From<ObjectId> for String {
    fn from(id: ObjectId) -> Self {
        id.0
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
