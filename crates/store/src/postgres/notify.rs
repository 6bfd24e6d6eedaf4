//! Announces commits to other processes and listens for theirs. Only a hint: readers that miss a
//! notification find the commit when they poll.
//!
//! NOTIFY inside a commit would serialize all commits of the server on one lock. So a thread sends
//! it afterwards, once for all recent commits and without waiting for the disk. The thread starts
//! with the first commit and ends with the store, after sending what is pending.
//!
//! Listening uses a separate connection, opened by the first wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::Notify;

use super::PostgresShared;
use super::connection::PostgresConnection;
use super::error::PostgresError;
use crate::CommitMark;
use crate::sync::{Condvar, Mutex, lock};

const MIN_NOTIFY_INTERVAL: Duration = Duration::from_millis(10);

/// How long dropping a store waits for its thread.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

const RECONNECT_DELAY: Duration = Duration::from_secs(1);

/// The longest wait while events are held back, because no commit announces their release.
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
    /// Wakes all waiting threads.
    pub fn signal_commit(&self) {
        let mut state = lock(&self.state);
        state.commit_count += 1;
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }

    pub fn mark_commits(&self) -> CommitMark {
        CommitMark(lock(&self.state).commit_count)
    }

    /// Waits for a signal after the mark, or the timeout.
    pub fn wait_for_commit_after(&self, mark: CommitMark, timeout: Duration) {
        let timeout = if self.held_back.load(Ordering::Relaxed) {
            timeout.min(MAX_HELD_BACK_WAIT)
        } else {
            timeout
        };
        let mut state = lock(&self.state);
        state.waiting += 1;
        let (mut state, _) = self
            .changed
            .wait_timeout_while(state, timeout, |state| state.commit_count == mark.0)
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        state.waiting -= 1;
    }

    /// Records whether the last read of the log found events that are not readable yet.
    pub fn set_held_back(&self, held_back: bool) {
        self.held_back.store(held_back, Ordering::Relaxed);
    }
}

/// Sends NOTIFY after commits.
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

    /// Signals a commit to this process now and to others soon.
    pub fn announce_commit(&self) {
        self.shared.commit_signal.signal_commit();
        let mut state = lock(&self.queue.state);
        if !state.is_due {
            state.is_due = true;
            self.queue.changed.notify_all();
        }
        if !state.started {
            let (shared, queue) = (Arc::clone(&self.shared), Arc::clone(&self.queue));
            // If no thread can be started, other processes find the commit when they poll.
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

/// Sends one NOTIFY. Returns `false` if every connection is in use.
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

/// Receives NOTIFY from other processes.
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

    /// Starts the listening thread if it does not run yet.
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
        // Does not wait for the thread, which may be connecting.
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
    // Commits made before LISTEN sent no notification to us.
    shared.commit_signal.signal_commit();
    while !stopped.load(Ordering::SeqCst) && connection.wait_for_notification(stop)? {
        shared.commit_signal.signal_commit();
    }
    Ok(())
}

/// Returns the channel name. It contains the schema, because channels are per database.
fn channel_name(shared: &PostgresShared) -> String {
    format!("{}_committed", shared.schema())
}

fn spawn_thread(name: &str, work: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .ok()
}
