//! One connection to the server, driven by the thread that uses it.
//!
//! The driver is asynchronous; the store is not. So each connection has its own runtime, which runs
//! only on the calling thread: it sends, sleeps until the socket is ready, and reads. A shared
//! runtime would pass every request and answer between threads, which costs more than the work
//! itself.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Client, Row, SimpleQueryMessage, Socket, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::{
    PostgresError, classify_connect_error, corrupt_error, is_transient_connect_error,
    unreachable_error, unusable_error,
};
use super::pipeline::{StatementPipeline, Value};
use crate::StoreError;
use crate::sync::{Mutex, lock};

/// How long a transaction may be idle before the server ends it. Its process is stopped or gone,
/// and others wait for its locks. This also bounds how long a lost COMMIT stays unresolved.
const IDLE_TRANSACTION_TIMEOUT: Duration = Duration::from_secs(10);

/// How long to retry while the server starts up or has no free connection slot.
const CONNECT_RETRY_TIMEOUT: Duration = Duration::from_secs(10);

/// The oldest version with the functions that `tail.rs` needs.
const MIN_SERVER_VERSION: u32 = 130_000;

pub(super) struct ConnectionConfig {
    pub address: super::address::PostgresAddress,
    pub tls: MakeRustlsConnect,
    pub schema: String,
    /// The limit for a statement or a lock.
    pub wait_timeout: Duration,
}

/// A connection with its session configured for this store.
pub(super) struct PostgresConnection {
    /// Dropped first: that makes the driver send a Terminate message.
    session: ClientSession,
    /// Sends and receives the bytes.
    driver: ConnectionDriver,
    /// The server's identity (see `tail.rs`); 0 if unknown.
    pub system_id: i64,
    pub schema: String,
    /// When the connection was last returned to the pool.
    pub idle_since: Instant,
}

struct ClientSession {
    client: Client,
    prepared: HashMap<&'static str, Statement>,
}

type TlsTransport =
    tokio_postgres::Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

struct ConnectionDriver {
    // `None` only while dropping.
    runtime: Option<Runtime>,
    // `None` once the connection has ended. Dropping it fails all pending requests.
    transport: Option<TlsTransport>,
    poll_waker: Arc<PollWaker>,
    notified: bool,
    answer_timeout: Duration,
    default_answer_timeout: Duration,
    place: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransactionEnd {
    Commit,
    Rollback,
}

/// The last exchange of a transaction.
pub(super) struct FinalExchange {
    pub end: TransactionEnd,
    /// The answers to the calls, followed by the one to COMMIT or ROLLBACK.
    pub answers: Result<StatementAnswers, PostgresError>,
}

/// A statement with its parameters.
pub(super) type StatementCall<'a> = (&'static str, Vec<Value<'a>>);

/// One result per statement, in order.
pub(super) type StatementAnswers = Vec<Result<Vec<Row>, tokio_postgres::Error>>;

impl PostgresConnection {
    /// Connects and configures the session.
    pub fn open(config: &ConnectionConfig) -> Result<Self, StoreError> {
        let place = &config.address.place;
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|error| unreachable_error(place, error.to_string()))?;
        let (client, transport) = runtime.block_on(connect_with_retry(config))?;
        // Longer than the server's own timeouts, so that a reachable server gives up first.
        let answer_timeout = config.wait_timeout + Duration::from_secs(15);
        let mut connection = Self {
            session: ClientSession {
                client,
                prepared: HashMap::new(),
            },
            driver: ConnectionDriver {
                runtime: Some(runtime),
                transport: Some(transport),
                poll_waker: Arc::default(),
                notified: false,
                answer_timeout,
                default_answer_timeout: answer_timeout,
                place: place.clone(),
            },
            system_id: 0,
            schema: config.schema.clone(),
            idle_since: Instant::now(),
        };
        connection
            .configure_session(config)
            .map_err(PostgresError::into_store_error)?;
        Ok(connection)
    }

    /// Sets the timeout for answers; `None` restores the default.
    pub fn set_answer_timeout(&mut self, timeout: Option<Duration>) {
        self.driver.answer_timeout = timeout.unwrap_or(self.driver.default_answer_timeout);
    }

    pub fn is_closed(&self) -> bool {
        self.session.client.is_closed()
    }

    /// Prepares statements that are new to this connection, all in one round trip.
    pub fn prepare_statements(
        &mut self,
        statements: impl IntoIterator<Item = &'static str>,
    ) -> Result<(), PostgresError> {
        let Self {
            session, driver, ..
        } = self;
        let mut missing: Vec<&'static str> = statements
            .into_iter()
            .filter(|sql| !session.prepared.contains_key(sql))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        missing.sort_unstable();
        missing.dedup();
        let client = &session.client;
        let mut requests: Vec<_> = missing
            .iter()
            .map(|sql| (Box::pin(client.prepare(sql)), None))
            .collect();
        driver.run_until_ready(poll_fn(|context| {
            let mut ready = true;
            for (request, result) in &mut requests {
                if result.is_none() {
                    match request.as_mut().poll(context) {
                        Poll::Ready(prepared) => *result = Some(prepared),
                        Poll::Pending => ready = false,
                    }
                }
            }
            if ready {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        }))?;
        for (sql, (_, result)) in missing.into_iter().zip(requests) {
            let result = result.expect("BUG: every request was waited for");
            let statement =
                result.map_err(|error| PostgresError::classify_error(&error, &driver.place))?;
            session.prepared.insert(sql, statement);
        }
        Ok(())
    }

    /// Sends `first`, the calls and `last` in one round trip. Errors of single statements are in
    /// their answers. An `Err` means that preparing failed or the connection was lost.
    fn exchange_calls(
        &mut self,
        first: Option<&'static str>,
        calls: Vec<StatementCall<'_>>,
        last: Option<&'static str>,
    ) -> Result<StatementAnswers, PostgresError> {
        self.prepare_statements(calls.iter().map(|(sql, _)| *sql))?;
        let Self {
            session, driver, ..
        } = self;
        let mut pipeline = StatementPipeline::new(&session.client);
        if let Some(command) = first {
            pipeline.send_command(command);
        }
        session.send_calls(&mut pipeline, calls);
        if let Some(command) = last {
            pipeline.send_command(command);
        }
        driver.run_until_ready(pipeline.collect_answers())
    }

    /// Like [`Self::exchange_calls`], but returns the rows or the first error.
    pub fn query_all(
        &mut self,
        first: Option<&'static str>,
        calls: Vec<StatementCall<'_>>,
        last: Option<&'static str>,
    ) -> Result<Vec<Vec<Row>>, PostgresError> {
        let answers = self.exchange_calls(first, calls, last)?;
        answers
            .into_iter()
            .map(|answer| answer.map_err(|error| self.classify_error(&error)))
            .collect()
    }

    /// Sends the calls, which must be prepared, followed by COMMIT or ROLLBACK as `choose_end`
    /// decides.
    ///
    /// If a call could not be sent, rolls back without calling `choose_end`.
    pub fn finish_transaction(
        &mut self,
        calls: Vec<StatementCall<'_>>,
        choose_end: impl FnOnce() -> TransactionEnd,
    ) -> FinalExchange {
        let Self {
            session, driver, ..
        } = self;
        let mut pipeline = StatementPipeline::new(&session.client);
        session.send_calls(&mut pipeline, calls);
        let end = if pipeline.is_fully_sent() {
            choose_end()
        } else {
            TransactionEnd::Rollback
        };
        pipeline.send_command(match end {
            TransactionEnd::Commit => "COMMIT",
            TransactionEnd::Rollback => "ROLLBACK",
        });
        FinalExchange {
            end,
            answers: driver.run_until_ready(pipeline.collect_answers()),
        }
    }

    /// Runs one prepared statement outside of a transaction.
    pub fn query_statement(
        &mut self,
        sql: &'static str,
        values: Vec<Value<'_>>,
    ) -> Result<Vec<Row>, PostgresError> {
        let mut rows = self.query_all(None, vec![(sql, values)], None)?;
        Ok(rows.pop().expect("BUG: one statement, one answer"))
    }

    /// Runs several statements without parameters. They are atomic only if they contain a
    /// transaction.
    pub fn execute_batch(&mut self, sql: &str) -> Result<(), PostgresError> {
        let Self {
            session, driver, ..
        } = self;
        let answer = driver.run_until_ready(session.client.batch_execute(sql))?;
        answer.map_err(|error| self.classify_error(&error))
    }

    pub fn classify_error(&self, error: &tokio_postgres::Error) -> PostgresError {
        PostgresError::classify_error(error, &self.driver.place)
    }

    /// Waits for a notification. Returns `false` if `stop` was notified first.
    pub fn wait_for_notification(&mut self, stop: &Notify) -> Result<bool, PostgresError> {
        self.driver.wait_for_notification(stop)
    }

    fn configure_session(&mut self, config: &ConnectionConfig) -> Result<(), PostgresError> {
        let wait_millis = config.wait_timeout.as_millis();
        // These settings override the defaults of the server and the user. The timeouts bound how
        // long others wait for us, and we for others.
        // Generic plans: every statement uses the same index for all parameters, so each is planned
        // once. By default the server plans some of them every time, a sixth of the work under
        // load.
        let settings = format!(
            "SET search_path TO \"{schema}\"; \
             SET synchronous_commit TO on; \
             SET default_transaction_isolation TO 'read committed'; \
             SET lock_timeout TO {wait_millis}; \
             SET statement_timeout TO {statement}; \
             SET idle_in_transaction_session_timeout TO {idle}; \
             SET client_min_messages TO warning; \
             SET jit TO off; \
             SET plan_cache_mode TO force_generic_plan; ",
            schema = config.schema,
            statement = wait_millis + 5_000,
            idle = IDLE_TRANSACTION_TIMEOUT.as_millis(),
        );
        const SERVER_FACTS: &str =
            "SELECT current_setting('server_version_num'), current_setting('server_encoding')";
        let full = format!(
            "{settings}{SERVER_FACTS}, (SELECT system_identifier FROM pg_control_system())"
        );
        let server_facts = match self.query_text_row(&full) {
            // Access to that function was revoked. No server has the identity 0.
            Err(PostgresError::Permanent(StoreError::Unusable { .. })) => {
                self.query_text_row(&format!("{settings}{SERVER_FACTS}, 0"))?
            }
            answer => answer?,
        };
        let place = &config.address.place;
        let [version, encoding, system] = server_facts.as_slice() else {
            return Err(PostgresError::Permanent(corrupt_error(
                place,
                "the server did not return its version",
            )));
        };
        if version
            .parse::<u32>()
            .is_ok_and(|version| version < MIN_SERVER_VERSION)
        {
            let why = format!("PostgreSQL 13 or newer is required; this is {version}");
            return Err(PostgresError::Permanent(unusable_error(place, why)));
        }
        if encoding != "UTF8" {
            let why = format!("its encoding is {encoding}; create the database with UTF8");
            return Err(PostgresError::Permanent(unusable_error(place, why)));
        }
        self.system_id = system.parse().unwrap_or_default();
        Ok(())
    }

    /// Runs statements without parameters and returns the columns of the last row.
    fn query_text_row(&mut self, sql: &str) -> Result<Vec<String>, PostgresError> {
        let Self {
            session, driver, ..
        } = self;
        let answer = driver.run_until_ready(session.client.simple_query(sql))?;
        let messages = answer.map_err(|error| self.classify_error(&error))?;
        let row = messages.iter().rev().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        Ok(row.map_or_else(Vec::new, |row| {
            (0..row.len())
                .map(|index| row.get(index).unwrap_or_default().to_owned())
                .collect()
        }))
    }
}

async fn connect_with_retry(
    config: &ConnectionConfig,
) -> Result<(Client, TlsTransport), StoreError> {
    let address = &config.address;
    let deadline = Instant::now() + CONNECT_RETRY_TIMEOUT;
    loop {
        let attempt = address.config.connect(config.tls.clone());
        // The driver limits the time to connect, but not the handshake that follows.
        let limit = address
            .config
            .get_connect_timeout()
            .map_or(CONNECT_RETRY_TIMEOUT, |limit| *limit * 2);
        let Ok(result) = tokio::time::timeout(limit, attempt).await else {
            return Err(unreachable_error(
                &address.place,
                "it accepts connections, but does not respond".to_owned(),
            ));
        };
        match result {
            Ok(connected) => return Ok(connected),
            Err(error) if is_transient_connect_error(&error) && Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Err(error) => return Err(classify_connect_error(&error, &address.place)),
        }
    }
}

impl ClientSession {
    fn send_calls<'a>(
        &'a self,
        pipeline: &mut StatementPipeline<'a>,
        calls: Vec<StatementCall<'a>>,
    ) {
        for (sql, values) in calls {
            let statement = self.prepared.get(sql).expect("BUG: it was prepared before");
            pipeline.send_statement(statement, values);
        }
    }
}

impl ConnectionDriver {
    /// Drives the connection until the future is ready.
    fn run_until_ready<T>(&mut self, future: impl Future<Output = T>) -> Result<T, PostgresError> {
        let Self {
            runtime,
            transport,
            poll_waker,
            notified,
            answer_timeout,
            place,
            ..
        } = self;
        let runtime = runtime
            .as_ref()
            .expect("BUG: only dropping takes the runtime");
        let mut future = pin!(future);
        let driven = poll_fn(|context| {
            poll_waker.poll_while_woken(context, |context| {
                loop {
                    if let Poll::Ready(value) = future.as_mut().poll(context) {
                        return Poll::Ready(value);
                    }
                    if transport.is_none() || !drive_transport(transport, context, notified) {
                        return Poll::Pending;
                    }
                }
            })
        });
        let driven =
            runtime.block_on(async { tokio::time::timeout(*answer_timeout, driven).await });
        poll_waker.clear_outer_waker();
        match driven {
            Ok(value) => Ok(value),
            Err(_) => {
                // Late answers could still arrive and could not be matched to requests, so the
                // connection is closed.
                *transport = None;
                let why = "the server stopped responding".to_owned();
                Err(PostgresError::ConnectionLost(unreachable_error(place, why)))
            }
        }
    }

    fn wait_for_notification(&mut self, stop: &Notify) -> Result<bool, PostgresError> {
        let Self {
            runtime,
            transport,
            poll_waker,
            notified,
            place,
            ..
        } = self;
        let runtime = runtime
            .as_ref()
            .expect("BUG: only dropping takes the runtime");
        let mut stopped = pin!(stop.notified());
        let outcome = runtime.block_on(poll_fn(|context| {
            poll_waker.poll_while_woken(context, |context| {
                let ended = transport.is_none() || drive_transport(transport, context, notified);
                if std::mem::take(notified) {
                    Poll::Ready(Ok(true))
                } else if stopped.as_mut().poll(context).is_ready() {
                    Poll::Ready(Ok(false))
                } else if ended {
                    let why = "the connection was closed".to_owned();
                    Poll::Ready(Err(PostgresError::ConnectionLost(unreachable_error(
                        place, why,
                    ))))
                } else {
                    Poll::Pending
                }
            })
        }));
        poll_waker.clear_outer_waker();
        outcome
    }
}

/// Sends and receives as much as possible without blocking. Returns `true` if the connection has
/// ended.
fn drive_transport(
    transport: &mut Option<TlsTransport>,
    context: &mut Context<'_>,
    notified: &mut bool,
) -> bool {
    let Some(open_transport) = transport else {
        return true;
    };
    loop {
        match open_transport.poll_message(context) {
            Poll::Ready(Some(Ok(AsyncMessage::Notification(_)))) => *notified = true,
            Poll::Ready(Some(Ok(_))) => {}
            Poll::Pending => return false,
            Poll::Ready(Some(Err(_)) | None) => {
                *transport = None;
                return true;
            }
        }
    }
}

impl Drop for ConnectionDriver {
    fn drop(&mut self) {
        // The session is gone by now, so only a Terminate message is left to send, as far as that
        // works without blocking.
        drive_transport(
            &mut self.transport,
            &mut Context::from_waker(Waker::noop()),
            &mut self.notified,
        );
        if let Some(runtime) = self.runtime.take() {
            // Dropping a runtime blocks, which tokio forbids inside an asynchronous caller.
            runtime.shutdown_background();
        }
    }
}

/// Wakes the thread only when it sleeps. While it polls, a wake-up only sets a flag; going through
/// the runtime would cost a system call each time.
#[derive(Default)]
struct PollWaker {
    woken: AtomicBool,
    polling: AtomicBool,
    outer_waker: Mutex<Option<Waker>>,
}

impl PollWaker {
    fn poll_while_woken<T>(
        self: &Arc<Self>,
        context: &mut Context<'_>,
        mut poll_once: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let waker = Waker::from(Arc::clone(self));
        let mut inner = Context::from_waker(&waker);
        lock(&self.outer_waker).replace(context.waker().clone());
        self.polling.store(true, Ordering::SeqCst);
        let outcome = loop {
            self.woken.store(false, Ordering::SeqCst);
            let polled = poll_once(&mut inner);
            if polled.is_ready() || !self.woken.load(Ordering::SeqCst) {
                break polled;
            }
        };
        self.polling.store(false, Ordering::SeqCst);
        // Another thread woke us after the last poll, so do not sleep.
        if outcome.is_pending() && self.woken.load(Ordering::SeqCst) {
            context.waker().wake_by_ref();
        }
        outcome
    }

    /// The thread is not sleeping: requests queued before the next run need no wake-up.
    fn clear_outer_waker(&self) {
        lock(&self.outer_waker).take();
    }
}

impl Wake for PollWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        if !self.polling.load(Ordering::SeqCst)
            && let Some(sleeper) = &*lock(&self.outer_waker)
        {
            sleeper.wake_by_ref();
        }
    }
}
