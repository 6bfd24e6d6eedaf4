//! Creates plans.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use api::plan_config::LimitOverrides;
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
    #[serde(default)]
    pub limits: LimitsBody,
}

/// Limits of a plan. What is not set comes from the repository and the settings.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsBody {
    /// Tokens of all runs together.
    #[serde(default)]
    pub tokens: Option<u64>,
    /// Cost of all runs together, in dollars, such as `2.50`.
    #[serde(default)]
    pub cost: Option<String>,
    /// Time of all runs together, such as `30m`.
    #[serde(default)]
    pub time: Option<String>,
    /// Attempts per phase.
    #[serde(default)]
    pub attempts: Option<u32>,
}

impl LimitsBody {
    fn parse(&self) -> Result<LimitOverrides, Problem> {
        fn read<T: FromStr<Err: Display>>(
            name: &str,
            text: Option<&str>,
        ) -> Result<Option<T>, Problem> {
            let value = text.map(|text| text.trim().parse()).transpose();
            value.map_err(|error: T::Err| {
                Problem::bad_request("bad_limit", format!("Bad limit of {name}: {error}."))
            })
        }
        let is_storable = |tokens: &u64| (1..=i64::MAX.unsigned_abs()).contains(tokens);
        if !self.tokens.iter().all(is_storable) {
            return Err(Problem::bad_request(
                "bad_limit",
                "Bad limit of tokens: it must be at least 1.",
            ));
        }
        if !self.attempts.iter().all(|it| (1..=1000).contains(it)) {
            return Err(Problem::bad_request(
                "bad_limit",
                "Bad limit of attempts: it must be from 1 to 1000.",
            ));
        }
        Ok(LimitOverrides {
            tokens: self.tokens,
            cost: read("cost", self.cost.as_deref())?,
            time: read("time", self.time.as_deref())?,
            attempts: self.attempts,
            timeout: None,
        })
    }
}

/// Creates a plan
///
/// A worker runs it.
#[utoipa::path(post, path = "/v1/plans", tag = "plans", request_body = NewPlanBody, responses(
    (status = 200, body = PlanChangeView, headers(("etag" = String), ("idempotency-key" = String))),
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
    let limits = body.limits.parse()?;
    let request = CreatePlanRequest {
        limits,
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
