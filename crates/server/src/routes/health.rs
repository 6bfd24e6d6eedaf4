//! Whether the server works, and what it did.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Json};
use serde::Serialize;
use utoipa::ToSchema;

use crate::problem::Problem;
use crate::state::ServerState;

/// The server's health.
#[derive(Debug, Serialize, ToSchema)]
pub struct HealthView {
    /// Always `ok`.
    pub status: &'static str,
    pub version: &'static str,
}

const HEALTHY: HealthView = HealthView {
    status: "ok",
    version: env!("CARGO_PKG_VERSION"),
};

/// Answers if the process works
#[utoipa::path(get, path = "/healthz", tag = "server", responses((status = 200, body = HealthView)))]
pub async fn get_health() -> Json<HealthView> {
    Json(HEALTHY)
}

/// Answers if requests can be served: the store can be read, and no shutdown was requested
#[utoipa::path(get, path = "/readyz", tag = "server", responses(
    (status = 200, body = HealthView),
    (status = 503, body = Problem, content_type = "application/problem+json"),
))]
pub async fn get_readiness(
    State(state): State<Arc<ServerState>>,
) -> Result<Json<HealthView>, Problem> {
    if state.shutdown.is_requested() {
        return Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "shutting_down",
            "The server is ending.",
        ));
    }
    state
        .engine
        .read("list", None, |lifecycle| Ok(lifecycle.store().now()?))
        .await?;
    Ok(Json(HEALTHY))
}

/// Counters in the text format of Prometheus
#[utoipa::path(get, path = "/metrics", tag = "server", responses((status = 200, body = String, content_type = "text/plain")))]
pub async fn get_metrics(State(state): State<Arc<ServerState>>) -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, "text/plain; version=0.0.4")],
        state.metrics.render(),
    )
}
