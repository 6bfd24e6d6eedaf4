//! Whoever follows the log hears of a commit soon, even of one that comes between looking and waiting.

#![allow(
    clippy::unwrap_used,
    reason = "a test whose set-up fails has failed, and the panic says where"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use lifecycle::{Call, Lifecycle, UseRequest};
use plan::{Caller, PlanActors};
use planwright_prove::wrapped::{Doors, Wrapped};
use store::{Cursor, EventPage, MemoryStore, Store};
use testkit::samples;

/// Somebody who commits right after the log was looked at and nothing was there.
struct Meddler(Arc<dyn Store>);

impl Doors for Meddler {
    fn page(&self, page: EventPage) -> EventPage {
        if page.events.is_empty() {
            let request = UseRequest {
                goal: Some("come in between".to_owned()),
                fallback_actors: Some(PlanActors::for_both_phases(samples::parse_name("robot"))),
                ..UseRequest::default()
            };
            let call = Call::by(Caller::Person("ada".to_owned()));
            Lifecycle::on(Arc::clone(&self.0))
                .use_action(request, &call)
                .unwrap();
        }
        page
    }
}

#[test]
fn a_commit_between_looking_and_waiting_is_heard_of() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let watched = Wrapped::new(Arc::clone(&store), Meddler(Arc::clone(&store)));
    let patience = Duration::from_secs(20);
    let began = Instant::now();
    let mut events = Lifecycle::open(watched).events(Cursor::START);
    let event = events.next_within(patience).unwrap().unwrap();
    assert_eq!(event.recorded.event.kind(), "created");
    assert!(began.elapsed() < patience / 2);
}
