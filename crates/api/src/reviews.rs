//! Reviews: files a person viewed, hunks they chose, comments they did not send yet.

use std::collections::{BTreeMap, BTreeSet};

use lifecycle::{
    Call, FileChange, FileVersions, Lifecycle, LifecycleError, OperationOutcome, ResourceChanges,
};
use plan::changeset::TreePath;
use plan::command::EditReview;
use plan::review::{
    CommentId, CommentPlace, DiffSide, DraftComment, HunkChoice, HunkStanding, ReviewComment,
    ReviewEdit, ReviewedFile, ViewedContent,
};
use plan::{Caller, HunkId, Plan, PlanId};

use crate::results;
use crate::view::{
    CommentStanding, DraftCommentView, HunkCounts, ReviewView, ReviewedFileView, ReviewedHunkView,
    shorten_hunk_ids,
};

/// One change of the caller's review.
#[derive(Debug, Clone)]
pub enum ReviewChange {
    View(ViewedMark),
    Choose(ChosenHunks),
    Comment(NewComment),
    Rewrite(RewrittenComment),
    /// Deletes draft comments.
    Drop(BTreeSet<CommentId>),
}

/// Marks a file as viewed, or takes the mark back.
#[derive(Debug, Clone)]
pub struct ViewedMark {
    /// Needed only if the plan has several resources.
    pub resource: Option<String>,
    pub path: TreePath,
    /// Git's id of the content that was shown; `None` for a deleted file.
    pub blob: Option<String>,
    pub viewed: bool,
}

/// Chooses hunks of the current result.
#[derive(Debug, Clone)]
pub struct ChosenHunks {
    pub hunks: BTreeSet<HunkId>,
    /// `None` takes the choices back.
    pub choice: Option<HunkChoice>,
}

#[derive(Debug, Clone)]
pub struct NewComment {
    /// Needed only if the plan has several resources.
    pub resource: Option<String>,
    pub path: TreePath,
    pub side: DiffSide,
    /// From 1.
    pub first_line: u32,
    pub last_line: u32,
    /// The lines that were shown. By default those of the current changes.
    pub quote: Option<String>,
    pub text: String,
}

#[derive(Debug, Clone)]
pub struct RewrittenComment {
    pub id: CommentId,
    pub text: String,
}

/// Why a review cannot be changed as asked.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    #[error("the plan does not change `{0}`")]
    NotChanged(TreePath),
    #[error("`{path}` has no {} in its {} version", describe_lines(*.first_line, *.last_line), .side.as_str())]
    NoSuchLines {
        path: TreePath,
        side: DiffSide,
        first_line: u32,
        last_line: u32,
    },
    #[error("the plan has several resources; name the one of `{0}`")]
    ResourceNeeded(TreePath),
    #[error("the current result has no hunk {}", .0.short())]
    NoSuchHunk(HunkId),
    #[error(transparent)]
    Engine(#[from] LifecycleError),
}

fn describe_lines(first: u32, last: u32) -> String {
    match first == last {
        true => format!("line {first}"),
        false => format!("lines {first} to {last}"),
    }
}

/// Shows the caller's review beside the plan's current changes.
pub fn view_review(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
    reviewer: &Caller,
) -> Result<ReviewView, LifecycleError> {
    let plan = lifecycle.get_plan(plan_id)?.plan;
    let review = lifecycle.read_review(plan_id, reviewer)?;
    let current = CurrentChanges::read(lifecycle, plan_id)?;
    let result = lifecycle
        .history()
        .list_results(plan_id)?
        .last()
        .map(|last| last.number);
    let all_hunks = current.files.iter().flat_map(|(_, file)| &file.hunks);
    let names = shorten_hunk_ids(all_hunks.map(|hunk| hunk.id));
    let shared = current.hunks_by_file();
    let mut standings: BTreeMap<HunkId, HunkStanding> = BTreeMap::new();
    for (file, shown) in &shared {
        let known = review.find_file(file);
        for hunk in shown {
            let standing = known.map_or(HunkStanding::Unmarked, |known| {
                known.standing_of(*hunk, shown)
            });
            standings
                .entry(*hunk)
                .and_modify(|other| *other = combine_standings(*other, standing))
                .or_insert(standing);
        }
    }
    let files = current.files.iter().map(|(resource, file)| {
        let key = reviewed_file(resource, file);
        let viewed = review
            .find_file(&key)
            .and_then(|known| known.viewed.clone());
        let blob = file.after.as_ref().map(|entry| entry.id.to_string());
        let counts = file.count_lines();
        ReviewedFileView {
            viewed: viewed == Some(ViewedContent::of_blob(blob.clone())),
            resource: key.resource,
            path: key.path,
            from: file.from.clone(),
            operation: file.operation,
            insertions: counts.map(|(_, added)| added),
            deletions: counts.map(|(removed, _)| removed),
            blob,
            hunks: file
                .hunks
                .iter()
                .map(|hunk| ReviewedHunkView {
                    id: hunk.id,
                    short: names[&hunk.id].clone(),
                    standing: standings[&hunk.id],
                })
                .collect(),
        }
    });
    let files = files.collect();
    let comments = review.comments.iter();
    let comments = comments.map(|draft| current.view_comment(draft));
    let comments = comments.collect::<Result<_, LifecycleError>>()?;
    Ok(ReviewView {
        plan_id,
        version: plan.version().0,
        person: review.person,
        result,
        pickable: results::pickable_digest(&plan),
        hunks: count_standings(standings.values().copied()),
        files,
        comments,
    })
}

/// Changes the caller's review. All changes are made in one commit, or none.
pub fn edit_review(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
    changes: &[ReviewChange],
    call: &Call,
) -> Result<OperationOutcome, ReviewError> {
    let plan = lifecycle.get_plan(plan_id)?.plan;
    let needs_changes = |change: &ReviewChange| match change {
        ReviewChange::Choose(_) => true,
        ReviewChange::Comment(comment) => comment.quote.is_none(),
        ReviewChange::View(_) | ReviewChange::Rewrite(_) | ReviewChange::Drop(_) => false,
    };
    let current = match changes.iter().any(needs_changes) {
        true => CurrentChanges::read(lifecycle, plan_id)?,
        false => CurrentChanges::default(),
    };
    let mut edits = Vec::new();
    for change in changes {
        match change {
            ReviewChange::View(mark) => edits.push(mark_viewed(&plan, mark)?),
            ReviewChange::Choose(choices) => edits.extend(current.choose_hunks(choices)?),
            ReviewChange::Comment(comment) => {
                let comment = current.make_comment(&plan, comment)?;
                edits.push(ReviewEdit::AddComment(comment));
            }
            ReviewChange::Rewrite(rewritten) => edits.push(ReviewEdit::RewriteComment {
                id: rewritten.id,
                text: rewritten.text.as_str().into(),
            }),
            ReviewChange::Drop(ids) => edits.push(ReviewEdit::DropComments(ids.clone())),
        }
    }
    Ok(lifecycle.submit_command(plan_id, EditReview { edits }, call)?)
}

fn mark_viewed(plan: &Plan, mark: &ViewedMark) -> Result<ReviewEdit, ReviewError> {
    let file = name_file(plan, mark.resource.as_deref(), &mark.path)?;
    Ok(match mark.viewed {
        true => ReviewEdit::MarkViewed {
            file,
            content: ViewedContent::of_blob(mark.blob.clone()),
        },
        false => ReviewEdit::UnmarkViewed { file },
    })
}

fn name_file(
    plan: &Plan,
    resource: Option<&str>,
    path: &TreePath,
) -> Result<ReviewedFile, ReviewError> {
    let resource = match (resource, plan.resources()) {
        (Some(name), _) if plan.resource(name).is_some() => name,
        (None, [only]) => only.name.as_str(),
        (Some(_) | None, _) => return Err(ReviewError::ResourceNeeded(path.clone())),
    };
    Ok(ReviewedFile {
        resource: resource.to_owned(),
        path: path.clone(),
    })
}

/// What a plan changes now: the files of its result, or of its sandbox.
#[derive(Default)]
struct CurrentChanges {
    resources: Vec<ResourceChanges>,
    /// With the names of their resources.
    files: Vec<(String, FileChange)>,
}

impl CurrentChanges {
    fn read(lifecycle: &Lifecycle, plan_id: PlanId) -> Result<Self, LifecycleError> {
        let resources = lifecycle.sandboxes().view_changes(plan_id)?;
        let mut files = Vec::new();
        for changes in &resources {
            let name = &changes.resource;
            let listed = changes.comparison.list_file_changes(name, &[])?;
            files.extend(listed.into_iter().map(|file| (name.clone(), file)));
        }
        Ok(Self { resources, files })
    }

    fn hunks_by_file(&self) -> BTreeMap<ReviewedFile, BTreeSet<HunkId>> {
        let files = self.files.iter();
        let hunks_of = |file: &FileChange| file.hunks.iter().map(|hunk| hunk.id).collect();
        files
            .map(|(resource, file)| (reviewed_file(resource, file), hunks_of(file)))
            .collect()
    }

    /// Turns choices into one edit per file.
    fn choose_hunks(&self, choices: &ChosenHunks) -> Result<Vec<ReviewEdit>, ReviewError> {
        let mut unknown = choices.hunks.clone();
        let mut edits = Vec::new();
        for (file, shown) in self.hunks_by_file() {
            let chosen: BTreeSet<HunkId> = &choices.hunks & &shown;
            unknown = &unknown - &shown;
            if chosen.is_empty() {
                continue;
            }
            edits.push(ReviewEdit::ChooseHunks {
                file,
                shown,
                choices: chosen
                    .into_iter()
                    .map(|hunk| (hunk, choices.choice))
                    .collect(),
            });
        }
        match unknown.first() {
            Some(hunk) => Err(ReviewError::NoSuchHunk(*hunk)),
            None => Ok(edits),
        }
    }

    fn make_comment(
        &self,
        plan: &Plan,
        comment: &NewComment,
    ) -> Result<ReviewComment, ReviewError> {
        let place = CommentPlace {
            file: name_file(plan, comment.resource.as_deref(), &comment.path)?,
            side: comment.side,
            first_line: comment.first_line,
            last_line: comment.last_line,
        };
        let quote = match &comment.quote {
            Some(quote) => quote.clone(),
            None => self.quote_lines(&place)?,
        };
        Ok(ReviewComment {
            place,
            quote: quote.into(),
            text: comment.text.as_str().into(),
        })
    }

    fn quote_lines(&self, place: &CommentPlace) -> Result<String, ReviewError> {
        let path = &place.file.path;
        let found = self.find_file(&place.file);
        let (changes, file) = found.ok_or_else(|| ReviewError::NotChanged(path.clone()))?;
        let lines = read_lines(changes, file, place.side)?;
        let range = (place.first_line as usize).wrapping_sub(1)..place.last_line as usize;
        let quoted = lines.get(range).filter(|quoted| !quoted.is_empty());
        let quoted = quoted.ok_or_else(|| ReviewError::NoSuchLines {
            path: path.clone(),
            side: place.side,
            first_line: place.first_line,
            last_line: place.last_line,
        })?;
        Ok(quoted.join("\n"))
    }

    fn find_file(&self, wanted: &ReviewedFile) -> Option<(&ResourceChanges, &FileChange)> {
        let mut files = self.files.iter();
        let found = files.find(|(resource, file)| {
            *resource == wanted.resource
                && (file.path == wanted.path || file.from.as_ref() == Some(&wanted.path))
        });
        let (resource, file) = found?;
        let mut resources = self.resources.iter();
        let changes = resources.find(|changes| changes.resource == *resource)?;
        Some((changes, file))
    }

    fn view_comment(&self, draft: &DraftComment) -> Result<DraftCommentView, LifecycleError> {
        let ReviewComment { place, quote, text } = &draft.comment;
        let (standing, found_at) = match self.find_file(&place.file) {
            None => (CommentStanding::FileGone, None),
            Some((changes, file)) => {
                let lines = read_lines(changes, file, place.side)?;
                find_quote(&lines, quote.as_str(), place.first_line)
            }
        };
        Ok(DraftCommentView {
            id: draft.id,
            resource: place.file.resource.clone(),
            path: place.file.path.clone(),
            side: place.side,
            first_line: place.first_line,
            last_line: place.last_line,
            quote: quote.to_string(),
            text: text.to_string(),
            place: standing,
            found_at,
        })
    }
}

fn reviewed_file(resource: &str, file: &FileChange) -> ReviewedFile {
    ReviewedFile {
        resource: resource.to_owned(),
        path: file.path.clone(),
    }
}

/// Reads one side of a file as the views show it. Empty if it is not text.
fn read_lines(
    changes: &ResourceChanges,
    file: &FileChange,
    side: DiffSide,
) -> Result<Vec<String>, LifecycleError> {
    let FileVersions { old, new } = changes.comparison.read_versions(file)?;
    let content = match side {
        DiffSide::Old => old,
        DiffSide::New => new,
    };
    let content = content.unwrap_or_default();
    let lines = results::split_lines(&content).into_iter();
    Ok(lines.map(show_line).collect())
}

/// A line without its end. Texts with a NUL cannot be stored.
fn show_line(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    String::from_utf8_lossy(line).replace('\0', "\u{fffd}")
}

/// Looks for quoted lines: where they were, or else at the nearest other place.
fn find_quote(lines: &[String], quote: &str, first_line: u32) -> (CommentStanding, Option<u32>) {
    let quoted: Vec<&str> = quote.split('\n').collect();
    let starts = lines.windows(quoted.len()).enumerate();
    let matching = starts.filter(|(_, window)| window.iter().eq(&quoted));
    let numbers = matching.filter_map(|(index, _)| u32::try_from(index + 1).ok());
    match numbers.min_by_key(|number| number.abs_diff(first_line)) {
        Some(number) if number == first_line => (CommentStanding::Current, Some(number)),
        Some(number) => (CommentStanding::Moved, Some(number)),
        None => (CommentStanding::LinesGone, None),
    }
}

/// Combines where a hunk stands in two files that share it.
fn combine_standings(one: HunkStanding, other: HunkStanding) -> HunkStanding {
    use HunkStanding::{Accepted, Rejected, Undecided, Unmarked};
    match (one, other) {
        (Rejected, _) | (_, Rejected) => Rejected,
        (Undecided, _) | (_, Undecided) => Undecided,
        (Accepted, _) | (_, Accepted) => Accepted,
        (Unmarked, Unmarked) => Unmarked,
    }
}

fn count_standings(standings: impl Iterator<Item = HunkStanding>) -> HunkCounts {
    let mut counts = HunkCounts::default();
    for standing in standings {
        counts.total += 1;
        *match standing {
            HunkStanding::Unmarked => &mut counts.unmarked,
            HunkStanding::Accepted => &mut counts.accepted,
            HunkStanding::Rejected => &mut counts.rejected,
            HunkStanding::Undecided => &mut counts.undecided,
        } += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_found_at_the_nearest_place() {
        let lines: Vec<String> = "a b a c a b".split(' ').map(str::to_owned).collect();
        let find = |quote: &str, line| find_quote(&lines, quote, line);
        assert_eq!(find("a\nb", 1), (CommentStanding::Current, Some(1)));
        assert_eq!(find("a\nb", 4), (CommentStanding::Moved, Some(5)));
        assert_eq!(find("a", 40), (CommentStanding::Moved, Some(5)));
        assert_eq!(find("b\na\nb", 2), (CommentStanding::LinesGone, None));
        assert_eq!(find_quote(&[], "a", 1), (CommentStanding::LinesGone, None));
    }
}
