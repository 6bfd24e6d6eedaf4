//! Runs the clients in one thread on virtual time. Store, clock, clients, crashes and faults follow from one seed, so a
//! failing schedule can be repeated.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use fastrand::Rng;
use lifecycle::{Call, Lifecycle};
use plan::{Caller, Span, Timestamp};
use store::fault::FaultPoint;
use store::{Clock, Cursor, MemoryStore, Store, StoreError, Submission};
use testkit::{FaultSwitch, samples};

use crate::call_generator::CallGenerator;
use crate::check::{self, HARNESS_CALLER, StoreContents, Violation};
use crate::drain_plans::drain_plans;
use crate::history::{CallHistory, HistoryLine};
use crate::hooked_store::{HookedStore, StoreHooks};
use crate::library_client::{self, ACTION_NAME};

/// The number of clients of a schedule.
const CLIENT_COUNT: u32 = 4;

/// A store whose clock and faults the schedule controls.
pub struct SimulatedStore {
    store: Arc<dyn Store>,
    time: VirtualTime,
    faults: FaultSwitch,
}

/// Time that only advances when the schedule says so.
#[derive(Clone)]
struct VirtualTime(Arc<AtomicI64>);

impl VirtualTime {
    fn to_clock(&self) -> Clock {
        let now = Arc::clone(&self.0);
        Clock::new(move || Timestamp(now.load(Ordering::Relaxed)))
    }

    fn advance_by(&self, span: Span) {
        self.0.fetch_add(span.0, Ordering::Relaxed);
    }
}

/// The start of 2030, in microseconds since 1970.
const START_TIME: i64 = 1_893_456_000_000_000;

impl SimulatedStore {
    /// Creates a memory store.
    pub fn in_memory() -> Self {
        Self::open_with(|clock, faults| {
            Arc::new(MemoryStore::with_clock_and_faults(clock, faults.faults()))
        })
    }

    /// Uses the store that `open_store` returns. Decisions use virtual time even if that store has a clock of its own.
    pub fn open_with(open_store: impl FnOnce(Clock, &FaultSwitch) -> Arc<dyn Store>) -> Self {
        let time = VirtualTime(Arc::new(AtomicI64::new(START_TIME)));
        let faults = FaultSwitch::default();
        let store = open_store(time.to_clock(), &faults);
        let store = Arc::new(HookedStore::new(store, time.clone()));
        Self {
            store,
            time,
            faults,
        }
    }

    /// The same store with additional hooks.
    #[must_use]
    pub fn with_hooks(self, hooks: impl StoreHooks + 'static) -> Self {
        Self {
            store: Arc::new(HookedStore::new(self.store, hooks)),
            ..self
        }
    }

    pub fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }
}

impl StoreHooks for VirtualTime {
    fn edit_submission(&self, mut submission: Submission) -> Submission {
        let mut decide = submission.decide;
        let clock = self.to_clock();
        submission.decide = Box::new(move |facts, _| decide(facts, clock.now()));
        submission
    }
}

/// The recorded history of a schedule, the final store contents and the violations.
pub struct ScheduleOutcome {
    pub history: CallHistory,
    pub stored: StoreContents,
    pub violations: Vec<Violation>,
}

/// Runs the schedule of a seed for a number of steps.
pub fn run_schedule(
    simulated: &SimulatedStore,
    seed: u64,
    steps: usize,
) -> Result<ScheduleOutcome, lifecycle::LifecycleError> {
    let mut random = Rng::with_seed(seed);
    let ids = std::sync::Mutex::new(Rng::with_seed(seed ^ 0x5eed));
    let lifecycle = Lifecycle::on(Arc::clone(&simulated.store)).with_ids(
        simulated.time.to_clock(),
        move || {
            ids.lock()
                .expect("BUG: no holder of this lock panics")
                .u128(..)
        },
    );
    let harness_call = Call::by(Caller::Person(HARNESS_CALLER.to_owned()));
    lifecycle
        .actions()
        .create_action(samples::reusable_action(ACTION_NAME), &harness_call)?;
    let mut runner = ScheduleRunner {
        simulated,
        lifecycle: &lifecycle,
        history: CallHistory::default(),
        ticks: 0,
        clients: (0..CLIENT_COUNT)
            .map(|number| (0, CallGenerator::new(number, 0, seed, false)))
            .collect(),
        seed,
        cursor: Cursor::START,
    };
    for _ in 0..steps {
        match random.u32(..20) {
            0 => drop(runner.read_log_page(random.usize(1..6))?),
            1 => simulated.time.advance_by(Span(random.i64(1..2_000_000))),
            _ => {
                simulated.time.advance_by(Span(1000));
                runner.make_call(&mut random);
            }
        }
    }
    let stuck = drain_plans(&lifecycle, &mut || {
        simulated.time.advance_by(Span::from_seconds(30));
    })?;
    while runner.read_log_page(100)? {}
    let stored = StoreContents::read_store(simulated.store())?;
    let mut violations = check::check_history(&runner.history, &stored);
    violations.extend(stuck);
    Ok(ScheduleOutcome {
        history: runner.history,
        stored,
        violations,
    })
}

struct ScheduleRunner<'a> {
    simulated: &'a SimulatedStore,
    lifecycle: &'a Lifecycle,
    history: CallHistory,
    /// A logical clock for the history: one tick per call and per answer.
    ticks: u64,
    /// The incarnation and the generator of each client.
    clients: Vec<(u32, CallGenerator)>,
    seed: u64,
    /// The position of the log reader.
    cursor: Cursor,
}

impl ScheduleRunner<'_> {
    /// Makes one call of a random client. Sometimes the store fails, and sometimes the client dies before the answer.
    fn make_call(&mut self, random: &mut Rng) {
        let number = random.usize(..self.clients.len());
        let call = self.clients[number].1.next_call();
        let called = HistoryLine::Called {
            at: self.next_tick(),
            call: call.clone(),
        };
        self.add_line(called);
        if random.u32(..12) == 0 {
            let points = [
                FaultPoint::Decided,
                FaultPoint::BeforeCommit,
                FaultPoint::AfterCommit,
            ];
            self.simulated.faults.arm(points[random.usize(..3)]);
        }
        let answer = library_client::perform_call(self.lifecycle, &call);
        self.simulated.faults.disarm();
        if random.u32(..40) == 0 {
            let (incarnation, generator) = &mut self.clients[number];
            *incarnation += 1;
            *generator = CallGenerator::new(
                u32::try_from(number).unwrap_or(0),
                *incarnation,
                self.seed,
                false,
            );
            return;
        }
        self.clients[number].1.record_answer(&call, &answer);
        let answered = HistoryLine::Answered {
            at: self.next_tick(),
            call_id: call.id,
            answer,
        };
        self.add_line(answered);
    }

    /// Lets the log reader read a page; returns whether its cursor advanced.
    fn read_log_page(&mut self, limit: usize) -> Result<bool, StoreError> {
        let page = self.simulated.store.read_events(&self.cursor, limit)?;
        let events: Vec<_> = page
            .events
            .iter()
            .map(|stored| (stored.recorded.plan, stored.recorded.version.0))
            .collect();
        let advanced = page.next != self.cursor;
        self.cursor = page.next;
        self.add_line(HistoryLine::Read {
            reader: 0,
            events,
            next: String::new(),
        });
        Ok(advanced)
    }

    fn next_tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }

    fn add_line(&mut self, line: HistoryLine) {
        self.history
            .add_line(line)
            .expect("BUG: the runner writes a consistent history");
    }
}
