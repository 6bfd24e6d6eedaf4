//! Flags that every writing command takes: the expected version and the idempotency key.

use clap::Args;
use lifecycle::Call;
use plan::PlanVersion;

#[derive(Debug, Args)]
pub struct ConditionArgs {
    /// Fail unless the plan is at this version
    #[arg(long, value_name = "V")]
    if_version: Option<u64>,

    /// Run at most once per key; repeating returns the first answer
    #[arg(long, value_name = "KEY", value_parser = parse_idempotency_key)]
    idempotency_key: Option<String>,
}

impl ConditionArgs {
    pub fn has_key(&self) -> bool {
        self.idempotency_key.is_some()
    }

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

/// Accepts 1 to 200 bytes without control characters.
pub fn parse_idempotency_key(text: &str) -> Result<String, String> {
    if (1..=200).contains(&text.len()) && !text.chars().any(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err("a key is 1 to 200 printable characters".to_owned())
    }
}
