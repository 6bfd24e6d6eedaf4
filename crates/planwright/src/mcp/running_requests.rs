//! The requests that are being carried out, each on a thread of its own.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actors::Stop;

use super::message::{INVALID_REQUEST, ProtocolError, RequestId};

/// Clients call several tools at once, and some of them wait for a plan.
const MAX_RUNNING_REQUESTS: usize = 32;

#[derive(Default)]
pub struct RunningRequests {
    state: Mutex<RequestTable>,
    changed: Condvar,
}

/// A request that is being carried out.
#[derive(Debug, Clone)]
pub struct RequestTicket {
    /// Distinguishes requests that reuse an id.
    number: u64,
    /// Ends the waits of the request.
    pub stop: Stop,
}

#[derive(Default)]
struct RequestTable {
    tickets: BTreeMap<RequestId, RequestTicket>,
    last_number: u64,
    /// Includes threads whose request was cancelled.
    thread_count: usize,
}

/// Whether a request is still to be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestEnd {
    Answerable,
    Cancelled,
}

impl RunningRequests {
    pub fn begin(&self, id: &RequestId) -> Result<RequestTicket, ProtocolError> {
        let mut state = self.lock();
        if state.tickets.contains_key(id) {
            let message = "Another request with this id is not answered yet.";
            return Err(ProtocolError::new(INVALID_REQUEST, message));
        }
        if state.thread_count >= MAX_RUNNING_REQUESTS {
            return Err(ProtocolError::new(
                INVALID_REQUEST,
                format!(
                    "{MAX_RUNNING_REQUESTS} requests are not answered yet. Wait for one of them."
                ),
            ));
        }
        state.last_number += 1;
        state.thread_count += 1;
        let ticket = RequestTicket {
            number: state.last_number,
            stop: Stop::default(),
        };
        state.tickets.insert(id.clone(), ticket.clone());
        Ok(ticket)
    }

    /// Removes a request that was carried out.
    pub fn end(&self, id: &RequestId, ticket: &RequestTicket) -> RequestEnd {
        let mut state = self.lock();
        let known = state.tickets.get(id);
        if known.is_none_or(|known| known.number != ticket.number) {
            return RequestEnd::Cancelled;
        }
        state.tickets.remove(id);
        RequestEnd::Answerable
    }

    /// The thread of a request has sent its answer.
    pub fn end_thread(&self) {
        self.lock().thread_count -= 1;
        self.changed.notify_all();
    }

    /// Cancels a request, if it is still running.
    pub fn cancel(&self, id: &RequestId) {
        if let Some(ticket) = self.lock().tickets.remove(id) {
            ticket.stop.request();
        }
    }

    /// Ends the waits of all requests, so that they are answered, and waits for that.
    pub fn finish_all(&self, timeout: Duration) {
        let state = self.lock();
        let tickets = state.tickets.values();
        tickets.for_each(|ticket| ticket.stop.request());
        let is_busy = |state: &mut RequestTable| state.thread_count > 0;
        let waited = self.changed.wait_timeout_while(state, timeout, is_busy);
        drop(waited);
    }

    fn lock(&self) -> MutexGuard<'_, RequestTable> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
