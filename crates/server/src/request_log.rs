//! Logs every request: its id, route, status and duration. Never paths, queries, headers or bodies: they hold what
//! people and agents wrote, and secrets.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;

/// Names a request in its answer and in the log.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Requests that the page repeats every few seconds.
const POLLED_ROUTES: [&str; 1] = ["/fragments/board/working"];

static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

pub async fn log_request(request: Request, next: Next) -> Response {
    let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or_else(|| "none".to_owned(), |path| path.as_str().to_owned());
    let began = Instant::now();
    let mut response = next.run(request).await;
    let status = response.status();
    let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    response
        .headers_mut()
        .insert(REQUEST_ID, HeaderValue::from(number));
    let route = route.as_str();
    let status_code = status.as_u16();
    if status.is_server_error() {
        tracing::warn!(request = number, %method, route, status = status_code, ms);
    } else if status.is_success() && is_routine(route) {
        tracing::debug!(request = number, %method, route, status = status_code, ms);
    } else {
        tracing::info!(request = number, %method, route, status = status_code, ms);
    }
    response
}

fn is_routine(route: &str) -> bool {
    route.starts_with("/assets/") || POLLED_ROUTES.contains(&route)
}
