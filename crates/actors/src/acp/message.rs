//! Messages of JSON-RPC, as far as the Agent Client Protocol needs them: one per line.
//!
//! Anything may be missing or have another type: agents differ, and the protocol grows.

use serde_json::{Value, json};

use crate::stream::json::{JsonObject, get_object, get_text, parse_object};

/// The code of an error that asks for a login.
const AUTHENTICATION_REQUIRED_CODE: i64 = -32000;

const METHOD_NOT_FOUND_CODE: i64 = -32601;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum IncomingMessage {
    /// The answer to a request of ours.
    Response {
        id: u64,
        outcome: Result<JsonObject, RpcError>,
    },
    /// The agent wants an answer with this id, which is any JSON.
    Request {
        id: Value,
        method: String,
        params: JsonObject,
    },
    Notification {
        method: String,
        params: JsonObject,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RpcError {
    pub(super) code: i64,
    /// What the agent says, with its details.
    pub(super) text: String,
}

impl RpcError {
    pub(super) fn asks_for_login(&self) -> bool {
        self.code == AUTHENTICATION_REQUIRED_CODE
            || self.text.to_lowercase().contains("authentication required")
    }
}

/// Parses a line; `None` if it is not a message.
pub(super) fn parse_message(line: &str) -> Option<IncomingMessage> {
    let mut message = parse_object(line)?;
    let params = match message.remove("params") {
        Some(Value::Object(params)) => params,
        _ => JsonObject::default(),
    };
    let method = get_text(&message, "method").map(str::to_owned);
    let id = message.remove("id").filter(|id| !id.is_null());
    match (method, id) {
        (Some(method), Some(id)) => Some(IncomingMessage::Request { id, method, params }),
        (Some(method), None) => Some(IncomingMessage::Notification { method, params }),
        (None, Some(id)) => {
            let as_number = id.as_u64();
            let id = as_number.or_else(|| id.as_str().and_then(|text| text.parse().ok()))?;
            let outcome = match get_object(&message, "error") {
                Some(error) => Err(read_error(error)),
                None => Ok(match message.remove("result") {
                    Some(Value::Object(result)) => result,
                    _ => JsonObject::default(),
                }),
            };
            Some(IncomingMessage::Response { id, outcome })
        }
        (None, None) => None,
    }
}

fn read_error(error: &JsonObject) -> RpcError {
    const DETAIL_KEYS: [&str; 5] = ["reason", "details", "detail", "message", "error"];
    let message = get_text(error, "message").unwrap_or("the agent reported an error");
    let detail = match error.get("data") {
        Some(Value::String(text)) => Some(text.as_str()),
        Some(Value::Object(data)) => DETAIL_KEYS.iter().find_map(|key| get_text(data, key)),
        _ => None,
    };
    RpcError {
        code: error.get("code").and_then(Value::as_i64).unwrap_or(0),
        text: match detail.filter(|detail| !message.contains(detail)) {
            Some(detail) => format!("{message}: {detail}"),
            None => message.to_owned(),
        },
    }
}

pub(super) fn format_request(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

pub(super) fn format_notification(method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
}

pub(super) fn format_result(id: &Value, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

/// The answer to a request that is not supported.
pub(super) fn format_method_not_found(id: &Value, method: &str) -> String {
    let message = format!("Method not found: {method}");
    let error = json!({"code": METHOD_NOT_FOUND_CODE, "message": message});
    json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_notifications_and_responses_are_told_apart() {
        let kind = |line: &str| match parse_message(line) {
            Some(IncomingMessage::Response { id, outcome }) => match outcome {
                Ok(_) => format!("result {id}"),
                Err(error) => format!("error {id}: {}", error.text),
            },
            Some(IncomingMessage::Request { id, method, .. }) => format!("request {id} {method}"),
            Some(IncomingMessage::Notification { method, .. }) => format!("notification {method}"),
            None => "nothing".to_owned(),
        };
        for (line, expected) in [
            (
                r#"{"id":0,"method":"session/request_permission"}"#,
                "request 0 session/request_permission",
            ),
            (r#"{"id":"a","method":"x","params":[1]}"#, "request \"a\" x"),
            (r#"{"id":null,"method":"x"}"#, "notification x"),
            (r#"{"id":3,"result":{}}"#, "result 3"),
            (r#"{"id":"3","result":null}"#, "result 3"),
            (
                r#"{"id":3,"error":{"code":-32000,"message":"Authentication required","data":{"reason":"Log in"}}}"#,
                "error 3: Authentication required: Log in",
            ),
            (
                r#"{"id":3,"error":{}}"#,
                "error 3: the agent reported an error",
            ),
            (r#"{"id":"x","result":{}}"#, "nothing"),
            (r#"{"jsonrpc":"2.0"}"#, "nothing"),
            (r#"[{"id":3}]"#, "nothing"),
            ("warning: {}", "nothing"),
            ("{", "nothing"),
        ] {
            assert_eq!(kind(line), expected, "{line}");
        }
    }
}
