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

use super::connection::{Connection, Dial};
use crate::StoreError;
use crate::sync::{Condvar, Mutex, lock};

/// Idle connections older than this are closed when the next one is put away.
const IDLE: Duration = Duration::from_secs(300);

/// The connections of one store.
pub(super) struct Pool {
    dial: Dial,
    most: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Most recently used last.
    idle: Vec<Connection>,
    /// Idle, lent, or being made.
    open: usize,
    /// In the order of coming.
    waiting: VecDeque<Arc<Place>>,
}

/// A place in the queue.
#[derive(Default)]
struct Place {
    turn: Mutex<Turn>,
    called: Condvar,
}

#[derive(Default)]
enum Turn {
    #[default]
    NotYet,
    /// Take this one.
    Take(Box<Connection>),
    /// One was closed; make a new one in its stead.
    Make,
    /// The waiter has gone away.
    Left,
}

/// A connection on loan. Closed when dropped, unless it was [put back](Lent::put_back).
pub(super) struct Lent<'a> {
    pool: &'a Pool,
    // `None` once it was put back.
    connection: Option<Connection>,
}

impl Pool {
    /// No connection is made before it is needed, and never more than `most`.
    pub fn new(dial: Dial, most: usize) -> Self {
        Self {
            dial,
            most: most.max(1),
            state: Mutex::new(State::default()),
        }
    }

    /// What connections are made with.
    pub fn dial(&self) -> &Dial {
        &self.dial
    }

    /// An idle connection, or a new one, or the first that becomes free.
    pub fn lend(&self) -> Result<Lent<'_>, StoreError> {
        let place = {
            let mut state = lock(&self.state);
            while let Some(connection) = state.idle.pop() {
                if connection.is_closed() {
                    state.open -= 1;
                } else {
                    return Ok(self.lent(connection));
                }
            }
            if state.open < self.most {
                state.open += 1;
                None
            } else {
                let place = Arc::new(Place::default());
                state.waiting.push_back(Arc::clone(&place));
                Some(place)
            }
        };
        match place {
            None => self.make(),
            Some(place) => self.wait_for_turn(&place),
        }
    }

    /// A connection after one turned out to be dead: those that lay idle meanwhile are likely dead
    /// too, so they are closed.
    pub fn lend_after_loss(&self) -> Result<Lent<'_>, StoreError> {
        let stale = {
            let mut state = lock(&self.state);
            let stale = std::mem::take(&mut state.idle);
            state.open -= stale.len();
            stale
        };
        drop(stale);
        self.lend()
    }

    /// A connection only if that takes no waiting: an idle one, or a new one if there is room.
    pub fn lend_at_once(&self) -> Option<Lent<'_>> {
        {
            let mut state = lock(&self.state);
            if let Some(connection) = state.idle.pop() {
                return Some(self.lent(connection));
            }
            if state.open >= self.most {
                return None;
            }
            state.open += 1;
        }
        self.make().ok()
    }

    fn wait_for_turn(&self, place: &Place) -> Result<Lent<'_>, StoreError> {
        let (mut turn, _) = place
            .called
            .wait_timeout_while(lock(&place.turn), self.dial.patience, |turn| {
                matches!(turn, Turn::NotYet)
            })
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        match std::mem::replace(&mut *turn, Turn::Left) {
            Turn::Take(connection) => Ok(self.lent(*connection)),
            Turn::Make => {
                drop(turn);
                self.make()
            }
            Turn::NotYet | Turn::Left => Err(StoreError::Busy {
                place: self.dial.address.place.clone(),
            }),
        }
    }

    /// Makes a connection that is already counted.
    fn make(&self) -> Result<Lent<'_>, StoreError> {
        match Connection::open(&self.dial) {
            Ok(connection) => Ok(self.lent(connection)),
            Err(error) => {
                self.closed();
                Err(error)
            }
        }
    }

    fn lent(&self, connection: Connection) -> Lent<'_> {
        Lent {
            pool: self,
            connection: Some(connection),
        }
    }

    fn put_back(&self, mut connection: Connection) {
        if connection.is_closed() {
            return self.closed();
        }
        let now = Instant::now();
        connection.idle_since = now;
        let mut connection = Box::new(connection);
        let mut state = lock(&self.state);
        while let Some(place) = state.waiting.pop_front() {
            match place.offer(Turn::Take(connection)) {
                None => return,
                Some(Turn::Take(refused)) => connection = refused,
                Some(_) => unreachable!("BUG: what is refused is what was offered"),
            }
        }
        let tired = state
            .idle
            .iter()
            .take_while(|idle| now - idle.idle_since > IDLE)
            .count();
        let tired: Vec<Connection> = state.idle.drain(..tired).collect();
        state.open -= tired.len();
        state.idle.push(*connection);
        // Closing takes system calls; not under the lock.
        drop(state);
        drop(tired);
    }

    /// One connection less: whoever waits longest may make a new one.
    fn closed(&self) {
        let mut state = lock(&self.state);
        while let Some(place) = state.waiting.pop_front() {
            if place.offer(Turn::Make).is_none() {
                return;
            }
        }
        state.open -= 1;
    }
}

impl Place {
    /// Gives the waiter its turn; gives it back if the waiter has left.
    fn offer(&self, offered: Turn) -> Option<Turn> {
        let mut turn = lock(&self.turn);
        if matches!(*turn, Turn::Left) {
            return Some(offered);
        }
        *turn = offered;
        self.called.notify_one();
        None
    }
}

impl Lent<'_> {
    /// The connection is in no transaction and expects no answer: somebody else may have it.
    pub fn put_back(mut self) {
        if let Some(connection) = self.connection.take() {
            self.pool.put_back(connection);
        }
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            drop(connection);
            self.pool.closed();
        }
    }
}

impl Deref for Lent<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
            .as_ref()
            .expect("BUG: it is taken only by giving it back")
    }
}

impl DerefMut for Lent<'_> {
    fn deref_mut(&mut self) -> &mut Connection {
        self.connection
            .as_mut()
            .expect("BUG: it is taken only by giving it back")
    }
}
