//! Guards: hard limits on the tools an actor uses, judged on every call that can be seen.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How much of what a tool was used on is told.
const MAX_SHOWN_BYTES: usize = 200;

/// What an actor may do with its tools. Without anything said, everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolGuards {
    /// Calls that are never made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<CallPattern>,
    /// If there are any: no other calls are made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<CallPattern>,
    /// How many calls a run makes at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u32>,
}

/// One use of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The tool, as the agent calls it.
    pub tool: String,
    /// What it is used on: a command, paths, an address.
    pub inputs: Vec<String>,
}

/// Calls of one kind: a tool, or a tool used on something; `*` stands for anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct CallPattern {
    tool: String,
    input: Option<String>,
}

/// Why a call is one too many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuardBreach {
    /// It is denied.
    Denied {
        /// What was called.
        call: ToolCall,
        /// By what.
        pattern: CallPattern,
    },
    /// It is not among those that are allowed.
    NotAllowed(ToolCall),
    /// There were enough before it.
    TooMany(u32),
}

impl ToolGuards {
    /// Are there none?
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What speaks against a call that is this one of its run, counted from 1.
    pub fn find_breach(&self, call: &ToolCall, number: u32) -> Option<GuardBreach> {
        // Agents write the same tool now with a capital, now without.
        let tool = call.tool.to_lowercase();
        let is_denied = |pattern: &&CallPattern| pattern.matches_any(&tool, &call.inputs);
        if let Some(by) = self.deny.iter().find(is_denied) {
            let (call, by) = (call.clone(), by.clone());
            return Some(GuardBreach::Denied { call, pattern: by });
        }
        let is_allowed = |pattern: &CallPattern| pattern.matches_all(&tool, &call.inputs);
        if !self.allow.is_empty() && !self.allow.iter().any(is_allowed) {
            return Some(GuardBreach::NotAllowed(call.clone()));
        }
        self.calls
            .filter(|most| number > *most)
            .map(GuardBreach::TooMany)
    }
}

impl CallPattern {
    /// Is anything of this call meant? So it is denied.
    fn matches_any(&self, tool: &str, inputs: &[String]) -> bool {
        let any = |pattern: &String| inputs.iter().any(|what| matches_wildcard(pattern, what));
        matches_wildcard(&self.tool, tool) && self.input.as_ref().is_none_or(any)
    }

    /// Is all of this call meant? So it is allowed.
    fn matches_all(&self, tool: &str, inputs: &[String]) -> bool {
        let all = |pattern: &String| {
            !inputs.is_empty() && inputs.iter().all(|what| matches_wildcard(pattern, what))
        };
        matches_wildcard(&self.tool, tool) && self.input.as_ref().is_none_or(all)
    }
}

/// Does a text look like a pattern, in which `*` stands for anything?
fn matches_wildcard(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Why a text is no pattern of calls.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` names no calls: write a tool, as `WebFetch`, or a tool with what it is used on, as `Bash(*git push*)`"
)]
pub struct ParseCallPatternError(String);

impl FromStr for CallPattern {
    type Err = ParseCallPatternError;

    fn from_str(given: &str) -> Result<Self, ParseCallPatternError> {
        let wrong = || ParseCallPatternError(given.chars().take(60).collect());
        let (tool, on) = match given.trim().split_once('(') {
            Some((tool, on)) => (tool, Some(on.strip_suffix(')').ok_or_else(wrong)?)),
            None => (given.trim(), None),
        };
        let is_odd = |char: char| char.is_whitespace() || "()".contains(char) || char.is_control();
        if tool.is_empty() || tool.contains(is_odd) || on == Some("") {
            return Err(wrong());
        }
        Ok(Self {
            tool: tool.to_lowercase(),
            input: on.map(str::to_owned),
        })
    }
}

impl TryFrom<String> for CallPattern {
    type Error = ParseCallPatternError;

    fn try_from(given: String) -> Result<Self, ParseCallPatternError> {
        given.parse()
    }
}

impl From<CallPattern> for String {
    fn from(pattern: CallPattern) -> Self {
        pattern.to_string()
    }
}

impl fmt::Display for CallPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.input {
            Some(on) => write!(f, "{}({on})", self.tool),
            None => f.write_str(&self.tool),
        }
    }
}

impl fmt::Display for ToolCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.inputs.is_empty() {
            return f.write_str(&self.tool);
        }
        let on = self.inputs.join(", ");
        let end = on.floor_char_boundary(MAX_SHOWN_BYTES);
        let more = if end < on.len() { "…" } else { "" };
        write!(f, "{}({}{more})", self.tool, &on[..end])
    }
}

impl fmt::Display for GuardBreach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied { call, pattern: by } => {
                write!(f, "it used {call}, which its guards deny ({by})")
            }
            Self::NotAllowed(call) => write!(f, "it used {call}, which its guards do not allow"),
            Self::TooMany(most) => write!(f, "it used its tools more than {most} times"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool_call(tool: &str, on: &[&str]) -> ToolCall {
        ToolCall {
            tool: tool.to_owned(),
            inputs: on.iter().map(|&on| on.to_owned()).collect(),
        }
    }

    fn parse_patterns(of: &[&str]) -> Vec<CallPattern> {
        of.iter().map(|pattern| pattern.parse().unwrap()).collect()
    }

    #[test]
    fn stars_stand_for_anything_in_between_and_nothing_is_matched_twice() {
        for (pattern, text, is_match) in [
            ("*git*push*", "git push", true),
            ("*git*push*", "cd shop && git -C . push -f", true),
            ("*git*push*", "push git", false),
            ("a*b*b", "ab", false),
            ("a*b*b", "abb", true),
            ("*ab*bc*", "abc", false),
            ("*ab*bc*", "xabxbcx", true),
        ] {
            assert_eq!(
                matches_wildcard(pattern, text),
                is_match,
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn a_pattern_is_kept_as_it_is_written() {
        let written = serde_json::json!(["bash(*git push*)", "webfetch"]);
        let read: Vec<CallPattern> = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::json!(read), written);
    }

    #[test]
    fn a_breach_names_the_call_and_not_all_it_was_used_on() {
        let shown = |on: &[&str]| tool_call("Bash", on).to_string();
        assert_eq!(shown(&[]), "Bash");
        assert_eq!(shown(&["ls", "pwd"]), "Bash(ls, pwd)");
        let most = "x".repeat(MAX_SHOWN_BYTES);
        assert_eq!(shown(&[&most]), format!("Bash({most})"));
        assert_eq!(shown(&[&format!("{most}y")]), format!("Bash({most}…)"));
        let [by] = <[CallPattern; 1]>::try_from(parse_patterns(&["Bash"])).unwrap();
        let call = tool_call("Bash", &["ls"]);
        for (breach, told) in [
            (
                GuardBreach::Denied {
                    call: call.clone(),
                    pattern: by,
                },
                "it used Bash(ls), which its guards deny (bash)",
            ),
            (
                GuardBreach::NotAllowed(call),
                "it used Bash(ls), which its guards do not allow",
            ),
            (
                GuardBreach::TooMany(3),
                "it used its tools more than 3 times",
            ),
        ] {
            assert_eq!(breach.to_string(), told);
        }
    }

    #[test]
    fn whatever_is_said_makes_a_guard() {
        let mut guards = ToolGuards::default();
        assert!(guards.is_empty());
        guards.calls = Some(0);
        assert!(!guards.is_empty());
    }

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, text, expected) in [
            ("git push", "git push", true),
            ("git push", "git push origin", false),
            ("git push*", "git push origin", true),
            ("*git push*", "cd a\n&& git push origin", true),
            ("*git push*", "git pull", false),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "acb", false),
            ("ab*ba", "aba", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("*é", "née", false),
            ("n*e", "née", true),
        ] {
            assert_eq!(
                matches_wildcard(pattern, text),
                expected,
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn one_denied_thing_denies_a_call_and_everything_has_to_be_allowed() {
        let deny = ToolGuards {
            deny: parse_patterns(&["WebFetch", "edit(migrations/*)"]),
            ..ToolGuards::default()
        };
        let breach = |call: &ToolCall| deny.find_breach(call, 1).is_some();
        assert!(breach(&tool_call("webfetch", &["https://example.org"])));
        assert!(breach(&tool_call("WebFetch", &[])));
        assert!(breach(&tool_call(
            "Edit",
            &["src/a.rs", "migrations/1.sql"]
        )));
        assert!(!breach(&tool_call("Edit", &["src/a.rs"])));
        assert!(!breach(&tool_call("Edit", &[])));
        let allow = ToolGuards {
            allow: parse_patterns(&["Read", "edit(src/*)"]),
            ..ToolGuards::default()
        };
        let breach = |call: &ToolCall| allow.find_breach(call, 1).is_some();
        assert!(!breach(&tool_call("read", &["/etc/passwd"])));
        assert!(!breach(&tool_call("Edit", &["src/a.rs", "src/b.rs"])));
        assert!(breach(&tool_call("Edit", &["src/a.rs", "b.rs"])));
        assert!(breach(&tool_call("Edit", &[])));
        assert!(breach(&tool_call("Bash", &["ls"])));
    }

    #[test]
    fn calls_are_counted_from_one() {
        let guards = ToolGuards {
            calls: Some(2),
            ..ToolGuards::default()
        };
        let ls = tool_call("Bash", &["ls"]);
        assert_eq!(guards.find_breach(&ls, 2), None);
        assert_eq!(guards.find_breach(&ls, 3), Some(GuardBreach::TooMany(2)));
        assert_eq!(ToolGuards::default().find_breach(&ls, u32::MAX), None);
    }

    #[test]
    fn patterns_are_read_as_they_are_written() {
        for text in ["webfetch", "bash(*git push*)", "mcp__*", "bash(f(x))"] {
            let pattern: CallPattern = text.parse().unwrap();
            assert_eq!(pattern.to_string(), text);
        }
        for text in ["", " ", "Bash(ls", "(ls)", "Bash()", "Bash ls", "Ba)sh"] {
            assert!(text.parse::<CallPattern>().is_err(), "{text}");
        }
    }
}
