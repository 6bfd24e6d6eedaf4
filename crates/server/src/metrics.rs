//! Counters of this process, in the text format of Prometheus. They hold no data of plans.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Upper bounds of the duration histogram, in seconds.
const DURATION_BOUNDS: [f64; 7] = [0.005, 0.02, 0.06, 0.25, 1.0, 5.0, 60.0];

/// What the server did since it started.
#[derive(Debug, Default)]
pub struct ServerMetrics {
    requests: Mutex<BTreeMap<RequestLabels, u64>>,
    durations: [AtomicU64; DURATION_BOUNDS.len()],
    duration_count: AtomicU64,
    duration_micros: AtomicU64,
    pub connections: AtomicI64,
    pub event_streams: AtomicI64,
    pub events_sent: AtomicU64,
    pub refused_requests: AtomicU64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RequestLabels {
    method: String,
    /// The route's pattern, so that the number of labels is bounded.
    route: String,
    status: u16,
}

impl ServerMetrics {
    pub fn count_request(&self, method: &str, route: &str, status: u16, duration: Duration) {
        let labels = RequestLabels {
            method: method.to_owned(),
            route: route.to_owned(),
            status,
        };
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry(labels).or_default() += 1;
        drop(requests);
        let seconds = duration.as_secs_f64();
        for (bound, count) in DURATION_BOUNDS.iter().zip(&self.durations) {
            if seconds <= *bound {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.duration_count.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.duration_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Renders all counters.
    pub fn render(&self) -> String {
        let mut text = String::new();
        text.push_str("# TYPE planwright_http_requests_total counter\n");
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        for (labels, count) in &*requests {
            let RequestLabels {
                method,
                route,
                status,
            } = labels;
            let _ = writeln!(
                text,
                "planwright_http_requests_total{{method=\"{method}\",route=\"{route}\",status=\"{status}\"}} {count}"
            );
        }
        drop(requests);
        let name = "planwright_http_request_duration_seconds";
        let _ = writeln!(text, "# TYPE {name} histogram");
        for (bound, count) in DURATION_BOUNDS.iter().zip(&self.durations) {
            let count = count.load(Ordering::Relaxed);
            let _ = writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {count}");
        }
        let count = self.duration_count.load(Ordering::Relaxed);
        let sum = Duration::from_micros(self.duration_micros.load(Ordering::Relaxed));
        let _ = writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {count}");
        let _ = writeln!(text, "{name}_sum {}", sum.as_secs_f64());
        let _ = writeln!(text, "{name}_count {count}");
        for (name, kind, value) in [
            (
                "planwright_connections",
                "gauge",
                self.connections.load(Ordering::Relaxed).to_string(),
            ),
            (
                "planwright_event_streams",
                "gauge",
                self.event_streams.load(Ordering::Relaxed).to_string(),
            ),
            (
                "planwright_events_sent_total",
                "counter",
                self.events_sent.load(Ordering::Relaxed).to_string(),
            ),
            (
                "planwright_refused_requests_total",
                "counter",
                self.refused_requests.load(Ordering::Relaxed).to_string(),
            ),
        ] {
            let _ = writeln!(text, "# TYPE {name} {kind}\n{name} {value}");
        }
        text
    }
}
