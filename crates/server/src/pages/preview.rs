//! The preview of one plan, beside the board.

use std::sync::Arc;
use std::time::Duration;

use api::change_size::ChangedTrees;
use askama::Template;
use axum::extract::State;
use store::PlanRow;
use tokio::time::timeout;

use super::offered_forms::OfferedForms;
use super::plan_head::{PlanHead, read_head};
use super::visible::visible;
use super::{PageAnswer, render};
use crate::change_sizes::KnownSize;
use crate::routes::request::UrlPath;
use crate::state::ServerState;

const MAX_PREVIEW_FILES: usize = 12;

/// How long the preview waits for the size of the change. Without it, the files have no numbers.
const SIZE_TIMEOUT: Duration = Duration::from_millis(400);

#[derive(Template)]
#[template(path = "preview.html")]
struct PreviewTemplate {
    head: PlanHead,
    forms: OfferedForms,
    files: Vec<PreviewFile>,
    more_files: usize,
}

struct PreviewFile {
    path: String,
    /// What happened to it, if its lines are not known.
    operation: &'static str,
    added: Option<u64>,
    removed: Option<u64>,
}

pub async fn show_preview(
    State(state): State<Arc<ServerState>>,
    UrlPath(id): UrlPath<String>,
) -> PageAnswer {
    let plan_id = state.engine.resolve_plan(&id).await?;
    let (head, forms, recorded, row) = state
        .engine
        .view("status", Some(plan_id), move |engine| {
            let (head, forms) = read_head(&engine, plan_id, "")?;
            let changesets = engine.lifecycle.history().list_changesets(plan_id)?;
            let mut files: Vec<PreviewFile> = changesets
                .iter()
                .flat_map(|(_, entries)| entries)
                .map(|entry| PreviewFile {
                    path: visible(&entry.path.to_string()),
                    operation: entry.operation.as_str(),
                    added: None,
                    removed: None,
                })
                .collect();
            files.sort_by(|one, other| one.path.cmp(&other.path));
            files.dedup_by(|one, other| one.path == other.path);
            Ok((head, forms, files, engine.lifecycle.get_plan(plan_id)?))
        })
        .await?;
    let (files, count) = match find_files(&state, row).await {
        Some(counted) => counted,
        None => {
            let count = recorded.len();
            (recorded, count)
        }
    };
    render(&PreviewTemplate {
        head,
        forms,
        more_files: count.saturating_sub(MAX_PREVIEW_FILES),
        files: files.into_iter().take(MAX_PREVIEW_FILES).collect(),
    })
}

/// The files of the result with their lines, and how many files there are. `None` if they cannot be counted in time.
async fn find_files(state: &Arc<ServerState>, row: PlanRow) -> Option<(Vec<PreviewFile>, usize)> {
    let trees = ChangedTrees::of_result(&row.plan)?;
    if state.change_sizes.find(&trees).is_none() {
        let shared = Arc::clone(state);
        let counting = tokio::spawn(async move {
            shared.change_sizes.count(&shared.engine, vec![row]).await;
        });
        let _ = timeout(SIZE_TIMEOUT, counting).await;
    }
    let KnownSize::Counted(size) = state.change_sizes.find(&trees)? else {
        return None;
    };
    let files = size.files.iter().take(MAX_PREVIEW_FILES);
    let files = files.map(|file| PreviewFile {
        path: visible(&file.path),
        operation: "binary",
        added: file.added,
        removed: file.removed,
    });
    Some((files.collect(), size.file_count))
}
