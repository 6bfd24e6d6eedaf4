//! One connection to the server, driven by whichever thread uses it.
//!
//! The driver is asynchronous and the store is not. Each connection therefore has a runtime of its
//! own that only ever runs on the calling thread: the thread sends, sleeps until the socket has
//! something, and reads, with no other thread to wake. A shared runtime would hand every request and
//! every answer across threads, which costs more than the work between them.

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

/// How long a transaction may sit idle before the server ends it: the process that opened it is
/// stopped or gone, and others wait for its locks. Also bounds how long a lost COMMIT can stay
/// unsettled.
const IDLE_TRANSACTION_TIMEOUT: Duration = Duration::from_secs(10);

/// How long we go on knocking at a server that is starting up or has no room.
const CONNECT_RETRY_TIMEOUT: Duration = Duration::from_secs(10);

/// The oldest server that has what `tail.rs` needs.
const MIN_SERVER_VERSION: u32 = 130_000;

/// What every connection is made with.
pub(super) struct ConnectionConfig {
    /// Where.
    pub address: super::address::PostgresAddress,
    /// How it is encrypted.
    pub tls: MakeRustlsConnect,
    /// The store's schema.
    pub schema: String,
    /// How long a statement or a lock may take.
    pub wait_timeout: Duration,
}

/// A connection that is set up for this store.
pub(super) struct PostgresConnection {
    /// Sends statements. Dropped first: that makes the wire say farewell.
    session: ClientSession,
    /// Moves bytes.
    driver: ConnectionDriver,
    /// The identity of the server (see `tail.rs`); 0 if it does not tell.
    pub system_id: i64,
    /// The store's schema.
    pub schema: String,
    /// When it was last put away.
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
    // `None` once the connection has ended. Dropping it tells every request that still waits.
    transport: Option<TlsTransport>,
    poll_waker: Arc<PollWaker>,
    notified: bool,
    answer_timeout: Duration,
    default_answer_timeout: Duration,
    place: String,
}

/// How a transaction is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransactionEnd {
    /// Keep what it did.
    Commit,
    /// Undo it.
    Rollback,
}

/// How the last exchange of a transaction went.
pub(super) struct FinalExchange {
    /// What was sent last.
    pub end: TransactionEnd,
    /// The answers to the calls, and behind them the one to `last`; or that none came.
    pub answers: Result<StatementAnswers, PostgresError>,
}

/// A statement with its parameters.
pub(super) type StatementCall<'a> = (&'static str, Vec<Value<'a>>);

/// The answers to some statements, in their order.
pub(super) type StatementAnswers = Vec<Result<Vec<Row>, tokio_postgres::Error>>;

impl PostgresConnection {
    /// Connects and sets the session up.
    pub fn open(config: &ConnectionConfig) -> Result<Self, StoreError> {
        let place = &config.address.place;
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|error| unreachable_error(place, error.to_string()))?;
        let (client, transport) = runtime.block_on(connect_with_retry(config))?;
        // The server gives up first, if it is there.
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

    /// From now on waits this long for an answer; `None` as long as it usually does.
    pub fn set_answer_timeout(&mut self, timeout: Option<Duration>) {
        self.driver.answer_timeout = timeout.unwrap_or(self.driver.default_answer_timeout);
    }

    /// Is it known to be dead?
    pub fn is_closed(&self) -> bool {
        self.session.client.is_closed()
    }

    /// Prepares what was not prepared on this connection before, all in one round trip.
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

    /// Sends `first`, the calls and `last` in one go. What goes wrong with each is in its answer; what
    /// is returned instead went wrong before anything was sent, or is the end of the connection.
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

    /// As [`Self::exchange`]; the rows, or the first thing that went wrong.
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

    /// Sends the calls, all of them prepared before, and behind them what `last` then says.
    ///
    /// If some call could not even be sent, `last` is not asked and the transaction is rolled back.
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

    /// One prepared statement outside of any transaction.
    pub fn query_statement(
        &mut self,
        sql: &'static str,
        values: Vec<Value<'_>>,
    ) -> Result<Vec<Row>, PostgresError> {
        let mut rows = self.query_all(None, vec![(sql, values)], None)?;
        Ok(rows.pop().expect("BUG: one statement, one answer"))
    }

    /// Several statements without parameters, as one unit if they say so themselves.
    pub fn execute_batch(&mut self, sql: &str) -> Result<(), PostgresError> {
        let Self {
            session, driver, ..
        } = self;
        let answer = driver.run_until_ready(session.client.batch_execute(sql))?;
        answer.map_err(|error| self.classify_error(&error))
    }

    /// What an error on this connection means.
    pub fn classify_error(&self, error: &tokio_postgres::Error) -> PostgresError {
        PostgresError::classify_error(error, &self.driver.place)
    }

    /// Waits until a notification arrived; `false` if `stop` was called first.
    pub fn wait_for_notification(&mut self, stop: &Notify) -> Result<bool, PostgresError> {
        self.driver.wait_for_notification(stop)
    }

    fn configure_session(&mut self, config: &ConnectionConfig) -> Result<(), PostgresError> {
        let patience = config.wait_timeout.as_millis();
        // Whatever the server's or the user's defaults are. The timeouts bound how long anybody can
        // wait for us, and we for anybody.
        // Statements find their rows by the same index whatever their parameters are: each is planned
        // once. Left to itself the server plans some of them anew each time, which is a sixth of the
        // work when many callers keep it busy.
        let settings = format!(
            "SET search_path TO \"{schema}\"; \
             SET synchronous_commit TO on; \
             SET default_transaction_isolation TO 'read committed'; \
             SET lock_timeout TO {patience}; \
             SET statement_timeout TO {statement}; \
             SET idle_in_transaction_session_timeout TO {idle}; \
             SET client_min_messages TO warning; \
             SET jit TO off; \
             SET plan_cache_mode TO force_generic_plan; ",
            schema = config.schema,
            statement = patience + 5_000,
            idle = IDLE_TRANSACTION_TIMEOUT.as_millis(),
        );
        const ASKED: &str =
            "SELECT current_setting('server_version_num'), current_setting('server_encoding')";
        let full =
            format!("{settings}{ASKED}, (SELECT system_identifier FROM pg_control_system())");
        let server_facts = match self.query_text_row(&full) {
            // Somebody took that function from the public. 0 is no server's identity.
            Err(PostgresError::Permanent(StoreError::Unusable { .. })) => {
                self.query_text_row(&format!("{settings}{ASKED}, 0"))?
            }
            said => said?,
        };
        let place = &config.address.place;
        let [version, encoding, system] = server_facts.as_slice() else {
            return Err(PostgresError::Permanent(corrupt_error(
                place,
                "the server does not say what it is",
            )));
        };
        if version
            .parse::<u32>()
            .is_ok_and(|version| version < MIN_SERVER_VERSION)
        {
            let why = format!("PostgreSQL 13 or newer is needed; this is {version}");
            return Err(PostgresError::Permanent(unusable_error(place, why)));
        }
        if encoding != "UTF8" {
            let why = format!("its encoding is {encoding}; make the database with UTF8");
            return Err(PostgresError::Permanent(unusable_error(place, why)));
        }
        self.system_id = system.parse().unwrap_or_default();
        Ok(())
    }

    /// The columns of the last row some statements without parameters returned.
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
        // The driver bounds the connecting itself, but not the greeting that follows.
        let limit = address
            .config
            .get_connect_timeout()
            .map_or(CONNECT_RETRY_TIMEOUT, |limit| *limit * 2);
        let Ok(result) = tokio::time::timeout(limit, attempt).await else {
            return Err(unreachable_error(
                &address.place,
                "it accepts connections but does not answer".to_owned(),
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
                // The answers may still come, and nobody would know what they answer.
                *transport = None;
                let why = "the server stopped answering".to_owned();
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

/// Sends and reads as much as can be without waiting; `true` if the connection has ended now.
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
        // The session is gone by now, so all there is to send is a farewell, as far as it goes out
        // without waiting.
        drive_transport(
            &mut self.transport,
            &mut Context::from_waker(Waker::noop()),
            &mut self.notified,
        );
        if let Some(runtime) = self.runtime.take() {
            // Dropping a runtime waits, which is forbidden to a caller that is asynchronous itself.
            runtime.shutdown_background();
        }
    }
}

/// Wakes the thread only when it sleeps. While it polls, a wake-up merely says: poll once more;
/// through the runtime that would cost a system call each time.
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
        // Rung between the last look and now, by another thread: do not sleep on it.
        if outcome.is_pending() && self.woken.load(Ordering::SeqCst) {
            context.waker().wake_by_ref();
        }
        outcome
    }

    /// Nobody sleeps: requests that are handed over before the next run need wake nobody.
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
