//! Reviews: what people note beside a plan.

use plan::Command;
use plan::command::{CancelPlan, EditReview, FailRun, ReviseWork};
use plan::review::{
    CommentId, CommentPlace, DiffSide, HunkChoice, PlanReview, ReviewComment, ReviewEdit,
    ReviewedFile, ViewedContent,
};
use plan::stage::FailureCategory;
use plan::{Digest, Event, HunkId, PlanId};
use store::fault::FaultPoint;
use store::{CommitError, Store, StoreError};
use testkit::TestClient;
use testkit::client::LONG_LEASE;

use crate::store_fixture::StoreFixture;

super::on_every_store! {
    reviews_come_back_as_they_were_written,
    a_review_changes_no_plan_and_writes_no_event,
    racing_edits_are_all_kept,
    a_failed_commit_leaves_the_review_as_it_was,
    reviews_are_deleted_with_their_plan,
    comments_and_their_revise_are_committed_together_at_every_failure,
}

fn file(path: &[u8]) -> ReviewedFile {
    ReviewedFile {
        resource: "main".to_owned(),
        path: plan::changeset::TreePath::new(path).unwrap(),
    }
}

fn comment(text: &str) -> ReviewEdit {
    ReviewEdit::AddComment(ReviewComment {
        place: CommentPlace {
            file: file(b"caf\xe9.txt"),
            side: DiffSide::Old,
            first_line: 1,
            last_line: 2,
        },
        quote: "a\r\n\u{1b}[31m'b'".into(),
        text: text.into(),
    })
}

fn edit(client: &TestClient, plan_id: PlanId, edits: Vec<ReviewEdit>) {
    client.must_submit(plan_id, Command::from(EditReview { edits }));
}

fn read_texts(store: &dyn Store, plan_id: PlanId) -> Vec<Vec<String>> {
    let texts = |review: PlanReview| {
        let comments = review.comments.into_iter();
        comments
            .map(|draft| draft.comment.text.as_str().to_owned())
            .collect()
    };
    let reviews = store.list_reviews(plan_id).unwrap();
    reviews.into_iter().map(texts).collect()
}

fn reviews_come_back_as_they_were_written(fixture: &StoreFixture) {
    let client = fixture.client();
    let (plan_id, other) = (
        client.create_queued_plan("review"),
        client.create_queued_plan("not this"),
    );
    let hunk = |name: &[u8]| HunkId::from_digest(Digest::hash_bytes(name));
    edit(
        &client.as_person("żółw \"o'b\""),
        plan_id,
        vec![
            ReviewEdit::MarkViewed {
                file: file(b"caf\xe9.txt"),
                content: ViewedContent::Blob("ab12".to_owned()),
            },
            ReviewEdit::MarkViewed {
                file: file(b"gone"),
                content: ViewedContent::Deleted,
            },
            ReviewEdit::ChooseHunks {
                file: file(b"a"),
                shown: [hunk(b"1"), hunk(b"2")].into(),
                choices: [(hunk(b"1"), Some(HunkChoice::Rejected))].into(),
            },
            comment("why?"),
        ],
    );
    edit(&client, plan_id, vec![comment("mine")]);
    edit(&client, other, vec![comment("other")]);
    let reviews = fixture.open().list_reviews(plan_id).unwrap();
    let people: Vec<&str> = reviews
        .iter()
        .map(|review| review.person.as_str())
        .collect();
    assert_eq!(people, ["ada", "żółw \"o'b\""]);
    let review = &reviews[1];
    assert_eq!(review.plan, plan_id);
    assert_eq!(review.files.len(), 3);
    let viewed = |path: &[u8]| review.find_file(&file(path)).unwrap().viewed.clone();
    assert_eq!(viewed(b"gone"), Some(ViewedContent::Deleted));
    assert_eq!(
        viewed(b"caf\xe9.txt"),
        Some(ViewedContent::Blob("ab12".into()))
    );
    let chosen = review.find_file(&file(b"a")).unwrap();
    assert_eq!(chosen.choices, [(hunk(b"1"), HunkChoice::Rejected)].into());
    assert_eq!(chosen.known, [hunk(b"1"), hunk(b"2")].into());
    let [draft] = review.comments.as_slice() else {
        panic!("{review:?}");
    };
    assert_eq!(draft.comment.quote.as_str(), "a\r\n\u{1b}[31m'b'");
    assert_eq!(draft.comment.place.file, file(b"caf\xe9.txt"));
}

fn a_review_changes_no_plan_and_writes_no_event(fixture: &StoreFixture) {
    let client = fixture.client();
    let plan_id = client.create_queued_plan("stay");
    let store = client.store();
    let before = (
        store.read_plan(plan_id).unwrap(),
        testkit::dump::read_all_events(store, plan_id),
    );
    edit(&client, plan_id, vec![comment("one")]);
    let after = (
        store.read_plan(plan_id).unwrap(),
        testkit::dump::read_all_events(store, plan_id),
    );
    assert_eq!(before, after);
}

fn racing_edits_are_all_kept(fixture: &StoreFixture) {
    let client = fixture.client();
    let plan_id = client.create_queued_plan("race");
    fixture.race(8, |number, client| {
        for round in 0..5 {
            let person = client.as_person(if number < 4 { "ada" } else { "bob" });
            edit(
                &person,
                plan_id,
                vec![comment(&format!("{number} {round}"))],
            );
        }
    });
    let reviews = fixture.open().list_reviews(plan_id).unwrap();
    let ids = |review: &PlanReview| -> Vec<u32> {
        let comments = review.comments.iter();
        comments.map(|draft| draft.id.0).collect()
    };
    let counts: usize = reviews.iter().map(|review| review.comments.len()).sum();
    assert_eq!(counts, 40);
    for review in &reviews {
        let expected: Vec<u32> = (1..=review.comments.len() as u32).collect();
        assert_eq!(ids(review), expected);
    }
}

fn a_failed_commit_leaves_the_review_as_it_was(fixture: &StoreFixture) {
    let client = fixture.client();
    let plan_id = client.create_queued_plan("fail");
    edit(&client, plan_id, vec![comment("kept")]);
    let drop_all = Command::from(EditReview {
        edits: vec![
            ReviewEdit::DropComments([CommentId(1)].into()),
            comment("new"),
        ],
    });
    fixture.faults.arm(FaultPoint::BeforeCommit);
    let failed = client.submit_for_plan(plan_id, drop_all);
    assert!(matches!(
        failed,
        Err(CommitError::Failed(StoreError::Database { .. }))
    ));
    assert_eq!(read_texts(&*fixture.open(), plan_id), [["kept"]]);
}

fn reviews_are_deleted_with_their_plan(fixture: &StoreFixture) {
    let client = fixture.client();
    let (ended, other) = (
        client.create_queued_plan("end"),
        client.create_queued_plan("go on"),
    );
    for person in ["ada", "bob"] {
        edit(&client.as_person(person), ended, vec![comment("x")]);
    }
    edit(&client, other, vec![comment("stays")]);
    client.must_submit(ended, Command::from(CancelPlan { reason: None }));
    let store = fixture.open();
    assert_eq!(store.list_reviews(ended).unwrap(), []);
    assert_eq!(read_texts(&*store, other), [["stays"]]);
}

/// Whatever fails, a comment is either a draft or sent.
fn comments_and_their_revise_are_committed_together_at_every_failure(fixture: &StoreFixture) {
    let client = fixture.client();
    let (plan_id, epoch) = client.create_executing_plan("comment", LONG_LEASE);
    let failed = FailRun::new(epoch, FailureCategory::Actor, "stuck".to_owned());
    client.must_submit(plan_id, Command::from(failed));
    edit(&client, plan_id, vec![comment("one"), comment("two")]);
    let revise = || {
        Command::from(ReviseWork {
            feedback: String::new(),
            comments: [CommentId(1)].into(),
            dropped: Vec::new(),
        })
    };
    let sent = || {
        let events = testkit::dump::read_all_events(&*fixture.open(), plan_id);
        let revised = events
            .iter()
            .filter_map(|stored| match &stored.recorded.event {
                Event::Revised { comments, .. } => Some(comments.len()),
                _ => None,
            });
        revised.collect::<Vec<_>>()
    };
    for point in [FaultPoint::Decided, FaultPoint::BeforeCommit] {
        fixture.faults.arm(point);
        let failed = client.submit_with_key("send", "one", Some(plan_id), revise());
        assert!(matches!(failed, Err(CommitError::Failed(_))), "{failed:?}");
        fixture.faults.disarm();
        assert_eq!(sent(), Vec::<usize>::new(), "{point:?}");
        assert_eq!(read_texts(&*fixture.open(), plan_id), [["one", "two"]]);
    }
    fixture.faults.arm(FaultPoint::AfterCommit);
    // Depending on the store, the answer is lost or found out.
    let _ = client.submit_with_key("send", "one", Some(plan_id), revise());
    fixture.faults.disarm();
    let again = client.submit_with_key("send", "one", Some(plan_id), revise());
    assert!(again.unwrap().is_repeat);
    assert_eq!(sent(), [1]);
    assert_eq!(read_texts(&*fixture.open(), plan_id), [["two"]]);
}
