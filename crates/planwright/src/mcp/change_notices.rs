//! Notifies clients of changes of the plans that they watch. One thread follows the log for all subscriptions. It
//! starts with the first one, from a position before that is acknowledged, so no change is missed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actors::Stop;
use plan::PlanId;
use serde_json::{Map, Value, json};
use store::Cursor;

use super::agent_access::AgentAccess;
use super::message::{ProtocolError, RequestId, format_notification, format_response};
use super::message_writer::MessageWriter;
use super::protocol::{Freshness, RequestOrigin, SUBSCRIPTION_ID_KEY, over_limit, require_text};
use super::resources::{PlanResourceUri, describe_error};
use super::tasks::read_task;

const MAX_LISTENERS: usize = 32;
const MAX_WATCHED_PER_LISTENER: usize = 200;

/// How long the following thread takes to notice that the client is gone.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// The pause after the store could not be read.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Events that are read at once, to send one notice for several changes of a plan.
const MAX_EVENT_BATCH: usize = 256;

/// What clients watch.
pub struct ChangeNotices {
    access: Arc<AgentAccess>,
    writer: Arc<MessageWriter>,
    listeners: Mutex<ListenerSet>,
    stop: Stop,
}

#[derive(Default)]
struct ListenerSet {
    is_following: bool,
    /// The resources of a client that sent `initialize`.
    subscribed: WatchedPlans,
    listeners: Vec<ChangeListener>,
}

/// An open `subscriptions/listen` request.
struct ChangeListener {
    id: RequestId,
    origin: RequestOrigin,
    watched: WatchedPlans,
}

#[derive(Default)]
struct WatchedPlans {
    /// URIs as the client wrote them.
    resources: Vec<(PlanId, String)>,
    tasks: Vec<PlanId>,
}

impl ChangeNotices {
    pub fn new(access: Arc<AgentAccess>, writer: Arc<MessageWriter>) -> Arc<Self> {
        Arc::new(Self {
            access,
            writer,
            listeners: Mutex::default(),
            stop: Stop::default(),
        })
    }

    /// Answers `subscriptions/listen`. It stays open until the client cancels it or this process ends.
    pub fn listen(
        self: &Arc<Self>,
        id: &RequestId,
        params: &Map<String, Value>,
        origin: &RequestOrigin,
    ) -> Result<(), ProtocolError> {
        let Some(filter) = params.get("notifications").and_then(Value::as_object) else {
            return Err(ProtocolError::invalid_params(
                "`notifications` must be an object.",
            ));
        };
        let watched = self.read_filter(filter, origin)?;
        let accepted = watched.describe();
        let mut listeners = self.lock();
        if listeners.listeners.len() >= MAX_LISTENERS {
            return Err(over_limit(format!(
                "At most {MAX_LISTENERS} subscriptions can be open."
            )));
        }
        self.start_following(&mut listeners)?;
        // Under the lock: the acknowledgement comes before the first notice.
        self.writer.send(&format_notification(
            "notifications/subscriptions/acknowledged",
            &json!({ "_meta": { SUBSCRIPTION_ID_KEY: id.to_json() }, "notifications": accepted }),
        ));
        listeners.listeners.push(ChangeListener {
            id: id.clone(),
            origin: origin.clone(),
            watched,
        });
        Ok(())
    }

    /// Reads what a client wants to watch. Leaves out what does not exist.
    fn read_filter(
        &self,
        filter: &Map<String, Value>,
        origin: &RequestOrigin,
    ) -> Result<WatchedPlans, ProtocolError> {
        let uris = read_names(filter, "resourceSubscriptions")?;
        let task_ids = read_names(filter, "taskIds")?;
        if !task_ids.is_empty() {
            origin.require_tasks()?;
        }
        if uris.len() + task_ids.len() > MAX_WATCHED_PER_LISTENER {
            return Err(over_limit(format!(
                "At most {MAX_WATCHED_PER_LISTENER} resources and tasks can be watched by one request."
            )));
        }
        let resources = uris.into_iter().filter_map(|uri| {
            let name = PlanResourceUri::parse(&self.access, uri).ok()?;
            Some((name.plan_id, uri.to_owned()))
        });
        let tasks = task_ids.into_iter().filter_map(|id| {
            let plan_id = id.parse::<PlanId>().ok()?;
            self.access.lifecycle.get_plan(plan_id).ok()?;
            Some(plan_id)
        });
        Ok(WatchedPlans {
            resources: resources.collect(),
            tasks: tasks.collect(),
        })
    }

    /// Ends a subscription that the client cancelled. Sends nothing more for it.
    pub fn cancel(&self, id: &RequestId) {
        self.lock().listeners.retain(|listener| listener.id != *id);
    }

    /// Answers `resources/subscribe` of a client that sent `initialize`.
    pub fn subscribe(
        self: &Arc<Self>,
        params: &Map<String, Value>,
        origin: &RequestOrigin,
    ) -> Result<Value, ProtocolError> {
        let uri = require_text(params, "uri")?;
        let name = PlanResourceUri::parse(&self.access, uri)
            .map_err(|error| describe_error(error, Some(origin)))?;
        let mut listeners = self.lock();
        let resources = &listeners.subscribed.resources;
        let is_new = resources.iter().all(|(_, known)| known != uri);
        if is_new && resources.len() >= MAX_WATCHED_PER_LISTENER {
            return Err(over_limit(format!(
                "At most {MAX_WATCHED_PER_LISTENER} resources can be subscribed."
            )));
        }
        self.start_following(&mut listeners)?;
        if is_new {
            let subscribed = &mut listeners.subscribed.resources;
            subscribed.push((name.plan_id, uri.to_owned()));
        }
        Ok(json!({}))
    }

    /// Answers `resources/unsubscribe`.
    pub fn unsubscribe(&self, params: &Map<String, Value>) -> Result<Value, ProtocolError> {
        let uri = require_text(params, "uri")?;
        let mut listeners = self.lock();
        let subscribed = &mut listeners.subscribed.resources;
        subscribed.retain(|(_, known)| known != uri);
        Ok(json!({}))
    }

    /// Closes every open subscription, because this process ends.
    pub fn close(&self) {
        self.stop.request();
        for listener in std::mem::take(&mut self.lock().listeners) {
            let result = json!({ "_meta": { SUBSCRIPTION_ID_KEY: listener.id.to_json() } });
            let result = listener.origin.complete_result(result, Freshness::Unstated);
            self.writer.send(&format_response(&listener.id, Ok(result)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, ListenerSet> {
        self.listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn start_following(self: &Arc<Self>, listeners: &mut ListenerSet) -> Result<(), ProtocolError> {
        if listeners.is_following {
            return Ok(());
        }
        let unavailable = |error: lifecycle::LifecycleError| describe_error(error.into(), None);
        let store = self.access.lifecycle.store();
        let start = store
            .read_latest_cursor()
            .map_err(|error| unavailable(error.into()))?;
        let notices = Arc::clone(self);
        std::thread::Builder::new()
            .name("mcp notices".to_owned())
            .spawn(move || notices.follow_log(start))
            .map_err(|error| over_limit(format!("Cannot follow the log: {error}")))?;
        listeners.is_following = true;
        Ok(())
    }

    fn follow_log(&self, start: Cursor) {
        let mut events = self.access.lifecycle.events(start);
        while !self.stop.is_requested() {
            let mut changed = BTreeSet::new();
            let mut next = events.next_within(STOP_CHECK_INTERVAL);
            while let Ok(Some(event)) = &next {
                changed.insert(event.recorded.plan);
                if changed.len() >= MAX_EVENT_BATCH {
                    break;
                }
                next = events.next_ready();
            }
            if !changed.is_empty() {
                self.send_notices(&changed);
            }
            // The stream keeps its position, so nothing is lost while the store is away.
            if next.is_err() {
                self.stop.wait_for_request(RETRY_DELAY);
            }
        }
    }

    fn send_notices(&self, changed: &BTreeSet<PlanId>) {
        let listeners = self.lock();
        for uri in listeners.subscribed.changed_resources(changed) {
            let params = json!({ "uri": uri });
            let method = "notifications/resources/updated";
            self.writer.send(&format_notification(method, &params));
        }
        for listener in &listeners.listeners {
            let meta = json!({ SUBSCRIPTION_ID_KEY: listener.id.to_json() });
            for uri in listener.watched.changed_resources(changed) {
                let params = json!({ "_meta": meta, "uri": uri });
                let method = "notifications/resources/updated";
                self.writer.send(&format_notification(method, &params));
            }
            let tasks = listener.watched.tasks.iter();
            for plan_id in tasks.filter(|plan_id| changed.contains(plan_id)) {
                let task = read_task(&self.access, *plan_id, listener.origin.can_open_links());
                // A task that cannot be read now is read by the client's next question.
                if let Ok(mut task) = task {
                    task["_meta"] = meta.clone();
                    self.writer
                        .send(&format_notification("notifications/tasks", &task));
                }
            }
        }
    }
}

impl WatchedPlans {
    /// Describes what is watched, as a filter.
    fn describe(&self) -> Value {
        let mut filter = json!({});
        if !self.resources.is_empty() {
            let uris = self.resources.iter().map(|(_, uri)| uri);
            filter["resourceSubscriptions"] = uris.cloned().collect();
        }
        if !self.tasks.is_empty() {
            filter["taskIds"] = json!(self.tasks);
        }
        filter
    }

    fn changed_resources(&self, changed: &BTreeSet<PlanId>) -> impl Iterator<Item = &str> {
        let watched = self.resources.iter();
        let watched = watched.filter(|(plan_id, _)| changed.contains(plan_id));
        watched.map(|(_, uri)| uri.as_str())
    }
}

/// Reads a list of strings; empty if it is missing.
fn read_names<'a>(
    filter: &'a Map<String, Value>,
    name: &str,
) -> Result<Vec<&'a str>, ProtocolError> {
    let refuse = || ProtocolError::invalid_params(format!("`{name}` must be a list of strings."));
    match filter.get(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => items
            .iter()
            .map(|item| item.as_str().ok_or_else(refuse))
            .collect(),
        Some(_) => Err(refuse()),
    }
}
