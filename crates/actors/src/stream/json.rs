//! Helpers for JSON in which anything may be missing or have another type.

use serde_json::{Map, Value};

pub(crate) type JsonObject = Map<String, Value>;

/// Parses the event in a line: an object with a `type`.
pub(crate) fn parse_event(line: &str) -> Option<(String, JsonObject)> {
    let event = parse_object(line)?;
    Some((get_text(&event, "type")?.to_owned(), event))
}

/// Parses the object in a line.
pub(crate) fn parse_object(line: &str) -> Option<JsonObject> {
    let line = line.trim();
    if !line.starts_with('{') {
        return None;
    }
    serde_json::from_str(line).ok()
}

pub(crate) fn get_text<'a>(object: &'a JsonObject, key: &str) -> Option<&'a str> {
    object.get(key)?.as_str()
}

pub(crate) fn get_object<'a>(object: &'a JsonObject, key: &str) -> Option<&'a JsonObject> {
    object.get(key)?.as_object()
}

pub(crate) fn get_array<'a>(object: &'a JsonObject, key: &str) -> &'a [Value] {
    object
        .get(key)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

pub(crate) fn get_count(object: &JsonObject, key: &str) -> u64 {
    object.get(key).and_then(Value::as_u64).unwrap_or(0)
}

pub(crate) fn dollars_to_micros(dollars: f64) -> Option<u64> {
    let micros = (dollars * 1e6).round();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "below 2^53 and not negative"
    )]
    (0.0..9e15).contains(&micros).then_some(micros as u64)
}
