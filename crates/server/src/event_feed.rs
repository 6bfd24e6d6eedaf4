//! Follows the store once for all clients of this process.
//!
//! The log is the buffer: a client that falls behind reads what it missed from the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lifecycle::Lifecycle;
use plan::{PlanId, Timestamp};
use serde::Serialize;
use store::{Cursor, StoredEvent};
use tokio::sync::{broadcast, watch};
use utoipa::ToSchema;

use crate::event_position::EventPosition;

/// How many events a client may fall behind before it reads the store itself.
const MAX_BUFFERED_EVENTS: usize = 1024;

/// How long the following thread takes to notice that the server ends.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The pause after the store could not be read.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// An event of a plan, as clients see it.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct PlanEvent {
    #[schema(value_type = String)]
    pub plan_id: PlanId,
    /// The event's number within the plan.
    pub version: u64,
    /// For example `phase_claimed`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    #[schema(value_type = String)]
    pub at: Timestamp,
    /// The caller.
    pub by: String,
}

impl From<&StoredEvent> for PlanEvent {
    fn from(stored: &StoredEvent) -> Self {
        let recorded = &stored.recorded;
        Self {
            plan_id: recorded.plan,
            version: recorded.version.0,
            kind: recorded.event.kind(),
            at: recorded.at,
            by: recorded.by.to_string(),
        }
    }
}

/// An event, rendered once for all clients.
#[derive(Debug)]
pub struct EventFrame {
    pub plan_id: PlanId,
    pub cursor: Cursor,
    pub text: String,
}

impl EventFrame {
    /// Renders an event that was read from the log of all plans.
    pub fn render(stored: &StoredEvent) -> Option<Self> {
        let position = EventPosition::after_event(stored)?;
        let data = serde_json::to_string(&PlanEvent::from(stored)).ok()?;
        Some(Self {
            plan_id: stored.recorded.plan,
            text: format!("id: {position}\nevent: plan\ndata: {data}\n\n"),
            cursor: position.cursor,
        })
    }
}

/// Distributes new events to the clients of this process.
pub struct EventFeed {
    sender: broadcast::Sender<Arc<EventFrame>>,
    /// True once the thread knows where it starts.
    following: watch::Receiver<bool>,
    stopped: Arc<AtomicBool>,
}

impl EventFeed {
    /// Starts the thread that follows the store.
    pub fn start(lifecycle: Lifecycle) -> std::io::Result<Self> {
        let (sender, _) = broadcast::channel(MAX_BUFFERED_EVENTS);
        let stopped = Arc::new(AtomicBool::new(false));
        let (started, following) = watch::channel(false);
        let (frames, stop) = (sender.clone(), Arc::clone(&stopped));
        std::thread::Builder::new()
            .name("event feed".to_owned())
            .spawn(move || follow_store(&lifecycle, &frames, &started, &stop))?;
        Ok(Self {
            sender,
            following,
            stopped,
        })
    }

    /// Receives every event that is not in the store yet. Waits until the thread follows the store, since a reader
    /// could miss the events between its own last read and the thread's start. `None` if that takes too long.
    pub async fn subscribe(
        &self,
        timeout: Duration,
    ) -> Option<broadcast::Receiver<Arc<EventFrame>>> {
        let mut following = self.following.clone();
        let started = following.wait_for(|started| *started);
        match tokio::time::timeout(timeout, started).await {
            Ok(Ok(_)) => Some(self.sender.subscribe()),
            Ok(Err(_)) | Err(_) => None,
        }
    }
}

impl Drop for EventFeed {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

fn follow_store(
    lifecycle: &Lifecycle,
    frames: &broadcast::Sender<Arc<EventFrame>>,
    started: &watch::Sender<bool>,
    stopped: &AtomicBool,
) {
    let is_stopped = || stopped.load(Ordering::Relaxed);
    let start = loop {
        match lifecycle.store().read_latest_cursor() {
            Ok(cursor) => break cursor,
            Err(_) if is_stopped() => return,
            Err(_) => std::thread::sleep(RETRY_DELAY),
        }
    };
    started.send_replace(true);
    let mut events = lifecycle.events(start);
    while !is_stopped() {
        match events.next_within(STOP_CHECK_INTERVAL) {
            Ok(Some(event)) => {
                if let Some(frame) = EventFrame::render(&event) {
                    // Fails only if nobody listens.
                    let _ = frames.send(Arc::new(frame));
                }
            }
            Ok(None) => {}
            // The stream keeps its position, so nothing is lost while the store is away.
            Err(_) => std::thread::sleep(RETRY_DELAY),
        }
    }
}
