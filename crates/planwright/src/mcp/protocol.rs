//! The two generations of the protocol: with an `initialize` handshake, and stateless since 2026-07-28. They
//! differ in how a request names its version, in some methods, and in what every result carries.

use serde_json::{Map, Value, json};

use super::message::{
    INVALID_REQUEST, MISSING_CLIENT_CAPABILITY, ProtocolError, UNSUPPORTED_VERSION,
};

/// The stateless revision that this server speaks.
pub const STATELESS_VERSION: &str = "2026-07-28";

/// The revisions with a handshake, newest first.
const HANDSHAKE_VERSIONS: [&str; 2] = ["2025-11-25", "2025-06-18"];

pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";
pub const SUBSCRIPTION_ID_KEY: &str = "io.modelcontextprotocol/subscriptionId";
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const SERVER_INFO_KEY: &str = "io.modelcontextprotocol/serverInfo";

const INSTRUCTIONS: &str = "Planwright runs coding agents in private copies of a repository. Start a plan with \
    plan_start; it keeps working after the call. Poll plan_status with wait_seconds until it waits for a person or \
    has ended. Then read plan_diff, and send it back with plan_revise if it is not good. You cannot land a result: \
    plan_request_landing says where a person reviews and lands it.";

/// What a server says about itself.
pub struct ServerDescription {
    pub capabilities: Value,
    /// In addition to the capabilities, in the stateless revision.
    pub extensions: Value,
    /// For the client's model.
    pub instructions: &'static str,
}

/// The server that starts and watches plans.
pub fn describe_plan_server() -> ServerDescription {
    ServerDescription {
        capabilities: json!({ "tools": {}, "resources": { "subscribe": true }, "prompts": {} }),
        extensions: json!({ TASKS_EXTENSION: {} }),
        instructions: INSTRUCTIONS,
    }
}

/// How a request asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolGeneration {
    /// After `initialize`.
    Handshake,
    /// Every request carries its version and the client's capabilities.
    Stateless,
}

/// What a request says about its client.
#[derive(Debug, Clone)]
pub struct RequestOrigin {
    pub generation: ProtocolGeneration,
    client_capabilities: Value,
}

impl RequestOrigin {
    /// Reads the generation of a request. `is_initialized`: the client sent `initialize` before.
    pub fn read(params: &Map<String, Value>, is_initialized: bool) -> Result<Self, ProtocolError> {
        let meta = params.get("_meta");
        let field = |key: &str| meta.and_then(|meta| meta.get(key));
        let Some(version) = field(VERSION_KEY) else {
            return match is_initialized {
                true => Ok(Self {
                    generation: ProtocolGeneration::Handshake,
                    client_capabilities: Value::Null,
                }),
                false => Err(ProtocolError::invalid_params(format!(
                    "The request has no `{VERSION_KEY}` in `_meta`, and no `initialize` came before it."
                ))),
            };
        };
        if version.as_str() != Some(STATELESS_VERSION) {
            let data = json!({ "supported": [STATELESS_VERSION], "requested": version });
            let error = ProtocolError::new(UNSUPPORTED_VERSION, "Unsupported protocol version");
            return Err(error.with_data(data));
        }
        match field(CAPABILITIES_KEY) {
            Some(capabilities @ Value::Object(_)) => Ok(Self {
                generation: ProtocolGeneration::Stateless,
                client_capabilities: capabilities.clone(),
            }),
            Some(_) | None => Err(ProtocolError::invalid_params(format!(
                "The request has no `{CAPABILITIES_KEY}` in `_meta`."
            ))),
        }
    }

    /// Returns whether a request says its version itself.
    pub fn names_version(params: &Map<String, Value>) -> bool {
        let meta = params.get("_meta");
        meta.is_some_and(|meta| meta.get(VERSION_KEY).is_some())
    }

    pub fn is_stateless(&self) -> bool {
        self.generation == ProtocolGeneration::Stateless
    }

    /// The client understands tasks.
    pub fn supports_tasks(&self) -> bool {
        self.client_capabilities["extensions"][TASKS_EXTENSION].is_object()
    }

    /// The client can show a person a link.
    pub fn can_open_links(&self) -> bool {
        self.client_capabilities["elicitation"]["url"].is_object()
    }

    pub fn require_tasks(&self) -> Result<(), ProtocolError> {
        if self.supports_tasks() {
            return Ok(());
        }
        let message = "Missing required client capability";
        let error = ProtocolError::new(MISSING_CLIENT_CAPABILITY, message);
        let required = json!({ "extensions": { TASKS_EXTENSION: {} } });
        Err(error.with_data(json!({ "requiredCapabilities": required })))
    }

    /// Adds what every result of this generation carries.
    pub fn complete_result(&self, mut result: Value, freshness: Freshness) -> Value {
        if !self.is_stateless() {
            return result;
        }
        let Some(fields) = result.as_object_mut() else {
            return result;
        };
        fields.entry("resultType").or_insert(json!("complete"));
        let meta = fields.entry("_meta").or_insert(json!({}));
        meta[SERVER_INFO_KEY] = server_info();
        if let Some((seconds, scope)) = freshness.cache_hint() {
            fields.insert("ttlMs".to_owned(), json!(seconds * 1000));
            fields.insert("cacheScope".to_owned(), json!(scope));
        }
        result
    }
}

/// How long a client may reuse a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// The result says nothing about it, as those of tools.
    Unstated,
    /// Read again each time.
    Changing,
    /// The same until the program is replaced.
    Constant,
}

impl Freshness {
    /// Seconds, and who may share the result.
    fn cache_hint(self) -> Option<(u64, &'static str)> {
        match self {
            Self::Unstated => None,
            Self::Changing => Some((0, "private")),
            Self::Constant => Some((3600, "public")),
        }
    }
}

fn server_info() -> Value {
    json!({
        "name": "planwright",
        "title": "Planwright",
        "version": env!("CARGO_PKG_VERSION"),
    })
}

/// Answers `initialize` with the version that the client asked for, or else the newest one with a handshake.
pub fn answer_initialize(
    server: &ServerDescription,
    params: &Map<String, Value>,
) -> Result<Value, ProtocolError> {
    let Some(requested) = params.get("protocolVersion").and_then(Value::as_str) else {
        return Err(ProtocolError::invalid_params(
            "`initialize` needs a `protocolVersion`.",
        ));
    };
    let mut known = HANDSHAKE_VERSIONS.into_iter();
    let version = known.find(|version| *version == requested);
    Ok(json!({
        "protocolVersion": version.unwrap_or(HANDSHAKE_VERSIONS[0]),
        "capabilities": server.capabilities,
        "serverInfo": server_info(),
        "instructions": server.instructions,
    }))
}

/// Answers `server/discover`.
pub fn answer_discover(server: &ServerDescription) -> Value {
    let mut capabilities = server.capabilities.clone();
    capabilities["extensions"] = server.extensions.clone();
    json!({
        "supportedVersions": [STATELESS_VERSION],
        "capabilities": capabilities,
        "instructions": server.instructions,
    })
}

/// Reads a required string parameter.
pub fn require_text<'a>(
    params: &'a Map<String, Value>,
    name: &str,
) -> Result<&'a str, ProtocolError> {
    let text = params.get(name).and_then(Value::as_str);
    text.ok_or_else(|| ProtocolError::invalid_params(format!("`{name}` must be a string.")))
}

/// Too much of something that the server bounds.
pub fn over_limit(message: impl Into<String>) -> ProtocolError {
    ProtocolError::new(INVALID_REQUEST, message)
}
