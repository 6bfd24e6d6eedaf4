//! Permissions: whether an agent may make a tool call that it asks for before it makes it.
//!
//! The deny, ask and allow patterns of the agent decide first. A call that matches none is allowed if the
//! run is confined, because the sandbox bounds what it can do. Otherwise the profile decides.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::actor::ActorKind;
use crate::guard::{CallPattern, ToolCall};
use crate::transcript::{PermissionEntry, PermissionStatus, ToolKind};
use crate::{ActorDefinition, Profile};

/// What to answer when an agent asks. The strongest match wins: deny, then ask, then allow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolPolicy {
    /// Calls that are rejected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<CallPattern>,
    /// Calls that a person decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<CallPattern>,
    /// Calls that are allowed, also in a run that is not confined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<CallPattern>,
}

/// A tool call that an agent asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionRequest {
    /// The agent's own id for the call.
    pub call_id: Option<String>,
    /// The tool and what it works on.
    pub call: ToolCall,
    pub tool_kind: ToolKind,
    /// The agent's own words for the call.
    pub title: Option<String>,
    /// What the tool gets, as JSON.
    pub raw_input: Option<String>,
}

/// Where a run takes place, as far as permissions depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PermissionContext {
    /// The agent can read and write only what it was given.
    pub is_confined: bool,
    pub profile: Profile,
}

/// What to do with a request, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionRuling {
    pub verdict: PermissionVerdict,
    pub reason: PermissionReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermissionVerdict {
    Allow,
    /// A person decides.
    Ask,
    Reject,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionReason {
    /// A pattern of this list matches.
    Pattern {
        list: &'static str,
        pattern: CallPattern,
    },
    /// No pattern matches, and the run is confined.
    Confined,
    /// No pattern matches, and the run is not confined.
    Unconfined(Profile),
}

/// Why an agent cannot keep a policy that its plan's action sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnsupportedToolPolicy {
    #[error("it does not ask before it calls a tool")]
    NeverAsks,
    #[error("it does not report its tool calls")]
    ReportsNoCalls,
    #[error("it has no definition here")]
    NoDefinition,
}

impl ToolPolicy {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the definition with this policy in addition to its own.
    pub fn add_to_definition(
        &self,
        definition: &ActorDefinition,
    ) -> Result<ActorDefinition, UnsupportedToolPolicy> {
        let mut definition = definition.clone();
        match &mut definition.kind {
            // A person decides what a person does.
            ActorKind::Human { .. } => {}
            ActorKind::Acp(agent) if !self.ask.is_empty() && agent.is_in_bypass_mode() => {
                return Err(UnsupportedToolPolicy::NeverAsks);
            }
            ActorKind::Acp(agent) => {
                agent.tools.deny.extend(self.deny.iter().cloned());
                agent.tools.ask.extend(self.ask.iter().cloned());
                agent.tools.allow.extend(self.allow.iter().cloned());
            }
            ActorKind::Command(_) if !self.ask.is_empty() => {
                return Err(UnsupportedToolPolicy::NeverAsks);
            }
            // `allow` restricts nothing, and a program may do what its confinement allows.
            ActorKind::Command(_) if self.deny.is_empty() => {}
            ActorKind::Command(line) if !line.output.reports_tool_calls() => {
                return Err(UnsupportedToolPolicy::ReportsNoCalls);
            }
            ActorKind::Command(line) => line.guards.deny.extend(self.deny.iter().cloned()),
        }
        Ok(definition)
    }

    /// Decides a request.
    pub fn rule_on(
        &self,
        request: &PermissionRequest,
        context: PermissionContext,
    ) -> PermissionRuling {
        let matches_any = |pattern: &&CallPattern| {
            let mut names = request.names().into_iter();
            names.any(|name| pattern.matches_any(&name, &request.call.inputs))
        };
        let matches_all = |pattern: &&CallPattern| {
            let mut names = request.names().into_iter();
            names.any(|name| pattern.matches_all(&name, &request.call.inputs))
        };
        let by_pattern = |verdict, list, pattern: &CallPattern| PermissionRuling {
            verdict,
            reason: PermissionReason::Pattern {
                list,
                pattern: pattern.clone(),
            },
        };
        if let Some(pattern) = self.deny.iter().find(matches_any) {
            return by_pattern(PermissionVerdict::Reject, "deny", pattern);
        }
        if let Some(pattern) = self.ask.iter().find(matches_any) {
            return by_pattern(PermissionVerdict::Ask, "ask", pattern);
        }
        if let Some(pattern) = self.allow.iter().find(matches_all) {
            return by_pattern(PermissionVerdict::Allow, "allow", pattern);
        }
        context.rule_on_unmatched()
    }
}

impl PermissionContext {
    fn rule_on_unmatched(self) -> PermissionRuling {
        if self.is_confined {
            return PermissionRuling {
                verdict: PermissionVerdict::Allow,
                reason: PermissionReason::Confined,
            };
        }
        PermissionRuling {
            verdict: match self.profile {
                // Nobody may be there to answer.
                Profile::Auto | Profile::Review => PermissionVerdict::Reject,
                Profile::Supervised | Profile::Manual => PermissionVerdict::Ask,
            },
            reason: PermissionReason::Unconfined(self.profile),
        }
    }
}

impl PermissionRequest {
    /// What patterns may call the tool: the agent's name for it, and its kind. Agents name the same tool
    /// differently, and some do not name it.
    fn names(&self) -> [String; 2] {
        let tool = self.call.tool.to_lowercase();
        [tool, self.tool_kind.as_str().to_owned()]
    }

    /// The transcript entry for a request in this status.
    pub fn to_entry(&self, status: PermissionStatus, reason: impl Into<String>) -> PermissionEntry {
        PermissionEntry {
            call_id: self.call_id.clone(),
            tool: self.call.tool.clone(),
            tool_kind: self.tool_kind,
            inputs: self.call.inputs.clone(),
            status,
            reason: reason.into(),
        }
    }
}

impl fmt::Display for PermissionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pattern { list, pattern } => write!(f, "`tools.{list}` has `{pattern}`"),
            Self::Confined => f.write_str("the run is confined"),
            Self::Unconfined(profile) => {
                write!(f, "the run is not confined, and the profile is {profile}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(tool: &str, tool_kind: ToolKind, inputs: &[&str]) -> PermissionRequest {
        PermissionRequest {
            call_id: None,
            call: ToolCall {
                tool: tool.to_owned(),
                inputs: inputs.iter().map(|&input| input.to_owned()).collect(),
            },
            tool_kind,
            title: None,
            raw_input: None,
        }
    }

    fn parse_patterns(texts: &[&str]) -> Vec<CallPattern> {
        let patterns = texts.iter().map(|text| text.parse().unwrap());
        patterns.collect()
    }

    fn policy(deny: &[&str], ask: &[&str], allow: &[&str]) -> ToolPolicy {
        ToolPolicy {
            deny: parse_patterns(deny),
            ask: parse_patterns(ask),
            allow: parse_patterns(allow),
        }
    }

    const ALL_CONTEXTS: [(bool, Profile); 8] = [
        (true, Profile::Manual),
        (true, Profile::Supervised),
        (true, Profile::Review),
        (true, Profile::Auto),
        (false, Profile::Manual),
        (false, Profile::Supervised),
        (false, Profile::Review),
        (false, Profile::Auto),
    ];

    #[test]
    fn unmatched_calls_are_allowed_only_in_a_confined_run() {
        let call = request("Bash", ToolKind::Execute, &["ls"]);
        let empty = ToolPolicy::default();
        for (is_confined, profile) in ALL_CONTEXTS {
            let context = PermissionContext {
                is_confined,
                profile,
            };
            let expected = match (is_confined, profile) {
                (true, _) => PermissionVerdict::Allow,
                (false, Profile::Auto | Profile::Review) => PermissionVerdict::Reject,
                (false, Profile::Supervised | Profile::Manual) => PermissionVerdict::Ask,
            };
            assert_eq!(
                empty.rule_on(&call, context).verdict,
                expected,
                "{context:?}"
            );
        }
    }

    #[test]
    fn strongest_match_wins_in_every_context() {
        let policy = policy(
            &["execute(*git push*)"],
            &["execute(*git*)", "webfetch"],
            &["execute", "fetch"],
        );
        for (call, expected) in [
            (
                request("Bash", ToolKind::Execute, &["cd x && git push"]),
                PermissionVerdict::Reject,
            ),
            (
                request("Bash", ToolKind::Execute, &["ls", "git push"]),
                PermissionVerdict::Reject,
            ),
            (
                request("Bash", ToolKind::Execute, &["git log"]),
                PermissionVerdict::Ask,
            ),
            (
                request("WebFetch", ToolKind::Fetch, &["https://a.example"]),
                PermissionVerdict::Ask,
            ),
            (
                request("curl", ToolKind::Fetch, &["https://a.example"]),
                PermissionVerdict::Allow,
            ),
            (
                request("Bash", ToolKind::Execute, &["ls"]),
                PermissionVerdict::Allow,
            ),
        ] {
            for (is_confined, profile) in ALL_CONTEXTS {
                let context = PermissionContext {
                    is_confined,
                    profile,
                };
                let ruling = policy.rule_on(&call, context);
                assert_eq!(ruling.verdict, expected, "{call:?} {context:?}");
            }
        }
    }

    #[test]
    fn every_input_must_be_allowed() {
        let policy = policy(&[], &[], &["edit(src/*)"]);
        let context = PermissionContext {
            is_confined: false,
            profile: Profile::Auto,
        };
        let verdict = |inputs: &[&str]| {
            let call = request("apply_patch", ToolKind::Edit, inputs);
            policy.rule_on(&call, context).verdict
        };
        assert_eq!(verdict(&["src/a", "src/b"]), PermissionVerdict::Allow);
        assert_eq!(verdict(&["src/a", "b"]), PermissionVerdict::Reject);
        assert_eq!(verdict(&[]), PermissionVerdict::Reject);
    }

    #[test]
    fn reasons_name_the_pattern_or_the_profile() {
        let pattern = "execute".parse().unwrap();
        for (reason, text) in [
            (
                PermissionReason::Pattern {
                    list: "deny",
                    pattern,
                },
                "`tools.deny` has `execute`",
            ),
            (PermissionReason::Confined, "the run is confined"),
            (
                PermissionReason::Unconfined(Profile::Review),
                "the run is not confined, and the profile is review",
            ),
        ] {
            assert_eq!(reason.to_string(), text);
        }
    }
}
