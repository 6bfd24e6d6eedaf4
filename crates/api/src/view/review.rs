//! The view of a review: what one person noted about a plan.

use plan::changeset::{PathOperation, TreePath};
use plan::review::{CommentId, DiffSide, HunkStanding};
use plan::{Digest, HunkId, PlanId};
use serde::Serialize;
use utoipa::ToSchema;

use super::schema::PathSchema;

/// A person's review of a plan.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReviewView {
    #[schema(value_type = String)]
    pub plan_id: PlanId,
    /// Version of the plan when this was read.
    pub version: u64,
    pub person: String,
    /// The number of the result that the files are from; `None` before the first one.
    pub result: Option<u32>,
    /// Digest of that result, for landing what was chosen. `None` if hunks cannot be picked now.
    #[schema(value_type = Option<String>)]
    pub pickable: Option<Digest>,
    pub hunks: HunkCounts,
    pub files: Vec<ReviewedFileView>,
    /// Drafts, oldest first.
    pub comments: Vec<DraftCommentView>,
}

/// Hunks by where they stand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct HunkCounts {
    pub total: usize,
    /// Nothing was chosen. Counts as accepted.
    pub unmarked: usize,
    pub accepted: usize,
    pub rejected: usize,
    pub undecided: usize,
}

/// A changed file of a review.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReviewedFileView {
    pub resource: String,
    #[schema(value_type = PathSchema)]
    pub path: TreePath,
    /// The old path of a rename.
    #[schema(value_type = Option<PathSchema>)]
    pub from: Option<TreePath>,
    #[schema(value_type = String)]
    pub operation: PathOperation,
    pub insertions: Option<usize>,
    pub deletions: Option<usize>,
    /// Git's id of the new content; `None` if the file is deleted.
    pub blob: Option<String>,
    /// The person marked this content as viewed.
    pub viewed: bool,
    pub hunks: Vec<ReviewedHunkView>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ReviewedHunkView {
    #[schema(value_type = String)]
    pub id: HunkId,
    /// The first digits, enough to name the hunk within this plan.
    pub short: String,
    #[schema(value_type = String)]
    pub standing: HunkStanding,
}

/// A comment that was not sent yet.
#[derive(Debug, Serialize, ToSchema)]
pub struct DraftCommentView {
    #[schema(value_type = u32)]
    pub id: CommentId,
    pub resource: String,
    #[schema(value_type = PathSchema)]
    pub path: TreePath,
    #[schema(value_type = String)]
    pub side: DiffSide,
    /// From 1.
    pub first_line: u32,
    pub last_line: u32,
    /// The lines as they were when the comment was made.
    pub quote: String,
    pub text: String,
    pub place: CommentStanding,
    /// Where the quoted lines start now, if they exist.
    pub found_at: Option<u32>,
}

/// What became of the lines that a comment quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CommentStanding {
    /// They are where the comment says.
    Current,
    /// They are at another line of the file.
    Moved,
    /// They changed.
    LinesGone,
    /// The plan does not change the file any more.
    FileGone,
}
