//! Reviews: what people note about a plan without changing it.

use planwright_plan as plan;

use std::collections::{BTreeMap, BTreeSet};

use plan::command::{EditReview, ReviseWork};
use plan::refusal::ReviewLimit;
use plan::review::{
    CommentId, HunkChoice, MAX_REVIEW_COMMENTS, MAX_REVIEW_FILES, MAX_REVIEW_HUNKS, PlanReview,
    ReviewComment, ReviewEdit, ReviewedFile, ViewedContent,
};
use plan::{Caller, Command, Digest, Event, HunkId, Profile, Refusal, RowWrite, Verb};

use crate::commands::sample_comment;
use crate::spot::{Spot, StepCaller};
use crate::world::{LandingSetup, PlanWorld, ada, worker};

fn reviewed_world() -> PlanWorld {
    Spot::ExecuteComplete.reach_world(Profile::Review, LandingSetup::OnTargets, StepCaller::Person)
}

fn edit(edits: impl IntoIterator<Item = ReviewEdit>) -> Command {
    Command::from(EditReview {
        edits: edits.into_iter().collect(),
    })
}

fn comment(text: &str) -> ReviewEdit {
    ReviewEdit::AddComment(ReviewComment {
        text: text.into(),
        ..sample_comment()
    })
}

fn file(path: &str) -> ReviewedFile {
    ReviewedFile {
        resource: "main".to_owned(),
        path: plan::changeset::TreePath::new(path).unwrap(),
    }
}

fn hunk(number: usize) -> HunkId {
    HunkId::from_digest(Digest::hash_bytes(&number.to_be_bytes()))
}

fn texts(review: &PlanReview) -> Vec<(u32, &str)> {
    let comments = review.comments.iter();
    comments
        .map(|draft| (draft.id.0, draft.comment.text.as_str()))
        .collect()
}

#[test]
fn an_edit_changes_only_the_callers_review_and_nothing_of_the_plan() {
    let mut world = reviewed_world();
    let before = world.plan().clone();
    let bob = Caller::Person("bob".into());
    world
        .submit(&ada(), edit([comment("one"), comment("two")]))
        .unwrap();
    world.submit(&bob, edit([comment("his")])).unwrap();
    let decision = world
        .submit(
            &ada(),
            edit([
                ReviewEdit::RewriteComment {
                    id: CommentId(1),
                    text: "better".into(),
                },
                ReviewEdit::DropComments([CommentId(2)].into()),
                comment("three"),
            ]),
        )
        .unwrap();
    assert!(decision.plans.is_empty());
    assert_eq!(*world.plan(), before);
    let [his, own] = world.facts.reviews.as_slice() else {
        panic!("two reviews");
    };
    assert_eq!((his.person.as_str(), texts(his)), ("bob", vec![(1, "his")]));
    // The number of a dropped comment is not used again.
    assert_eq!(texts(own), [(1, "better"), (3, "three")]);
}

#[test]
fn a_review_ends_with_its_plan() {
    let mut world = reviewed_world();
    world.submit(&ada(), edit([comment("one")])).unwrap();
    world.submit_as_person(Verb::Revise);
    assert_eq!(world.facts.reviews.len(), 1);
    let cancel = world.default_command(Verb::Cancel);
    let decision = world.submit(&ada(), cancel).unwrap();
    let plan_id = world.plan().id();
    assert!(decision.rows.contains(&RowWrite::DropReviews(plan_id)));
    assert!(world.facts.reviews.is_empty());
    let refusal = world.expect_refusal(&ada(), edit([comment("late")]));
    assert!(matches!(refusal, Refusal::Final { .. }), "{refusal:?}");
}

#[test]
fn an_edit_that_does_not_fit_changes_nothing() {
    let world = reviewed_world();
    let refuse = |edits: Vec<ReviewEdit>| world.expect_refusal(&ada(), edit(edits));
    let unknown = CommentId(9);
    for edits in [
        ReviewEdit::DropComments([unknown].into()),
        ReviewEdit::RewriteComment {
            id: unknown,
            text: "x".into(),
        },
    ] {
        assert_eq!(refuse(vec![edits]), Refusal::NoSuchComment(unknown));
    }
    for text in ["", " \n", "a\0b"] {
        let refusal = refuse(vec![comment(text)]);
        assert!(matches!(refusal, Refusal::BadText { .. }), "{refusal:?}");
    }
    for blob in ["", "../x", &"a".repeat(65)] {
        let refusal = refuse(vec![ReviewEdit::MarkViewed {
            file: file("a"),
            content: ViewedContent::Blob(blob.to_owned()),
        }]);
        assert!(matches!(refusal, Refusal::BadText { .. }), "{refusal:?}");
    }
    let not_shown = ReviewEdit::ChooseHunks {
        file: file("a"),
        shown: BTreeSet::from([hunk(1)]),
        choices: BTreeMap::from([(hunk(2), Some(HunkChoice::Rejected))]),
    };
    assert_eq!(refuse(vec![not_shown]), Refusal::ResultChanged);
}

#[test]
fn reviews_are_bounded() {
    let world = reviewed_world();
    let check = |edits: Vec<ReviewEdit>, limit, max| {
        let refusal = world.expect_refusal(&ada(), edit(edits.clone()));
        assert_eq!(refusal, Refusal::ReviewTooLarge { limit, max });
        let fits = edit(edits.into_iter().skip(1));
        world.decide(&ada(), fits).unwrap();
    };
    check(
        (0..=MAX_REVIEW_COMMENTS).map(|_| comment("x")).collect(),
        ReviewLimit::Comments,
        MAX_REVIEW_COMMENTS,
    );
    check(
        (0..=MAX_REVIEW_FILES)
            .map(|number| ReviewEdit::MarkViewed {
                file: file(&number.to_string()),
                content: ViewedContent::Deleted,
            })
            .collect(),
        ReviewLimit::Files,
        MAX_REVIEW_FILES,
    );
    let half = MAX_REVIEW_HUNKS / 2;
    check(
        [0..half + 1, half + 1..MAX_REVIEW_HUNKS + 1]
            .map(|range| ReviewEdit::ChooseHunks {
                file: file(&range.start.to_string()),
                choices: BTreeMap::from([(hunk(range.start), Some(HunkChoice::Rejected))]),
                shown: range.map(hunk).collect(),
            })
            .to_vec(),
        ReviewLimit::Hunks,
        MAX_REVIEW_HUNKS,
    );
    let long = "x".repeat(plan::review::MAX_COMMENT_BYTES / 2);
    check(
        vec![comment(&long), comment(&long)],
        ReviewLimit::CommentBytes,
        plan::review::MAX_COMMENT_BYTES,
    );
}

#[test]
fn only_people_have_reviews() {
    let world = reviewed_world();
    for caller in [worker(), Caller::Agent("ada".into())] {
        let refusal = world.expect_refusal(&caller, edit([comment("x")]));
        assert!(matches!(refusal, Refusal::NotAuthorized { .. }));
    }
}

fn revise(feedback: &str, comments: &[u32]) -> Command {
    Command::from(ReviseWork {
        feedback: feedback.to_owned(),
        comments: comments.iter().copied().map(CommentId).collect(),
        dropped: Vec::new(),
    })
}

#[test]
fn a_revise_sends_the_comments_it_names_and_keeps_the_others() {
    let mut world = reviewed_world();
    let edits = ["one", "two", "three"].map(comment);
    world.submit(&ada(), edit(edits)).unwrap();
    let decision = world.submit(&ada(), revise("", &[3, 1])).unwrap();
    let [change] = decision.plans.as_slice() else {
        panic!("one plan");
    };
    let Event::Revised { comments, .. } = &change.events[0].event else {
        panic!("{:?}", change.events);
    };
    let sent: Vec<&str> = comments.iter().map(|sent| sent.text.as_str()).collect();
    assert_eq!(sent, ["one", "three"]);
    assert_eq!(comments[0].place, sample_comment().place);
    assert_eq!(texts(&world.facts.reviews[0]), [(2, "two")]);
}

#[test]
fn comments_that_are_not_the_callers_are_not_sent() {
    let mut world = reviewed_world();
    world.submit(&ada(), edit([comment("one")])).unwrap();
    let bob = Caller::Person("bob".into());
    let unknown = Refusal::NoSuchComment(CommentId(1));
    assert_eq!(world.expect_refusal(&bob, revise("x", &[1])), unknown);
    let unknown = Refusal::NoSuchComment(CommentId(2));
    assert_eq!(world.expect_refusal(&ada(), revise("x", &[1, 2])), unknown);
    // A worker or an agent may have the name of a person.
    let namesake = Caller::Worker("ada".into());
    assert!(world.decide(&namesake, revise("x", &[1])).is_err());
    let refusal = world.expect_refusal(&ada(), revise(" ", &[]));
    assert!(matches!(refusal, Refusal::BadText { .. }), "{refusal:?}");
}

/// What an agent created, it may revise: without the drafts of a person with its name.
#[test]
fn an_agent_sends_no_comments() {
    let mut world = reviewed_world();
    world.submit(&ada(), edit([comment("one")])).unwrap();
    let agent = Caller::Agent("ada".into());
    world.edit_plan(|fields| fields["created_by"] = serde_json::json!(agent));
    let refusal = world.expect_refusal(&agent, revise("x", &[1]));
    assert!(
        matches!(refusal, Refusal::NeedsPerson { .. }),
        "{refusal:?}"
    );
}
