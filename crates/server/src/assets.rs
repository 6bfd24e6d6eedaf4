//! The page's shell, scripts and styles, embedded in the program. They are public and hold no data.

use std::sync::Arc;

use api::results::ResultRange;
use axum::Router;
use axum::extract::Path;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::routes::no_such_route;
use crate::state::ServerState;

/// An embedded file: its route, media type and content.
struct EmbeddedFile {
    route: &'static str,
    media_type: &'static str,
    content: &'static str,
}

macro_rules! embedded_files {
    ($media_type:literal: $($name:literal),+) => {
        [$(EmbeddedFile {
            route: concat!("/assets/", $name),
            media_type: $media_type,
            content: include_str!(concat!("../assets/", $name)),
        }),+]
    };
}

const SCRIPTS: [EmbeddedFile; 15] = embedded_files!(
    "text/javascript; charset=utf-8":
    "activity.js", "app.js", "board.js", "bulk.js", "choices.js", "comments.js", "drafts.js", "events.js", "forms.js", "lines.js", "places.js", "review.js", "review_state.js", "session.js", "theme.js"
);
const STYLES: [EmbeddedFile; 1] = embedded_files!("text/css; charset=utf-8": "app.css");
const ICONS: [EmbeddedFile; 1] = embedded_files!("image/svg+xml": "icon.svg");

/// The addresses of pages. All show the same shell; the page's scripts choose what to load.
const PAGE_ROUTES: [&str; 8] = [
    "/",
    "/enter",
    "/new",
    "/about",
    "/{plan}",
    "/{plan}/review",
    "/{plan}/activity",
    "/{plan}/why",
];

pub fn public_files() -> Router<Arc<ServerState>> {
    let mut router = Router::new();
    for file in SCRIPTS.into_iter().chain(STYLES).chain(ICONS) {
        let answer = move || async move {
            // Revalidated every time: a new program has new files under the same names.
            let headers = [
                (header::CONTENT_TYPE, file.media_type),
                (header::CACHE_CONTROL, "no-cache"),
            ];
            (headers, file.content).into_response()
        };
        router = router.route(file.route, get(answer));
    }
    for route in PAGE_ROUTES {
        router = router.route(route, get(show_shell));
    }
    router.route("/{plan}/{results}", get(show_results))
}

/// The address of a result, such as `/k3f9/r2` or `/k3f9/r1..r3`.
async fn show_results(Path((_, results)): Path<(String, String)>) -> Response {
    match results.parse::<ResultRange>() {
        Ok(_) => show_shell().await.into_response(),
        Err(_) => no_such_route().await.into_response(),
    }
}

async fn show_shell() -> impl IntoResponse {
    let headers = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
    (headers, include_str!("../templates/shell.html"))
}
