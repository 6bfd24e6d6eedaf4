//! JSON views of events and decisions.

use plan::decision::DecisionNode;
use plan::{Digest, Event, PlanId, RecordedEvent, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value, json};
use store::StoredEvent;

#[derive(Debug, Serialize)]
pub struct EventView {
    pub plan_id: PlanId,
    /// The event's number within the plan.
    pub version: u64,
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub at: Timestamp,
    /// The caller.
    pub by: String,
    pub data: Value,
    /// The position in the log of all plans, to resume reading after this event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// The hash of this event chained to the previous event's hash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<Digest>,
}

#[derive(Debug, Serialize)]
pub struct DecisionView {
    /// The decision's number within the plan.
    pub number: u32,
    /// The number of the parent decision.
    pub parent: Option<u32>,
    pub kind: &'static str,
    pub question: String,
    pub choice: String,
    pub alternatives: Vec<String>,
    pub rationale: Option<String>,
    /// From 0 to 1.
    pub confidence: Option<f64>,
}

impl From<&RecordedEvent> for EventView {
    fn from(recorded: &RecordedEvent) -> Self {
        let mut data = serde_json::to_value(&recorded.event).unwrap_or_default();
        if let Value::Object(fields) = &mut data {
            fields.remove("type");
        }
        flatten_texts(&mut data);
        if let (Event::Created(created), Value::Object(fields)) = (&recorded.event, &mut data) {
            let arguments: Map<String, Value> = created
                .arguments
                .iter()
                .map(|(name, value)| (name.clone(), value.to_json()))
                .collect();
            let actors = json!({
                "strategy": created.actors.strategy.to_string(),
                "execution": created.actors.execution.to_string(),
                "invariant": created.actors.invariant.as_ref().map(ToString::to_string),
            });
            let action = created.action.as_ref().map(ToString::to_string);
            fields.insert("arguments".to_owned(), arguments.into());
            fields.insert("actors".to_owned(), actors);
            fields.insert("action".to_owned(), action.into());
        }
        Self {
            plan_id: recorded.plan,
            version: recorded.version.0,
            kind: recorded.event.kind(),
            at: recorded.at,
            by: recorded.by.to_string(),
            data,
            cursor: None,
            hash: None,
        }
    }
}

impl From<&StoredEvent> for EventView {
    fn from(stored: &StoredEvent) -> Self {
        Self {
            cursor: stored.cursor.as_ref().map(ToString::to_string),
            hash: Some(stored.hash),
            ..Self::from(&stored.recorded)
        }
    }
}

impl From<&DecisionNode> for DecisionView {
    fn from(node: &DecisionNode) -> Self {
        Self {
            number: node.number,
            parent: node.parent,
            kind: node.kind.as_str(),
            question: node.question.to_string(),
            choice: node.choice.to_string(),
            alternatives: node.alternatives.iter().map(ToString::to_string).collect(),
            rationale: node.rationale.as_ref().map(ToString::to_string),
            confidence: node.confidence.map(Into::into),
        }
    }
}

/// Replaces the store's `$text` objects with plain strings, and erased texts with null.
fn flatten_texts(value: &mut Value) {
    match value {
        Value::Object(fields) => match fields.remove("$text") {
            Some(text) => *value = text,
            None if fields.contains_key("$erased") => *value = Value::Null,
            None => fields.values_mut().for_each(flatten_texts),
        },
        Value::Array(items) => items.iter_mut().for_each(flatten_texts),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
