//! Ids of git objects.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The hash of a commit, tree or blob: 40 or 64 lowercase hexadecimal digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ObjectId(String);

/// The text is not an object hash.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an object hash")]
pub struct InvalidObjectId(String);

impl ObjectId {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The all-zero id of the same length, which git uses for "no object".
    pub fn null_id(&self) -> Self {
        Self("0".repeat(self.0.len()))
    }

    pub fn is_null(&self) -> bool {
        self.0.bytes().all(|digit| digit == b'0')
    }

    /// The name of the hash function, as in git's `extensions.objectFormat`.
    pub(crate) fn object_format(&self) -> &'static str {
        if self.0.len() == 64 { "sha256" } else { "sha1" }
    }

    /// The first ten digits, for people.
    pub fn short(&self) -> &str {
        &self.0[..10]
    }
}

impl FromStr for ObjectId {
    type Err = InvalidObjectId;

    fn from_str(text: &str) -> Result<Self, InvalidObjectId> {
        let digits = text
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if digits && matches!(text.len(), 40 | 64) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidObjectId(text.chars().take(80).collect()))
        }
    }
}

impl TryFrom<String> for ObjectId {
    type Error = InvalidObjectId;

    fn try_from(text: String) -> Result<Self, InvalidObjectId> {
        text.parse()
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
