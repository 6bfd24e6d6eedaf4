//! `GET /v1/events`: server-sent events of all plans, or of one.
//!
//! A client first reads what it missed from the store, then receives what the feed distributes. Every event has the
//! position in the log as its id, so nothing is lost or repeated across reconnects.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use plan::PlanId;
use serde::Deserialize;
use store::Cursor;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout;
use utoipa::IntoParams;

use super::request::UrlQuery;
use crate::event_feed::EventFrame;
use crate::event_position::EventPosition;
use crate::guard::CurrentSession;
use crate::problem::Problem;
use crate::state::ServerState;

const EVENT_PAGE_SIZE: usize = 256;

/// How long the client's browser waits before it connects again, in milliseconds.
const RECONNECT_DELAY_MS: u32 = 1000;

/// How long a client waits for a store that cannot be reached before it is answered with 503.
const STORE_TIMEOUT: Duration = Duration::from_secs(5);

/// The pause after the store could not be read.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(1);

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct StreamQuery {
    /// Only events of this plan.
    #[serde(default)]
    plan: Option<String>,
    /// The id of the last event seen, like the `Last-Event-ID` header, which takes precedence.
    #[serde(default)]
    after: Option<String>,
}

/// Follows the events of plans
///
/// The first event is `hello`; after it, every event of a plan is `plan`. If the last event id does not fit this
/// store, the first event is `reset`: read everything again and go on from there.
#[utoipa::path(get, path = "/v1/events", tag = "events", params(
    StreamQuery,
    ("last-event-id" = Option<String>, Header, description = "The id of the last event seen"),
), responses(
    (status = 200, body = crate::event_feed::PlanEvent, content_type = "text/event-stream"),
    (status = 503, body = Problem, content_type = "application/problem+json"),
))]
pub async fn stream_events(
    State(state): State<Arc<ServerState>>,
    Extension(session): Extension<CurrentSession>,
    UrlQuery(query): UrlQuery<StreamQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let plan_id = match &query.plan {
        Some(handle) => Some(state.engine.resolve_plan(handle).await?),
        None => None,
    };
    let last_seen = headers.get("last-event-id").map(|id| id.to_str());
    let last_seen = match last_seen {
        // An id that is not even text does not fit any store.
        Some(id) => Some(id.unwrap_or_default().to_owned()),
        None => query.after,
    };
    let Some(receiver) = state.feed.subscribe(STORE_TIMEOUT).await else {
        return Err(Problem::new(
            axum::http::StatusCode::SERVICE_UNAVAILABLE,
            "store_away",
            "The store cannot be reached.",
        )
        .with_retry_after(2));
    };
    let (start, greeting) = state
        .engine
        .read("log", None, move |lifecycle| {
            let store = lifecycle.store();
            let latest = EventPosition::find_latest(store)?;
            let Some(last_seen) = last_seen else {
                return Ok((latest, "hello"));
            };
            match last_seen.parse::<EventPosition>() {
                Ok(position) if position.fits(store)? => Ok((position, "hello")),
                Ok(_) | Err(_) => Ok((latest, "reset")),
            }
        })
        .await?;
    let hello = format!(
        "retry: {RECONNECT_DELAY_MS}\nid: {start}\nevent: {greeting}\ndata: {{\"position\":\"{start}\"}}\n\n"
    );
    state.metrics.event_streams.fetch_add(1, Ordering::Relaxed);
    let follower = StreamFollower {
        state,
        session,
        plan_id,
        cursor: start.cursor,
        receiver,
        waiting: VecDeque::from([hello]),
        reads_store: true,
        is_store_away: false,
    };
    let chunks = futures_util::stream::unfold(follower, StreamFollower::next_chunk);
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::from_stream(chunks)).into_response())
}

/// One client of the event stream.
struct StreamFollower {
    state: Arc<ServerState>,
    session: CurrentSession,
    plan_id: Option<PlanId>,
    /// The position after the last event that was sent or skipped.
    cursor: Cursor,
    receiver: Receiver<Arc<EventFrame>>,
    waiting: VecDeque<String>,
    /// The client is behind the feed and reads from the store.
    reads_store: bool,
    is_store_away: bool,
}

impl StreamFollower {
    /// Returns the next bytes, or `None` when the stream ends.
    async fn next_chunk(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        loop {
            if let Some(text) = self.waiting.pop_front() {
                return Some((Ok(Bytes::from(text)), self));
            }
            if self.state.shutdown.is_requested() {
                return None;
            }
            if self.reads_store {
                self.read_page().await;
            } else {
                self.receive_frame().await?;
            }
        }
    }

    /// Reads a page of events that the client missed. An empty page means that it caught up.
    async fn read_page(&mut self) {
        let cursor = self.cursor.clone();
        let read = self.state.engine.read("log", None, move |lifecycle| {
            Ok(lifecycle.store().read_events(&cursor, EVENT_PAGE_SIZE)?)
        });
        match read.await {
            Ok(page) => {
                self.is_store_away = false;
                self.reads_store = !page.events.is_empty();
                for frame in page.events.iter().filter_map(EventFrame::render) {
                    self.queue_frame(&frame);
                }
                self.cursor = page.next;
            }
            Err(_) => {
                if !self.is_store_away {
                    self.is_store_away = true;
                    let notice = "event: away\ndata: {}\n\n".to_owned();
                    self.waiting.push_back(notice);
                }
                let _ = timeout(STORE_RETRY_DELAY, self.state.shutdown.requested()).await;
            }
        }
    }

    /// Waits for the next frame of the feed. Returns `None` when the stream ends.
    async fn receive_frame(&mut self) -> Option<()> {
        let keep_alive = self.state.limits.keep_alive_interval;
        let received = tokio::select! {
            received = timeout(keep_alive, self.receiver.recv()) => received,
            () = self.state.shutdown.requested() => return None,
        };
        match received {
            // The catch-up may have sent it already.
            Ok(Ok(frame)) if frame.cursor <= self.cursor => {}
            Ok(Ok(frame)) => {
                self.queue_frame(&frame);
                self.cursor = frame.cursor.clone();
            }
            Ok(Err(RecvError::Lagged(_))) => self.reads_store = true,
            Ok(Err(RecvError::Closed)) => return None,
            Err(_) => {
                let port = self.state.allowed_hosts.port;
                let sessions = &self.state.sessions;
                // A session that was ended elsewhere ends its streams.
                match sessions.authenticate(&self.session.secret, port) {
                    Ok(Some(_)) => self.waiting.push_back(": keep-alive\n\n".to_owned()),
                    Ok(None) | Err(_) => return None,
                }
            }
        }
        Some(())
    }

    fn queue_frame(&mut self, frame: &EventFrame) {
        if self.plan_id.is_none_or(|plan_id| plan_id == frame.plan_id) {
            self.waiting.push_back(frame.text.clone());
            self.state
                .metrics
                .events_sent
                .fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for StreamFollower {
    fn drop(&mut self) {
        self.state.note_activity();
        self.state
            .metrics
            .event_streams
            .fetch_sub(1, Ordering::Relaxed);
    }
}
