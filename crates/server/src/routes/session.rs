//! Sessions: started with a one-time code, listed and ended with a session.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Json;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::request::{JsonBody, UrlPath};
use crate::guard::CurrentSession;
use crate::problem::Problem;
use crate::session::{SessionView, StartedSession};
use crate::state::ServerState;

/// A one-time code from `planwright open`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionRequest {
    pub code: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct SessionList {
    pub sessions: Vec<SessionView>,
}

/// Exchanges a one-time code for a session
#[utoipa::path(post, path = "/v1/sessions", tag = "sessions", request_body = SessionRequest, responses(
    (status = 200, body = StartedSession),
    (status = 401, body = Problem, content_type = "application/problem+json"),
))]
pub async fn start_session(
    State(state): State<Arc<ServerState>>,
    headers: HeaderMap,
    JsonBody(request): JsonBody<SessionRequest>,
) -> Result<Json<StartedSession>, Problem> {
    let browser = headers.get(header::USER_AGENT);
    let browser = browser.and_then(|it| it.to_str().ok()).unwrap_or_default();
    let started = state
        .sessions
        .start_session(&request.code, state.allowed_hosts.port, browser);
    let started = started.map_err(|error| unusable_sessions(&error))?;
    state.note_activity();
    started.map(Json).ok_or_else(|| {
        Problem::new(
            StatusCode::UNAUTHORIZED,
            "bad_code",
            "This code was already used or is older than a minute.",
        )
        .with_hint("planwright open")
    })
}

/// Lists the sessions of this home
#[utoipa::path(get, path = "/v1/sessions", tag = "sessions", responses((status = 200, body = SessionList)))]
pub async fn list_sessions(
    State(state): State<Arc<ServerState>>,
    Extension(current): Extension<CurrentSession>,
) -> Result<Json<SessionList>, Problem> {
    let sessions = state.sessions.list_sessions(&current.session_id);
    let sessions = sessions.map_err(|error| unusable_sessions(&error))?;
    Ok(Json(SessionList { sessions }))
}

/// Ends a session; its open streams end within seconds
#[utoipa::path(delete, path = "/v1/sessions/{id}", tag = "sessions", params(("id" = String, Path)), responses(
    (status = 204),
    (status = 404, body = Problem, content_type = "application/problem+json"),
))]
pub async fn end_session(
    State(state): State<Arc<ServerState>>,
    UrlPath(id): UrlPath<String>,
) -> Result<StatusCode, Problem> {
    let ended = state.sessions.end_session(&id);
    if ended.map_err(|error| unusable_sessions(&error))? {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(Problem::new(
        StatusCode::NOT_FOUND,
        "no_such_session",
        "There is no session with this id.",
    ))
}

fn unusable_sessions(error: &std::io::Error) -> Problem {
    Problem::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "sessions_unusable",
        format!("Cannot read or write the sessions: {error}"),
    )
}
