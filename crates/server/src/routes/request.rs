//! Reads requests: JSON bodies within bounds, and the conditions of a change.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use plan::PlanVersion;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::engine_access::WriteConditions;
use crate::problem::Problem;
use crate::state::ServerState;

const KEY_HEADER: &str = "idempotency-key";
const MAX_KEY_LENGTH: usize = 200;

/// A JSON body. Unknown fields are refused, so that a typo is not taken for a default.
pub struct JsonBody<T>(pub T);

impl<T: DeserializeOwned> FromRequest<Arc<ServerState>> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &Arc<ServerState>) -> Result<Self, Problem> {
        let reading = read_body(request.into_body(), state.limits.max_body_bytes);
        let bytes = match timeout(state.limits.body_timeout, reading).await {
            Ok(bytes) => bytes?,
            Err(_) => {
                return Err(Problem::new(
                    StatusCode::REQUEST_TIMEOUT,
                    "slow_body",
                    "The body took too long to arrive.",
                ));
            }
        };
        serde_json::from_slice(&bytes)
            .map(Self)
            .map_err(|error| Problem::bad_request("bad_body", format!("Bad body: {error}.")))
    }
}

/// The parts of a path that a route names. Refused with a problem if they are not text.
pub struct UrlPath<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for UrlPath<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::<T>::from_request_parts(parts, state).await {
            Ok(Path(value)) => Ok(Self(value)),
            Err(rejection) => Err(Problem::bad_request("bad_path", rejection.body_text())),
        }
    }
}

/// The parameters after the question mark. Refused with a problem if they are not what the route takes.
pub struct UrlQuery<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for UrlQuery<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(value)) => Ok(Self(value)),
            Err(rejection) => Err(Problem::bad_request("bad_query", rejection.body_text())),
        }
    }
}

async fn read_body(body: Body, max_bytes: usize) -> Result<axum::body::Bytes, Problem> {
    axum::body::to_bytes(body, max_bytes).await.map_err(|_| {
        Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "body_too_large",
            format!("The body is larger than {max_bytes} bytes or incomplete."),
        )
    })
}

impl FromRequestParts<Arc<ServerState>> for WriteConditions {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<ServerState>) -> Result<Self, Problem> {
        Ok(Self {
            if_version: read_if_match(&parts.headers)?,
            key: read_or_make_key(&parts.headers)?,
        })
    }
}

impl WriteConditions {
    /// Names the key in an answer, so that a client without its own can repeat the request.
    pub fn add_key(&self, headers: &mut HeaderMap) {
        if let Ok(key) = HeaderValue::from_str(&self.key) {
            headers.insert(KEY_HEADER, key);
        }
    }
}

/// Reads `If-Match`: a version in quotes, as `ETag` returned it.
fn read_if_match(headers: &HeaderMap) -> Result<Option<PlanVersion>, Problem> {
    let Some(value) = headers.get(header::IF_MATCH) else {
        return Ok(None);
    };
    let text = value.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Ok(None);
    }
    let version = text.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    let version = version.unwrap_or(text).parse();
    version
        .map(|version| Some(PlanVersion(version)))
        .map_err(|_| {
            Problem::bad_request(
                "bad_if_match",
                "If-Match must be the version of a plan, such as \"7\".",
            )
        })
}

/// Reads `Idempotency-Key`. Without one, the request gets a key of its own, to repeat it after an unknown outcome.
fn read_or_make_key(headers: &HeaderMap) -> Result<String, Problem> {
    let Some(value) = headers.get(KEY_HEADER) else {
        return make_key().map_err(|error| {
            Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "no_randomness",
                format!("Cannot make a key: {error}"),
            )
        });
    };
    let key = value.to_str().unwrap_or_default();
    if (1..=MAX_KEY_LENGTH).contains(&key.len()) && !key.chars().any(char::is_control) {
        return Ok(key.to_owned());
    }
    Err(Problem::bad_request(
        "bad_key",
        "Idempotency-Key must be 1 to 200 printable ASCII characters.",
    ))
}

fn make_key() -> Result<String, getrandom::Error> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes)?;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("http-{hex}"))
}
