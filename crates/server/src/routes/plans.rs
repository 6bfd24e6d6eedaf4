//! Reads plans.

use std::sync::Arc;

use api::next_steps::NextStep;
use api::plan_list::PlanListRequest;
use api::results::{LineDetail, ResultRange};
use api::view::{ChangesView, PlanListPage, PlanOverview, PlanView};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Json;
use plan::stage::StateName;
use plan::{Phase, PlanId, PlanVersion, QualifiedName};
use serde::{Deserialize, Serialize};
use store::PlanFilter;
use utoipa::{IntoParams, ToSchema};

use super::request::{UrlPath, UrlQuery};
use crate::event_feed::PlanEvent;
use crate::problem::Problem;
use crate::state::ServerState;

const MAX_EVENTS: usize = 500;

const MAX_PLANS: usize = 500;

/// Lines shown around a change.
const CONTEXT_LINES: usize = 3;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct PlanQuery {
    /// Only plans of this project.
    #[param(value_type = Option<String>)]
    project: Option<QualifiedName>,
    #[param(value_type = Option<String>)]
    action: Option<QualifiedName>,
    /// `strategize`, `execute` or `apply`.
    #[param(value_type = Option<String>)]
    phase: Option<Phase>,
    /// For example `queued` or `errored`.
    #[param(value_type = Option<String>)]
    state: Option<StateName>,
    /// Only plans that wait for a person.
    #[serde(default)]
    needs_me: bool,
    /// Start after this plan, the `next` of the page before.
    #[param(value_type = Option<String>)]
    after: Option<PlanId>,
    #[serde(default = "default_plan_limit")]
    #[param(maximum = 500)]
    limit: usize,
}

fn default_plan_limit() -> usize {
    20
}

/// Lists plans, newest first
#[utoipa::path(get, path = "/v1/plans", tag = "plans", params(PlanQuery), responses(
    (status = 200, body = PlanListPage),
    (status = 400, body = Problem, content_type = "application/problem+json"),
))]
pub async fn list_plans(
    State(state): State<Arc<ServerState>>,
    UrlQuery(query): UrlQuery<PlanQuery>,
) -> Result<Json<PlanListPage>, Problem> {
    let request = PlanListRequest {
        filter: PlanFilter {
            phase: query.phase,
            state: query.state,
            action: query.action,
            needs_person: query.needs_me,
            project: None,
            origin: None,
        },
        projects: query.project.map(|project| vec![project]),
        after: query.after,
        limit: query.limit.clamp(1, MAX_PLANS),
        with_usage: true,
    };
    let page = state.engine.view("list", None, move |engine| {
        let page = api::plan_list::list_plans(engine.lifecycle, &request, engine.viewer)?;
        Ok(page)
    });
    Ok(Json(page.await?))
}

/// Lists what needs you, and what waits for something else
#[utoipa::path(get, path = "/v1/overview", tag = "plans", responses((status = 200, body = PlanOverview)))]
pub async fn get_overview(
    State(state): State<Arc<ServerState>>,
) -> Result<Json<PlanOverview>, Problem> {
    let overview = state.engine.view("list", None, |engine| {
        let overview = api::overview::get_overview(engine.lifecycle, engine.viewer)?;
        Ok(overview)
    });
    Ok(Json(overview.await?))
}

/// What can be done next with a plan, most useful first.
#[derive(Debug, Serialize, ToSchema)]
pub struct NextStepList {
    pub next_steps: Vec<NextStep>,
}

/// Lists what you can do next with a plan
#[utoipa::path(get, path = "/v1/plans/{id}/next-steps", tag = "plans", params(("id" = String, Path)), responses(
    (status = 200, body = NextStepList),
    (status = 404, body = Problem, content_type = "application/problem+json"),
))]
pub async fn list_next_steps(
    State(state): State<Arc<ServerState>>,
    UrlPath(id): UrlPath<String>,
) -> Result<Json<NextStepList>, Problem> {
    let plan_id = state.engine.resolve_plan(&id).await?;
    let steps = state.engine.view("why", Some(plan_id), move |engine| {
        let row = engine.lifecycle.get_plan(plan_id)?;
        let next_steps = api::next_steps::next_steps(engine.lifecycle, &row, engine.viewer)?;
        Ok(NextStepList { next_steps })
    });
    Ok(Json(steps.await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct DiffQuery {
    /// `r2` for one result, `r1..r3` for what changed between two. By default the current changes.
    range: Option<String>,
}

/// Shows what a plan changed, file by file, with the hunks that can be picked
#[utoipa::path(get, path = "/v1/plans/{id}/diff", tag = "plans", params(("id" = String, Path), DiffQuery), responses(
    (status = 200, body = ChangesView),
    (status = "4XX", body = Problem, content_type = "application/problem+json"),
))]
pub async fn show_changes(
    State(state): State<Arc<ServerState>>,
    UrlPath(id): UrlPath<String>,
    UrlQuery(query): UrlQuery<DiffQuery>,
) -> Result<Json<ChangesView>, Problem> {
    let range = match query.range.as_deref().map(str::parse::<ResultRange>) {
        None => ResultRange::Current,
        Some(Ok(range)) => range,
        Some(Err(error)) => return Err(Problem::bad_request("bad_range", error.to_string())),
    };
    let plan_id = state.engine.resolve_plan(&id).await?;
    let changes = state.engine.read("diff", Some(plan_id), move |lifecycle| {
        let detail = LineDetail::Lines {
            context: CONTEXT_LINES,
        };
        Ok(api::results::list_hunks(
            lifecycle,
            plan_id,
            range,
            &[],
            detail,
        )?)
    });
    Ok(Json(changes.await?))
}

/// Shows a plan
#[utoipa::path(get, path = "/v1/plans/{id}", tag = "plans", params(("id" = String, Path, description = "Plan id or handle")), responses(
    (status = 200, body = PlanView, headers(("etag" = String, description = "The plan's version"))),
    (status = 404, body = Problem, content_type = "application/problem+json"),
))]
pub async fn get_plan(
    State(state): State<Arc<ServerState>>,
    UrlPath(id): UrlPath<String>,
) -> Result<(HeaderMap, Json<PlanView>), Problem> {
    let plan_id = state.engine.resolve_plan(&id).await?;
    let view = state
        .engine
        .read("status", Some(plan_id), move |lifecycle| {
            Ok(api::plans::get_plan_view(lifecycle, plan_id)?)
        })
        .await?;
    Ok((version_header(view.version), Json(view)))
}

/// The `ETag` of a plan, for `If-Match`.
pub fn version_header(version: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_str(&format!("\"{version}\"")) {
        headers.insert(header::ETAG, value);
    }
    headers
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct EventQuery {
    /// Only events after this version.
    #[serde(default)]
    after: u64,
    #[serde(default = "default_event_limit")]
    #[param(maximum = 500)]
    limit: usize,
}

fn default_event_limit() -> usize {
    100
}

/// A page of a plan's events, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub struct EventList {
    pub events: Vec<PlanEvent>,
    /// The value of `after` for the next page; `null` on the last one.
    pub next: Option<u64>,
}

/// Lists the events of a plan
#[utoipa::path(get, path = "/v1/plans/{id}/events", tag = "plans", params(("id" = String, Path), EventQuery), responses(
    (status = 200, body = EventList),
    (status = 404, body = Problem, content_type = "application/problem+json"),
))]
pub async fn list_plan_events(
    State(state): State<Arc<ServerState>>,
    UrlPath(id): UrlPath<String>,
    UrlQuery(query): UrlQuery<EventQuery>,
) -> Result<Json<EventList>, Problem> {
    let plan_id = state.engine.resolve_plan(&id).await?;
    let limit = query.limit.clamp(1, MAX_EVENTS);
    let stored = state
        .engine
        .read("log", Some(plan_id), move |lifecycle| {
            // Tells a plan without newer events from one that does not exist.
            lifecycle.get_plan(plan_id)?;
            let store = lifecycle.store();
            Ok(store.read_plan_events(plan_id, PlanVersion(query.after), limit + 1)?)
        })
        .await?;
    let events: Vec<PlanEvent> = stored.iter().take(limit).map(PlanEvent::from).collect();
    let next = events.last().filter(|_| stored.len() > limit);
    Ok(Json(EventList {
        next: next.map(|event| event.version),
        events,
    }))
}
