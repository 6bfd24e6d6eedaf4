//! Workers with actors of this program: each phase's result is taken once, and nothing is started that
//! the profile does not let start.

#![cfg(not(feature = "shuttle"))]
#![allow(
    clippy::unwrap_used,
    reason = "a test whose set-up fails has failed, and the panic says where"
)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use actors::{Actor, Assignment, Outcome, Report, Stop, Workplace};
use plan::stage::{Category, StateName};
use plan::{Actors, Caller, Phase, PlanId, Profile, Span, Timestamp};
use planwright_lifecycle::{Call, Crew, Lifecycle, UseRequest, Worker};
use store::fault::{Fault, FaultPoint, Faults};
use store::{MemoryStore, PlanFilter, SqliteOptions, SqliteStore};
use testkit::clock::TestClock;
use testkit::samples;

fn ada() -> Call {
    Call::by(Caller::Person("ada".to_owned()))
}

/// How often each attempt was run.
type Runs = BTreeMap<(PlanId, Phase, u32), usize>;

/// Counts its runs by plan, phase and attempt, and answers what it is told to.
#[derive(Clone)]
struct Counting {
    runs: Arc<Mutex<Runs>>,
    answers: Outcome,
    strategizes: bool,
}

impl Counting {
    fn answering(answers: Outcome) -> Self {
        Self {
            runs: Arc::default(),
            answers,
            strategizes: false,
        }
    }

    fn runs(&self) -> Runs {
        self.runs.lock().unwrap().clone()
    }
}

impl Actor for Counting {
    fn work(&self, assignment: &Assignment, workplace: &Workplace<'_>) -> Report {
        let key = (assignment.plan, assignment.phase, assignment.attempt);
        *self.runs.lock().unwrap().entry(key).or_default() += 1;
        if self.answers == Outcome::Stopped {
            workplace.stop.wait(Duration::from_secs(30));
        }
        Report {
            summary: Some(format!("worked on {}", assignment.goal)),
            ..Report::of(self.answers.clone())
        }
    }

    fn strategizes(&self) -> bool {
        self.strategizes
    }
}

fn used(lifecycle: &Lifecycle, profile: Profile) -> PlanId {
    let request = UseRequest {
        goal: Some("Look around".to_owned()),
        fallback_actors: Some(Actors::both(samples::name("bot"))),
        profile: Some(profile),
        ..UseRequest::default()
    };
    lifecycle.use_action(request, &ada()).unwrap().plan.id
}

fn stage(lifecycle: &Lifecycle, plan: PlanId) -> String {
    lifecycle.get_plan(plan).unwrap().plan.stage.to_string()
}

fn worker(lifecycle: &Lifecycle, actor: &Counting) -> Worker {
    Worker::new(lifecycle).actor("bot", actor.clone())
}

#[test]
fn a_worker_goes_as_far_as_the_profile_lets_it_and_no_further() {
    for (profile, expected) in [
        (Profile::Manual, "strategize/queued"),
        (Profile::Supervised, "strategize/complete"),
        (Profile::Review, "apply/applied"),
        (Profile::Auto, "apply/applied"),
    ] {
        let lifecycle = Lifecycle::open(MemoryStore::new());
        let plan = used(&lifecycle, profile);
        let actor = Counting::answering(Outcome::Done);
        worker(&lifecycle, &actor).drain(&Stop::default()).unwrap();
        assert_eq!(stage(&lifecycle, plan), expected, "{profile}");
    }
}

#[test]
fn what_nobody_here_can_work_on_hides_nothing_behind_it() {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let stranger = || UseRequest {
        goal: Some("Look around".to_owned()),
        fallback_actors: Some(Actors::both(samples::name("stranger"))),
        ..UseRequest::default()
    };
    // More than a worker looks at in one go, and in two.
    for _ in 0..2_100 {
        lifecycle.use_action(stranger(), &ada()).unwrap();
    }
    let actor = Counting::answering(Outcome::Done);
    let worker = worker(&lifecycle, &actor).concurrency(4);
    let first = used(&lifecycle, Profile::Review);
    worker.once(&Stop::default()).unwrap();
    assert_eq!(stage(&lifecycle, first), "apply/applied");
    let others = [(); 3].map(|()| used(&lifecycle, Profile::Review));
    worker.drain(&Stop::default()).unwrap();
    for plan in others {
        assert_eq!(stage(&lifecycle, plan), "apply/applied");
    }
    let last = used(&lifecycle, Profile::Review);
    let stop = Stop::default();
    std::thread::scope(|scope| {
        let working = scope.spawn(|| worker.run(&stop).unwrap());
        // Each of the others is tried once before it; how long that takes is the machine's business.
        let patience = Instant::now() + Duration::from_secs(600);
        while stage(&lifecycle, last) != "apply/applied" && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(20));
        }
        stop.ask();
        working.join().unwrap();
    });
    assert_eq!(stage(&lifecycle, last), "apply/applied");
}

#[test]
fn an_actor_without_a_strategy_of_its_own_is_not_started_for_one() {
    for (strategizes, expected) in [
        (false, vec![Phase::Execute]),
        (true, vec![Phase::Strategize, Phase::Execute]),
    ] {
        let lifecycle = Lifecycle::open(MemoryStore::new());
        let plan = used(&lifecycle, Profile::Review);
        let actor = Counting {
            strategizes,
            ..Counting::answering(Outcome::Done)
        };
        worker(&lifecycle, &actor).drain(&Stop::default()).unwrap();
        let phases: Vec<Phase> = actor.runs().keys().map(|(_, phase, _)| *phase).collect();
        assert_eq!(phases, expected);
        let said: Vec<String> = lifecycle
            .decisions(plan)
            .unwrap()
            .iter()
            .map(|node| node.choice.to_string())
            .collect();
        let strategy = strategizes.then_some("worked on Look around".to_owned());
        assert_eq!(said.get(1).cloned(), strategy);
    }
}

#[test]
fn whoever_is_not_in_the_crew_is_waited_for() {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let plan = used(&lifecycle, Profile::Review);
    let tally = Worker::new(&lifecycle)
        .crew(Crew::default())
        .drain(&Stop::default())
        .unwrap();
    assert_eq!(tally.taken, 0);
    assert_eq!(stage(&lifecycle, plan), "strategize/queued");
}

#[test]
fn what_an_actor_says_decides_where_the_plan_halts() {
    let failed = |category| Outcome::Failed {
        category,
        message: "it rained".to_owned(),
    };
    let asks = Outcome::Asks {
        question: "Which way?".to_owned(),
        patience: None,
    };
    for (outcome, expected) in [
        (failed(Category::Actor), "execute/errored"),
        (failed(Category::Transient), "execute/queued"),
        (asks, "execute/awaiting_input"),
    ] {
        let lifecycle = Lifecycle::open(MemoryStore::new());
        let plan = used(&lifecycle, Profile::Review);
        let actor = Counting::answering(outcome.clone());
        worker(&lifecycle, &actor).drain(&Stop::default()).unwrap();
        assert_eq!(stage(&lifecycle, plan), expected, "{outcome:?}");
        assert_eq!(actor.runs().len(), 1);
    }
}

#[test]
fn an_actor_that_panics_fails_its_plan_and_not_the_worker() {
    struct Panics;
    impl Actor for Panics {
        fn work(&self, _: &Assignment, _: &Workplace<'_>) -> Report {
            panic!("as it was told to");
        }
    }
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let plan = used(&lifecycle, Profile::Review);
    let worker = Worker::new(&lifecycle).actor("bot", Panics);
    assert_eq!(worker.drain(&Stop::default()).unwrap().taken, 1);
    let row = lifecycle.get_plan(plan).unwrap();
    let failure = row.plan.stage.failure().unwrap();
    assert_eq!(failure.category, Category::Internal);
    let message = failure.message.as_str();
    assert_eq!(message, "the actor panicked: as it was told to");
}

#[test]
fn cancelling_reaches_a_running_actor_before_its_lease_is_renewed() {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let plan = used(&lifecycle, Profile::Review);
    let actor = Counting::answering(Outcome::Stopped);
    std::thread::scope(|scope| {
        let working = scope.spawn(|| worker(&lifecycle, &actor).drain(&Stop::default()).unwrap());
        while actor.runs().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let cancelled = Instant::now();
        lifecycle.cancel(plan, None, &ada()).unwrap();
        working.join().unwrap();
        assert!(cancelled.elapsed() < Duration::from_secs(8));
    });
    assert_eq!(stage(&lifecycle, plan), "execute/cancelled");
}

#[test]
fn a_worker_that_is_asked_to_stop_gives_its_plan_back() {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let plan = used(&lifecycle, Profile::Review);
    let actor = Counting::answering(Outcome::Stopped);
    let stop = Stop::default();
    std::thread::scope(|scope| {
        let working = scope.spawn(|| worker(&lifecycle, &actor).run(&stop).unwrap());
        while actor.runs().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.ask();
        working.join().unwrap();
    });
    let row = lifecycle.get_plan(plan).unwrap();
    assert_eq!(row.plan.stage.to_string(), "execute/queued");
    assert_eq!(row.plan.attempt, 1, "giving back is not an attempt");
}

#[test]
fn an_expired_lease_is_taken_over_and_the_old_holder_hands_in_nothing() {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let plan = used(&lifecycle, Profile::Review);
    lifecycle
        .start_strategize(plan, "sleeper", Span(1), &ada())
        .unwrap()
        .complete_strategize(Vec::new())
        .unwrap();
    lifecycle.execute_plan(plan, &ada()).unwrap();
    let asleep = lifecycle
        .start_execute(plan, "sleeper", Span(1), &ada())
        .unwrap();
    let actor = Counting::answering(Outcome::Done);
    worker(&lifecycle, &actor).drain(&Stop::default()).unwrap();
    assert_eq!(stage(&lifecycle, plan), "apply/applied");
    assert!(asleep.complete_execute(&Default::default()).is_err());
}

/// Sleeps so long that its lease is over, as on a machine that stood still.
struct Dozing(TestClock);

impl Actor for Dozing {
    fn work(&self, _: &Assignment, _: &Workplace<'_>) -> Report {
        self.0.advance(Span::seconds(3600));
        // Meanwhile the worker looks for the gone.
        std::thread::sleep(Duration::from_millis(2500));
        Report::of(Outcome::Done)
    }
}

#[test]
fn a_worker_takes_nothing_from_itself() {
    let clock = TestClock::at(Timestamp(1_750_000_000_000_000));
    let lifecycle = Lifecycle::open(MemoryStore::with(clock.clock(), Faults::default()));
    let plan = used(&lifecycle, Profile::Review);
    let worker = Worker::new(&lifecycle).actor("bot", Dozing(clock));
    let tally = worker.concurrency(2).drain(&Stop::default()).unwrap();
    assert_eq!(tally.reclaimed, 0);
    assert_eq!(stage(&lifecycle, plan), "apply/applied");
}

#[test]
fn many_workers_take_each_result_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("planwright.db");
    let open = || Lifecycle::open(SqliteStore::new(&path, SqliteOptions::default()));
    let lifecycle = open();
    let plans: Vec<PlanId> = (0..60).map(|_| used(&lifecycle, Profile::Review)).collect();
    let actor = Counting::answering(Outcome::Done);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            // A store of its own each, as processes have.
            scope.spawn(|| {
                let lifecycle = open();
                let worker = worker(&lifecycle, &actor).concurrency(3);
                worker.drain(&Stop::default()).unwrap();
            });
        }
    });
    let runs = actor.runs();
    assert_eq!(runs.len(), plans.len());
    assert!(runs.values().all(|count| *count == 1), "{runs:?}");
    for plan in plans {
        assert_eq!(stage(&lifecycle, plan), "apply/applied");
    }
    let left = PlanFilter {
        state: Some(StateName::Processing),
        ..PlanFilter::default()
    };
    assert!(lifecycle.list_plans(&left, None, 10).unwrap().is_empty());
}

/// A store whose writing fails at a point while it is away, and an actor that ends when it goes away.
struct Away {
    _directory: tempfile::TempDir,
    lifecycle: Lifecycle,
    is_away: Arc<AtomicBool>,
    actor: Counting,
}

impl Away {
    fn at(point: FaultPoint) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let is_away = Arc::new(AtomicBool::new(false));
        let fails = Arc::clone(&is_away);
        let options = SqliteOptions {
            faults: Faults::new(
                move |at| match at == point && fails.load(Ordering::SeqCst) {
                    true => Fault::Fail,
                    false => Fault::None,
                },
            ),
            ..SqliteOptions::default()
        };
        let store = SqliteStore::new(directory.path().join("planwright.db"), options);
        Self {
            _directory: directory,
            lifecycle: Lifecycle::open(store),
            is_away,
            actor: Counting::answering(Outcome::Done),
        }
    }

    /// A worker whose claims hold for longer than the test.
    fn worker(&self) -> Worker {
        let (actor, is_away) = (self.actor.clone(), Arc::clone(&self.is_away));
        let goes_away = GoesAway { actor, is_away };
        Worker::new(&self.lifecycle)
            .actor("bot", goes_away)
            .lease(Span::seconds(600))
    }

    fn await_the_run(&self) {
        while !self.is_away.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

struct GoesAway {
    actor: Counting,
    is_away: Arc<AtomicBool>,
}

impl Actor for GoesAway {
    fn work(&self, assignment: &Assignment, workplace: &Workplace<'_>) -> Report {
        let report = self.actor.work(assignment, workplace);
        self.is_away.store(true, Ordering::SeqCst);
        report
    }
}

#[test]
fn what_was_worked_out_is_handed_in_once_the_store_is_back() {
    for point in [
        FaultPoint::Decided,
        FaultPoint::BeforeCommit,
        FaultPoint::AfterCommit,
    ] {
        let away = Away::at(point);
        let plan = used(&away.lifecycle, Profile::Review);
        let tally = std::thread::scope(|scope| {
            let working = scope.spawn(|| away.worker().drain(&Stop::default()).unwrap());
            away.await_the_run();
            std::thread::sleep(Duration::from_millis(600));
            away.is_away.store(false, Ordering::SeqCst);
            working.join().unwrap()
        });
        assert_eq!(tally.troubles, 0, "{point:?}");
        assert_eq!(away.actor.runs().len(), 1, "{point:?}");
        assert_eq!(stage(&away.lifecycle, plan), "apply/applied", "{point:?}");
    }
}

#[test]
fn a_worker_that_is_asked_to_stop_waits_for_no_store() {
    let away = Away::at(FaultPoint::BeforeCommit);
    let plan = used(&away.lifecycle, Profile::Review);
    let stop = Stop::default();
    let began = Instant::now();
    let tally = std::thread::scope(|scope| {
        let working = scope.spawn(|| away.worker().run(&stop).unwrap());
        away.await_the_run();
        stop.ask();
        working.join().unwrap()
    });
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(tally.troubles, 1);
    assert_eq!(stage(&away.lifecycle, plan), "execute/processing");
}

#[test]
fn questions_whose_time_is_over_are_given_up() {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let plan = used(&lifecycle, Profile::Review);
    let asks = Outcome::Asks {
        question: "Which way?".to_owned(),
        patience: Some(Span(1)),
    };
    let actor = Counting::answering(asks);
    worker(&lifecycle, &actor).drain(&Stop::default()).unwrap();
    assert_eq!(stage(&lifecycle, plan), "execute/errored");
    let row = lifecycle.get_plan(plan).unwrap();
    assert_eq!(
        row.plan.stage.failure().unwrap().category,
        Category::Unanswered
    );
}

#[test]
fn a_plan_that_was_left_between_two_phases_is_taken_further() {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let plan = used(&lifecycle, Profile::Review);
    lifecycle
        .start_strategize(plan, "gone", Span::seconds(60), &ada())
        .unwrap()
        .complete_strategize(Vec::new())
        .unwrap();
    let actor = Counting::answering(Outcome::Done);
    worker(&lifecycle, &actor).drain(&Stop::default()).unwrap();
    assert_eq!(stage(&lifecycle, plan), "apply/applied");
}

#[test]
fn a_second_fleet_disturbs_nothing() {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let plan = used(&lifecycle, Profile::Review);
    let (working, idle) = (Counting::answering(Outcome::Stopped), AtomicUsize::new(0));
    let stop = Stop::default();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| worker(&lifecycle, &working).run(&stop).unwrap());
        while working.runs().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let second = Counting::answering(Outcome::Done);
        let tally = worker(&lifecycle, &second).drain(&Stop::default()).unwrap();
        idle.store(second.runs().len(), Ordering::SeqCst);
        assert_eq!((tally.taken, tally.reclaimed), (0, 0));
        assert_eq!(stage(&lifecycle, plan), "execute/processing");
        stop.ask();
        first.join().unwrap();
    });
    assert_eq!(idle.load(Ordering::SeqCst), 0);
}
