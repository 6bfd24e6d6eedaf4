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

use super::Shared;
use super::connection::Connection;
use super::trouble::Trouble;
use crate::sync::{Condvar, Mutex, lock};

/// NOTIFY is sent at most once in this time.
const PACE: Duration = Duration::from_millis(10);

/// How long the end of a store waits for its threads.
const FAREWELL: Duration = Duration::from_secs(1);

/// How long a listener waits before it connects again.
const RECONNECT: Duration = Duration::from_secs(1);

/// How long to wait at most while events are held back: no commit announces their release.
const HELD_BACK: Duration = Duration::from_millis(50);

/// Wakes threads of this process that wait for commits.
#[derive(Default)]
pub(super) struct Hint {
    state: Mutex<HintState>,
    changed: Condvar,
    held_back: AtomicBool,
}

#[derive(Default)]
struct HintState {
    commits: u64,
    waiting: usize,
}

impl Hint {
    /// Something may have been committed.
    pub fn give(&self) {
        let mut state = lock(&self.state);
        state.commits += 1;
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }

    /// Waits for the next hint, but not for ever.
    pub fn wait(&self, timeout: Duration) {
        let timeout = if self.held_back.load(Ordering::Relaxed) {
            timeout.min(HELD_BACK)
        } else {
            timeout
        };
        let mut state = lock(&self.state);
        let seen = state.commits;
        state.waiting += 1;
        let (mut state, _) = self
            .changed
            .wait_timeout_while(state, timeout, |state| state.commits == seen)
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        state.waiting -= 1;
    }

    /// Whether the last look at the log's end found events that cannot be read yet.
    pub fn set_held_back(&self, held_back: bool) {
        self.held_back.store(held_back, Ordering::Relaxed);
    }
}

/// Tells others.
pub(super) struct Announcer {
    shared: Arc<Shared>,
    desk: Arc<Desk>,
}

#[derive(Default)]
struct Desk {
    state: Mutex<DeskState>,
    changed: Condvar,
}

#[derive(Default)]
struct DeskState {
    started: bool,
    due: bool,
    stop: bool,
    ended: bool,
}

impl Announcer {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            desk: Arc::default(),
        }
    }

    /// Something was committed: tells this process now and the others soon.
    pub fn committed(&self) {
        self.shared.hint.give();
        let mut state = lock(&self.desk.state);
        if !state.due {
            state.due = true;
            self.desk.changed.notify_all();
        }
        if !state.started {
            let (shared, desk) = (Arc::clone(&self.shared), Arc::clone(&self.desk));
            // Without a thread nobody is told and everybody looks again by himself.
            state.started =
                spawn("planwright-announce", move || announce(&shared, &desk)).is_some();
        }
    }
}

impl Drop for Announcer {
    fn drop(&mut self) {
        let mut state = lock(&self.desk.state);
        if !state.started {
            return;
        }
        state.stop = true;
        self.desk.changed.notify_all();
        let ended = self
            .desk
            .changed
            .wait_timeout_while(state, FAREWELL, |state| !state.ended);
        drop(ended);
    }
}

fn announce(shared: &Shared, desk: &Desk) {
    let wait = |timeout: Option<Duration>, until: fn(&DeskState) -> bool| {
        let state = lock(&desk.state);
        let timeout = timeout.unwrap_or(Duration::from_secs(3600));
        let (state, _) = desk
            .changed
            .wait_timeout_while(state, timeout, |state| !until(state))
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        state
    };
    loop {
        let mut state = wait(None, |state| state.due || state.stop);
        let (due, stop) = (std::mem::take(&mut state.due), state.stop);
        drop(state);
        if due && !send(shared) && !stop {
            lock(&desk.state).due = true;
        }
        if stop {
            break;
        }
        drop(wait(Some(PACE), |state| state.stop));
    }
    lock(&desk.state).ended = true;
    desk.changed.notify_all();
}

/// Sends one NOTIFY; `false` if every connection was in use.
fn send(shared: &Shared) -> bool {
    let Some(mut connection) = shared.pool.lend_at_once() else {
        return false;
    };
    let channel = channel(shared);
    let sent = connection.batch(&format!(
        "BEGIN; SET LOCAL synchronous_commit TO off; NOTIFY \"{channel}\"; COMMIT"
    ));
    if sent.is_ok() {
        connection.put_back();
    }
    true
}

/// Hears from others.
pub(super) struct Listener {
    shared: Arc<Shared>,
    stop: Arc<Notify>,
    stopped: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Listener {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            stop: Arc::default(),
            stopped: Arc::default(),
            thread: Mutex::new(None),
        }
    }

    /// Listens from now on, if it does not yet.
    pub fn start(&self) {
        let mut thread = lock(&self.thread);
        if thread.is_none() {
            let shared = Arc::clone(&self.shared);
            let (stop, stopped) = (Arc::clone(&self.stop), Arc::clone(&self.stopped));
            *thread = spawn("planwright-listen", move || {
                listen(&shared, &stop, &stopped);
            });
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Not waited for: it may be in the middle of connecting.
        self.stopped.store(true, Ordering::SeqCst);
        self.stop.notify_one();
        if let Some(thread) = lock(&self.thread).take() {
            thread.thread().unpark();
        }
    }
}

fn listen(shared: &Shared, stop: &Notify, stopped: &AtomicBool) {
    while !stopped.load(Ordering::SeqCst) {
        if let Ok(mut connection) = Connection::open(shared.pool.dial()) {
            let _gone = hear(&mut connection, shared, stop, stopped);
        }
        if !stopped.load(Ordering::SeqCst) {
            std::thread::park_timeout(RECONNECT);
        }
    }
}

fn hear(
    connection: &mut Connection,
    shared: &Shared,
    stop: &Notify,
    stopped: &AtomicBool,
) -> Result<(), Trouble> {
    connection.batch(&format!("LISTEN \"{}\"", channel(shared)))?;
    // Whatever was committed before we listened went unheard.
    shared.hint.give();
    while !stopped.load(Ordering::SeqCst) && connection.notified(stop)? {
        shared.hint.give();
    }
    Ok(())
}

/// Channels are the database's, so the schema is in the name.
fn channel(shared: &Shared) -> String {
    format!("{}_committed", shared.schema())
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .ok()
}
