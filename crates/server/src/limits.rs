//! Bounds on what clients may use.

use std::time::Duration;

/// Bounds on requests and connections.
#[derive(Debug, Clone)]
pub struct ServerLimits {
    pub max_connections: usize,
    /// The most engine calls that run at once.
    pub max_engine_calls: usize,
    /// How long a request waits for a free engine call before it is answered with 503.
    pub engine_queue_timeout: Duration,
    /// How long an engine call may take before its request is answered. The call itself goes on.
    pub engine_timeout: Duration,
    /// How long a client may take to send its headers.
    pub header_timeout: Duration,
    /// How long a client may take to send its body.
    pub body_timeout: Duration,
    pub max_body_bytes: usize,
    pub max_header_bytes: usize,
    pub max_headers: usize,
    /// The pause between two signs of life on an event stream without events.
    pub keep_alive_interval: Duration,
    /// How long open requests may take to finish after a stop was requested.
    pub drain_timeout: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            max_connections: 256,
            max_engine_calls: 32,
            engine_queue_timeout: Duration::from_secs(2),
            engine_timeout: Duration::from_secs(60),
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(20),
            max_body_bytes: 1024 * 1024,
            max_header_bytes: 32 * 1024,
            max_headers: 64,
            keep_alive_interval: Duration::from_secs(15),
            drain_timeout: Duration::from_secs(10),
        }
    }
}
