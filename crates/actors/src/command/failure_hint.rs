//! Adds to the message of a failed run what the user can do about it in their environment.

use plan::QualifiedName;
use plan::actor::CommandLine;
use plan::stage::FailureCategory;

use super::program_variables::find_withheld_variables;
use crate::HostEnv;

/// More names than this are counted.
const MAX_LISTED_VARIABLES: usize = 6;

/// What Claude Code says if it is started as root.
const ROOT_REFUSAL: &str = "cannot be used with root/sudo privileges";

/// A hint for a failed run of this agent. `None` if the environment is not to blame.
pub(crate) fn find_hint(
    agent: &QualifiedName,
    command_line: &CommandLine,
    host_env: &HostEnv,
    (category, message): (FailureCategory, &str),
) -> Option<String> {
    if message.contains(ROOT_REFUSAL) {
        return Some(
            "Claude Code runs as root only if IS_SANDBOX=1 is set in your environment.".to_owned(),
        );
    }
    let withheld = match category {
        FailureCategory::Actor | FailureCategory::Transient | FailureCategory::Timeout => {
            find_withheld_variables(command_line, host_env)
        }
        FailureCategory::Strategy
        | FailureCategory::Resource
        | FailureCategory::Budget
        | FailureCategory::Unanswered
        | FailureCategory::Lost
        | FailureCategory::Internal => Vec::new(),
    };
    if withheld.is_empty() {
        return None;
    }
    let listed = withheld.len().min(MAX_LISTED_VARIABLES);
    let mut names = withheld[..listed].join(", ");
    if withheld.len() > listed {
        names.push_str(&format!(" and {} more", withheld.len() - listed));
    }
    Some(format!(
        "Set in your environment, but not passed on to {agent}: {names}. To pass one on, add it to \
         `env`: planwright agent show {agent} > agent.yaml, then planwright agent add agent.yaml"
    ))
}
