//! Creates plans.

use std::sync::Arc;

use api::plans::{self, CreatePlanRequest};
use api::view::PlanChangeView;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Json;
use plan::{Profile, QualifiedName};
use serde::Deserialize;
use utoipa::ToSchema;

use super::plans::version_header;
use super::request::JsonBody;
use crate::engine_access::WriteConditions;
use crate::failure::EngineFailure;
use crate::problem::Problem;
use crate::state::ServerState;

/// A goal, or an action with its arguments.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPlanBody {
    /// Defaults to the action's description.
    #[serde(default)]
    pub goal: Option<String>,
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub action: Option<QualifiedName>,
    /// Pairs of name and value. Repeat a name for the items of a list.
    #[serde(default)]
    pub arguments: Vec<(String, String)>,
    /// Registered projects to work on.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub projects: Vec<QualifiedName>,
    /// Defaults to the configured agent.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub actor: Option<QualifiedName>,
    /// `manual`, `supervised`, `review` or `auto`.
    #[serde(default)]
    pub profile: Option<String>,
    /// Have the agent write a strategy first, for a person to review.
    #[serde(default)]
    pub strategy_wanted: bool,
    /// Include uncommitted changes in the sandboxes.
    #[serde(default)]
    pub with_uncommitted_changes: bool,
}

/// Creates a plan
///
/// A worker runs it.
#[utoipa::path(post, path = "/v1/plans", tag = "plans", request_body = NewPlanBody, responses(
    (status = 200, body = Object, headers(("etag" = String), ("idempotency-key" = String))),
    (status = "4XX", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", body = Problem, content_type = "application/problem+json"),
))]
pub async fn create_plan(
    State(state): State<Arc<ServerState>>,
    conditions: WriteConditions,
    JsonBody(body): JsonBody<NewPlanBody>,
) -> Result<(HeaderMap, Json<PlanChangeView>), Problem> {
    let profile = body.profile.as_deref().map(str::parse::<Profile>);
    let profile = profile.transpose();
    let profile = profile.map_err(|error| Problem::bad_request("bad_body", error.to_string()))?;
    let request = CreatePlanRequest {
        goal: body.goal,
        action: body.action,
        arguments: body.arguments,
        projects: body.projects,
        actor: body.actor,
        profile,
        strategy_wanted: body.strategy_wanted,
        with_uncommitted_changes: body.with_uncommitted_changes,
        ..CreatePlanRequest::default()
    };
    let configs = state.engine.configs();
    let (version, view) = state
        .engine
        .write("run", None, &conditions, move |lifecycle, call| {
            let config = configs.read_plan_config(lifecycle, &request.projects);
            let config = config.map_err(EngineFailure::Described)?;
            let outcome = plans::create_plan(lifecycle, &request, &config, call)?.outcome;
            // The plan is stored, so an answer without its view is better than an error.
            let view = plans::view_change(lifecycle, &outcome);
            let view = view.unwrap_or_else(|_| PlanChangeView::of_receipt(&outcome));
            Ok((outcome.plan.version().0, view))
        })
        .await?;
    let mut headers = version_header(version);
    conditions.add_key(&mut headers);
    Ok((headers, Json(view)))
}
