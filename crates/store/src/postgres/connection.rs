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

use super::pipeline::{Pipeline, Value};
use super::trouble::{Trouble, corrupt, is_passing, refused, unreachable, unusable};
use crate::StoreError;
use crate::sync::{Mutex, lock};

/// How long a transaction may sit idle before the server ends it: the process that opened it is
/// stopped or gone, and others wait for its locks. Also bounds how long a lost COMMIT can stay
/// unsettled.
const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(10);

/// How long we go on knocking at a server that is starting up or has no room.
const KNOCKING: Duration = Duration::from_secs(10);

/// The oldest server that has what `tail.rs` needs.
const OLDEST_SERVER: u32 = 130_000;

/// What every connection is made with.
pub(super) struct Dial {
    /// Where.
    pub address: super::address::Address,
    /// How it is encrypted.
    pub tls: MakeRustlsConnect,
    /// The store's schema.
    pub schema: String,
    /// How long a statement or a lock may take.
    pub patience: Duration,
}

/// A connection that is set up for this store.
pub(super) struct Connection {
    /// Sends statements. Dropped first: that makes the wire say farewell.
    session: Session,
    /// Moves bytes.
    wire: Wire,
    /// The identity of the server (see `tail.rs`); 0 if it does not tell.
    pub system: i64,
    /// The store's schema.
    pub schema: String,
    /// When it was last put away.
    pub idle_since: Instant,
}

struct Session {
    client: Client,
    prepared: HashMap<&'static str, Statement>,
}

type Transport =
    tokio_postgres::Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

struct Wire {
    // `None` only while dropping.
    runtime: Option<Runtime>,
    // `None` once the connection has ended. Dropping it tells every request that still waits.
    transport: Option<Transport>,
    alarm: Arc<Alarm>,
    notified: bool,
    limit: Duration,
    usual_limit: Duration,
    place: String,
}

/// How a transaction is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    /// Keep what it did.
    Commit,
    /// Undo it.
    Rollback,
}

/// How the last exchange of a transaction went.
pub(super) struct Conclusion {
    /// What was sent last.
    pub last: Last,
    /// The answers to the calls, and behind them the one to `last`; or that none came.
    pub answers: Result<Answers, Trouble>,
}

/// A statement with its parameters.
pub(super) type Call<'a> = (&'static str, Vec<Value<'a>>);

/// The answers to some statements, in their order.
pub(super) type Answers = Vec<Result<Vec<Row>, tokio_postgres::Error>>;

impl Connection {
    /// Connects and sets the session up.
    pub fn open(dial: &Dial) -> Result<Self, StoreError> {
        let place = &dial.address.place;
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|error| unreachable(place, error.to_string()))?;
        let (client, transport) = runtime.block_on(knock(dial))?;
        // The server gives up first, if it is there.
        let limit = dial.patience + Duration::from_secs(15);
        let mut connection = Self {
            session: Session {
                client,
                prepared: HashMap::new(),
            },
            wire: Wire {
                runtime: Some(runtime),
                transport: Some(transport),
                alarm: Arc::default(),
                notified: false,
                limit,
                usual_limit: limit,
                place: place.clone(),
            },
            system: 0,
            schema: dial.schema.clone(),
            idle_since: Instant::now(),
        };
        connection.set_up(dial).map_err(Trouble::into_error)?;
        Ok(connection)
    }

    /// From now on waits this long for an answer; `None` as long as it usually does.
    pub fn set_limit(&mut self, limit: Option<Duration>) {
        self.wire.limit = limit.unwrap_or(self.wire.usual_limit);
    }

    /// Is it known to be dead?
    pub fn is_closed(&self) -> bool {
        self.session.client.is_closed()
    }

    /// Prepares what was not prepared on this connection before, all in one round trip.
    pub fn prepare(
        &mut self,
        statements: impl IntoIterator<Item = &'static str>,
    ) -> Result<(), Trouble> {
        let Self { session, wire, .. } = self;
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
        wire.run(poll_fn(|context| {
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
            let statement = result.map_err(|error| Trouble::of(&error, &wire.place))?;
            session.prepared.insert(sql, statement);
        }
        Ok(())
    }

    /// Sends `first`, the calls and `last` in one go. What goes wrong with each is in its answer; what
    /// is returned instead went wrong before anything was sent, or is the end of the connection.
    fn exchange(
        &mut self,
        first: Option<&'static str>,
        calls: Vec<Call<'_>>,
        last: Option<&'static str>,
    ) -> Result<Answers, Trouble> {
        self.prepare(calls.iter().map(|(sql, _)| *sql))?;
        let Self { session, wire, .. } = self;
        let mut pipeline = Pipeline::new(&session.client);
        if let Some(command) = first {
            pipeline.command(command);
        }
        session.send(&mut pipeline, calls);
        if let Some(command) = last {
            pipeline.command(command);
        }
        wire.run(pipeline.answers())
    }

    /// As [`Self::exchange`]; the rows, or the first thing that went wrong.
    pub fn rows(
        &mut self,
        first: Option<&'static str>,
        calls: Vec<Call<'_>>,
        last: Option<&'static str>,
    ) -> Result<Vec<Vec<Row>>, Trouble> {
        let answers = self.exchange(first, calls, last)?;
        answers
            .into_iter()
            .map(|answer| answer.map_err(|error| self.trouble(&error)))
            .collect()
    }

    /// Sends the calls, all of them prepared before, and behind them what `last` then says.
    ///
    /// If some call could not even be sent, `last` is not asked and the transaction is rolled back.
    pub fn conclude(&mut self, calls: Vec<Call<'_>>, last: impl FnOnce() -> Last) -> Conclusion {
        let Self { session, wire, .. } = self;
        let mut pipeline = Pipeline::new(&session.client);
        session.send(&mut pipeline, calls);
        let last = if pipeline.is_whole() {
            last()
        } else {
            Last::Rollback
        };
        pipeline.command(match last {
            Last::Commit => "COMMIT",
            Last::Rollback => "ROLLBACK",
        });
        Conclusion {
            last,
            answers: wire.run(pipeline.answers()),
        }
    }

    /// One prepared statement outside of any transaction.
    pub fn query(
        &mut self,
        sql: &'static str,
        values: Vec<Value<'_>>,
    ) -> Result<Vec<Row>, Trouble> {
        let mut rows = self.rows(None, vec![(sql, values)], None)?;
        Ok(rows.pop().expect("BUG: one statement, one answer"))
    }

    /// Several statements without parameters, as one unit if they say so themselves.
    pub fn batch(&mut self, sql: &str) -> Result<(), Trouble> {
        let Self { session, wire, .. } = self;
        let answer = wire.run(session.client.batch_execute(sql))?;
        answer.map_err(|error| self.trouble(&error))
    }

    /// What an error on this connection means.
    pub fn trouble(&self, error: &tokio_postgres::Error) -> Trouble {
        Trouble::of(error, &self.wire.place)
    }

    /// Waits until a notification arrived; `false` if `stop` was called first.
    pub fn notified(&mut self, stop: &Notify) -> Result<bool, Trouble> {
        self.wire.listen(stop)
    }

    fn set_up(&mut self, dial: &Dial) -> Result<(), Trouble> {
        let patience = dial.patience.as_millis();
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
            schema = dial.schema,
            statement = patience + 5_000,
            idle = IDLE_IN_TRANSACTION.as_millis(),
        );
        const ASKED: &str =
            "SELECT current_setting('server_version_num'), current_setting('server_encoding')";
        let full =
            format!("{settings}{ASKED}, (SELECT system_identifier FROM pg_control_system())");
        let said = match self.simple(&full) {
            // Somebody took that function from the public. 0 is no server's identity.
            Err(Trouble::Final(StoreError::Unusable { .. })) => {
                self.simple(&format!("{settings}{ASKED}, 0"))?
            }
            said => said?,
        };
        let place = &dial.address.place;
        let [version, encoding, system] = said.as_slice() else {
            return Err(Trouble::Final(corrupt(
                place,
                "the server does not say what it is",
            )));
        };
        if version
            .parse::<u32>()
            .is_ok_and(|version| version < OLDEST_SERVER)
        {
            let why = format!("PostgreSQL 13 or newer is needed; this is {version}");
            return Err(Trouble::Final(unusable(place, why)));
        }
        if encoding != "UTF8" {
            let why = format!("its encoding is {encoding}; make the database with UTF8");
            return Err(Trouble::Final(unusable(place, why)));
        }
        self.system = system.parse().unwrap_or_default();
        Ok(())
    }

    /// The columns of the last row some statements without parameters returned.
    fn simple(&mut self, sql: &str) -> Result<Vec<String>, Trouble> {
        let Self { session, wire, .. } = self;
        let answer = wire.run(session.client.simple_query(sql))?;
        let messages = answer.map_err(|error| self.trouble(&error))?;
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

async fn knock(dial: &Dial) -> Result<(Client, Transport), StoreError> {
    let address = &dial.address;
    let until = Instant::now() + KNOCKING;
    loop {
        let attempt = address.config.connect(dial.tls.clone());
        // The driver bounds the connecting itself, but not the greeting that follows.
        let limit = address
            .config
            .get_connect_timeout()
            .map_or(KNOCKING, |limit| *limit * 2);
        let Ok(result) = tokio::time::timeout(limit, attempt).await else {
            return Err(unreachable(
                &address.place,
                "it accepts connections but does not answer".to_owned(),
            ));
        };
        match result {
            Ok(connected) => return Ok(connected),
            Err(error) if is_passing(&error) && Instant::now() < until => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Err(error) => return Err(refused(&error, &address.place)),
        }
    }
}

impl Session {
    fn send<'a>(&'a self, pipeline: &mut Pipeline<'a>, calls: Vec<Call<'a>>) {
        for (sql, values) in calls {
            let statement = self.prepared.get(sql).expect("BUG: it was prepared before");
            pipeline.send(statement, values);
        }
    }
}

impl Wire {
    /// Drives the connection until the future is ready.
    fn run<T>(&mut self, future: impl Future<Output = T>) -> Result<T, Trouble> {
        let Self {
            runtime,
            transport,
            alarm,
            notified,
            limit,
            place,
            ..
        } = self;
        let runtime = runtime
            .as_ref()
            .expect("BUG: only dropping takes the runtime");
        let mut future = pin!(future);
        let driven = poll_fn(|context| {
            alarm.poll(context, |context| {
                loop {
                    if let Poll::Ready(value) = future.as_mut().poll(context) {
                        return Poll::Ready(value);
                    }
                    if transport.is_none() || !drive(transport, context, notified) {
                        return Poll::Pending;
                    }
                }
            })
        });
        let driven = runtime.block_on(async { tokio::time::timeout(*limit, driven).await });
        alarm.rest();
        match driven {
            Ok(value) => Ok(value),
            Err(_) => {
                // The answers may still come, and nobody would know what they answer.
                *transport = None;
                let why = "the server stopped answering".to_owned();
                Err(Trouble::Lost(unreachable(place, why)))
            }
        }
    }

    fn listen(&mut self, stop: &Notify) -> Result<bool, Trouble> {
        let Self {
            runtime,
            transport,
            alarm,
            notified,
            place,
            ..
        } = self;
        let runtime = runtime
            .as_ref()
            .expect("BUG: only dropping takes the runtime");
        let mut stopped = pin!(stop.notified());
        let heard = runtime.block_on(poll_fn(|context| {
            alarm.poll(context, |context| {
                let ended = transport.is_none() || drive(transport, context, notified);
                if std::mem::take(notified) {
                    Poll::Ready(Ok(true))
                } else if stopped.as_mut().poll(context).is_ready() {
                    Poll::Ready(Ok(false))
                } else if ended {
                    let why = "the connection was closed".to_owned();
                    Poll::Ready(Err(Trouble::Lost(unreachable(place, why))))
                } else {
                    Poll::Pending
                }
            })
        }));
        alarm.rest();
        heard
    }
}

/// Sends and reads as much as can be without waiting; `true` if the connection has ended now.
fn drive(
    transport: &mut Option<Transport>,
    context: &mut Context<'_>,
    notified: &mut bool,
) -> bool {
    let Some(open) = transport else { return true };
    loop {
        match open.poll_message(context) {
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

impl Drop for Wire {
    fn drop(&mut self) {
        // The session is gone by now, so all there is to send is a farewell, as far as it goes out
        // without waiting.
        drive(
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
struct Alarm {
    rung: AtomicBool,
    polling: AtomicBool,
    sleeper: Mutex<Option<Waker>>,
}

impl Alarm {
    fn poll<T>(
        self: &Arc<Self>,
        context: &mut Context<'_>,
        mut once: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let waker = Waker::from(Arc::clone(self));
        let mut inner = Context::from_waker(&waker);
        lock(&self.sleeper).replace(context.waker().clone());
        self.polling.store(true, Ordering::SeqCst);
        let outcome = loop {
            self.rung.store(false, Ordering::SeqCst);
            let polled = once(&mut inner);
            if polled.is_ready() || !self.rung.load(Ordering::SeqCst) {
                break polled;
            }
        };
        self.polling.store(false, Ordering::SeqCst);
        // Rung between the last look and now, by another thread: do not sleep on it.
        if outcome.is_pending() && self.rung.load(Ordering::SeqCst) {
            context.waker().wake_by_ref();
        }
        outcome
    }

    /// Nobody sleeps: requests that are handed over before the next run need wake nobody.
    fn rest(&self) {
        lock(&self.sleeper).take();
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Ordering::SeqCst);
        if !self.polling.load(Ordering::SeqCst)
            && let Some(sleeper) = &*lock(&self.sleeper)
        {
            sleeper.wake_by_ref();
        }
    }
}
