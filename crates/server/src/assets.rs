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

const SCRIPTS: [EmbeddedFile; 11] = embedded_files!(
    "text/javascript; charset=utf-8":
    "app.js", "board.js", "bulk.js", "choices.js", "drafts.js", "events.js", "forms.js", "places.js", "review.js", "session.js", "theme.js"
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
    router.route("/{plan}/{result}", get(show_result))
}

/// The page of a plan at one of its results: `/k3f9/r2`.
async fn show_result(Path((_, result)): Path<(String, String)>) -> Response {
    match result.parse() {
        Ok(ResultRange::One(_)) => show_shell().await.into_response(),
        Ok(ResultRange::Current | ResultRange::Between(..)) | Err(_) => {
            no_such_route().await.into_response()
        }
    }
}

async fn show_shell() -> impl IntoResponse {
    let headers = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
    (headers, include_str!("../templates/shell.html"))
}
