//! How many lines a plan's result adds and removes.
//!
//! Counting starts git, so a list does not wait for it. A result consists of immutable trees: callers may keep a size
//! under its [`ChangedTrees`] for as long as they like.

use lifecycle::{Lifecycle, LifecycleError};
use plan::Plan;
use serde::Serialize;

/// Files that are listed one by one.
const MAX_LISTED_FILES: usize = 200;

/// The trees whose differences are what a plan changed. Equal trees have equal sizes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChangedTrees(Vec<(String, String, String)>);

/// The size of a change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ChangeSize {
    pub added: u64,
    pub removed: u64,
    pub file_count: usize,
    /// The first files, sorted by path.
    pub files: Vec<ChangedFileSize>,
}

/// The size of the change of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedFileSize {
    pub path: String,
    /// `None` for a binary file.
    pub added: Option<u64>,
    pub removed: Option<u64>,
}

impl ChangedTrees {
    /// Each with its resource, its base and its tree.
    pub fn new(trees: impl IntoIterator<Item = (String, String, String)>) -> Self {
        Self(trees.into_iter().collect())
    }

    /// The trees of a plan's result; `None` if it has no result, or one without changes.
    pub fn of_result(plan: &Plan) -> Option<Self> {
        let trees = plan.result().into_iter().flat_map(|result| &result.trees);
        let changed = trees.filter(|tree| tree.changes != Some(0));
        let trees = changed.map(|tree| {
            let place = tree.resource.clone();
            (place, tree.base.clone(), tree.tree.clone())
        });
        let trees: Vec<_> = trees.collect();
        (!trees.is_empty()).then(|| Self::new(trees))
    }
}

/// Counts the lines that a plan's result changes.
pub fn count_changed_lines(
    lifecycle: &Lifecycle,
    plan: &Plan,
) -> Result<ChangeSize, LifecycleError> {
    let Some(result) = plan.result() else {
        return Ok(ChangeSize::default());
    };
    let sandboxes = lifecycle.sandboxes();
    let changes = match sandboxes.view_result_changes(plan.id(), None, result) {
        // Merged with other changes, and its own tree is no longer kept: the landed commit shows the same change.
        Err(_) if !plan.landed().is_empty() => sandboxes.view_changes(plan.id())?,
        changes => changes?,
    };
    let mut size = ChangeSize::default();
    for change in changes {
        for file in change.comparison.count_lines(&[])? {
            size.added += file.insertions.unwrap_or_default();
            size.removed += file.deletions.unwrap_or_default();
            size.files.push(ChangedFileSize {
                path: file.path.to_string(),
                added: file.insertions,
                removed: file.deletions,
            });
        }
    }
    size.file_count = size.files.len();
    size.files.sort_by(|one, other| one.path.cmp(&other.path));
    size.files.truncate(MAX_LISTED_FILES);
    Ok(size)
}
