//! Messages of JSON-RPC 2.0, as far as a server of the Model Context Protocol needs them: one per line.

use serde_json::{Map, Value, json};

pub const PARSE_ERROR: i64 = -32700;
pub const INVALID_REQUEST: i64 = -32600;
pub const METHOD_NOT_FOUND: i64 = -32601;
pub const INVALID_PARAMS: i64 = -32602;
pub const INTERNAL_ERROR: i64 = -32603;
/// Only for clients that sent `initialize`. Later revisions use [`INVALID_PARAMS`].
pub const RESOURCE_NOT_FOUND: i64 = -32002;
pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
pub const UNSUPPORTED_VERSION: i64 = -32022;

/// What a client sent.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientMessage {
    Request {
        id: RequestId,
        method: String,
        params: Map<String, Value>,
    },
    Notification {
        method: String,
        params: Map<String, Value>,
    },
    /// An answer. This server asks nothing, so there is nothing to do with it.
    Response,
}

/// A string or a number, as the client chose it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(String);

impl RequestId {
    /// `None` if this is not a valid id.
    pub fn from_json(value: &Value) -> Option<Self> {
        (value.is_string() || value.is_number()).then(|| Self(value.to_string()))
    }

    pub fn to_json(&self) -> Value {
        self.0.parse().expect("BUG: an id was printed from JSON")
    }
}

/// A refused request, as the protocol has it. A tool that fails answers with a result instead.
#[derive(Debug, Clone, PartialEq)]
pub struct ProtocolError {
    pub code: i64,
    pub message: String,
    pub data: Option<Value>,
}

impl ProtocolError {
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }

    pub fn method_not_found(method: &str) -> Self {
        let method: String = method.chars().take(100).collect();
        Self::new(METHOD_NOT_FOUND, format!("Method not found: {method}"))
    }

    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }
}

/// A line that is not a request. Carries the id if the line has one.
#[derive(Debug, PartialEq)]
pub struct MalformedMessage {
    pub id: Option<RequestId>,
    pub error: ProtocolError,
}

pub fn parse_message(line: &[u8]) -> Result<ClientMessage, MalformedMessage> {
    let refuse = |id, code, message: String| MalformedMessage {
        id,
        error: ProtocolError::new(code, message),
    };
    let parsed: Value = serde_json::from_slice(line)
        .map_err(|error| refuse(None, PARSE_ERROR, format!("Not valid JSON: {error}")))?;
    let Value::Object(mut message) = parsed else {
        let text = "A message is one JSON object per line; batches are not supported.";
        return Err(refuse(None, INVALID_REQUEST, text.to_owned()));
    };
    let raw_id = message.remove("id");
    let id = raw_id.as_ref().and_then(RequestId::from_json);
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        let text = "`jsonrpc` must be \"2.0\".".to_owned();
        return Err(refuse(id, INVALID_REQUEST, text));
    }
    let Some(method) = message.get("method") else {
        return match message.contains_key("result") || message.contains_key("error") {
            true => Ok(ClientMessage::Response),
            false => Err(refuse(
                id,
                INVALID_REQUEST,
                "The message has no `method`.".to_owned(),
            )),
        };
    };
    let Some(method) = method.as_str().map(str::to_owned) else {
        let text = "`method` must be a string.".to_owned();
        return Err(refuse(id, INVALID_REQUEST, text));
    };
    let params = match message.remove("params") {
        None => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => {
            let text = "`params` must be an object.".to_owned();
            return Err(refuse(id, INVALID_PARAMS, text));
        }
    };
    match (raw_id, id) {
        (None, _) => Ok(ClientMessage::Notification { method, params }),
        (Some(_), Some(id)) => Ok(ClientMessage::Request { id, method, params }),
        (Some(_), None) => Err(refuse(
            None,
            INVALID_REQUEST,
            "`id` must be a string or a number.".to_owned(),
        )),
    }
}

pub fn format_response(id: &RequestId, outcome: Result<Value, ProtocolError>) -> Value {
    match outcome {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id.to_json(), "result": result }),
        Err(error) => format_error(Some(id), &error),
    }
}

/// An error without an id answers a message whose id could not be read.
pub fn format_error(id: Option<&RequestId>, error: &ProtocolError) -> Value {
    let mut body = json!({ "code": error.code, "message": error.message });
    if let Some(data) = &error.data {
        body["data"] = data.clone();
    }
    let mut message = json!({ "jsonrpc": "2.0", "error": body });
    if let Some(id) = id {
        message["id"] = id.to_json();
    }
    message
}

pub fn format_notification(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart_and_malformed_ones_keep_their_id() {
        let describe = |line: &str| match parse_message(line.as_bytes()) {
            Ok(ClientMessage::Request { id, method, .. }) => {
                format!("request {} {method}", id.to_json())
            }
            Ok(ClientMessage::Notification { method, .. }) => format!("notification {method}"),
            Ok(ClientMessage::Response) => "response".to_owned(),
            Err(refused) => {
                let id = refused.id.map(|id| id.to_json().to_string());
                format!("{} {}", refused.error.code, id.unwrap_or_default())
            }
        };
        for (line, expected) in [
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
                "request 1 ping",
            ),
            (
                r#"{"jsonrpc":"2.0","id":"a","method":"x","params":{}}"#,
                "request \"a\" x",
            ),
            (r#"{"jsonrpc":"2.0","method":"x"}"#, "notification x"),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "response"),
            (r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, "-32600 "),
            (r#"{"jsonrpc":"2.0","id":[1],"method":"x"}"#, "-32600 "),
            (r#"{"jsonrpc":"2.0","id":7,"method":3}"#, "-32600 7"),
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"x","params":[1]}"#,
                "-32602 7",
            ),
            (r#"{"jsonrpc":"1.0","id":7,"method":"x"}"#, "-32600 7"),
            (r#"{"jsonrpc":"2.0","id":7}"#, "-32600 7"),
            (r#"[{"jsonrpc":"2.0","id":7,"method":"x"}]"#, "-32600 "),
            ("{", "-32700 "),
            ("", "-32700 "),
        ] {
            assert_eq!(describe(line), expected, "{line}");
        }
    }
}
