//! Cuts the difference of two trees into hunks, the parts of a result that a person can take or
//! leave, and builds the tree of the chosen ones.
//!
//! Text that changed in place is cut into regions of changed lines. Whatever makes no sense in parts
//! is one hunk: a file that is created, deleted or renamed, binary and oversized files, symbolic
//! links, submodules, and a file that takes the place of a directory or the reverse. A change of
//! the executable bit is a hunk of its own.

mod cut;
mod list;
mod pick;

use plan::HunkId;
use plan::changeset::{PathOperation, TreePath};

pub use cut::LineRegion;
pub use list::FileVersions;
pub use pick::PickedResult;

use crate::TreeEntry;

/// Part of every id: other rules for cutting need another name, so that an old id never names
/// something else.
const HUNK_ALGORITHM: &[u8] = b"planwright hunks 1";

/// A larger file is not cut into lines: it is one hunk.
pub const MAX_TEXT_BYTES: u64 = 4 << 20;

/// One path of a difference, with its hunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    pub path: TreePath,
    /// The old path of a rename.
    pub from: Option<TreePath>,
    pub operation: PathOperation,
    pub before: Option<TreeEntry>,
    pub after: Option<TreeEntry>,
    pub content: ContentKind,
    /// The changed lines of a text, also if they can only be taken as a whole.
    pub regions: Vec<LineRegion>,
    /// What can be taken or left. Paths that only make sense together share one hunk.
    pub hunks: Vec<Hunk>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    pub id: HunkId,
    pub part: HunkPart,
}

/// What a hunk covers of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HunkPart {
    /// One of the file's regions, by its number.
    Region(usize),
    /// The executable bit.
    Mode,
    Whole,
}

/// What the two sides of a change are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentKind {
    Text,
    Binary,
    /// Larger than [`MAX_TEXT_BYTES`].
    Oversized,
    /// A symbolic link, on at least one side.
    Link,
    Submodule,
}

impl FileChange {
    /// Removed and added lines; `None` if they are not counted.
    pub fn count_lines(&self) -> Option<(usize, usize)> {
        (self.content == ContentKind::Text).then(|| {
            let regions = self.regions.iter();
            regions.fold((0, 0), |(removed, added), region| {
                (removed + region.old.len(), added + region.new.len())
            })
        })
    }
}
