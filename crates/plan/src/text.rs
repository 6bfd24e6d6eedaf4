//! Free text that people and agents write: goals, answers, reasons, reports.
//!
//! Such text may hold a secret, so it must be erasable without breaking the hash chain. In an event
//! it is therefore kept behind its digest: the store takes it out of the hashed bytes and puts it
//! into a table of its own. Serialised, a text is an object with one marked key, which is how the
//! store finds it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Digest;

/// Text that can be erased from the store while its digest stays.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ErasableText {
    /// The text itself.
    #[serde(rename = "$text")]
    Known(String),
    /// The text was erased; this is what it hashed to.
    #[serde(rename = "$erased")]
    Erased(Digest),
}

impl ErasableText {
    /// Longest text that is stored.
    pub const MAX_BYTES: usize = 256 * 1024;

    /// The text, or a remark that it was erased.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(text) => text,
            Self::Erased(_) => "(erased)",
        }
    }

    /// The first line, for lists.
    pub fn first_line(&self) -> &str {
        self.as_str().lines().next().unwrap_or_default()
    }
}

impl From<&str> for ErasableText {
    fn from(text: &str) -> Self {
        Self::Known(text.to_owned())
    }
}

impl From<String> for ErasableText {
    fn from(text: String) -> Self {
        Self::Known(text)
    }
}

impl fmt::Display for ErasableText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for ErasableText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
