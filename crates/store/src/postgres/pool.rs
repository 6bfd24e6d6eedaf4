//! The connection pool of one store.
//!
//! Existing pools hand connections to tasks of a shared runtime; ours are driven by the thread that
//! uses them. The newest idle connection is reused first, so that surplus connections after a burst
//! become idle and are closed. Waiters are served in order, with a timeout. A connection returns to
//! the pool only if its user declares it clean.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::connection::{ConnectionConfig, PostgresConnection};
use crate::StoreError;
use crate::sync::{Condvar, Mutex, lock};

/// Connections idle for longer are closed when the next one is returned.
const IDLE_CONNECTION_TIMEOUT: Duration = Duration::from_secs(300);

pub(super) struct ConnectionPool {
    connection_config: ConnectionConfig,
    max_connections: usize,
    state: Mutex<PoolState>,
}

#[derive(Default)]
struct PoolState {
    /// Most recently used last.
    idle: Vec<PostgresConnection>,
    /// Idle, in use, or being opened.
    open_count: usize,
    /// In order of arrival.
    waiters: VecDeque<Arc<PoolWaiter>>,
}

/// A thread that waits for a connection.
#[derive(Default)]
struct PoolWaiter {
    state: Mutex<WaiterState>,
    woken: Condvar,
}

#[derive(Default)]
enum WaiterState {
    #[default]
    Waiting,
    UseConnection(Box<PostgresConnection>),
    /// Another connection was closed; open a new one in its place.
    OpenNew,
    /// The waiter timed out.
    GaveUp,
}

/// A borrowed connection. Closed when dropped, unless [`Self::return_to_pool`] was called.
pub(super) struct PooledConnection<'a> {
    pool: &'a ConnectionPool,
    // `None` once it was returned.
    connection: Option<PostgresConnection>,
}

impl ConnectionPool {
    /// Opens connections on demand, at most `max_connections`.
    pub fn new(connection_config: ConnectionConfig, max_connections: usize) -> Self {
        Self {
            connection_config,
            max_connections: max_connections.max(1),
            state: Mutex::new(PoolState::default()),
        }
    }

    pub fn connection_config(&self) -> &ConnectionConfig {
        &self.connection_config
    }

    /// Returns an idle connection, opens a new one, or waits for the first that becomes free.
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

    /// Acquires a connection after another one was found dead. Closes all idle connections, because
    /// they are probably dead too.
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

    /// Returns an idle or new connection without waiting; `None` if all are in use.
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

    /// Opens a connection that `open_count` already includes.
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
        // Closing makes system calls, so do it after releasing the lock.
        drop(state);
        drop(expired);
    }

    /// Gives the slot of a closed connection to the longest waiting thread.
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
    /// Offers a connection or slot to the waiter. Returns it if the waiter has timed out.
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
    /// Returns the connection for reuse. It must not be in a transaction or expect an answer.
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
