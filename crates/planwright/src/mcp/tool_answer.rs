//! The result of a tool call: text for a model, the same as typed data, and bounds on both.

use serde::Serialize;
use serde_json::{Value, json};

use super::agent_access::AgentAccess;
use crate::error::CommandError;
use crate::ui;

/// The longest string, and the longest list, of an answer. Longer ones are cut.
const MAX_TEXT_CHARS: usize = 8_000;
const MAX_LIST_ITEMS: usize = 100;

/// The answer of a tool.
#[derive(Debug)]
pub struct ToolAnswer {
    pub text: String,
    pub data: Value,
    pub is_error: bool,
}

impl ToolAnswer {
    /// Cuts what is too long, and says so.
    pub fn new(data: impl Serialize, text: impl Into<String>) -> Self {
        let mut data = serde_json::to_value(data).expect("BUG: an answer always encodes");
        let mut text = text.into();
        if cut_long_values(&mut data, MAX_TEXT_CHARS, MAX_LIST_ITEMS) {
            data["truncated"] = json!(true);
            text.push_str("Long values were cut. A person sees all of them: planwright status\n");
        }
        Self::unbounded(data, text)
    }

    /// For data that was bounded before.
    pub fn unbounded(data: Value, text: impl Into<String>) -> Self {
        let text = anstream::adapter::strip_str(&text.into()).to_string();
        Self {
            text: ui::escape_controls(&text),
            data,
            is_error: false,
        }
    }

    /// What happened, why, and what to do. Commands are for a person: no tool carries them out.
    pub fn of_error(access: &AgentAccess, error: &CommandError) -> Self {
        let hints: Vec<String> = error
            .hints
            .iter()
            .map(|hint| access.invocation.render_hint(hint))
            .collect();
        let mut text = format!("{}\n", error.message);
        for hint in &hints {
            let is_command = access.invocation.is_command(hint);
            let lead = if is_command { "A person can run: " } else { "" };
            text.push_str(&format!("- {lead}{hint}\n"));
        }
        let kind = error.data.get("kind").and_then(Value::as_str);
        let data = json!({
            "kind": kind.unwrap_or("error"),
            "message": error.message,
            "hints": hints,
        });
        let mut answer = Self::unbounded(data, text);
        cut_long_values(&mut answer.data, MAX_TEXT_CHARS, MAX_LIST_ITEMS);
        answer.is_error = true;
        answer
    }

    pub fn into_result(self) -> Value {
        json!({
            "content": [{ "type": "text", "text": self.text }],
            "structuredContent": self.data,
            "isError": self.is_error,
        })
    }
}

/// Cuts long strings and lists in a value. Returns whether there were any.
pub fn cut_long_values(value: &mut Value, max_chars: usize, max_items: usize) -> bool {
    match value {
        Value::String(text) => match text.char_indices().nth(max_chars) {
            None => false,
            Some((end, _)) => {
                text.truncate(end);
                text.push('…');
                true
            }
        },
        Value::Array(items) => {
            let was_long = items.len() > max_items;
            items.truncate(max_items);
            cut_each(items, max_chars, max_items) || was_long
        }
        Value::Object(fields) => cut_each(fields.values_mut(), max_chars, max_items),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Cuts all of them, unlike `any`.
fn cut_each<'a>(
    values: impl IntoIterator<Item = &'a mut Value>,
    max_chars: usize,
    max_items: usize,
) -> bool {
    let mut is_cut = false;
    for value in values {
        is_cut |= cut_long_values(value, max_chars, max_items);
    }
    is_cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_cut_at_every_depth() {
        let mut value = json!({ "a": ["éé", "ééé", "é"], "b": { "c": "éééé" } });
        assert!(!cut_long_values(&mut value, 4, 3));
        assert!(cut_long_values(&mut value, 2, 2));
        assert_eq!(value, json!({ "a": ["éé", "éé…"], "b": { "c": "éé…" } }));
    }
}
