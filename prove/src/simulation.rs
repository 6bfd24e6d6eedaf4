//! The same players in one thread on virtual time: store, clock, players, crashes and faults all follow
//! from one seed, so that a schedule that fails can be played again.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use fastrand::Rng;
use lifecycle::{Call, Lifecycle};
use plan::{Caller, Span, Timestamp};
use store::fault::FaultPoint;
use store::{Clock, Cursor, MemoryStore, Store, StoreError, Submission};
use testkit::{FaultSwitch, samples};

use crate::check::{self, REFEREE, Stored, Violation};
use crate::drain::drain;
use crate::history::{History, Line};
use crate::library::{self, ACTION};
use crate::player::Player;
use crate::wrapped::{Doors, Wrapped};

/// Players of a schedule.
const PLAYERS: u32 = 4;

/// Where a schedule is played: a store whose clock and faults are in our hands.
pub struct Stage {
    store: Arc<dyn Store>,
    time: VirtualTime,
    faults: FaultSwitch,
}

/// Time that passes only when the schedule says so, however often a store looks at it.
#[derive(Clone)]
struct VirtualTime(Arc<AtomicI64>);

impl VirtualTime {
    fn clock(&self) -> Clock {
        let now = Arc::clone(&self.0);
        Clock::new(move || Timestamp(now.load(Ordering::Relaxed)))
    }

    fn pass(&self, span: Span) {
        self.0.fetch_add(span.0, Ordering::Relaxed);
    }
}

/// Some moment of 2030.
const BEGINNING: i64 = 1_893_456_000_000_000;

impl Stage {
    /// In memory.
    pub fn in_memory() -> Self {
        Self::on(|clock, faults| {
            Arc::new(MemoryStore::with_clock_and_faults(clock, faults.faults()))
        })
    }

    /// On the store that `open` makes. Whatever clock it has, decisions are made on ours.
    pub fn on(open: impl FnOnce(Clock, &FaultSwitch) -> Arc<dyn Store>) -> Self {
        let time = VirtualTime(Arc::new(AtomicI64::new(BEGINNING)));
        let faults = FaultSwitch::default();
        let store = Arc::new(Wrapped::new(open(time.clock(), &faults), time.clone()));
        Self {
            store,
            time,
            faults,
        }
    }

    /// The same stage, with a store around its store.
    #[must_use]
    pub fn with_doors(self, doors: impl Doors + 'static) -> Self {
        Self {
            store: Arc::new(Wrapped::new(self.store, doors)),
            ..self
        }
    }

    /// The store.
    pub fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }
}

impl Doors for VirtualTime {
    fn submission(&self, mut submission: Submission) -> Submission {
        let mut decide = submission.decide;
        let clock = self.clock();
        submission.decide = Box::new(move |facts, _| decide(facts, clock.now()));
        submission
    }
}

/// What came of a schedule.
pub struct Played {
    /// Who did what.
    pub history: History,
    /// What is stored in the end.
    pub stored: Stored,
    /// What is wrong.
    pub violations: Vec<Violation>,
}

/// Plays so many steps of the schedule with this seed.
pub fn play(stage: &Stage, seed: u64, steps: usize) -> Result<Played, lifecycle::LifecycleError> {
    let mut random = Rng::with_seed(seed);
    let ids = std::sync::Mutex::new(Rng::with_seed(seed ^ 0x5eed));
    let lifecycle = Lifecycle::on(Arc::clone(&stage.store))
        .with_ids(stage.time.clock(), move || {
            ids.lock().expect("BUG: nobody panics in here").u128(..)
        });
    let referee = Call::by(Caller::Person(REFEREE.to_owned()));
    lifecycle.create_action(samples::reusable_action(ACTION), &referee)?;
    let mut table = Table {
        stage,
        lifecycle: &lifecycle,
        history: History::default(),
        moment: 0,
        players: (0..PLAYERS)
            .map(|number| (0, Player::new(number, 0, seed, false)))
            .collect(),
        seed,
        cursor: Cursor::START,
    };
    for _ in 0..steps {
        match random.u32(..20) {
            0 => drop(table.read(random.usize(1..6))?),
            1 => stage.time.pass(Span(random.i64(1..2_000_000))),
            _ => {
                stage.time.pass(Span(1000));
                table.turn(&mut random);
            }
        }
    }
    let stuck = drain(&lifecycle, &mut || stage.time.pass(Span::from_seconds(30)))?;
    while table.read(100)? {}
    let stored = Stored::read(stage.store())?;
    let mut violations = check::check(&table.history, &stored);
    violations.extend(stuck);
    Ok(Played {
        history: table.history,
        stored,
        violations,
    })
}

struct Table<'a> {
    stage: &'a Stage,
    lifecycle: &'a Lifecycle,
    history: History,
    /// Counts what happens; stands for the time.
    moment: u64,
    /// Each with the number of its life.
    players: Vec<(u32, Player)>,
    seed: u64,
    cursor: Cursor,
}

impl Table<'_> {
    /// One player makes a call; perhaps the store fails, perhaps the player dies before it hears.
    fn turn(&mut self, random: &mut Rng) {
        let number = random.usize(..self.players.len());
        let call = self.players[number].1.next();
        let called = Line::Called {
            at: self.tick(),
            call: call.clone(),
        };
        self.take(called);
        if random.u32(..12) == 0 {
            let points = [
                FaultPoint::Decided,
                FaultPoint::BeforeCommit,
                FaultPoint::AfterCommit,
            ];
            self.stage.faults.arm(points[random.usize(..3)]);
        }
        let answer = library::perform(self.lifecycle, &call);
        self.stage.faults.disarm();
        if random.u32(..40) == 0 {
            let (life, player) = &mut self.players[number];
            *life += 1;
            *player = Player::new(u32::try_from(number).unwrap_or(0), *life, self.seed, false);
            return;
        }
        self.players[number].1.learn(&call, &answer);
        let answered = Line::Answered {
            at: self.tick(),
            id: call.id,
            answer,
        };
        self.take(answered);
    }

    /// The reader reads a page. Did it see anything?
    fn read(&mut self, limit: usize) -> Result<bool, StoreError> {
        let page = self.stage.store.read_events(&self.cursor, limit)?;
        let events: Vec<_> = page
            .events
            .iter()
            .map(|stored| (stored.recorded.plan, stored.recorded.version.0))
            .collect();
        let went_on = page.next != self.cursor;
        self.cursor = page.next;
        self.take(Line::Read {
            reader: 0,
            events,
            next: String::new(),
        });
        Ok(went_on)
    }

    fn tick(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    fn take(&mut self, line: Line) {
        self.history
            .take(line)
            .expect("BUG: the table writes its own history");
    }
}
