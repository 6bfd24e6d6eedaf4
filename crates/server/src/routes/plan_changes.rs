//! Changes plans. Each route submits one operation; long work, such as a landing, is left to workers.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::landing::LandingRequest;
use api::plans::{
    self, AnswerRequest, CancelRequest, PermissionDecision, RetryRequest, ReviseRequest,
    RulingRequest, WaiveRequest,
};
use api::results;
use api::view::PlanChangeView;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Json;
use lifecycle::{Call, Lifecycle, OperationOutcome, PartSelection, PickMode, PickOutcome};
use plan::changeset::TreePath;
use plan::invariant::RuleName;
use plan::landing_options::LandingDestination;
use plan::review::CommentId;
use plan::{Digest, HunkId, PlanId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::plans::version_header;
use super::request::{JsonBody, UrlPath};
use crate::engine_access::WriteConditions;
use crate::failure::{EngineFailure, FailureClass, FailureDescription};
use crate::problem::Problem;
use crate::state::ServerState;

pub fn routes() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new()
        .routes(routes!(answer_plan))
        .routes(routes!(decide_permission))
        .routes(routes!(retry_plan))
        .routes(routes!(revise_plan))
        .routes(routes!(pick_parts))
        .routes(routes!(approve_plan))
        .routes(routes!(apply_plan))
        .routes(routes!(undo_plan))
        .routes(routes!(cancel_plan))
        .routes(routes!(waive_rule))
}

type ChangeAnswer = Result<(HeaderMap, Json<PlanChangeView>), Problem>;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerBody {
    pub text: String,
}

/// Answers a plan's question
#[utoipa::path(post, path = "/v1/plans/{id}/answer", tag = "plans", params(("id" = String, Path)), request_body = AnswerBody, responses(
    (status = 200, body = PlanChangeView, headers(("etag" = String), ("idempotency-key" = String))),
    (status = "4XX", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", body = Problem, content_type = "application/problem+json"),
))]
pub async fn answer_plan(
    State(state): State<Arc<ServerState>>,
    UrlPath(id): UrlPath<String>,
    conditions: WriteConditions,
    JsonBody(body): JsonBody<AnswerBody>,
) -> ChangeAnswer {
    let request = AnswerRequest { text: body.text };
    let change = move |it: &Lifecycle, plan_id, call: &Call| {
        Ok(plans::answer_question(it, plan_id, &request, call)?)
    };
    change_plan(&state, &id, "answer", conditions, change).await
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PermissionBody {
    /// `permission.request` of the plan as you saw it. If the agent asks for something else by now, nothing is allowed.
    pub request: String,
    pub answer: PermissionAnswerWord,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PermissionAnswerWord {
    /// This time only.
    Allow,
    Reject,
}

/// Allows or rejects the tool call that a plan's agent waits for
#[utoipa::path(post, path = "/v1/plans/{id}/permission", tag = "plans", params(("id" = String, Path)), request_body = PermissionBody, responses(
    (status = 200, body = PlanChangeView, headers(("etag" = String), ("idempotency-key" = String))),
    (status = "4XX", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", body = Problem, content_type = "application/problem+json"),
))]
pub async fn decide_permission(
    State(state): State<Arc<ServerState>>,
    UrlPath(id): UrlPath<String>,
    conditions: WriteConditions,
    JsonBody(body): JsonBody<PermissionBody>,
) -> ChangeAnswer {
    let decision = PermissionDecision {
        request: body.request,
        allow: body.answer == PermissionAnswerWord::Allow,
    };
    let change = move |it: &Lifecycle, plan_id, call: &Call| {
        Ok(plans::answer_permission(it, plan_id, &decision, call)?)
    };
    change_plan(&state, &id, "answer-permission", conditions, change).await
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryBody {
    /// Discard the work so far.
    #[serde(default)]
    pub fresh: bool,
}

/// Queues a failed or blocked plan again
#[utoipa::path(post, path = "/v1/plans/{id}/retry", tag = "plans", params(("id" = String, Path)), request_body = RetryBody, responses(
    (status = 200, body = PlanChangeView, headers(("etag" = String), ("idempotency-key" = String))),
    (status = "4XX", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", body = Problem, content_type = "application/problem+json"),
))]
pub async fn retry_plan(
    State(state): State<Arc<ServerState>>,
    UrlPath(id): UrlPath<String>,
    conditions: WriteConditions,
    JsonBody(body): JsonBody<RetryBody>,
) -> ChangeAnswer {
    let request = RetryRequest {
        fresh: body.fresh,
        ..RetryRequest::default()
    };
    let change = move |it: &Lifecycle, plan_id, call: &Call| {
        Ok(plans::retry_plan(it, plan_id, &request, call)?)
    };
    change_plan(&state, &id, "retry", conditions, change).await
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PickBody {
    /// `pickable` of the changes that you looked at. If the result is another one by now, nothing is picked.
    #[schema(value_type = String)]
    pub shown: Digest,
    /// The ids of the selected hunks.
    #[schema(value_type = Vec<String>)]
    pub hunks: BTreeSet<HunkId>,
    pub mode: PickModeName,
}

/// What happens to the selected hunks.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PickModeName {
    /// Keep only them.
    Take,
    /// Keep only them; the rest becomes a plan of its own once they have landed.
    TakeKeepRest,
    /// Drop them.
    Drop,
}

/// Replaces a result by a part of it
#[utoipa::path(post, path = "/v1/plans/{id}/pick", tag = "plans", params(("id" = String, Path)), request_body = PickBody, responses(
    (status = 200, body = PlanChangeView, headers(("etag" = String), ("idempotency-key" = String))),
    (status = "4XX", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", body = Problem, content_type = "application/problem+json"),
))]
pub async fn pick_parts(
    State(state): State<Arc<ServerState>>,
    UrlPath(id): UrlPath<String>,
    conditions: WriteConditions,
    JsonBody(body): JsonBody<PickBody>,
) -> ChangeAnswer {
    let mode = match body.mode {
        PickModeName::Take => PickMode::TakeSelected,
        PickModeName::TakeKeepRest => PickMode::TakeSelectedKeepRest,
        PickModeName::Drop => PickMode::DropSelected,
    };
    let selection = PartSelection {
        hunks: body.hunks,
        paths: Vec::new(),
    };
    let change = move |it: &Lifecycle, plan_id, call: &Call| match results::pick_parts(
        it,
        plan_id,
        Some(body.shown),
        &selection,
        mode,
        call,
    )? {
        PickOutcome::Picked { done, .. } => Ok(*done),
        PickOutcome::Unchanged => Err(EngineFailure::Described(FailureDescription {
            class: FailureClass::Conflict,
            exit_code: 4,
            kind: "nothing_to_pick".to_owned(),
            message: "Every hunk is selected, so the result stays as it is.".to_owned(),
            hints: Vec::new(),
        })),
    };
    change_plan(&state, &id, "drop", conditions, change).await
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviseBody {
    /// What the agent should do differently. May be empty if comments are sent.
    #[serde(default)]
    pub text: String,
    /// The `id`s of draft comments of your review to send. They are deleted in the same commit.
    #[serde(default)]
    pub comments: BTreeSet<u32>,
    /// Paths whose changes are taken back first.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub drop: Vec<TreePath>,
}

/// Sends a result back to its agent
#[utoipa::path(post, path = "/v1/plans/{id}/revise", tag = "plans", params(("id" = String, Path)), request_body = ReviseBody, responses(
    (status = 200, body = PlanChangeView, headers(("etag" = String), ("idempotency-key" = String))),
    (status = "4XX", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", body = Problem, content_type = "application/problem+json"),
))]
pub async fn revise_plan(
    State(state): State<Arc<ServerState>>,
    UrlPath(id): UrlPath<String>,
    conditions: WriteConditions,
    JsonBody(body): JsonBody<ReviseBody>,
) -> ChangeAnswer {
    let request = ReviseRequest {
        text: body.text,
        comments: body.comments.into_iter().map(CommentId).collect(),
        drop: Vec::new(),
        drop_paths: body.drop,
    };
    let change = move |it: &Lifecycle, plan_id, call: &Call| {
        Ok(plans::revise_plan(it, plan_id, &request, call)?)
    };
    change_plan(&state, &id, "revise", conditions, change).await
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApproveBody {
    /// Answer this rule instead of approving the result.
    #[serde(default)]
    pub rule: Option<String>,
    /// With `rule`: the reason why it does not hold.
    #[serde(default)]
    pub reject: Option<String>,
}

/// Approves a result without landing it, or answers a rule that asks a person
#[utoipa::path(post, path = "/v1/plans/{id}/approve", tag = "plans", params(("id" = String, Path)), request_body = ApproveBody, responses(
    (status = 200, body = PlanChangeView, headers(("etag" = String), ("idempotency-key" = String))),
    (status = "4XX", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", body = Problem, content_type = "application/problem+json"),
))]
pub async fn approve_plan(
    State(state): State<Arc<ServerState>>,
    UrlPath(id): UrlPath<String>,
    conditions: WriteConditions,
    JsonBody(body): JsonBody<ApproveBody>,
) -> ChangeAnswer {
    let ruling = match (&body.rule, body.reject) {
        (Some(rule), reject) => Some(RulingRequest {
            rule: parse_rule(rule)?,
            reject,
        }),
        (None, None) => None,
        (None, Some(_)) => {
            return Err(Problem::bad_request(
                "bad_body",
                "`reject` needs `rule`: the rule that does not hold.",
            ));
        }
    };
    let request = ruling;
    let change = move |it: &Lifecycle, plan_id, call: &Call| match request {
        Some(ruling) => Ok(plans::record_ruling(it, plan_id, &ruling, call)?),
        None => Ok(plans::approve_result(
            it,
            plan_id,
            &LandingRequest::default(),
            call,
        )?),
    };
    change_plan(&state, &id, "approve", conditions, change).await
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyBody {
    /// Digest of the result that you looked at, such as `pickable` of its changes. If the result is another one by now,
    /// nothing is approved.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub shown: Option<Digest>,
    /// Land on a new branch of this name instead of the target.
    #[serde(default)]
    pub branch: Option<String>,
    /// Create a merge commit.
    #[serde(default)]
    pub merge: bool,
    /// Land even if nothing changed.
    #[serde(default)]
    pub allow_empty: bool,
    /// Land only paths that match these patterns; the rest becomes a new plan.
    #[serde(default)]
    pub paths: Vec<String>,
}

/// Approves a result and asks a worker to land it
///
/// Follow the plan's events to see how the landing ends.
#[utoipa::path(post, path = "/v1/plans/{id}/apply", tag = "plans", params(("id" = String, Path)), request_body = ApplyBody, responses(
    (status = 200, body = PlanChangeView, headers(("etag" = String), ("idempotency-key" = String))),
    (status = "4XX", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", body = Problem, content_type = "application/problem+json"),
))]
pub async fn apply_plan(
    State(state): State<Arc<ServerState>>,
    UrlPath(id): UrlPath<String>,
    conditions: WriteConditions,
    JsonBody(body): JsonBody<ApplyBody>,
) -> ChangeAnswer {
    let request = LandingRequest {
        destination: body.branch.map(LandingDestination::Branch),
        merge: body.merge,
        allow_empty: body.allow_empty,
        paths: body.paths,
        message: None,
    };
    let (shown, has_version) = (body.shown, conditions.if_version.is_some());
    let change = move |it: &Lifecycle, plan_id, call: &Call| {
        let mut call = call.clone();
        if let Some(shown) = shown {
            let version = results::check_shown_result(it, plan_id, shown)?;
            // What was checked is what is approved.
            if !has_version {
                call = call.if_version(version);
            }
        }
        Ok(plans::request_landing(it, plan_id, &request, &call)?)
    };
    change_plan(&state, &id, "apply", conditions, change).await
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelBody {
    #[serde(default)]
    pub reason: Option<String>,
}

/// Cancels a plan
#[utoipa::path(post, path = "/v1/plans/{id}/cancel", tag = "plans", params(("id" = String, Path)), request_body = CancelBody, responses(
    (status = 200, body = PlanChangeView, headers(("etag" = String), ("idempotency-key" = String))),
    (status = "4XX", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", body = Problem, content_type = "application/problem+json"),
))]
pub async fn cancel_plan(
    State(state): State<Arc<ServerState>>,
    UrlPath(id): UrlPath<String>,
    conditions: WriteConditions,
    JsonBody(body): JsonBody<CancelBody>,
) -> ChangeAnswer {
    let request = CancelRequest {
        reason: body.reason,
    };
    let change = move |it: &Lifecycle, plan_id, call: &Call| {
        Ok(plans::cancel_plan(it, plan_id, &request, call)?)
    };
    change_plan(&state, &id, "cancel", conditions, change).await
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WaiveBody {
    pub rule: String,
    /// Why the rule does not matter for this plan. Recorded.
    pub reason: String,
}

/// Waives a rule for a plan
#[utoipa::path(post, path = "/v1/plans/{id}/waive", tag = "plans", params(("id" = String, Path)), request_body = WaiveBody, responses(
    (status = 200, body = PlanChangeView, headers(("etag" = String), ("idempotency-key" = String))),
    (status = "4XX", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", body = Problem, content_type = "application/problem+json"),
))]
pub async fn waive_rule(
    State(state): State<Arc<ServerState>>,
    UrlPath(id): UrlPath<String>,
    conditions: WriteConditions,
    JsonBody(body): JsonBody<WaiveBody>,
) -> ChangeAnswer {
    let request = WaiveRequest {
        rule: parse_rule(&body.rule)?,
        reason: body.reason,
    };
    let change = move |it: &Lifecycle, plan_id, call: &Call| {
        Ok(plans::waive_rule(it, plan_id, &request, call)?)
    };
    change_plan(&state, &id, "waive", conditions, change).await
}

/// A request without fields.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EmptyBody {}

/// The plan that undoes another.
#[derive(Debug, Serialize, ToSchema)]
pub struct UndoView {
    #[schema(value_type = String)]
    pub undo_plan_id: PlanId,
    /// The undo landed already.
    pub landed: bool,
}

/// Creates the plan that undoes a landed one
///
/// Landing it is a second step: apply the plan that the answer names.
#[utoipa::path(post, path = "/v1/plans/{id}/undo", tag = "plans", params(("id" = String, Path)), request_body = EmptyBody, responses(
    (status = 200, body = UndoView),
    (status = "4XX", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", body = Problem, content_type = "application/problem+json"),
))]
pub async fn undo_plan(
    State(state): State<Arc<ServerState>>,
    UrlPath(id): UrlPath<String>,
    conditions: WriteConditions,
    JsonBody(EmptyBody {}): JsonBody<EmptyBody>,
) -> Result<Json<UndoView>, Problem> {
    let plan_id = state.engine.resolve_plan(&id).await?;
    let undo = state
        .engine
        .write("undo", Some(plan_id), &conditions, move |it, call| {
            let undo = plans::undo_plan(it, plan_id, call)?;
            Ok(UndoView {
                undo_plan_id: undo.plan_id,
                landed: undo.earlier_outcome.is_some(),
            })
        })
        .await?;
    Ok(Json(undo))
}

async fn change_plan(
    state: &ServerState,
    handle: &str,
    operation: &'static str,
    conditions: WriteConditions,
    change: impl FnOnce(&Lifecycle, PlanId, &Call) -> Result<OperationOutcome, EngineFailure>
    + Send
    + 'static,
) -> ChangeAnswer {
    let plan_id = state.engine.resolve_plan(handle).await?;
    let (version, view) = state
        .engine
        .write(operation, Some(plan_id), &conditions, move |it, call| {
            let done = change(it, plan_id, call)?;
            // The change is committed, so an answer without the plan is better than an error.
            let view = plans::view_change(it, &done);
            let view = view.unwrap_or_else(|_| PlanChangeView::of_receipt(&done));
            Ok((done.plan.version().0, view))
        })
        .await?;
    let mut headers = version_header(version);
    conditions.add_key(&mut headers);
    Ok((headers, Json(view)))
}

fn parse_rule(name: &str) -> Result<RuleName, Problem> {
    name.parse()
        .map_err(|_| Problem::bad_request("bad_rule_name", format!("`{name}` is not a rule name.")))
}
