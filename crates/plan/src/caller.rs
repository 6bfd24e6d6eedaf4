//! Callers: who submits a command. Recorded with every event.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Who submits a command.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Caller {
    /// A person. A command that a person runs counts as requested.
    Person(String),
    /// An AI agent that calls Planwright itself. It may create plans, and revise and cancel the plans it
    /// created. The name tells agents apart.
    Agent(String),
    /// A worker. It may do only what the plan's profile or a person allows.
    Worker(String),
}

impl Caller {
    pub fn is_person(&self) -> bool {
        matches!(self, Self::Person(_))
    }

    pub fn is_worker(&self) -> bool {
        matches!(self, Self::Worker(_))
    }

    pub fn name(&self) -> &str {
        match self {
            Self::Person(name) | Self::Agent(name) | Self::Worker(name) => name,
        }
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person(name) => f.write_str(name),
            Self::Agent(name) => write!(f, "agent {name}"),
            Self::Worker(owner) => write!(f, "worker {owner}"),
        }
    }
}
