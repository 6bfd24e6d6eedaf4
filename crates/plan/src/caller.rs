//! Who is asking. Recorded with every event.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The one on whose word a command is decided.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Caller {
    /// A person; what they run, they asked for.
    Person(String),
    /// A worker, which may do only what the plan's profile or a person allows.
    Worker(String),
}

impl Caller {
    /// Is this a person?
    pub fn is_person(&self) -> bool {
        matches!(self, Self::Person(_))
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person(name) => f.write_str(name),
            Self::Worker(owner) => write!(f, "worker {owner}"),
        }
    }
}
