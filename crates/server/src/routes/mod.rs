//! The routes under `/v1`, one file per noun, and the generated document that describes them.

mod event_stream;
mod health;
mod new_plans;
mod plan_changes;
mod plans;
pub(crate) mod request;
mod reviews;
mod session;

use std::sync::Arc;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use axum::{Router, middleware};
use utoipa::OpenApi;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, PathItem, Ref, ResponseBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::problem::Problem;
use crate::request_log::log_request;
use crate::state::ServerState;
use crate::{assets, guard, pages};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Planwright",
        description = "Plans of AI agents on this machine. Every request needs a session (`planwright open`).",
        license(name = "Apache-2.0 OR MIT")
    ),
    components(schemas(Problem))
)]
struct ApiDocument;

/// The OpenAPI 3.1 document of all routes.
pub fn openapi_document() -> utoipa::openapi::OpenApi {
    let mut document = public_routes().into_openapi();
    let mut protected = session_routes().into_openapi();
    for item in document.paths.paths.values_mut() {
        document_problems(item);
    }
    for item in protected.paths.paths.values_mut() {
        document_problems(item);
        for operation in operations_of(item) {
            let session = SecurityRequirement::new::<_, _, String>(SESSION_SCHEME, []);
            operation.security = Some(vec![session]);
        }
    }
    document.merge(protected);
    let session = ApiKey::Header(ApiKeyValue::new(guard::SESSION_HEADER));
    let components = document.components.get_or_insert_default();
    components.add_security_scheme(SESSION_SCHEME, SecurityScheme::ApiKey(session));
    document
}

/// The name of the session's header in the document.
const SESSION_SCHEME: &str = "session";

/// Every route answers in the same form to what is refused or fails.
fn document_problems(item: &mut PathItem) {
    for operation in operations_of(item) {
        let schema = Ref::from_schema_name("Problem");
        let content = Content::new(Some(schema));
        let problem = ResponseBuilder::new()
            .description("Refused, or failed")
            .content("application/problem+json", content);
        let answers = &mut operation.responses.responses;
        answers.insert("default".to_owned(), problem.build().into());
    }
}

fn operations_of(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [
        &mut item.get,
        &mut item.post,
        &mut item.delete,
        &mut item.put,
    ]
    .into_iter()
    .flatten()
}

pub(crate) fn make_router(state: Arc<ServerState>) -> Router {
    let (public, _) = public_routes().split_for_parts();
    let (protected, _) = session_routes().split_for_parts();
    let document = openapi_document();
    let protected = protected.merge(pages::fragment_routes());
    let protected = protected.route_layer(from_fn_with_state(
        Arc::clone(&state),
        guard::require_session,
    ));
    Router::new()
        .merge(public)
        .merge(protected)
        .route(
            "/openapi.json",
            get(|| async move { Json(document.clone()) }),
        )
        .merge(assets::public_files())
        .method_not_allowed_fallback(refuse_method)
        .fallback(no_such_route)
        .layer(from_fn(refuse_body_on_read))
        .layer(middleware::from_fn_with_state(
            Arc::clone(&state),
            guard::check_request,
        ))
        .layer(from_fn(log_request))
        .with_state(state)
}

/// Routes that anybody on this machine may use. They hold no data of plans.
fn public_routes() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::with_openapi(ApiDocument::openapi())
        .routes(routes!(health::get_health))
        .routes(routes!(health::get_readiness))
        .routes(routes!(health::get_metrics))
        .routes(routes!(session::start_session))
}

/// Routes that need a session.
fn session_routes() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new()
        .routes(routes!(session::list_sessions))
        .routes(routes!(session::end_session))
        .routes(routes!(event_stream::stream_events))
        .routes(routes!(plans::get_overview))
        .routes(routes!(plans::list_plans, new_plans::create_plan))
        .routes(routes!(plans::get_plan))
        .routes(routes!(plans::list_next_steps))
        .routes(routes!(plans::show_changes))
        .routes(routes!(plans::list_plan_events))
        .routes(routes!(reviews::show_review, reviews::edit_review))
        .merge(plan_changes::routes())
}

pub async fn no_such_route() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "no_such_route",
        "There is nothing here.",
    )
    .with_hint("GET /openapi.json")
}

async fn refuse_method() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "This route does not have this method.",
    )
    .with_hint("GET /openapi.json")
}

/// A read with a body is a mistake or an attack on whatever parses the body.
async fn refuse_body_on_read(request: Request, next: middleware::Next) -> Response {
    let has_body = request.headers().contains_key("transfer-encoding")
        || request
            .headers()
            .get("content-length")
            .is_some_and(|length| length != "0");
    if has_body && request.method().is_safe() {
        return Problem::bad_request("unexpected_body", "This method takes no body.")
            .into_response();
    }
    next.run(request).await
}
