//! Following what an agent says, from the store.

use plan::transcript::{TranscriptContent, TranscriptEntry};
use plan::{Caller, Epoch, PlanActors, PlanId, Span};
use planwright_lifecycle::{Call, Lifecycle, TranscriptStart, TranscriptStream, UseRequest};
use store::MemoryStore;
use testkit::samples;

const MINUTE: Span = Span::from_seconds(60);

fn call_as_ada() -> Call {
    Call::by(Caller::Person("ada".to_owned()))
}

/// An engine with a plan, whose strategy was worked out, and the epoch in which its agent runs.
fn open_engine_with_run() -> (Lifecycle, PlanId, Epoch) {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let request = UseRequest {
        goal: Some("talk".to_owned()),
        fallback_actors: Some(PlanActors::for_both_phases(samples::parse_name("robot"))),
        ..UseRequest::default()
    };
    let plan_id = lifecycle
        .use_action(request, &call_as_ada())
        .unwrap()
        .plan
        .id();
    let claim = lifecycle
        .claims()
        .start_strategize(plan_id, "worker", MINUTE, &call_as_ada())
        .unwrap();
    append(&lifecycle, plan_id, claim.epoch(), 0, &["thinking"]);
    claim.complete_strategize(Vec::new()).unwrap();
    lifecycle.execute_plan(plan_id, &call_as_ada()).unwrap();
    let claim = lifecycle
        .claims()
        .start_execute(plan_id, "worker", MINUTE, &call_as_ada())
        .unwrap();
    (lifecycle, plan_id, claim.epoch())
}

fn append(lifecycle: &Lifecycle, plan_id: PlanId, epoch: Epoch, first: u64, texts: &[&str]) {
    let entries: Vec<TranscriptEntry> = texts
        .iter()
        .map(|text| TranscriptEntry {
            elapsed_ms: 1,
            content: TranscriptContent::Text {
                text: (*text).to_owned(),
            },
        })
        .collect();
    lifecycle
        .store()
        .append_transcript(plan_id, epoch, first, &entries)
        .unwrap();
}

fn read_texts(transcript: &mut TranscriptStream<'_>) -> Vec<String> {
    let mut texts = Vec::new();
    while let Some(stored) = transcript.next_ready().unwrap() {
        let TranscriptContent::Text { text } = stored.entry.content else {
            panic!("{stored:?}");
        };
        texts.push(text);
    }
    texts
}

#[test]
fn a_transcript_is_followed_from_the_start_the_current_run_or_now() {
    let (lifecycle, plan_id, epoch) = open_engine_with_run();
    append(&lifecycle, plan_id, epoch, 0, &["reading", "writing"]);
    let open = |start| lifecycle.transcript(plan_id, start).unwrap();
    let mut from_beginning = open(TranscriptStart::Beginning);
    let mut of_run = open(TranscriptStart::CurrentRun);
    let mut from_now = open(TranscriptStart::Now);
    assert_eq!(
        read_texts(&mut from_beginning),
        ["thinking", "reading", "writing"]
    );
    assert_eq!(read_texts(&mut of_run), ["reading", "writing"]);
    assert_eq!(read_texts(&mut from_now), [""; 0]);
    // More than a page.
    let many: Vec<String> = (0..600).map(|number| format!("line {number}")).collect();
    let texts: Vec<&str> = many.iter().map(String::as_str).collect();
    append(&lifecycle, plan_id, epoch, 2, &texts);
    for transcript in [&mut from_beginning, &mut of_run, &mut from_now] {
        assert_eq!(read_texts(transcript), many);
        assert_eq!(read_texts(transcript), [""; 0]);
    }
}
