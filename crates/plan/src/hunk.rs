//! Names the parts of a result that a person can take or leave.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Digest;
use crate::digest::ParseDigestError;

/// The content of one hunk as a digest: resource, path, base version of the file, removed lines,
/// added lines. The same hunk keeps its id while other parts of the file change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HunkId(Digest);

impl HunkId {
    /// Digits of [`Self::short`].
    pub const SHORT_DIGITS: usize = 10;

    pub fn from_digest(digest: Digest) -> Self {
        Self(digest)
    }

    /// The first digits, for people.
    pub fn short(&self) -> String {
        let mut text = self.0.to_string();
        text.truncate(Self::SHORT_DIGITS);
        text
    }
}

impl fmt::Display for HunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for HunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.short())
    }
}

impl FromStr for HunkId {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, ParseDigestError> {
        text.parse().map(Self)
    }
}
