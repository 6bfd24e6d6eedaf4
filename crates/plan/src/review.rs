//! What one person noted while reviewing one plan: files they viewed, hunks they chose, comments they did not
//! send yet. Stored beside the plan and not as events: a note changes nothing about the plan.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::changeset::TreePath;
use crate::{ErasableText, HunkId, PlanId};

/// Files of one review.
pub const MAX_REVIEW_FILES: usize = 5_000;

/// Hunks that one review remembers, over all files.
pub const MAX_REVIEW_HUNKS: usize = 20_000;

/// Draft comments of one review.
pub const MAX_REVIEW_COMMENTS: usize = 200;

/// Bytes of all draft comments with the lines they quote. They become one feedback.
pub const MAX_COMMENT_BYTES: usize = ErasableText::MAX_BYTES;

/// The review of a plan by a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanReview {
    pub plan: PlanId,
    pub person: String,
    /// Sorted by file.
    pub files: Vec<FileReview>,
    /// Oldest first.
    pub comments: Vec<DraftComment>,
    /// The number of the newest comment. Numbers are not used again.
    pub last_comment: CommentId,
}

/// A file of a plan.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ReviewedFile {
    pub resource: String,
    pub path: TreePath,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileReview {
    #[serde(flatten)]
    pub file: ReviewedFile,
    /// The content that the person marked as viewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub viewed: Option<ViewedContent>,
    /// Choices by hunk. They outlive the result they were made on, as the ids of hunks do.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub choices: BTreeMap<HunkId, HunkChoice>,
    /// Hunks that were shown when the last choice was made, without those that were undecided.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub known: BTreeSet<HunkId>,
    /// A hunk with a choice was replaced by others, and some of those are undecided.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost_choice: bool,
}

/// The content of a file that a person looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ViewedContent {
    /// Git's id of the content.
    Blob(String),
    /// The plan deletes the file.
    Deleted,
}

impl ViewedContent {
    pub fn of_blob(blob: Option<String>) -> Self {
        blob.map_or(Self::Deleted, Self::Blob)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HunkChoice {
    Accepted,
    Rejected,
}

/// Where a hunk stands in a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HunkStanding {
    /// Nothing was chosen. Counts as accepted.
    Unmarked,
    Accepted,
    Rejected,
    /// The hunk is new in a file of which a chosen hunk is gone: the choice may have been about it.
    Undecided,
}

/// The number of a comment in its review.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct CommentId(pub u32);

impl fmt::Display for CommentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.to_string())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the number of a comment")]
pub struct ParseCommentIdError(String);

impl FromStr for CommentId {
    type Err = ParseCommentIdError;

    fn from_str(text: &str) -> Result<Self, ParseCommentIdError> {
        let number = text.parse().ok().filter(|number| *number > 0);
        let refuse = || ParseCommentIdError(text.chars().take(40).collect());
        number.map(Self).ok_or_else(refuse)
    }
}

/// Which version of a file a comment is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiffSide {
    Old,
    New,
}

impl DiffSide {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Old => "old",
            Self::New => "new",
        }
    }
}

/// The lines that a comment is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommentPlace {
    #[serde(flatten)]
    pub file: ReviewedFile,
    pub side: DiffSide,
    /// From 1.
    pub first_line: u32,
    /// Not before the first line.
    pub last_line: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewComment {
    #[serde(flatten)]
    pub place: CommentPlace,
    /// The lines as they were when the comment was made.
    pub quote: ErasableText,
    pub text: ErasableText,
}

/// A comment that was not sent yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DraftComment {
    pub id: CommentId,
    #[serde(flatten)]
    pub comment: ReviewComment,
}

/// One change of a review.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewEdit {
    MarkViewed {
        file: ReviewedFile,
        content: ViewedContent,
    },
    UnmarkViewed {
        file: ReviewedFile,
    },
    ChooseHunks {
        file: ReviewedFile,
        /// All hunks of the file in the result that was shown.
        shown: BTreeSet<HunkId>,
        /// `None` takes a choice back.
        choices: BTreeMap<HunkId, Option<HunkChoice>>,
    },
    AddComment(ReviewComment),
    RewriteComment {
        id: CommentId,
        text: ErasableText,
    },
    DropComments(BTreeSet<CommentId>),
}

impl PlanReview {
    pub fn new(plan: PlanId, person: &str) -> Self {
        Self {
            plan,
            person: person.to_owned(),
            files: Vec::new(),
            comments: Vec::new(),
            last_comment: CommentId::default(),
        }
    }

    pub fn find_file(&self, file: &ReviewedFile) -> Option<&FileReview> {
        let at = self.files.binary_search_by(|known| known.file.cmp(file));
        at.ok().and_then(|index| self.files.get(index))
    }

    pub fn find_comment(&self, id: CommentId) -> Option<&DraftComment> {
        self.comments.iter().find(|comment| comment.id == id)
    }

    pub fn count_hunks(&self) -> usize {
        let counts = self.files.iter().map(FileReview::count_hunks);
        counts.sum()
    }

    pub fn count_comment_bytes(&self) -> usize {
        let comments = self.comments.iter().map(|draft| &draft.comment);
        comments
            .map(|comment| comment.quote.as_str().len() + comment.text.as_str().len())
            .sum()
    }

    /// Changes the notes on a file. A file without notes is removed.
    pub(crate) fn edit_file(&mut self, file: &ReviewedFile, edit: impl FnOnce(&mut FileReview)) {
        let at = self.files.binary_search_by(|known| known.file.cmp(file));
        let index = at.unwrap_or_else(|index| {
            self.files.insert(index, FileReview::new(file.clone()));
            index
        });
        edit(&mut self.files[index]);
        if self.files[index].is_empty() {
            self.files.remove(index);
        }
    }
}

impl FileReview {
    fn new(file: ReviewedFile) -> Self {
        Self {
            file,
            viewed: None,
            choices: BTreeMap::new(),
            known: BTreeSet::new(),
            lost_choice: false,
        }
    }

    fn is_empty(&self) -> bool {
        self.viewed.is_none() && self.choices.is_empty() && !self.lost_choice
    }

    fn count_hunks(&self) -> usize {
        let unknown = self
            .choices
            .keys()
            .filter(|hunk| !self.known.contains(hunk));
        self.known.len() + unknown.count()
    }

    /// Returns where a hunk stands if these are all hunks of the file.
    pub fn standing_of(&self, hunk: HunkId, shown: &BTreeSet<HunkId>) -> HunkStanding {
        match self.choices.get(&hunk) {
            Some(HunkChoice::Accepted) => HunkStanding::Accepted,
            Some(HunkChoice::Rejected) => HunkStanding::Rejected,
            None if self.known.contains(&hunk) || !self.is_choice_lost(shown) => {
                HunkStanding::Unmarked
            }
            None => HunkStanding::Undecided,
        }
    }

    fn is_choice_lost(&self, shown: &BTreeSet<HunkId>) -> bool {
        self.lost_choice || self.choices.keys().any(|hunk| !shown.contains(hunk))
    }

    pub(crate) fn choose_hunks(
        &mut self,
        shown: &BTreeSet<HunkId>,
        choices: &BTreeMap<HunkId, Option<HunkChoice>>,
    ) {
        let undecided: BTreeSet<HunkId> = shown
            .iter()
            .copied()
            .filter(|hunk| self.standing_of(*hunk, shown) == HunkStanding::Undecided)
            .filter(|hunk| !choices.contains_key(hunk))
            .collect();
        for (hunk, choice) in choices {
            match choice {
                Some(choice) => self.choices.insert(*hunk, *choice),
                None => self.choices.remove(hunk),
            };
        }
        self.choices.retain(|hunk, _| shown.contains(hunk));
        self.lost_choice = !undecided.is_empty();
        self.known = match self.is_empty() {
            true => BTreeSet::new(),
            false => shown.difference(&undecided).copied().collect(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Digest;

    fn hunk(name: &str) -> HunkId {
        HunkId::from_digest(Digest::hash_bytes(name.as_bytes()))
    }

    fn hunks(names: &str) -> BTreeSet<HunkId> {
        names.split_whitespace().map(hunk).collect()
    }

    fn file_review() -> FileReview {
        FileReview::new(ReviewedFile {
            resource: "main".to_owned(),
            path: TreePath::new("a.txt").unwrap(),
        })
    }

    fn choose(review: &mut FileReview, shown: &str, name: &str, choice: Option<HunkChoice>) {
        review.choose_hunks(&hunks(shown), &BTreeMap::from([(hunk(name), choice)]));
    }

    /// Returns the names by standing: unmarked, accepted, rejected, undecided.
    fn sort_names(review: &FileReview, shown: &str) -> [String; 4] {
        let all = hunks(shown);
        let of_standing = |standing| {
            let names = shown.split_whitespace();
            let matching = names.filter(|name| review.standing_of(hunk(name), &all) == standing);
            matching.collect::<Vec<_>>().join(" ")
        };
        [
            of_standing(HunkStanding::Unmarked),
            of_standing(HunkStanding::Accepted),
            of_standing(HunkStanding::Rejected),
            of_standing(HunkStanding::Undecided),
        ]
    }

    const REJECTED: Option<HunkChoice> = Some(HunkChoice::Rejected);
    const ACCEPTED: Option<HunkChoice> = Some(HunkChoice::Accepted);

    #[test]
    fn choices_stay_with_their_hunks() {
        let mut review = file_review();
        choose(&mut review, "a b c", "a", REJECTED);
        choose(&mut review, "a b c", "b", ACCEPTED);
        assert_eq!(sort_names(&review, "a b c"), ["c", "b", "a", ""]);
        // Nothing that was chosen is gone, so a new hunk is like any other.
        assert_eq!(sort_names(&review, "a b c d"), ["c d", "b", "a", ""]);
    }

    #[test]
    fn new_hunks_of_a_file_that_lost_a_choice_are_undecided_until_each_is_decided() {
        for lost in [REJECTED, ACCEPTED] {
            let mut review = file_review();
            choose(&mut review, "a b", "a", lost);
            assert_eq!(sort_names(&review, "b x y"), ["b", "", "", "x y"]);
            choose(&mut review, "b x y", "b", REJECTED);
            assert_eq!(sort_names(&review, "b x y"), ["", "", "b", "x y"]);
            choose(&mut review, "b x y", "x", ACCEPTED);
            assert_eq!(sort_names(&review, "b x y"), ["", "x", "b", "y"]);
            choose(&mut review, "b x y", "y", None);
            assert_eq!(sort_names(&review, "b x y"), ["y", "x", "b", ""]);
            assert!(!review.lost_choice);
        }
    }

    #[test]
    fn a_review_that_goes_back_to_nothing_is_empty() {
        let mut review = file_review();
        choose(&mut review, "a b", "a", REJECTED);
        assert_eq!(review.count_hunks(), 2);
        choose(&mut review, "a b", "a", None);
        assert!(review.is_empty());
        assert_eq!(review.count_hunks(), 0);
    }

    #[test]
    fn numbers_of_comments_are_parsed_strictly() {
        assert_eq!("12".parse(), Ok(CommentId(12)));
        for bad in ["", "0", "-1", "c1", "99999999999"] {
            assert!(bad.parse::<CommentId>().is_err(), "{bad}");
        }
    }
}
