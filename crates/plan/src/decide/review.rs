//! Notes of a person who reviews a plan.

use serde_json::{Value, json};

use crate::authority::CommandAudience;
use crate::command::{CommandDefinition, CommandHeader, PlainCommand};
use crate::decide::draft::DecisionDraft;
use crate::decide::{DecisionInput, text};
use crate::reads::{CommandTarget, ReadSet};
use crate::refusal::ReviewLimit;
use crate::review::{
    CommentId, DraftComment, MAX_COMMENT_BYTES, MAX_REVIEW_COMMENTS, MAX_REVIEW_FILES,
    MAX_REVIEW_HUNKS, PlanReview, ReviewComment, ReviewEdit, ViewedContent,
};
use crate::{Decision, ReceiptOutcome, Refusal, RowWrite, Verb};

/// The longest name of a blob.
const MAX_BLOB_DIGITS: usize = 64;

/// Change the caller's review of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct EditReview {
    /// Made in this order, all or none.
    pub edits: Vec<ReviewEdit>,
}

impl PlainCommand for EditReview {}

impl CommandDefinition for EditReview {
    fn header(&self) -> CommandHeader {
        CommandHeader::new(Verb::Review, CommandAudience::People)
    }

    fn reads(&self, target: &CommandTarget) -> ReadSet {
        target.plan_reads_with_reviews()
    }

    fn arguments(&self) -> Value {
        json!(self.edits)
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        edit_review(input.draft()?, &self.edits)
    }
}

fn edit_review(draft: DecisionDraft<'_>, edits: &[ReviewEdit]) -> Result<Decision, Refusal> {
    if draft.plan.stage().is_final() {
        return draft.answer_not_applicable();
    }
    let mut review = find_own_review(&draft);
    for edit in edits {
        apply_edit(&mut review, edit)?;
    }
    require_fits(&review)?;
    let rows = vec![RowWrite::PutReview(review)];
    Ok(draft.finish_with_rows(rows, ReceiptOutcome::Done))
}

/// Returns the caller's review, or an empty one.
pub(super) fn find_own_review(draft: &DecisionDraft<'_>) -> PlanReview {
    let person = draft.request.caller.name();
    let mut known = draft.facts.reviews.iter();
    let found = known.find(|review| review.person == person);
    found.map_or_else(
        || PlanReview::new(draft.plan.id(), person),
        PlanReview::clone,
    )
}

/// Takes a comment out of a review.
pub(super) fn take_comment(
    review: &mut PlanReview,
    id: CommentId,
) -> Result<ReviewComment, Refusal> {
    let index = review.comments.iter().position(|draft| draft.id == id);
    let index = index.ok_or(Refusal::NoSuchComment(id))?;
    Ok(review.comments.remove(index).comment)
}

fn apply_edit(review: &mut PlanReview, edit: &ReviewEdit) -> Result<(), Refusal> {
    match edit {
        ReviewEdit::MarkViewed { file, content } => {
            require_blob(content)?;
            review.edit_file(file, |known| known.viewed = Some(content.clone()));
        }
        ReviewEdit::UnmarkViewed { file } => review.edit_file(file, |known| known.viewed = None),
        ReviewEdit::ChooseHunks {
            file,
            shown,
            choices,
        } => {
            if choices.keys().any(|hunk| !shown.contains(hunk)) {
                return Err(Refusal::ResultChanged);
            }
            review.edit_file(file, |known| known.choose_hunks(shown, choices));
        }
        ReviewEdit::AddComment(comment) => {
            text::require_text("comment", comment.text.as_str())?;
            text::require_storable("quoted code", comment.quote.as_str())?;
            let CommentId(last) = review.last_comment;
            let id = CommentId(last.saturating_add(1));
            review.last_comment = id;
            let comment = comment.clone();
            review.comments.push(DraftComment { id, comment });
        }
        ReviewEdit::RewriteComment { id, text } => {
            let text = text::require_text("comment", text.as_str())?;
            let mut drafts = review.comments.iter_mut();
            let draft = drafts.find(|draft| draft.id == *id);
            draft.ok_or(Refusal::NoSuchComment(*id))?.comment.text = text;
        }
        ReviewEdit::DropComments(ids) => {
            for id in ids {
                take_comment(review, *id)?;
            }
        }
    }
    Ok(())
}

fn require_blob(content: &ViewedContent) -> Result<(), Refusal> {
    let is_blob = |text: &String| {
        let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex && !text.is_empty() && text.len() <= MAX_BLOB_DIGITS
    };
    match content {
        ViewedContent::Blob(text) if !is_blob(text) => Err(Refusal::BadText {
            what: "blob",
            why: "is not the name of a blob",
        }),
        ViewedContent::Blob(_) | ViewedContent::Deleted => Ok(()),
    }
}

fn require_fits(review: &PlanReview) -> Result<(), Refusal> {
    let limits = [
        (ReviewLimit::Files, review.files.len(), MAX_REVIEW_FILES),
        (ReviewLimit::Hunks, review.count_hunks(), MAX_REVIEW_HUNKS),
        (
            ReviewLimit::Comments,
            review.comments.len(),
            MAX_REVIEW_COMMENTS,
        ),
        (
            ReviewLimit::CommentBytes,
            review.count_comment_bytes(),
            MAX_COMMENT_BYTES,
        ),
    ];
    match limits.into_iter().find(|(_, used, max)| used > max) {
        Some((limit, _, max)) => Err(Refusal::ReviewTooLarge { limit, max }),
        None => Ok(()),
    }
}
