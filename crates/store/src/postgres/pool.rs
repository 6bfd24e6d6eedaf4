//! The connections of one store, handed out to one thread at a time.
//!
//! A pool of our own, because the ones there are hand connections to tasks of a shared runtime, and
//! ours are driven by the thread that holds them. It is small because it does little: the newest idle
//! connection is reused first, so that a burst's surplus falls idle and is closed; who waits is
//! served in the order of coming; waiting is bounded; a connection comes back only if its user says
//! that it is clean.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::connection::{ConnectionConfig, PostgresConnection};
use crate::StoreError;
use crate::sync::{Condvar, Mutex, lock};

/// Idle connections older than this are closed when the next one is put away.
const IDLE_CONNECTION_TIMEOUT: Duration = Duration::from_secs(300);

/// The connections of one store.
pub(super) struct ConnectionPool {
    connection_config: ConnectionConfig,
    max_connections: usize,
    state: Mutex<PoolState>,
}

#[derive(Default)]
struct PoolState {
    /// Most recently used last.
    idle: Vec<PostgresConnection>,
    /// Idle, lent, or being made.
    open_count: usize,
    /// In the order of coming.
    waiters: VecDeque<Arc<PoolWaiter>>,
}

/// A place in the queue.
#[derive(Default)]
struct PoolWaiter {
    state: Mutex<WaiterState>,
    woken: Condvar,
}

#[derive(Default)]
enum WaiterState {
    #[default]
    Waiting,
    /// Take this one.
    UseConnection(Box<PostgresConnection>),
    /// One was closed; make a new one in its stead.
    OpenNew,
    /// The waiter has gone away.
    GaveUp,
}

/// A connection on loan. Closed when dropped, unless it was [put back](Lent::put_back).
pub(super) struct PooledConnection<'a> {
    pool: &'a ConnectionPool,
    // `None` once it was put back.
    connection: Option<PostgresConnection>,
}

impl ConnectionPool {
    /// No connection is made before it is needed, and never more than `most`.
    pub fn new(connection_config: ConnectionConfig, max_connections: usize) -> Self {
        Self {
            connection_config,
            max_connections: max_connections.max(1),
            state: Mutex::new(PoolState::default()),
        }
    }

    /// What connections are made with.
    pub fn connection_config(&self) -> &ConnectionConfig {
        &self.connection_config
    }

    /// An idle connection, or a new one, or the first that becomes free.
    pub fn acquire_connection(&self) -> Result<PooledConnection<'_>, StoreError> {
        let waiter = {
            let mut state = lock(&self.state);
            while let Some(connection) = state.idle.pop() {
                if connection.is_closed() {
                    state.open_count -= 1;
                } else {
                    return Ok(self.wrap_connection(connection));
                }
            }
            if state.open_count < self.max_connections {
                state.open_count += 1;
                None
            } else {
                let waiter = Arc::new(PoolWaiter::default());
                state.waiters.push_back(Arc::clone(&waiter));
                Some(waiter)
            }
        };
        match waiter {
            None => self.open_counted(),
            Some(waiter) => self.wait_for_connection(&waiter),
        }
    }

    /// A connection after one turned out to be dead: those that lay idle meanwhile are likely dead
    /// too, so they are closed.
    pub fn acquire_after_loss(&self) -> Result<PooledConnection<'_>, StoreError> {
        let stale = {
            let mut state = lock(&self.state);
            let stale = std::mem::take(&mut state.idle);
            state.open_count -= stale.len();
            stale
        };
        drop(stale);
        self.acquire_connection()
    }

    /// A connection only if that takes no waiting: an idle one, or a new one if there is room.
    pub fn try_acquire(&self) -> Option<PooledConnection<'_>> {
        {
            let mut state = lock(&self.state);
            if let Some(connection) = state.idle.pop() {
                return Some(self.wrap_connection(connection));
            }
            if state.open_count >= self.max_connections {
                return None;
            }
            state.open_count += 1;
        }
        self.open_counted().ok()
    }

    fn wait_for_connection(&self, waiter: &PoolWaiter) -> Result<PooledConnection<'_>, StoreError> {
        let (mut state, _) = waiter
            .woken
            .wait_timeout_while(
                lock(&waiter.state),
                self.connection_config.wait_timeout,
                |turn| matches!(turn, WaiterState::Waiting),
            )
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        match std::mem::replace(&mut *state, WaiterState::GaveUp) {
            WaiterState::UseConnection(connection) => Ok(self.wrap_connection(*connection)),
            WaiterState::OpenNew => {
                drop(state);
                self.open_counted()
            }
            WaiterState::Waiting | WaiterState::GaveUp => Err(StoreError::Busy {
                place: self.connection_config.address.place.clone(),
            }),
        }
    }

    /// Makes a connection that is already counted.
    fn open_counted(&self) -> Result<PooledConnection<'_>, StoreError> {
        match PostgresConnection::open(&self.connection_config) {
            Ok(connection) => Ok(self.wrap_connection(connection)),
            Err(error) => {
                self.release_slot();
                Err(error)
            }
        }
    }

    fn wrap_connection(&self, connection: PostgresConnection) -> PooledConnection<'_> {
        PooledConnection {
            pool: self,
            connection: Some(connection),
        }
    }

    fn return_connection(&self, mut connection: PostgresConnection) {
        if connection.is_closed() {
            return self.release_slot();
        }
        let now = Instant::now();
        connection.idle_since = now;
        let mut connection = Box::new(connection);
        let mut state = lock(&self.state);
        while let Some(waiter) = state.waiters.pop_front() {
            match waiter.offer_turn(WaiterState::UseConnection(connection)) {
                None => return,
                Some(WaiterState::UseConnection(refused)) => connection = refused,
                Some(_) => unreachable!("BUG: what is refused is what was offered"),
            }
        }
        let expired_count = state
            .idle
            .iter()
            .take_while(|idle| now - idle.idle_since > IDLE_CONNECTION_TIMEOUT)
            .count();
        let expired: Vec<PostgresConnection> = state.idle.drain(..expired_count).collect();
        state.open_count -= expired.len();
        state.idle.push(*connection);
        // Closing takes system calls; not under the lock.
        drop(state);
        drop(expired);
    }

    /// One connection less: whoever waits longest may make a new one.
    fn release_slot(&self) {
        let mut state = lock(&self.state);
        while let Some(waiter) = state.waiters.pop_front() {
            if waiter.offer_turn(WaiterState::OpenNew).is_none() {
                return;
            }
        }
        state.open_count -= 1;
    }
}

impl PoolWaiter {
    /// Gives the waiter its turn; gives it back if the waiter has left.
    fn offer_turn(&self, offered: WaiterState) -> Option<WaiterState> {
        let mut state = lock(&self.state);
        if matches!(*state, WaiterState::GaveUp) {
            return Some(offered);
        }
        *state = offered;
        self.woken.notify_one();
        None
    }
}

impl PooledConnection<'_> {
    /// The connection is in no transaction and expects no answer: somebody else may have it.
    pub fn return_to_pool(mut self) {
        if let Some(connection) = self.connection.take() {
            self.pool.return_connection(connection);
        }
    }
}

impl Drop for PooledConnection<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            drop(connection);
            self.pool.release_slot();
        }
    }
}

impl Deref for PooledConnection<'_> {
    type Target = PostgresConnection;

    fn deref(&self) -> &PostgresConnection {
        self.connection
            .as_ref()
            .expect("BUG: it is taken only by giving it back")
    }
}

impl DerefMut for PooledConnection<'_> {
    fn deref_mut(&mut self) -> &mut PostgresConnection {
        self.connection
            .as_mut()
            .expect("BUG: it is taken only by giving it back")
    }
}
