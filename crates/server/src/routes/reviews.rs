//! A person's review of a plan: files they viewed, hunks they chose, comments they did not send yet.
//!
//! - `GET /v1/plans/{id}/review` shows the review beside the plan's current changes: each file with its `viewed` mark,
//!   each hunk with its `standing` (`unmarked` counts as accepted, `undecided` blocks landing), each draft comment with
//!   what became of the lines it quotes.
//! - `POST /v1/plans/{id}/review` makes a list of changes in one commit and answers with the review after them.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::reviews::{self, ChosenHunks, NewComment, ReviewChange, RewrittenComment, ViewedMark};
use api::view::ReviewView;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Json;
use plan::HunkId;
use plan::changeset::TreePath;
use plan::review::{CommentId, DiffSide, HunkChoice};
use serde::Deserialize;
use utoipa::ToSchema;

use super::plans::version_header;
use super::request::{JsonBody, UrlPath};
use crate::engine_access::WriteConditions;
use crate::problem::Problem;
use crate::state::ServerState;

type ReviewAnswer = Result<(HeaderMap, Json<ReviewView>), Problem>;

/// Shows your review of a plan
#[utoipa::path(get, path = "/v1/plans/{id}/review", tag = "plans", params(("id" = String, Path)), responses(
    (status = 200, body = ReviewView, headers(("etag" = String, description = "The plan's version"))),
    (status = "4XX", body = Problem, content_type = "application/problem+json"),
))]
pub async fn show_review(
    State(state): State<Arc<ServerState>>,
    UrlPath(id): UrlPath<String>,
) -> ReviewAnswer {
    let plan_id = state.engine.resolve_plan(&id).await?;
    let view = state.engine.view("review", Some(plan_id), move |engine| {
        Ok(reviews::view_review(
            engine.lifecycle,
            plan_id,
            engine.viewer,
        )?)
    });
    let view = view.await?;
    Ok((version_header(view.version), Json(view)))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviewBody {
    /// Made in this order, all or none.
    pub changes: Vec<ReviewChangeBody>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ReviewChangeBody {
    View(ViewBody),
    Choose(ChooseBody),
    Comment(CommentBody),
    Rewrite(RewriteBody),
    Drop(DropBody),
}

/// Marks a file as viewed, or takes the mark back
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ViewBody {
    /// Needed only if the plan has several resources.
    #[serde(default)]
    pub resource: Option<String>,
    #[schema(value_type = String)]
    pub path: TreePath,
    /// `new_blob` of the file that you saw. The mark is gone once the file has another content.
    #[serde(default)]
    pub blob: Option<String>,
    pub viewed: bool,
}

/// Chooses hunks of the current result
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChooseBody {
    #[schema(value_type = Vec<String>)]
    pub hunks: BTreeSet<HunkId>,
    /// Without a word, choices are taken back.
    #[serde(default)]
    pub choice: Option<HunkChoiceWord>,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HunkChoiceWord {
    Accepted,
    Rejected,
}

/// Keeps a comment until you send it with `revise`
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CommentBody {
    /// Needed only if the plan has several resources.
    #[serde(default)]
    pub resource: Option<String>,
    #[schema(value_type = String)]
    pub path: TreePath,
    pub side: DiffSideWord,
    /// From 1.
    pub first_line: u32,
    pub last_line: u32,
    /// The lines that you saw, joined by line feeds. By default those of the current changes.
    #[serde(default)]
    pub quote: Option<String>,
    pub text: String,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiffSideWord {
    Old,
    New,
}

/// Changes the text of a draft comment
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RewriteBody {
    pub comment: u32,
    pub text: String,
}

/// Deletes draft comments
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DropBody {
    pub comments: BTreeSet<u32>,
}

/// Changes your review of a plan
///
/// The plan itself does not change, so its version stays.
#[utoipa::path(post, path = "/v1/plans/{id}/review", tag = "plans", params(("id" = String, Path)), request_body = ReviewBody, responses(
    (status = 200, body = ReviewView, headers(("etag" = String), ("idempotency-key" = String))),
    (status = "4XX", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", body = Problem, content_type = "application/problem+json"),
))]
pub async fn edit_review(
    State(state): State<Arc<ServerState>>,
    UrlPath(id): UrlPath<String>,
    conditions: WriteConditions,
    JsonBody(body): JsonBody<ReviewBody>,
) -> ReviewAnswer {
    let changes: Vec<ReviewChange> = body.changes.into_iter().map(Into::into).collect();
    let plan_id = state.engine.resolve_plan(&id).await?;
    let view = state
        .engine
        .write("review", Some(plan_id), &conditions, move |it, call| {
            reviews::edit_review(it, plan_id, &changes, call)?;
            Ok(reviews::view_review(it, plan_id, call.caller())?)
        })
        .await?;
    let mut headers = version_header(view.version);
    conditions.add_key(&mut headers);
    Ok((headers, Json(view)))
}

impl From<ReviewChangeBody> for ReviewChange {
    fn from(body: ReviewChangeBody) -> Self {
        match body {
            ReviewChangeBody::View(mark) => Self::View(ViewedMark {
                resource: mark.resource,
                path: mark.path,
                blob: mark.blob,
                viewed: mark.viewed,
            }),
            ReviewChangeBody::Choose(choose) => Self::Choose(ChosenHunks {
                hunks: choose.hunks,
                choice: choose.choice.map(|choice| match choice {
                    HunkChoiceWord::Accepted => HunkChoice::Accepted,
                    HunkChoiceWord::Rejected => HunkChoice::Rejected,
                }),
            }),
            ReviewChangeBody::Comment(comment) => Self::Comment(NewComment {
                resource: comment.resource,
                path: comment.path,
                side: match comment.side {
                    DiffSideWord::Old => DiffSide::Old,
                    DiffSideWord::New => DiffSide::New,
                },
                first_line: comment.first_line,
                last_line: comment.last_line,
                quote: comment.quote,
                text: comment.text,
            }),
            ReviewChangeBody::Rewrite(rewrite) => Self::Rewrite(RewrittenComment {
                id: CommentId(rewrite.comment),
                text: rewrite.text,
            }),
            ReviewChangeBody::Drop(drop) => {
                Self::Drop(drop.comments.into_iter().map(CommentId).collect())
            }
        }
    }
}
