//! Free text written by people and agents: goals, answers, reasons, reports.
//!
//! Such text may contain a secret, so it must be erasable without breaking the hash chain. The
//! chain hashes only its digest: the store moves the text out of the hashed bytes into its own
//! table. Serialized, a text is an object with one marked key, by which the store finds it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Digest;

/// Text that can be erased from the store while its digest stays.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ErasableText {
    #[serde(rename = "$text")]
    Known(String),
    /// The digest of an erased text.
    #[serde(rename = "$erased")]
    Erased(Digest),
}

impl ErasableText {
    pub const MAX_BYTES: usize = 256 * 1024;

    /// Returns the text, or `(erased)`.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(text) => text,
            Self::Erased(_) => "(erased)",
        }
    }

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
