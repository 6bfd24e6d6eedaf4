//! The event stream delivers a commit soon, even one that happens between an empty read and the wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lifecycle::{Call, Lifecycle, UseRequest};
use plan::{Caller, PlanActors};
use planwright_prove::hooked_store::{HookedStore, StoreHooks};
use store::{Cursor, EventPage, MemoryStore, Store};
use testkit::samples;

/// Commits right after the log was read and found empty.
struct CommitAfterEmptyRead(Arc<dyn Store>);

impl StoreHooks for CommitAfterEmptyRead {
    fn edit_page(&self, page: EventPage) -> EventPage {
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
fn a_commit_between_reading_and_waiting_is_delivered() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let hooked = HookedStore::new(Arc::clone(&store), CommitAfterEmptyRead(Arc::clone(&store)));
    let timeout = Duration::from_secs(20);
    let start = Instant::now();
    let mut events = Lifecycle::open(hooked).events(Cursor::START);
    let event = events.next_within(timeout).unwrap().unwrap();
    assert_eq!(event.recorded.event.kind(), "created");
    assert!(start.elapsed() < timeout / 2);
}
