//! Transcripts: read in order, stored once, apart from the plan that they belong to.

use plan::command::CancelPlan;
use plan::transcript::{NoticeLevel, TranscriptContent, TranscriptEntry};
use plan::{Command, Epoch, PlanId};
use store::{Store, StoreError, StoredTranscriptEntry, TranscriptPosition};
use testkit::StoreDump;
use testkit::client::LONG_LEASE;
use testkit::dump::read_whole_transcript;

use crate::store_fixture::{StoreFixture, commit_while};

super::on_every_store! {
    entries_are_read_in_order_of_epoch_and_sequence,
    a_repeated_append_changes_nothing,
    racing_appends_store_each_entry_once,
    an_append_leaves_the_plan_alone,
    unusual_texts_come_back_as_they_were,
    long_transcripts_are_stored_and_deleted_in_batches,
    a_transcript_needs_a_plan,
}

fn entry(text: impl Into<String>) -> TranscriptEntry {
    TranscriptEntry {
        elapsed_ms: 5,
        content: TranscriptContent::Text { text: text.into() },
    }
}

fn entries(count: usize) -> Vec<TranscriptEntry> {
    (0..count)
        .map(|number| entry(format!("line {number}")))
        .collect()
}

fn stored(epoch: u64, sequence: u64, text: &str) -> StoredTranscriptEntry {
    StoredTranscriptEntry {
        position: TranscriptPosition {
            epoch: Epoch(epoch),
            sequence,
        },
        entry: entry(text),
    }
}

fn append(store: &dyn Store, plan_id: PlanId, epoch: u64, first: u64, texts: &[&str]) {
    let entries: Vec<TranscriptEntry> = texts.iter().map(|text| entry(*text)).collect();
    store
        .append_transcript(plan_id, Epoch(epoch), first, &entries)
        .unwrap();
}

fn entries_are_read_in_order_of_epoch_and_sequence(fixture: &StoreFixture) {
    let client = fixture.client();
    let plan_id = client.create_queued_plan("talk");
    let other = client.create_queued_plan("talk too");
    append(client.store(), plan_id, 2, 1, &["c", "d"]);
    // Late entries of an older epoch keep their place.
    append(client.store(), plan_id, 1, 1, &["a"]);
    append(client.store(), plan_id, 10, 1, &["e"]);
    append(client.store(), plan_id, 1, 7, &["b"]);
    append(client.store(), other, 1, 1, &["other"]);
    let expected = [
        stored(1, 1, "a"),
        stored(1, 7, "b"),
        stored(2, 1, "c"),
        stored(2, 2, "d"),
        stored(10, 1, "e"),
    ];
    let reader = fixture.open();
    let read = |after, limit| reader.read_transcript(plan_id, after, limit).unwrap();
    assert_eq!(read(None, 100), expected);
    let mut paged = Vec::new();
    loop {
        let page = read(
            paged
                .last()
                .map(|last: &StoredTranscriptEntry| last.position),
            2,
        );
        assert!(page.len() <= 2);
        if page.is_empty() {
            break;
        }
        paged.extend(page);
    }
    assert_eq!(paged, expected);
    let end = expected[4].position;
    assert_eq!(reader.find_transcript_end(plan_id).unwrap(), Some(end));
    let of_epoch = |epoch| read(TranscriptPosition::before_epoch(Epoch(epoch)), 100);
    assert_eq!(of_epoch(0), expected);
    assert_eq!(of_epoch(2), expected[2..]);
    assert_eq!(of_epoch(3), expected[4..]);
    assert_eq!(of_epoch(11), []);
}

fn a_repeated_append_changes_nothing(fixture: &StoreFixture) {
    let client = fixture.client();
    let plan_id = client.create_queued_plan("repeat");
    append(client.store(), plan_id, 1, 1, &["a", "b"]);
    append(client.store(), plan_id, 1, 1, &["a", "b"]);
    append(client.store(), plan_id, 1, 2, &["not b", "c"]);
    append(client.store(), plan_id, 1, 4, &[]);
    assert_eq!(
        read_whole_transcript(&*fixture.open(), plan_id),
        [stored(1, 1, "a"), stored(1, 2, "b"), stored(1, 3, "c")]
    );
}

/// A caller that got no answer repeats its append, perhaps while the first one still runs.
fn racing_appends_store_each_entry_once(fixture: &StoreFixture) {
    let client = fixture.client();
    let plan_id = client.create_queued_plan("race");
    fixture.race(8, |number, client| {
        for first in (0..200_u64).step_by(20) {
            let from = first + number as u64;
            let texts: Vec<String> = (from..from + 20).map(|n| format!("line {n}")).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            append(client.store(), plan_id, 1, from, &texts);
        }
    });
    let transcript = read_whole_transcript(client.store(), plan_id);
    let expected: Vec<_> = (0..207)
        .map(|n| stored(1, n, &format!("line {n}")))
        .collect();
    assert_eq!(transcript, expected);
}

fn an_append_leaves_the_plan_alone(fixture: &StoreFixture) {
    let client = fixture.client();
    let (plan_id, epoch) = client.create_executing_plan("work", LONG_LEASE);
    let before = StoreDump::read_store(client.store());
    append(client.store(), plan_id, epoch.0, 1, &["a"]);
    let mut after = StoreDump::read_store(client.store());
    for plan in &mut after.plans {
        plan.transcript.clear();
    }
    after.assert_same(&before, "apart from the transcript");
    let reason = None;
    client.must_submit(plan_id, Command::from(CancelPlan { reason }));
    assert_eq!(read_whole_transcript(client.store(), plan_id).len(), 1);
}

fn unusual_texts_come_back_as_they_were(fixture: &StoreFixture) {
    let client = fixture.client();
    let plan_id = client.create_queued_plan("write");
    let texts = [
        "",
        "a\0b\u{1}\u{1b}[31m",
        "\u{feff}\u{202e}\u{10ffff} ẞ\r\n\t",
        "\\u0000 \"quoted\" 'it''s' {} $1 ?1",
        &"long ".repeat(100_000),
    ];
    append(client.store(), plan_id, 1, 0, &texts);
    let notice = TranscriptEntry {
        elapsed_ms: u64::MAX,
        content: TranscriptContent::Notice {
            level: NoticeLevel::Error,
            text: "cut".to_owned(),
        },
    };
    let last = 1 << 62;
    client
        .store()
        .append_transcript(plan_id, Epoch(1), last, std::slice::from_ref(&notice))
        .unwrap();
    let read = read_whole_transcript(client.store(), plan_id);
    for (found, text) in read.iter().zip(texts) {
        assert_eq!(found.entry, entry(text));
    }
    assert_eq!(read[5].entry, notice);
    assert_eq!(read[5].position.sequence, last);
}

fn long_transcripts_are_stored_and_deleted_in_batches(fixture: &StoreFixture) {
    let client = fixture.client();
    let store = client.store();
    let plan_id = client.create_queued_plan("talk much");
    let other = client.create_queued_plan("be kept");
    append(store, other, 1, 1, &["kept"]);
    for epoch in 1..=3 {
        store
            .append_transcript(plan_id, Epoch(epoch), 1, &entries(700))
            .unwrap();
    }
    let read = read_whole_transcript(store, plan_id);
    assert_eq!(read.len(), 2100);
    let expected = (1..=3).flat_map(|epoch| (1..=700).map(move |sequence| (epoch, sequence)));
    for (found, (epoch, sequence)) in read.iter().zip(expected) {
        assert_eq!(
            *found,
            stored(epoch, sequence, &format!("line {}", sequence - 1))
        );
    }
    // A page is bounded, however much is asked for.
    assert_eq!(
        store.read_transcript(plan_id, None, 100_000).unwrap().len(),
        1000
    );
    let before = StoreDump::read_store(store);
    assert_eq!(store.delete_transcript(plan_id).unwrap(), 2100);
    assert_eq!(store.delete_transcript(plan_id).unwrap(), 0);
    assert_eq!(store.find_transcript_end(plan_id).unwrap(), None);
    let after = StoreDump::read_store(store);
    assert_eq!(after.find_plan(plan_id).unwrap().transcript, []);
    assert_eq!(after.find_plan(other), before.find_plan(other));
    append(store, plan_id, 4, 1, &["again"]);
    assert_eq!(
        read_whole_transcript(store, plan_id),
        [stored(4, 1, "again")]
    );
}

fn a_transcript_needs_a_plan(fixture: &StoreFixture) {
    let client = fixture.client();
    let unknown = fixture.ids.next_plan_id();
    let refused = |client: &testkit::TestClient| {
        let answer = client
            .store()
            .append_transcript(unknown, Epoch(1), 1, &entries(1));
        assert!(
            matches!(answer, Err(StoreError::NoSuchPlan { plan_id }) if plan_id == unknown),
            "{answer:?}"
        );
        assert_eq!(
            client.store().read_transcript(unknown, None, 10).unwrap(),
            []
        );
        assert_eq!(client.store().delete_transcript(unknown).unwrap(), 0);
    };
    // In a store that was never written, and in one that has other plans.
    refused(&client);
    client.create_queued_plan("exist");
    refused(&client);
}

/// Guards the absence of a foreign key in PostgreSQL: its check would wait for the lock that a
/// transition holds on the plan.
#[test]
fn an_append_does_not_wait_for_a_transition_in_postgres() {
    let fixture = StoreFixture::postgres();
    let client = fixture.client();
    let (plan_id, epoch) = client.create_executing_plan("work", LONG_LEASE);
    let reason = None;
    let command = Command::from(CancelPlan { reason });
    let submission = client.build_submission(Some(plan_id), command);
    let other = fixture.open();
    let (answer, appended_meanwhile) = commit_while(&client, submission, move || {
        append(&*other, plan_id, epoch.0, 1, &["meanwhile"]);
    });
    answer.unwrap();
    assert!(appended_meanwhile);
}
