//! One fresh store under test, whichever of the three it is.

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

/// A fresh store with what a test holds on to: its clock, its faults, its ids.
pub struct Bench {
    place: Place,
    /// The clock of the stores that have none of their own. PostgreSQL's goes its own way.
    clock: TestClock,
    /// Makes every handle of this store fail on demand.
    pub faults: FaultSwitch,
    /// Where ids come from.
    pub ids: Arc<TestIds>,
}

enum Place {
    Memory(Arc<MemoryStore>),
    Sqlite(SqliteFile),
    Postgres(PostgresDatabase),
}

impl Bench {
    /// In memory.
    pub fn memory() -> Self {
        Self::at(|clock, faults| {
            let store = MemoryStore::with_clock_and_faults(clock.to_store_clock(), faults.faults());
            Place::Memory(Arc::new(store))
        })
    }

    /// In a SQLite file.
    pub fn sqlite() -> Self {
        Self::at(|_, _| Place::Sqlite(SqliteFile::new()))
    }

    /// In a PostgreSQL database.
    pub fn postgres() -> Self {
        Self::at(|_, _| Place::Postgres(PostgresDatabase::new()))
    }

    fn at(place: impl FnOnce(&TestClock, &FaultSwitch) -> Place) -> Self {
        let (clock, faults) = (TestClock::default(), FaultSwitch::default());
        Self {
            place: place(&clock, &faults),
            clock,
            faults,
            ids: Arc::new(TestIds::new(1)),
        }
    }

    /// Opens the store once more, as another process would. A memory store has one handle only.
    pub fn open(&self) -> Arc<dyn Store> {
        match &self.place {
            Place::Memory(store) => Arc::<MemoryStore>::clone(store),
            Place::Sqlite(file) => {
                let options = SqliteOptions {
                    clock: self.clock.to_store_clock(),
                    faults: self.faults.faults(),
                };
                Arc::new(SqliteStore::new(file.path(), options))
            }
            Place::Postgres(database) => {
                let options = PostgresOptions {
                    faults: self.faults.faults(),
                    ..PostgresOptions::default()
                };
                Arc::new(PostgresStore::new(&database.url(), options).unwrap())
            }
        }
    }

    /// A person at a handle of their own.
    pub fn client(&self) -> TestClient {
        TestClient::new(self.open(), Arc::clone(&self.ids))
    }

    /// Runs a statement on the database behind the store's back, and gives the first column of its
    /// rows.
    ///
    /// # Panics
    ///
    /// For a memory store, which nothing is behind.
    pub fn sql(&self, statement: &str) -> Vec<String> {
        match &self.place {
            Place::Memory(_) => panic!("a memory store speaks no SQL"),
            Place::Sqlite(file) => file.run_sql(statement),
            Place::Postgres(database) => {
                database.run_sql(&format!("SET search_path TO planwright; {statement}"))
            }
        }
    }

    /// Runs the same thing in so many threads at once, spread over a few handles, and gives what
    /// each came to. They are let go together.
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

/// Runs something while others watch it in threads of their own, each over and over until it is done.
/// They have begun before it does, and end with it, also if it fails.
pub fn watched(watchers: usize, watch: impl Fn() + Sync, run: impl FnOnce()) {
    let (begun, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let keep_watching = || {
        watch();
        begun.fetch_add(1, Ordering::SeqCst);
        while !over.load(Ordering::SeqCst) {
            watch();
        }
    };
    thread::scope(|scope| {
        let watching: Vec<_> = (0..watchers).map(|_| scope.spawn(keep_watching)).collect();
        let failed = || watching.iter().any(thread::ScopedJoinHandle::is_finished);
        while begun.load(Ordering::SeqCst) < watchers && !failed() {
            thread::yield_now();
        }
        let ran = std::panic::catch_unwind(AssertUnwindSafe(run));
        over.store(true, Ordering::SeqCst);
        if let Err(panic) = ran {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Commits, and while the decision is being made does something else in another thread. Also tells
/// whether that was over before the decision was.
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
            // A decision may be made again; the rest happens once.
            if let Some(meanwhile) = meanwhile.take() {
                let told = Arc::clone(&over);
                *running.lock().unwrap() = Some(thread::spawn(move || {
                    meanwhile();
                    told.store(true, Ordering::SeqCst);
                }));
                // Long enough for what nothing holds up.
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

/// The plans of a phase that may be claimed, in the order they are to be.
pub fn due(store: &dyn Store, phase: Phase) -> Vec<PlanId> {
    let due = store.list_due_plans(phase, None, 1000).unwrap();
    due.into_iter().map(|due| due.plan_id).collect()
}
