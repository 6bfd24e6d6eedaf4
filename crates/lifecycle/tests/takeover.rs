//! Whose plan may be taken over: a process that runs on this host keeps its own, whatever any clock says.

#![cfg(not(feature = "shuttle"))]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test whose set-up fails has failed, and the panic says where"
)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use actors::{Actor, Assignment, Report, Stop, Workplace};
use plan::{Actors, Caller, Phase, Plan, PlanId, Profile, Refusal, Span};
use planwright_lifecycle::{
    Call, Error, Hands, Happening, LEASE, LeaseWatch, Lifecycle, UseRequest, Worker,
};
use sandbox::{Surroundings, Workshop};
use store::fault::{Fault, FaultPoint, Faults};
use store::{SqliteOptions, SqliteStore};
use testkit::{TestClock, samples};

const AN_HOUR: Span = Span::seconds(3600);

fn ada() -> Call {
    Call::by(Caller::Person("ada".to_owned()))
}

/// One host: a store in a file, and a home.
struct Host(tempfile::TempDir);

impl Host {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn workshop(&self) -> Workshop {
        let surroundings = Surroundings {
            git: "git".into(),
            path: std::env::var_os("PATH"),
            home: Some("/nonexistent".into()),
            config_home: None,
            patience: sandbox::PATIENCE,
        };
        Workshop::new(self.0.path().join("home"), surroundings)
    }

    /// The engine of a process whose clock is ahead by so much.
    fn engine(&self, ahead: Span) -> Lifecycle {
        self.engine_with(ahead, Faults::default())
    }

    fn engine_with(&self, ahead: Span, faults: Faults) -> Lifecycle {
        let clock = TestClock::default();
        clock.advance(ahead);
        let options = SqliteOptions {
            clock: clock.clock(),
            faults,
        };
        let store = SqliteStore::new(self.0.path().join("planwright.db"), options);
        let hands = Hands {
            workshop: self.workshop(),
            host: "here".parse().unwrap(),
        };
        Lifecycle::open(store).with_hands(hands)
    }
}

struct Bot;

impl Actor for Bot {
    fn work(&self, assignment: &Assignment, _: &Workplace<'_>) -> Report {
        Report::done(format!("worked on {}", assignment.goal))
    }

    fn strategizes(&self) -> bool {
        true
    }
}

/// A plan that `owner` holds.
fn held_by(owner: &str, lifecycle: &Lifecycle, lease: Span) -> PlanId {
    let plan = new_plan(lifecycle);
    let claim = lifecycle.claim(Phase::Strategize, owner, lease, &ada());
    assert_eq!(claim.unwrap().unwrap().plan().id, plan);
    plan
}

fn new_plan(lifecycle: &Lifecycle) -> PlanId {
    let request = UseRequest {
        goal: Some("Look around".to_owned()),
        fallback_actors: Some(Actors::both(samples::name("bot"))),
        profile: Some(Profile::Review),
        strategy_wanted: true,
        ..UseRequest::default()
    };
    lifecycle.use_action(request, &ada()).unwrap().plan.id
}

fn plan_of(lifecycle: &Lifecycle, plan: PlanId) -> Plan {
    lifecycle.get_plan(plan).unwrap().plan
}

#[test]
fn a_worker_whose_clock_is_ahead_takes_nothing_from_a_process_that_runs() {
    let host = Host::new();
    let engine = host.engine(Span(0));
    let living = host.workshop().sign_in("living").unwrap();
    let plan = held_by("living", &engine, LEASE);

    let ahead = host.engine(AN_HOUR);
    let worker = Worker::new(&ahead).actor("bot", Bot).owner("hasty");
    assert_eq!(worker.drain(&Stop::default()).unwrap().reclaimed, 0);
    assert!(ahead.reclaim_expired(10, &ada()).unwrap().is_empty());
    for refused in [
        ahead.reclaim(plan, &ada()),
        ahead.reclaim_from_the_gone(plan, &ada()),
    ] {
        let Err(Error::Refused(Refusal::Held { holder, .. })) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(holder.owner, "living");
    }
    assert_eq!(
        plan_of(&engine, plan).stage.holder().unwrap().owner,
        "living"
    );

    // Of a holder that is not known here, the clock decides.
    drop(living);
    assert_eq!(worker.drain(&Stop::default()).unwrap().reclaimed, 1);
}

#[test]
fn a_process_that_does_not_renew_loses_its_plan_whatever_the_clock_says() {
    let host = Host::new();
    let engine = host.engine(Span(0));
    let _stopped = host.workshop().sign_in("stopped").unwrap();
    // By every clock, it runs for another hour.
    let plan = held_by("stopped", &engine, AN_HOUR);
    let worker = Worker::new(&engine)
        .actor("bot", Bot)
        .owner("patient")
        .lease(Span::seconds(1));
    let stop = Stop::default();
    std::thread::scope(|scope| {
        let worked = scope.spawn(|| worker.run(&stop).unwrap());
        let began = Instant::now();
        let is_done = || plan_of(&engine, plan).stage.to_string() == "strategize/complete";
        while !is_done() && began.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(20));
        }
        stop.ask();
        assert!(is_done(), "nobody took it");
        assert_eq!(worked.join().unwrap().reclaimed, 1);
    });
}

/// Whoever renews is not taken for one that hangs, though the one who watches looks for longer than a lease.
#[test]
fn a_process_that_renews_keeps_its_plan_while_it_is_watched() {
    let host = Host::new();
    let engine = host.engine(Span(0));
    let _living = host.workshop().sign_in("living").unwrap();
    let lease = Span(300_000);
    let plan = held_by("living", &engine, lease);
    let epoch = plan_of(&engine, plan).epoch;
    let ahead = host.engine(AN_HOUR);
    let mut watch = LeaseWatch::new(lease);
    let began = Instant::now();
    while began.elapsed() < 3 * lease.as_duration() {
        engine.renew(plan, epoch, lease, &ada()).unwrap();
        assert!(ahead.take_over(plan, &mut watch, &ada()).is_err());
        std::thread::sleep(Duration::from_millis(5));
    }
    let began = Instant::now();
    while ahead.take_over(plan, &mut watch, &ada()).is_err() {
        assert!(began.elapsed() < Duration::from_secs(60), "nobody took it");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(plan_of(&engine, plan).stage.holder().is_none());
}

/// Fills the disk while it works.
struct Fills(Arc<AtomicBool>);

impl Actor for Fills {
    fn work(&self, _: &Assignment, _: &Workplace<'_>) -> Report {
        self.0.store(true, Ordering::SeqCst);
        Report::done("filled the disk")
    }

    fn strategizes(&self) -> bool {
        true
    }
}

/// A worker on a full disk says so and ends, whatever is left of its lease. Once there is room, the plan goes on at once.
#[test]
fn a_full_disk_is_said_and_keeps_nobody_waiting() {
    let host = Host::new();
    let is_full = Arc::new(AtomicBool::new(false));
    let fails = Arc::clone(&is_full);
    let faults = Faults::new(move |at| {
        match at == FaultPoint::BeforeCommit && fails.load(Ordering::SeqCst) {
            true => Fault::Full,
            false => Fault::None,
        }
    });
    let engine = host.engine_with(Span(0), faults);
    let plan = new_plan(&engine);
    let said = Arc::new(Mutex::new(Vec::new()));
    let says = Arc::clone(&said);
    let stop = Stop::default();
    let worker = Worker::new(&engine)
        .actor("bot", Fills(Arc::clone(&is_full)))
        .lease(AN_HOUR)
        .telling(move |_, happening| {
            if let Happening::Retries(what) | Happening::Trouble(what) = happening {
                says.lock().unwrap().push(what.clone());
            }
        });
    let (ended, has_ended) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| ended.send(worker.drain(&stop)));
        let drained = has_ended.recv_timeout(Duration::from_secs(60));
        stop.ask();
        let tally = drained.expect("it waits for ever").unwrap();
        assert!(tally.troubles > 0, "{tally:?}");
    });
    let said = said.lock().unwrap().join("\n");
    assert!(said.contains("no room is left"), "{said}");
    assert_eq!(
        plan_of(&engine, plan).stage.to_string(),
        "strategize/processing"
    );

    is_full.store(false, Ordering::SeqCst);
    let worker = Worker::new(&engine).actor("bot", Bot);
    let tally = worker.drain(&Stop::default()).unwrap();
    assert_eq!(tally.reclaimed, 1);
    assert_eq!(
        plan_of(&engine, plan).stage.to_string(),
        "strategize/complete"
    );
}

/// The worker that found no room goes on by itself when there is some.
#[test]
fn a_worker_goes_on_with_its_own_plan_once_there_is_room() {
    let host = Host::new();
    let engine = host.engine(Span(0));
    let plan = held_by("worker", &engine, AN_HOUR);
    // Held under its name, and nobody works on it.
    let worker = Worker::new(&engine).actor("bot", Bot).owner("worker");
    let tally = worker.drain(&Stop::default()).unwrap();
    assert_eq!((tally.reclaimed, tally.taken), (1, 1));
    assert_eq!(
        plan_of(&engine, plan).stage.to_string(),
        "strategize/complete"
    );
}
