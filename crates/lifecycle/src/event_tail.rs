//! Reads new events once per process and passes them to every follower in it.
//!
//! A thread starts with the first follower that waits, and ends with the last one. It reads the log when the store
//! signals a commit, and at least every [`MAX_LATENESS`], because a notification can be lost.
//!
//! The latest events are kept in a window. A follower behind the window reads the store by its own cursor until it has
//! caught up. So memory is bounded however slow a follower is, and no follower misses or repeats an event.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use store::{CommitMark, Cursor, Store, StoreError, StoredEvent};

/// How late an event arrives at most if its notification is lost.
const MAX_LATENESS: Duration = Duration::from_secs(2);

pub(crate) const EVENT_PAGE_SIZE: usize = 256;

const MAX_WINDOW_EVENTS: usize = 1024;

/// How long the thread pauses after the store failed.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// How often a follower reads the store itself if there is no thread: it could not be started, or it panicked.
const FALLBACK_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How long the last follower waits for the thread to end. It ends at once unless the store hangs.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// The tail of one store's log, shared by the followers in this process.
#[derive(Default)]
pub(crate) struct EventTail {
    state: Mutex<TailState>,
    changed: Condvar,
}

#[derive(Default)]
struct TailState {
    follower_count: usize,
    is_running: bool,
    /// Set once the thread knows the end of the log.
    window: Option<EventWindow>,
    /// When the thread began its last read that reached the end of the log.
    read_started_at: Option<Instant>,
    failure_count: u64,
}

/// A follower's share in the tail. The thread runs while there is one.
pub(crate) struct TailFollower {
    tail: Arc<EventTail>,
    store: Arc<dyn Store>,
    seen_failures: u64,
}

/// What a follower does next.
pub(crate) enum TailAnswer {
    /// Take these events, which come right after its cursor.
    Events(Vec<Arc<StoredEvent>>),
    /// Read the store: it is behind the window, the tail has failed, or it has to be sure at its deadline.
    ReadStore,
    TimedOut,
}

/// A follower's call, which began at some time and ends at its deadline.
pub(crate) struct TailWait {
    pub called_at: Instant,
    /// `None` means no deadline.
    pub deadline: Option<Instant>,
    /// When the follower last read the store itself, and found nothing.
    pub empty_read_at: Option<Instant>,
}

impl TailFollower {
    pub(crate) fn join(tail: &Arc<EventTail>, store: &Arc<dyn Store>) -> Self {
        let mut state = tail.lock();
        state.follower_count += 1;
        if !state.is_running {
            let (shared, shared_store) = (Arc::clone(tail), Arc::clone(store));
            let thread = std::thread::Builder::new().name("planwright-tail".to_owned());
            // Without a thread, followers read the store themselves.
            state.is_running = thread.spawn(move || shared.run(shared_store)).is_ok();
        }
        Self {
            tail: Arc::clone(tail),
            store: Arc::clone(store),
            seen_failures: state.failure_count,
        }
    }

    /// Waits for events after a cursor. Everything committed before the call is returned, whatever the deadline.
    pub(crate) fn wait_for_events(&mut self, after: &Cursor, wait: &TailWait) -> TailAnswer {
        let mut state = self.tail.lock();
        loop {
            let has_failed = state.failure_count != self.seen_failures;
            self.seen_failures = state.failure_count;
            if has_failed {
                return TailAnswer::ReadStore;
            }
            match state.window.as_ref().map(|window| window.read_after(after)) {
                Some(WindowRead::Events(events)) => return TailAnswer::Events(events),
                Some(WindowRead::Behind) if wait.empty_read_at.is_none() => {
                    return TailAnswer::ReadStore;
                }
                Some(WindowRead::Behind | WindowRead::CaughtUp) | None => {}
            }
            let now = Instant::now();
            let left = wait.deadline.map_or(MAX_LATENESS, |deadline| {
                deadline.saturating_duration_since(now)
            });
            if left.is_zero() {
                return match state.read_started_at.max(wait.empty_read_at) {
                    Some(read_at) if read_at >= wait.called_at => TailAnswer::TimedOut,
                    Some(_) | None => TailAnswer::ReadStore,
                };
            }
            let pause = match state.is_running {
                true => left.min(MAX_LATENESS),
                false => left.min(FALLBACK_POLL_INTERVAL),
            };
            let waited = self.tail.changed.wait_timeout(state, pause);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if !state.is_running {
                return TailAnswer::ReadStore;
            }
        }
    }
}

impl Drop for TailFollower {
    fn drop(&mut self) {
        let is_last = {
            let mut state = self.tail.lock();
            state.follower_count -= 1;
            state.follower_count == 0
        };
        if !is_last {
            return;
        }
        // The thread shares the store. A process that ends right after this must not leave the store in use.
        self.store.wake_waiters();
        self.tail.changed.notify_all();
        let is_ending = |state: &mut TailState| state.is_running && state.follower_count == 0;
        let state = self.tail.lock();
        let ended = self
            .tail
            .changed
            .wait_timeout_while(state, SHUTDOWN_TIMEOUT, is_ending);
        drop(ended);
    }
}

impl EventTail {
    fn lock(&self) -> MutexGuard<'_, TailState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, store: Arc<dyn Store>) {
        let _report_panic = PanicReport(self);
        loop {
            let started_at = Instant::now();
            let read = self.read_new_events(store.as_ref());
            {
                let mut state = self.lock();
                match read {
                    Ok(_) => state.read_started_at = Some(started_at),
                    Err(_) => state.failure_count += 1,
                }
                self.changed.notify_all();
                if state.follower_count == 0 {
                    state.is_running = false;
                    state.window = None;
                    // Before the last follower, which waits for the lock, learns that the thread has ended.
                    drop(store);
                    return;
                }
            }
            if read
                .and_then(|mark| store.wait_for_commit_after(mark, MAX_LATENESS))
                .is_err()
            {
                let has_followers = |state: &mut TailState| state.follower_count > 0;
                let pause =
                    self.changed
                        .wait_timeout_while(self.lock(), RETRY_DELAY, has_followers);
                drop(pause);
            }
        }
    }

    /// Reads to the end of the log. Returns the mark to wait after, taken before the read.
    fn read_new_events(&self, store: &dyn Store) -> Result<CommitMark, StoreError> {
        let mark = store.mark_commits()?;
        let known_end = self.lock().window.as_ref().map(|window| window.end.clone());
        let mut end = match known_end {
            Some(end) => end,
            None => {
                let latest = store.read_latest_cursor()?;
                self.lock().window = Some(EventWindow::starting_at(latest.clone()));
                latest
            }
        };
        loop {
            let page = store.read_events(&end, EVENT_PAGE_SIZE)?;
            let is_last = page.events.len() < EVENT_PAGE_SIZE;
            end = page.next.clone();
            if !page.events.is_empty() {
                if let Some(window) = &mut self.lock().window {
                    window.add_events(page.events, page.next);
                }
                self.changed.notify_all();
            }
            if is_last {
                return Ok(mark);
            }
        }
    }
}

/// Tells the followers if the thread panics, so that they do not wait for it.
struct PanicReport<'a>(&'a EventTail);

impl Drop for PanicReport<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().is_running = false;
            self.0.changed.notify_all();
        }
    }
}

/// The latest events, without gaps.
struct EventWindow {
    /// The position before the first event.
    start: Cursor,
    events: VecDeque<Arc<StoredEvent>>,
    /// The position after the last event.
    end: Cursor,
}

enum WindowRead {
    Events(Vec<Arc<StoredEvent>>),
    /// Events after the cursor have left the window.
    Behind,
    CaughtUp,
}

impl EventWindow {
    fn starting_at(cursor: Cursor) -> Self {
        Self {
            start: cursor.clone(),
            events: VecDeque::new(),
            end: cursor,
        }
    }

    fn add_events(&mut self, events: Vec<StoredEvent>, end: Cursor) {
        self.events.extend(events.into_iter().map(Arc::new));
        self.end = end;
        while self.events.len() > MAX_WINDOW_EVENTS {
            let dropped = self.events.pop_front();
            if let Some(cursor) = dropped.and_then(|event| event.cursor.clone()) {
                self.start = cursor;
            }
        }
    }

    fn read_after(&self, cursor: &Cursor) -> WindowRead {
        if *cursor < self.start {
            return WindowRead::Behind;
        }
        if *cursor >= self.end {
            return WindowRead::CaughtUp;
        }
        let first = self
            .events
            .partition_point(|event| event.cursor.as_ref() <= Some(cursor));
        let events = self.events.range(first..).take(EVENT_PAGE_SIZE);
        WindowRead::Events(events.cloned().collect())
    }
}
