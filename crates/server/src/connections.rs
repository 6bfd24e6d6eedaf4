//! Accepts connections, bounds them, and lets open requests finish when the server ends.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use plan::stage::StateName;
use store::PlanFilter;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::limits::ServerLimits;
use crate::routes::make_router;
use crate::state::{ServerConfig, ServerState};

/// How often an idle server looks whether its time is over.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The pause after a connection could not be accepted, for example because there are no file descriptors left.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Asks a server to end, from any thread.
#[derive(Debug, Clone)]
pub struct ShutdownSignal(watch::Sender<bool>);

impl Default for ShutdownSignal {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl ShutdownSignal {
    pub fn request(&self) {
        self.0.send_replace(true);
    }

    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for the request.
    pub async fn requested(&self) {
        // Never fails: this value keeps the channel open.
        let _ = self.0.subscribe().wait_for(|requested| *requested).await;
    }
}

/// Why a server cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("{0} is not a loopback address")]
    NotLoopback(SocketAddr),
    #[error("cannot listen on {address}: {error}")]
    Bind {
        address: SocketAddr,
        error: std::io::Error,
    },
    #[error("cannot serve: {0}")]
    Io(#[from] std::io::Error),
}

/// A server that listens and does not answer yet.
pub struct PlanServer {
    listener: StdListener,
    address: SocketAddr,
}

impl PlanServer {
    /// Listens on a loopback address. Port 0 chooses a free one.
    pub fn bind(address: SocketAddr) -> Result<Self, ServeError> {
        if !address.ip().is_loopback() {
            return Err(ServeError::NotLoopback(address));
        }
        let listener =
            StdListener::bind(address).map_err(|error| ServeError::Bind { address, error })?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            address: listener.local_addr()?,
            listener,
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests until `shutdown` is requested or the server was idle for long enough.
    pub fn run(self, config: &ServerConfig, shutdown: &ShutdownSignal) -> Result<(), ServeError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("server")
            .enable_all()
            .build()?;
        let state = Arc::new(ServerState::start(config, self.address.port(), shutdown)?);
        runtime.block_on(accept_connections(self.listener, config, &state))?;
        // Engine calls that nobody waits for any more may take long; each is one commit or a read.
        runtime.shutdown_timeout(config.limits.drain_timeout);
        Ok(())
    }
}

async fn accept_connections(
    listener: StdListener,
    config: &ServerConfig,
    state: &Arc<ServerState>,
) -> std::io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let router = make_router(Arc::clone(state));
    let slots = Arc::new(Semaphore::new(config.limits.max_connections));
    let graceful = GracefulShutdown::new();
    loop {
        // Beyond the limit, clients wait in the kernel's queue.
        let slot = tokio::select! {
            slot = Arc::clone(&slots).acquire_owned() => slot,
            () = state.shutdown.requested() => break,
            () = idle_for_long(config, state) => break,
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = state.shutdown.requested() => break,
            () = idle_for_long(config, state) => break,
        };
        match (accepted, slot) {
            (Ok((stream, _)), Ok(slot)) => {
                serve_connection(stream, slot, &router, state, &graceful);
            }
            (Err(_), _) | (_, Err(_)) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
        }
    }
    drop(listener);
    state.shutdown.request();
    let _ = tokio::time::timeout(config.limits.drain_timeout, graceful.shutdown()).await;
    Ok(())
}

fn serve_connection(
    stream: TcpStream,
    slot: OwnedSemaphorePermit,
    router: &Router,
    state: &Arc<ServerState>,
    graceful: &GracefulShutdown,
) {
    // Events are small and should not wait for more.
    let _ = stream.set_nodelay(true);
    let service = TowerToHyperService::new(router.clone());
    let connection = bounded_http(&state.limits).serve_connection(TokioIo::new(stream), service);
    let connection = graceful.watch(connection);
    let state = Arc::clone(state);
    state.metrics.connections.fetch_add(1, Ordering::Relaxed);
    tokio::spawn(async move {
        // A client that goes away or breaks the protocol is not an error of the server.
        let _ = connection.await;
        state.metrics.connections.fetch_sub(1, Ordering::Relaxed);
        drop(slot);
    });
}

fn bounded_http(limits: &ServerLimits) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_headers(limits.max_headers)
        .max_buf_size(limits.max_header_bytes);
    http
}

/// Returns once the last client has been gone for the configured time and no plan is being worked on.
async fn idle_for_long(config: &ServerConfig, state: &ServerState) {
    let Some(idle_timeout) = config.idle_timeout else {
        return std::future::pending().await;
    };
    loop {
        tokio::time::sleep(IDLE_CHECK_INTERVAL.min(idle_timeout)).await;
        if state.idle_time() < idle_timeout {
            continue;
        }
        let in_progress = PlanFilter {
            state: Some(StateName::Processing),
            ..PlanFilter::default()
        };
        let plans = state.engine.read("list", None, move |lifecycle| {
            Ok(lifecycle.list_plans(&in_progress, None, 1)?)
        });
        match plans.await {
            Ok(plans) if plans.is_empty() => return,
            Ok(_) | Err(_) => state.note_activity(),
        }
    }
}
