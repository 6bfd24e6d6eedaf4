//! The page: fragments of HTML that the server renders and the page's scripts put in place.
//!
//! The shell is public and holds no data; every fragment needs a session.

mod about;
mod activity;
mod board;
mod diff_rows;
mod event_words;
mod file_groups;
mod new_plan;
mod offered_forms;
mod plan_head;
mod preview;
mod review;
mod syntax;
mod visible;
mod why;
mod word_diff;

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::http::StatusCode;
use axum::response::Html;
use axum::routing::get;

use crate::problem::Problem;
use crate::state::ServerState;

type PageAnswer = Result<Html<String>, Problem>;

/// The fragments. All need a session.
pub fn fragment_routes() -> Router<Arc<ServerState>> {
    Router::new()
        .route("/fragments/board", get(board::show_board))
        .route("/fragments/board/working", get(board::show_working))
        .route("/fragments/plans/{id}/preview", get(preview::show_preview))
        .route("/fragments/plans/{id}/review", get(review::show_review))
        .route("/fragments/plans/{id}/context", get(review::show_context))
        .route(
            "/fragments/plans/{id}/activity",
            get(activity::show_activity),
        )
        .route("/fragments/plans/{id}/why", get(why::show_why))
        .route("/fragments/new", get(new_plan::show_form))
        .route("/fragments/about", get(about::show_about))
}

fn render(template: &impl Template) -> PageAnswer {
    template.render().map(Html).map_err(|error| {
        Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "page_failed",
            format!("The page cannot be rendered: {error}"),
        )
    })
}
