//! Checks every request before a route sees it.
//!
//! Any web page and any program on this machine can send requests here. The order matters: first the `Host`, so that
//! a page under a foreign name (DNS rebinding) learns nothing, then the form of the request, then the session.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::problem::Problem;
use crate::state::ServerState;

/// Carries the session's secret. A header of our own cannot be sent by a form or a foreign page without CORS.
pub const SESSION_HEADER: &str = "planwright-session";

/// Scripts and styles only from this server, nothing else from anywhere.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The session that a request belongs to.
#[derive(Debug, Clone)]
pub struct CurrentSession {
    pub session_id: String,
    pub secret: String,
}

/// The names under which this server may be addressed.
#[derive(Debug, Clone)]
pub struct AllowedHosts {
    names: Vec<String>,
    pub port: u16,
}

impl AllowedHosts {
    pub fn for_port(port: u16) -> Self {
        let names = ["127.0.0.1", "localhost", "[::1]"];
        let mut names: Vec<String> = names.iter().map(|name| format!("{name}:{port}")).collect();
        if port == 80 {
            names.extend(["127.0.0.1", "localhost", "[::1]"].map(str::to_owned));
        }
        Self { names, port }
    }

    fn allow_host(&self, host: &str) -> bool {
        self.names
            .iter()
            .any(|name| name.eq_ignore_ascii_case(host))
    }

    fn allow_origin(&self, origin: &str) -> bool {
        let host = origin.strip_prefix("http://");
        host.is_some_and(|host| self.allow_host(host))
    }
}

/// Refuses foreign hosts, pages and forms, adds the security headers, and counts the request.
pub async fn check_request(
    State(state): State<Arc<ServerState>>,
    request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or("other".to_owned(), |route| route.as_str().to_owned());
    let is_public = is_public_file(&route);
    let mut response = match check_form(&state, &request) {
        Ok(()) => next.run(request).await,
        Err(problem) => {
            state
                .metrics
                .refused_requests
                .fetch_add(1, Ordering::Relaxed);
            problem.into_response()
        }
    };
    add_security_headers(response.headers_mut(), is_public);
    state.metrics.count_request(
        method.as_str(),
        &route,
        response.status().as_u16(),
        started.elapsed(),
    );
    response
}

/// Lets only requests with a session through.
pub async fn require_session(
    State(state): State<Arc<ServerState>>,
    mut request: Request,
    next: Next,
) -> Response {
    let secret = single_header(request.headers(), SESSION_HEADER).unwrap_or_default();
    let found = state
        .sessions
        .authenticate(secret, state.allowed_hosts.port);
    let session_id = match found {
        Ok(Some(session_id)) => session_id,
        Ok(None) => {
            state
                .metrics
                .refused_requests
                .fetch_add(1, Ordering::Relaxed);
            return Problem::new(
                StatusCode::UNAUTHORIZED,
                "no_session",
                "This request has no valid session.",
            )
            .with_hint("planwright open")
            .into_response();
        }
        Err(error) => {
            return Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "sessions_unreadable",
                format!("Cannot read the sessions: {error}"),
            )
            .into_response();
        }
    };
    let secret = secret.to_owned();
    state.note_activity();
    request
        .extensions_mut()
        .insert(CurrentSession { session_id, secret });
    next.run(request).await
}

fn check_form(state: &ServerState, request: &Request) -> Result<(), Problem> {
    let headers = request.headers();
    let hosts = &state.allowed_hosts;
    let host = single_header(headers, header::HOST.as_str());
    if !host.is_some_and(|host| hosts.allow_host(host)) {
        return Err(Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            "foreign_host",
            "This server does not answer under this name.",
        )
        .with_hint(format!("Use http://127.0.0.1:{}", hosts.port)));
    }
    // A request target with its own authority could contradict the header.
    if request.uri().authority().is_some() {
        return Err(Problem::bad_request(
            "absolute_target",
            "The request target must be a path.",
        ));
    }
    let foreign_page = || {
        Problem::new(
            StatusCode::FORBIDDEN,
            "foreign_page",
            "Pages of other origins may not use this server.",
        )
    };
    if headers.contains_key(header::ORIGIN) {
        let origin = single_header(headers, header::ORIGIN.as_str());
        if !origin.is_some_and(|origin| hosts.allow_origin(origin)) {
            return Err(foreign_page());
        }
    }
    if is_change(request.method()) {
        let site = single_header(headers, "sec-fetch-site");
        if site.is_some_and(|site| site != "same-origin") {
            return Err(foreign_page());
        }
        if !is_json(headers) {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "not_json",
                "Changes must be sent as application/json.",
            ));
        }
    }
    Ok(())
}

fn is_change(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD)
}

fn is_json(headers: &HeaderMap) -> bool {
    let content_type = single_header(headers, header::CONTENT_TYPE.as_str()).unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default();
    media_type.trim().eq_ignore_ascii_case("application/json")
}

/// A header's value if it occurs exactly once.
fn single_header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    match values.next() {
        Some(_) => None,
        None => value.to_str().ok(),
    }
}

fn is_public_file(route: &str) -> bool {
    route.starts_with("/assets/")
}

fn add_security_headers(headers: &mut HeaderMap, is_public: bool) {
    let mut add = |name: HeaderName, value: &'static str| {
        headers.insert(name, HeaderValue::from_static(value));
    };
    add(header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY);
    add(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    add(header::REFERRER_POLICY, "no-referrer");
    add(
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    );
    add(
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    );
    if !is_public {
        add(header::CACHE_CONTROL, "no-store");
    }
}
