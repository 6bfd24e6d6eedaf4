//! Conditions every write can be given.

use clap::Args;
use lifecycle::Call;
use plan::PlanVersion;

/// When to do it, and how to repeat it.
#[derive(Debug, Args)]
pub struct ConditionArgs {
    /// Only if the plan is at this version.
    #[arg(long, value_name = "V")]
    if_version: Option<u64>,

    /// Repeating it with the same key does nothing twice and gives the same answer.
    #[arg(long, value_name = "KEY", value_parser = parse_idempotency_key)]
    idempotency_key: Option<String>,
}

impl ConditionArgs {
    /// A call under these conditions.
    pub fn apply_to(&self, mut call: Call) -> Call {
        if let Some(version) = self.if_version {
            call = call.if_version(PlanVersion(version));
        }
        if let Some(key) = &self.idempotency_key {
            call = call.with_key(key);
        }
        call
    }
}

/// A key people can print and every store can keep.
pub fn parse_idempotency_key(text: &str) -> Result<String, String> {
    if (1..=200).contains(&text.len()) && !text.chars().any(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err("a key is 1 to 200 printable characters".to_owned())
    }
}
