//! Words for how an agent is run, and for what it is missing.

use actors::{MissingNeed, RunProtocol};

/// At most this many variables are named.
const MAX_NAMED_VARIABLES: usize = 3;

pub fn word_protocol(protocol: RunProtocol) -> &'static str {
    match protocol {
        RunProtocol::Acp => "ACP",
        RunProtocol::Stream => "stream",
        RunProtocol::Text => "text",
        RunProtocol::Person => "person",
    }
}

/// What is missing, in a few words.
pub fn word_missing(missing: &[MissingNeed]) -> String {
    let words = missing.iter().map(|need| match need {
        MissingNeed::Node { lowest, .. } => format!("Node.js {lowest}"),
        MissingNeed::Login { .. } => "login".to_owned(),
        MissingNeed::Variable { name, .. } => (*name).to_owned(),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// What is missing, as a sentence.
pub fn describe_need(need: &MissingNeed) -> String {
    match need {
        MissingNeed::Node {
            lowest,
            found: Some(found),
        } => format!("it needs Node.js {lowest} or later, and this is {found}"),
        MissingNeed::Node {
            lowest,
            found: None,
        } => format!("it needs Node.js {lowest} or later, which is not installed"),
        MissingNeed::Login { .. } => "no login was found".to_owned(),
        MissingNeed::Variable { name, reason, .. } => format!("{name} is not set: {reason}"),
    }
}

/// What to do about it.
pub fn word_remedy(agent: &str, need: &MissingNeed) -> String {
    match need {
        MissingNeed::Node { lowest, .. } => {
            format!("Install Node.js {lowest} or later and put it first on your PATH, for {agent}.")
        }
        MissingNeed::Login { variables, command } => {
            let named = variables.len().min(MAX_NAMED_VARIABLES);
            let names = variables[..named].join(" or ");
            format!("Log in to {agent}: {command}. Or set {names}.")
        }
        MissingNeed::Variable { name, value, .. } => format!("Set {name}={value} for {agent}."),
    }
}
