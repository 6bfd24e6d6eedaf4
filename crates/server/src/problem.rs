//! Errors as `application/problem+json` (RFC 9457).

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use plan::PlanId;
use serde::Serialize;
use utoipa::ToSchema;

use crate::failure::{EngineFailure, FailureClass, FailureDescription};

/// Why a request failed, for people and programs.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Problem {
    /// What happened and why, in one sentence.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// A stable word for this kind of problem.
    pub kind: String,
    /// The exit code of the command that does the same.
    pub exit_code: u8,
    /// What to do next; each is a sentence or a command.
    pub hints: Vec<String>,
    /// The plan's version, if it is not the one that the client expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Where to read what changed since the version that the client expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<String>,
    /// The outcome is unknown: repeat the request with this idempotency key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Seconds after which to try again.
    #[serde(skip)]
    pub retry_after: Option<u32>,
}

/// The exit code of an error that no command has, such as a request without a session.
const ERROR_EXIT_CODE: u8 = 1;
const USAGE_EXIT_CODE: u8 = 2;
const UNKNOWN_EXIT_CODE: u8 = 9;

impl Problem {
    pub fn new(status: StatusCode, kind: &str, title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            status: status.as_u16(),
            kind: kind.to_owned(),
            exit_code: if status.is_client_error() {
                USAGE_EXIT_CODE
            } else {
                ERROR_EXIT_CODE
            },
            hints: Vec::new(),
            version: None,
            changes: None,
            key: None,
            retry_after: None,
        }
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    #[must_use]
    pub fn with_retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// A request that the API does not understand.
    pub fn bad_request(kind: &str, title: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, kind, title)
    }

    /// More requests than the server carries out at once.
    pub fn overloaded() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "overloaded",
            "The server is busy.",
        )
        .with_hint("Nothing was done. Repeat the request.")
        .with_retry_after(1)
    }

    /// A change that may or may not have been made.
    pub fn unknown_outcome(key: &str) -> Self {
        let mut problem = Self::new(
            StatusCode::GATEWAY_TIMEOUT,
            "unknown_outcome",
            "The answer took too long, so the outcome is unknown.",
        )
        .with_hint("Repeat the request with the same Idempotency-Key: nothing is done twice.");
        problem.exit_code = UNKNOWN_EXIT_CODE;
        problem.key = Some(key.to_owned());
        problem
    }

    /// A failure of the engine, in the words of the program that started the server.
    pub fn from_failure(
        failure: EngineFailure,
        plan_id: Option<PlanId>,
        key: Option<&str>,
        describe: impl FnOnce(EngineFailure) -> FailureDescription,
    ) -> Self {
        let mismatch = failure.version_mismatch();
        let is_store_away = failure.is_store_away();
        let described = describe(failure);
        let status = match (mismatch, is_store_away) {
            (Some(_), _) => StatusCode::PRECONDITION_FAILED,
            (None, true) => StatusCode::SERVICE_UNAVAILABLE,
            (None, false) => status_of(described.class),
        };
        let changes = mismatch.and_then(|mismatch| {
            let after = mismatch.expected;
            Some(format!("/v1/plans/{}/events?after={after}", plan_id?))
        });
        Self {
            title: described.message,
            status: status.as_u16(),
            kind: described.kind,
            exit_code: described.exit_code,
            hints: described.hints,
            version: mismatch.map(|mismatch| mismatch.actual),
            changes,
            key: match described.class {
                FailureClass::UnknownOutcome => key.map(str::to_owned),
                FailureClass::Error
                | FailureClass::Usage
                | FailureClass::NotFound
                | FailureClass::Conflict
                | FailureClass::Blocked
                | FailureClass::NeedsPerson
                | FailureClass::NotLanded
                | FailureClass::TimedOut
                | FailureClass::Interrupted => None,
            },
            retry_after: is_store_away.then_some(2),
        }
    }

    pub fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

fn status_of(class: FailureClass) -> StatusCode {
    match class {
        FailureClass::Error => StatusCode::INTERNAL_SERVER_ERROR,
        FailureClass::Usage => StatusCode::UNPROCESSABLE_ENTITY,
        FailureClass::NotFound => StatusCode::NOT_FOUND,
        FailureClass::Conflict
        | FailureClass::Blocked
        | FailureClass::NeedsPerson
        | FailureClass::NotLanded => StatusCode::CONFLICT,
        FailureClass::TimedOut | FailureClass::UnknownOutcome => StatusCode::GATEWAY_TIMEOUT,
        FailureClass::Interrupted => StatusCode::SERVICE_UNAVAILABLE,
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, retry_after) = (self.status_code(), self.retry_after);
        let mut response = (status, Json(self)).into_response();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
