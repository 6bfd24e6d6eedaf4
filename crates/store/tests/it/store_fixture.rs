//! A new store of any kind for one test.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use plan::{Phase, PlanId};
use store::postgres::{PostgresOptions, PostgresStore};
use store::sqlite::{SqliteOptions, SqliteStore};
use store::{CommitError, CommitOutcome, MemoryStore, Store, Submission};
use testkit::{FaultSwitch, PostgresDatabase, SqliteFile, TestClient, TestClock, TestIds};

/// The schema version that this program reads and writes.
pub const SUPPORTED_SCHEMA_VERSION: u32 = 7;

/// A new store with the clock, faults and ids that a test controls.
pub struct StoreFixture {
    backend: FixtureBackend,
    /// The clock of the memory and SQLite stores. PostgreSQL uses its own.
    clock: TestClock,
    /// Makes every handle of this store fail on demand.
    pub faults: FaultSwitch,
    pub ids: Arc<TestIds>,
}

enum FixtureBackend {
    Memory(Arc<MemoryStore>),
    Sqlite(SqliteFile),
    Postgres(PostgresDatabase),
}

impl StoreFixture {
    pub fn memory() -> Self {
        Self::with_backend(|clock, faults| {
            let store = MemoryStore::with_clock_and_faults(clock.to_store_clock(), faults.faults());
            FixtureBackend::Memory(Arc::new(store))
        })
    }

    pub fn sqlite() -> Self {
        Self::with_backend(|_, _| FixtureBackend::Sqlite(SqliteFile::new()))
    }

    pub fn postgres() -> Self {
        Self::with_backend(|_, _| FixtureBackend::Postgres(PostgresDatabase::new()))
    }

    fn with_backend(make_backend: impl FnOnce(&TestClock, &FaultSwitch) -> FixtureBackend) -> Self {
        let (clock, faults) = (TestClock::default(), FaultSwitch::default());
        Self {
            backend: make_backend(&clock, &faults),
            clock,
            faults,
            ids: Arc::new(TestIds::new(1)),
        }
    }

    /// Opens another handle, as another process would. A memory store has only one.
    pub fn open(&self) -> Arc<dyn Store> {
        match &self.backend {
            FixtureBackend::Memory(store) => Arc::<MemoryStore>::clone(store),
            FixtureBackend::Sqlite(file) => {
                let options = SqliteOptions {
                    clock: self.clock.to_store_clock(),
                    faults: self.faults.faults(),
                };
                Arc::new(SqliteStore::new(file.path(), options))
            }
            FixtureBackend::Postgres(database) => {
                let options = PostgresOptions {
                    faults: self.faults.faults(),
                    ..PostgresOptions::default()
                };
                Arc::new(PostgresStore::new(&database.url(), options).unwrap())
            }
        }
    }

    /// Returns a client with its own handle.
    pub fn client(&self) -> TestClient {
        TestClient::new(self.open(), Arc::clone(&self.ids))
    }

    /// Runs a statement directly on the database and returns the first column of its rows.
    ///
    /// # Panics
    ///
    /// For a memory store, which has no database.
    pub fn sql(&self, statement: &str) -> Vec<String> {
        match &self.backend {
            FixtureBackend::Memory(_) => panic!("a memory store speaks no SQL"),
            FixtureBackend::Sqlite(file) => file.run_sql(statement),
            FixtureBackend::Postgres(database) => {
                database.run_sql(&format!("SET search_path TO planwright; {statement}"))
            }
        }
    }

    /// Runs a function in several threads over a few handles and returns the results. All threads
    /// start at once.
    pub fn race<T: Send>(
        &self,
        threads: usize,
        run: impl Fn(usize, &TestClient) -> T + Sync,
    ) -> Vec<T> {
        let handles: Vec<TestClient> = (0..4).map(|_| self.client()).collect();
        let start = std::sync::Barrier::new(threads);
        thread::scope(|scope| {
            let running: Vec<_> = (0..threads)
                .map(|number| {
                    let client = handles[number % handles.len()].as_worker(&format!("w{number}"));
                    let (start, run) = (&start, &run);
                    scope.spawn(move || {
                        start.wait();
                        run(number, &client)
                    })
                })
                .collect();
            running
                .into_iter()
                .map(|thread| {
                    thread
                        .join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
                .collect()
        })
    }
}

/// Runs a function while other threads run `watch` in a loop. They start before it and stop after
/// it, even if it panics.
pub fn watched(watchers: usize, watch: impl Fn() + Sync, run: impl FnOnce()) {
    let (started_count, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let watch_until_over = || {
        watch();
        started_count.fetch_add(1, Ordering::SeqCst);
        while !over.load(Ordering::SeqCst) {
            watch();
        }
    };
    thread::scope(|scope| {
        let watching: Vec<_> = (0..watchers)
            .map(|_| scope.spawn(watch_until_over))
            .collect();
        let failed = || watching.iter().any(thread::ScopedJoinHandle::is_finished);
        while started_count.load(Ordering::SeqCst) < watchers && !failed() {
            thread::yield_now();
        }
        let ran = std::panic::catch_unwind(AssertUnwindSafe(run));
        over.store(true, Ordering::SeqCst);
        if let Err(panic) = ran {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Commits, and runs another function in a second thread during the decision. Also returns whether
/// that function ended before the decision did.
pub fn commit_while(
    client: &TestClient,
    mut submission: Submission,
    meanwhile: impl FnOnce() + Send + 'static,
) -> (Result<CommitOutcome, CommitError>, bool) {
    let over = Arc::new(AtomicBool::new(false));
    let over_in_time = Arc::new(AtomicBool::new(false));
    let running = Arc::new(Mutex::new(None));
    let mut decide = submission.decide;
    let mut meanwhile = Some(meanwhile);
    submission.decide = Box::new({
        let (over, over_in_time) = (Arc::clone(&over), Arc::clone(&over_in_time));
        let running = Arc::clone(&running);
        move |facts, now| {
            let decision = decide(facts, now);
            // The decision may run again; the other function runs once.
            if let Some(meanwhile) = meanwhile.take() {
                let over_in_thread = Arc::clone(&over);
                *running.lock().unwrap() = Some(thread::spawn(move || {
                    meanwhile();
                    over_in_thread.store(true, Ordering::SeqCst);
                }));
                // Long enough for a function that nothing blocks.
                let started = Instant::now();
                while started.elapsed() < Duration::from_millis(300) && !over.load(Ordering::SeqCst)
                {
                    thread::sleep(Duration::from_millis(5));
                }
                over_in_time.store(over.load(Ordering::SeqCst), Ordering::SeqCst);
            }
            decision
        }
    });
    let answer = client.store().commit(submission);
    if let Some(thread) = running.lock().unwrap().take() {
        thread.join().unwrap();
    }
    (answer, over_in_time.load(Ordering::SeqCst))
}

/// Returns the claimable plans of a phase, in order.
pub fn due(store: &dyn Store, phase: Phase) -> Vec<PlanId> {
    let due = store.list_due_plans(phase, None, 1000).unwrap();
    due.into_iter().map(|due| due.plan_id).collect()
}
