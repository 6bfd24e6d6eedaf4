//! Tool guards: hard limits on an actor's tool calls, checked on every reported call.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Longest tool input shown in a message.
const MAX_SHOWN_BYTES: usize = 200;

/// Limits on an actor's tool calls. The default allows everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolGuards {
    /// Calls that are forbidden.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<CallPattern>,
    /// If not empty, all other calls are forbidden.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<CallPattern>,
    /// Most calls per run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// Name of the tool, as the agent spells it.
    pub tool: String,
    /// For example a command, paths or a URL.
    pub inputs: Vec<String>,
}

/// A pattern such as `WebFetch` or `Bash(*git push*)`. `*` matches any text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct CallPattern {
    tool: String,
    input: Option<String>,
}

/// Why a call breaks the guards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuardBreach {
    Denied {
        call: ToolCall,
        pattern: CallPattern,
    },
    NotAllowed(ToolCall),
    /// More calls than this limit.
    TooMany(u32),
}

impl ToolGuards {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Checks one call. `number` is its position in the run, from 1.
    pub fn find_breach(&self, call: &ToolCall, number: u32) -> Option<GuardBreach> {
        // Agents spell the same tool with and without capitals.
        let tool = call.tool.to_lowercase();
        let is_denied = |pattern: &&CallPattern| pattern.matches_any(&tool, &call.inputs);
        if let Some(pattern) = self.deny.iter().find(is_denied) {
            let (call, pattern) = (call.clone(), pattern.clone());
            return Some(GuardBreach::Denied { call, pattern });
        }
        let is_allowed = |pattern: &CallPattern| pattern.matches_all(&tool, &call.inputs);
        if !self.allow.is_empty() && !self.allow.iter().any(is_allowed) {
            return Some(GuardBreach::NotAllowed(call.clone()));
        }
        self.calls
            .filter(|limit| number > *limit)
            .map(GuardBreach::TooMany)
    }
}

impl CallPattern {
    /// Matches if any input matches. Used to deny: one forbidden input is enough.
    pub(crate) fn matches_any(&self, tool: &str, inputs: &[String]) -> bool {
        let any = |pattern: &String| inputs.iter().any(|input| matches_wildcard(pattern, input));
        matches_wildcard(&self.tool, tool) && self.input.as_ref().is_none_or(any)
    }

    /// Matches if every input matches. Used to allow: a call without inputs does not match a
    /// pattern that names one.
    pub(crate) fn matches_all(&self, tool: &str, inputs: &[String]) -> bool {
        let all = |pattern: &String| {
            !inputs.is_empty() && inputs.iter().all(|input| matches_wildcard(pattern, input))
        };
        matches_wildcard(&self.tool, tool) && self.input.as_ref().is_none_or(all)
    }
}

/// Returns whether `text` matches `pattern`, where `*` matches any text.
fn matches_wildcard(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    // Taking the leftmost match of each part leaves the most text for the others.
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a call pattern: write a tool, such as `WebFetch`, or a tool and its input, such as `Bash(*git push*)`"
)]
pub struct ParseCallPatternError(String);

impl FromStr for CallPattern {
    type Err = ParseCallPatternError;

    fn from_str(text: &str) -> Result<Self, ParseCallPatternError> {
        let invalid = || ParseCallPatternError(text.chars().take(60).collect());
        let (tool, input) = match text.trim().split_once('(') {
            Some((tool, input)) => (tool, Some(input.strip_suffix(')').ok_or_else(invalid)?)),
            None => (text.trim(), None),
        };
        let is_odd = |char: char| char.is_whitespace() || "()".contains(char) || char.is_control();
        if tool.is_empty() || tool.contains(is_odd) || input == Some("") {
            return Err(invalid());
        }
        Ok(Self {
            tool: tool.to_lowercase(),
            input: input.map(str::to_owned),
        })
    }
}

impl TryFrom<String> for CallPattern {
    type Error = ParseCallPatternError;

    fn try_from(text: String) -> Result<Self, ParseCallPatternError> {
        text.parse()
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
            Some(input) => write!(f, "{}({input})", self.tool),
            None => f.write_str(&self.tool),
        }
    }
}

impl fmt::Display for ToolCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.inputs.is_empty() {
            return f.write_str(&self.tool);
        }
        let inputs = self.inputs.join(", ");
        let end = inputs.floor_char_boundary(MAX_SHOWN_BYTES);
        let more = if end < inputs.len() { "…" } else { "" };
        write!(f, "{}({}{more})", self.tool, &inputs[..end])
    }
}

impl fmt::Display for GuardBreach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied { call, pattern } => {
                write!(f, "it used {call}, which its guards deny ({pattern})")
            }
            Self::NotAllowed(call) => write!(f, "it used {call}, which its guards do not allow"),
            Self::TooMany(limit) => write!(f, "it used its tools more than {limit} times"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool_call(tool: &str, inputs: &[&str]) -> ToolCall {
        ToolCall {
            tool: tool.to_owned(),
            inputs: inputs.iter().map(|&input| input.to_owned()).collect(),
        }
    }

    fn parse_patterns(texts: &[&str]) -> Vec<CallPattern> {
        texts
            .iter()
            .map(|pattern| pattern.parse().unwrap())
            .collect()
    }

    #[test]
    fn wildcards_match_in_order_and_without_overlap() {
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
    fn patterns_round_trip_through_json() {
        let written = serde_json::json!(["bash(*git push*)", "webfetch"]);
        let read: Vec<CallPattern> = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::json!(read), written);
    }

    #[test]
    fn a_breach_names_the_call_and_shortens_its_inputs() {
        let shown = |inputs: &[&str]| tool_call("Bash", inputs).to_string();
        assert_eq!(shown(&[]), "Bash");
        assert_eq!(shown(&["ls", "pwd"]), "Bash(ls, pwd)");
        let longest = "x".repeat(MAX_SHOWN_BYTES);
        assert_eq!(shown(&[&longest]), format!("Bash({longest})"));
        assert_eq!(
            shown(&[&format!("{longest}y")]),
            format!("Bash({longest}…)")
        );
        let [pattern] = <[CallPattern; 1]>::try_from(parse_patterns(&["Bash"])).unwrap();
        let call = tool_call("Bash", &["ls"]);
        for (breach, message) in [
            (
                GuardBreach::Denied {
                    call: call.clone(),
                    pattern,
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
            assert_eq!(breach.to_string(), message);
        }
    }

    #[test]
    fn guards_with_any_limit_are_not_empty() {
        let mut guards = ToolGuards::default();
        assert!(guards.is_empty());
        guards.calls = Some(0);
        assert!(!guards.is_empty());
    }

    #[test]
    fn wildcards_match_any_text() {
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
    fn one_denied_input_denies_a_call_and_every_input_must_be_allowed() {
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
    fn patterns_parse_and_display_unchanged() {
        for text in ["webfetch", "bash(*git push*)", "mcp__*", "bash(f(x))"] {
            let pattern: CallPattern = text.parse().unwrap();
            assert_eq!(pattern.to_string(), text);
        }
        for text in ["", " ", "Bash(ls", "(ls)", "Bash()", "Bash ls", "Ba)sh"] {
            assert!(text.parse::<CallPattern>().is_err(), "{text}");
        }
    }
}
