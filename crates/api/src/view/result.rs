//! Views of results and of the parts they consist of.

use std::collections::BTreeMap;

use super::schema::PathSchema;
use lifecycle::{ContentKind, NumberedResult, ResultSource};
use plan::changeset::{PathOperation, TreePath};
use plan::{Digest, HunkId, LandingOptions, PlanId, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use super::PlanChangeView;

/// One result of a plan.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ResultView {
    /// From 1. People write `r1`.
    pub number: u32,
    #[schema(value_type = String)]
    pub source: &'static str,
    pub by: String,
    #[schema(value_type = String)]
    pub at: Timestamp,
    /// Identifies the content. Commands that change a result name the one that was shown.
    #[schema(value_type = String)]
    pub digest: Digest,
    /// Number of changed paths, if counted.
    pub changes: Option<u64>,
    pub report: Option<String>,
}

impl ResultView {
    pub fn new(result: &NumberedResult) -> Self {
        let trees = result.content.trees.iter();
        let report = result.content.report.as_ref();
        Self {
            number: result.number,
            source: match result.source {
                ResultSource::Created => "created",
                ResultSource::Executed => "executed",
                ResultSource::Picked => "picked",
            },
            by: result.by.to_string(),
            at: result.at,
            digest: result.content.digest(&LandingOptions::default()),
            changes: trees.map(|tree| tree.changes).sum(),
            report: report.map(ToString::to_string),
        }
    }
}

/// A plan after a part of its result was picked.
#[derive(Debug, Serialize, ToSchema)]
pub struct PickedPlanView {
    #[serde(flatten)]
    pub change: PlanChangeView,
    /// Paths of which something was taken out.
    #[schema(value_type = Vec<PathSchema>)]
    pub reduced: Vec<TreePath>,
}

/// The changes of a plan, file by file, with the hunks that can be taken or left.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChangesView {
    #[schema(value_type = String)]
    pub plan_id: PlanId,
    /// Version of the plan when this was read.
    pub version: u64,
    /// Every result so far, oldest first.
    pub results: Vec<ResultView>,
    /// Digest of the result that the hunks belong to. `None` if they cannot be picked: the files are
    /// those of a sandbox, an earlier result or a landed commit.
    #[schema(value_type = Option<String>)]
    pub pickable: Option<Digest>,
    pub files: Vec<FileDiffView>,
}

/// The changes of one path.
#[derive(Debug, Serialize, ToSchema)]
pub struct FileDiffView {
    /// Name of the plan's resource.
    pub resource: String,
    #[schema(value_type = PathSchema)]
    pub path: TreePath,
    /// The old path of a rename.
    #[schema(value_type = Option<PathSchema>)]
    pub from: Option<TreePath>,
    #[schema(value_type = String)]
    pub operation: PathOperation,
    pub content: FileContentKind,
    /// Octal modes; `None` for a side that does not exist.
    pub old_mode: Option<String>,
    pub new_mode: Option<String>,
    /// Git's ids of the contents.
    pub old_blob: Option<String>,
    pub new_blob: Option<String>,
    /// Added lines; `None` unless both sides are text.
    pub insertions: Option<usize>,
    pub deletions: Option<usize>,
    /// The lines were left out, because the whole view would be too large. Ask for this path alone.
    pub lines_omitted: bool,
    pub hunks: Vec<HunkView>,
}

/// What a changed file is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileContentKind {
    Text,
    Binary,
    Oversized,
    Link,
    Submodule,
}

impl From<ContentKind> for FileContentKind {
    fn from(content: ContentKind) -> Self {
        match content {
            ContentKind::Text => Self::Text,
            ContentKind::Binary => Self::Binary,
            ContentKind::Oversized => Self::Oversized,
            ContentKind::Link => Self::Link,
            ContentKind::Submodule => Self::Submodule,
        }
    }
}

/// A part of a result that can be taken or left. Paths that only make sense together share one.
#[derive(Debug, Serialize, ToSchema)]
pub struct HunkView {
    #[schema(value_type = String)]
    pub id: HunkId,
    /// The first digits, enough to name the hunk within this plan.
    pub short: String,
    pub part: HunkPartName,
    /// The changed lines; several regions if they can only be taken together.
    pub regions: Vec<RegionView>,
}

/// What a hunk covers of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HunkPartName {
    Lines,
    Mode,
    Whole,
}

/// Changed lines with some context.
#[derive(Debug, Serialize, ToSchema)]
pub struct RegionView {
    /// First changed line on the old side, from 1. For an insertion, the line it comes before.
    pub old_start: usize,
    pub old_lines: usize,
    pub new_start: usize,
    pub new_lines: usize,
    /// The line that begins the function or section around it, if the lines were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section: Option<String>,
    pub lines: Vec<LineView>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct LineView {
    pub kind: LineKind,
    /// Line number on the old side, from 1.
    pub old: Option<usize>,
    /// Line number on the new side, from 1.
    pub new: Option<usize>,
    /// Without its line end. Bytes that are not UTF-8 are replaced.
    pub text: String,
    pub line_end: LineEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LineKind {
    Context,
    Removed,
    Added,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LineEnd {
    Lf,
    CrLf,
    /// The last line of a file without a final line end.
    None,
}

/// Shortest ids that tell the given hunks apart, at least [`HunkId::SHORT_DIGITS`] long.
pub fn shorten_hunk_ids(ids: impl IntoIterator<Item = HunkId>) -> BTreeMap<HunkId, String> {
    let texts: BTreeMap<String, HunkId> = ids.into_iter().map(|id| (id.to_string(), id)).collect();
    let sorted: Vec<&String> = texts.keys().collect();
    let shared_digits = |one: &str, other: &str| {
        let pairs = one.bytes().zip(other.bytes());
        pairs.take_while(|(one, other)| one == other).count()
    };
    texts
        .iter()
        .enumerate()
        .map(|(number, (text, id))| {
            let before = number.checked_sub(1).map(|before| sorted[before]);
            let after = sorted.get(number + 1).copied();
            let neighbours = [before, after].into_iter().flatten();
            let shared = neighbours.map(|other| shared_digits(text, other)).max();
            let digits = (shared.unwrap_or_default() + 1).max(HunkId::SHORT_DIGITS);
            (*id, text.chars().take(digits).collect())
        })
        .collect()
}
