//! What every route can reach.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use lifecycle::Lifecycle;
use plan::Caller;
use store::Clock;

use crate::change_sizes::ChangeSizes;
use crate::connections::ShutdownSignal;
use crate::engine_access::EngineAccess;
use crate::event_feed::EventFeed;
use crate::failure::{DescribeFailure, ReadPlanConfig};
use crate::guard::AllowedHosts;
use crate::limits::ServerLimits;
use crate::metrics::ServerMetrics;
use crate::session::SessionStore;

/// What the program that starts a server provides.
pub struct ServerConfig {
    pub lifecycle: Lifecycle,
    /// The person on whose behalf every session acts.
    pub caller: Caller,
    pub failures: Arc<dyn DescribeFailure>,
    pub configs: Arc<dyn ReadPlanConfig>,
    /// The directory of sessions and codes, in the home.
    pub directory: PathBuf,
    pub limits: ServerLimits,
    /// Ends the server this long after its last client, if no plan is being worked on; `None` runs until it is stopped.
    pub idle_timeout: Option<Duration>,
}

/// Shared by all requests.
pub struct ServerState {
    pub engine: EngineAccess,
    pub sessions: SessionStore,
    pub feed: EventFeed,
    pub change_sizes: ChangeSizes,
    pub metrics: ServerMetrics,
    pub allowed_hosts: AllowedHosts,
    pub limits: ServerLimits,
    pub shutdown: ShutdownSignal,
    clock: Clock,
    last_activity: AtomicI64,
}

impl ServerState {
    pub fn start(
        config: &ServerConfig,
        port: u16,
        shutdown: &ShutdownSignal,
    ) -> std::io::Result<Self> {
        let clock = Clock::default();
        Ok(Self {
            engine: EngineAccess::new(
                config.lifecycle.clone(),
                config.caller.clone(),
                Arc::clone(&config.failures),
                Arc::clone(&config.configs),
                config.limits.clone(),
            ),
            sessions: SessionStore::new(&config.directory, clock.clone()),
            feed: EventFeed::start(config.lifecycle.clone())?,
            change_sizes: ChangeSizes::default(),
            metrics: ServerMetrics::default(),
            allowed_hosts: AllowedHosts::for_port(port),
            limits: config.limits.clone(),
            shutdown: shutdown.clone(),
            last_activity: AtomicI64::new(clock.now().0),
            clock,
        })
    }

    pub fn note_activity(&self) {
        self.last_activity
            .store(self.clock.now().0, Ordering::Relaxed);
    }

    /// How long ago a client was last seen. Zero while an event stream is open.
    pub fn idle_time(&self) -> Duration {
        if self.metrics.event_streams.load(Ordering::Relaxed) > 0 {
            return Duration::ZERO;
        }
        let since = self.clock.now().0 - self.last_activity.load(Ordering::Relaxed);
        Duration::from_micros(u64::try_from(since).unwrap_or_default())
    }
}
