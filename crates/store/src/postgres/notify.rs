//! Telling others that something was committed, and hearing it from them. A hint: whoever misses it
//! finds out by looking again after a while.
//!
//! NOTIFY in the transaction of a commit would make all commits of the server queue for one lock.
//! So it is sent afterwards, by a thread, for all commits of the last moments at once, and is not
//! waited for by the disk. The thread starts with the first commit and ends with the store; what is
//! due then is still sent.
//!
//! Listening takes a connection of its own, opened when somebody first waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::Notify;

use super::PostgresShared;
use super::connection::PostgresConnection;
use super::error::PostgresError;
use crate::sync::{Condvar, Mutex, lock};

/// NOTIFY is sent at most once in this time.
const MIN_NOTIFY_INTERVAL: Duration = Duration::from_millis(10);

/// How long the end of a store waits for its threads.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a listener waits before it connects again.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);

/// How long to wait at most while events are held back: no commit announces their release.
const MAX_HELD_BACK_WAIT: Duration = Duration::from_millis(50);

/// Wakes threads of this process that wait for commits.
#[derive(Default)]
pub(super) struct CommitSignal {
    state: Mutex<CommitSignalState>,
    changed: Condvar,
    held_back: AtomicBool,
}

#[derive(Default)]
struct CommitSignalState {
    commit_count: u64,
    waiting: usize,
}

impl CommitSignal {
    /// Something may have been committed.
    pub fn signal_commit(&self) {
        let mut state = lock(&self.state);
        state.commit_count += 1;
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }

    /// Waits for the next hint, but not for ever.
    pub fn wait_for_commit(&self, timeout: Duration) {
        let timeout = if self.held_back.load(Ordering::Relaxed) {
            timeout.min(MAX_HELD_BACK_WAIT)
        } else {
            timeout
        };
        let mut state = lock(&self.state);
        let seen_count = state.commit_count;
        state.waiting += 1;
        let (mut state, _) = self
            .changed
            .wait_timeout_while(state, timeout, |state| state.commit_count == seen_count)
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        state.waiting -= 1;
    }

    /// Whether the last look at the log's end found events that cannot be read yet.
    pub fn set_held_back(&self, held_back: bool) {
        self.held_back.store(held_back, Ordering::Relaxed);
    }
}

/// Tells others.
pub(super) struct CommitAnnouncer {
    shared: Arc<PostgresShared>,
    queue: Arc<AnnouncementQueue>,
}

#[derive(Default)]
struct AnnouncementQueue {
    state: Mutex<AnnouncementState>,
    changed: Condvar,
}

#[derive(Default)]
struct AnnouncementState {
    started: bool,
    is_due: bool,
    stop: bool,
    ended: bool,
}

impl CommitAnnouncer {
    pub fn new(shared: Arc<PostgresShared>) -> Self {
        Self {
            shared,
            queue: Arc::default(),
        }
    }

    /// Something was committed: tells this process now and the others soon.
    pub fn announce_commit(&self) {
        self.shared.commit_signal.signal_commit();
        let mut state = lock(&self.queue.state);
        if !state.is_due {
            state.is_due = true;
            self.queue.changed.notify_all();
        }
        if !state.started {
            let (shared, queue) = (Arc::clone(&self.shared), Arc::clone(&self.queue));
            // Without a thread nobody is told and everybody looks again by himself.
            state.started = spawn_thread("planwright-announce", move || {
                run_announcer(&shared, &queue)
            })
            .is_some();
        }
    }
}

impl Drop for CommitAnnouncer {
    fn drop(&mut self) {
        let mut state = lock(&self.queue.state);
        if !state.started {
            return;
        }
        state.stop = true;
        self.queue.changed.notify_all();
        let ended = self
            .queue
            .changed
            .wait_timeout_while(state, SHUTDOWN_TIMEOUT, |state| !state.ended);
        drop(ended);
    }
}

fn run_announcer(shared: &PostgresShared, queue: &AnnouncementQueue) {
    let wait = |timeout: Option<Duration>, until: fn(&AnnouncementState) -> bool| {
        let state = lock(&queue.state);
        let timeout = timeout.unwrap_or(Duration::from_secs(3600));
        let (state, _) = queue
            .changed
            .wait_timeout_while(state, timeout, |state| !until(state))
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        state
    };
    loop {
        let mut state = wait(None, |state| state.is_due || state.stop);
        let (due, stop) = (std::mem::take(&mut state.is_due), state.stop);
        drop(state);
        if due && !send_notification(shared) && !stop {
            lock(&queue.state).is_due = true;
        }
        if stop {
            break;
        }
        drop(wait(Some(MIN_NOTIFY_INTERVAL), |state| state.stop));
    }
    lock(&queue.state).ended = true;
    queue.changed.notify_all();
}

/// Sends one NOTIFY; `false` if every connection was in use.
fn send_notification(shared: &PostgresShared) -> bool {
    let Some(mut connection) = shared.pool.try_acquire() else {
        return false;
    };
    let channel = channel_name(shared);
    let sent = connection.execute_batch(&format!(
        "BEGIN; SET LOCAL synchronous_commit TO off; NOTIFY \"{channel}\"; COMMIT"
    ));
    if sent.is_ok() {
        connection.return_to_pool();
    }
    true
}

/// Hears from others.
pub(super) struct CommitListener {
    shared: Arc<PostgresShared>,
    stop: Arc<Notify>,
    stopped: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl CommitListener {
    pub fn new(shared: Arc<PostgresShared>) -> Self {
        Self {
            shared,
            stop: Arc::default(),
            stopped: Arc::default(),
            thread: Mutex::new(None),
        }
    }

    /// Listens from now on, if it does not yet.
    pub fn start_listening(&self) {
        let mut thread = lock(&self.thread);
        if thread.is_none() {
            let shared = Arc::clone(&self.shared);
            let (stop, stopped) = (Arc::clone(&self.stop), Arc::clone(&self.stopped));
            *thread = spawn_thread("planwright-listen", move || {
                run_listener(&shared, &stop, &stopped);
            });
        }
    }
}

impl Drop for CommitListener {
    fn drop(&mut self) {
        // Not waited for: it may be in the middle of connecting.
        self.stopped.store(true, Ordering::SeqCst);
        self.stop.notify_one();
        if let Some(thread) = lock(&self.thread).take() {
            thread.thread().unpark();
        }
    }
}

fn run_listener(shared: &PostgresShared, stop: &Notify, stopped: &AtomicBool) {
    while !stopped.load(Ordering::SeqCst) {
        if let Ok(mut connection) = PostgresConnection::open(shared.pool.connection_config()) {
            let _gone = listen_until_stopped(&mut connection, shared, stop, stopped);
        }
        if !stopped.load(Ordering::SeqCst) {
            std::thread::park_timeout(RECONNECT_DELAY);
        }
    }
}

fn listen_until_stopped(
    connection: &mut PostgresConnection,
    shared: &PostgresShared,
    stop: &Notify,
    stopped: &AtomicBool,
) -> Result<(), PostgresError> {
    connection.execute_batch(&format!("LISTEN \"{}\"", channel_name(shared)))?;
    // Whatever was committed before we listened went unheard.
    shared.commit_signal.signal_commit();
    while !stopped.load(Ordering::SeqCst) && connection.wait_for_notification(stop)? {
        shared.commit_signal.signal_commit();
    }
    Ok(())
}

/// Channels are the database's, so the schema is in the name.
fn channel_name(shared: &PostgresShared) -> String {
    format!("{}_committed", shared.schema())
}

fn spawn_thread(name: &str, work: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .ok()
}
