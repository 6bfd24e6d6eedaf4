//! Takeovers: a process that runs on this host keeps its plan, whatever the clocks say.

#![allow(clippy::disallowed_methods, reason = "tests run programs directly")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use actors::{Actor, Assignment, Report, Stop, Workplace};
use plan::command::RenewLease;
use plan::{Caller, Phase, Plan, PlanActors, PlanId, Profile, Refusal, Span};
use planwright_lifecycle::{
    Call, DEFAULT_LEASE, DriveProgress, LeaseWatch, Lifecycle, LifecycleError, LocalHost,
    UseRequest, Worker,
};
use sandbox::{GitEnv, Sandboxes};
use store::fault::{FaultPoint, StoreFault, StoreFaults};
use store::{SqliteOptions, SqliteStore};
use testkit::{TestClock, samples};

const ONE_HOUR: Span = Span::from_seconds(3600);

fn call_as_ada() -> Call {
    Call::by(Caller::Person("ada".to_owned()))
}

/// One host with a SQLite store and a home directory.
struct HostFixture(tempfile::TempDir);

impl HostFixture {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn make_sandboxes(&self) -> Sandboxes {
        let git_env = GitEnv {
            program: "git".into(),
            path: std::env::var_os("PATH"),
            home: Some("/nonexistent".into()),
            config_home: None,
            timeout: sandbox::GIT_TIMEOUT,
            stop: None,
        };
        Sandboxes::new(self.0.path().join("home"), git_env)
    }

    /// Opens the engine of a process whose clock is ahead by this much.
    fn open_engine(&self, ahead: Span) -> Lifecycle {
        self.open_engine_with_faults(ahead, StoreFaults::default())
    }

    fn open_engine_with_faults(&self, ahead: Span, faults: StoreFaults) -> Lifecycle {
        let clock = TestClock::default();
        clock.advance(ahead);
        let options = SqliteOptions {
            clock: clock.to_store_clock(),
            faults,
        };
        let store = SqliteStore::new(self.0.path().join("planwright.db"), options);
        let local_host = LocalHost {
            sandboxes: self.make_sandboxes(),
            host: "here".parse().unwrap(),
        };
        Lifecycle::open(store).with_local_host(local_host)
    }
}

struct ReportingActor;

impl Actor for ReportingActor {
    fn work(&self, assignment: &Assignment, _: &Workplace<'_>) -> Report {
        Report::done(format!("worked on {}", assignment.goal))
    }

    fn strategizes(&self) -> bool {
        true
    }
}

fn create_held_plan(owner: &str, lifecycle: &Lifecycle, lease: Span) -> PlanId {
    let plan_id = create_plan(lifecycle);
    let claim = lifecycle
        .claims()
        .claim_next(Phase::Strategize, owner, lease, &call_as_ada());
    assert_eq!(claim.unwrap().unwrap().plan().id(), plan_id);
    plan_id
}

fn create_plan(lifecycle: &Lifecycle) -> PlanId {
    let request = UseRequest {
        goal: Some("Look around".to_owned()),
        fallback_actors: Some(PlanActors::for_both_phases(samples::parse_name("bot"))),
        profile: Some(Profile::Review),
        strategy_wanted: true,
        ..UseRequest::default()
    };
    lifecycle
        .use_action(request, &call_as_ada())
        .unwrap()
        .plan
        .id()
}

fn read_plan(lifecycle: &Lifecycle, plan_id: PlanId) -> Plan {
    lifecycle.get_plan(plan_id).unwrap().plan
}

#[test]
fn a_worker_with_a_fast_clock_does_not_reclaim_from_a_live_process() {
    let host = HostFixture::new();
    let engine = host.open_engine(Span(0));
    let living = host
        .make_sandboxes()
        .processes()
        .register_presence("living")
        .unwrap();
    let plan_id = create_held_plan("living", &engine, DEFAULT_LEASE);

    let ahead = host.open_engine(ONE_HOUR);
    let worker = Worker::new(&ahead)
        .actor("bot", ReportingActor)
        .owner("hasty");
    assert_eq!(worker.drain(&Stop::default()).unwrap().leases_reclaimed, 0);
    assert!(
        ahead
            .leases()
            .reclaim_expired_leases(10, &call_as_ada())
            .unwrap()
            .is_empty()
    );
    for refused in [
        ahead.leases().reclaim_lease(plan_id, &call_as_ada()),
        ahead
            .leases()
            .reclaim_from_dead_holder(plan_id, &call_as_ada()),
    ] {
        let Err(LifecycleError::Refused(Refusal::Held { holder, .. })) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(holder.owner, "living");
    }
    assert_eq!(
        read_plan(&engine, plan_id).stage().holder().unwrap().owner,
        "living"
    );

    // For a holder that is not registered here, the clock decides.
    drop(living);
    assert_eq!(worker.drain(&Stop::default()).unwrap().leases_reclaimed, 1);
}

#[test]
fn a_live_process_that_does_not_renew_loses_its_plan() {
    let host = HostFixture::new();
    let engine = host.open_engine(Span(0));
    let _stopped = host
        .make_sandboxes()
        .processes()
        .register_presence("stopped")
        .unwrap();
    // Its lease is valid for another hour.
    let plan_id = create_held_plan("stopped", &engine, ONE_HOUR);
    let worker = Worker::new(&engine)
        .actor("bot", ReportingActor)
        .owner("patient")
        .lease(Span::from_seconds(1));
    let stop = Stop::default();
    std::thread::scope(|scope| {
        let worked = scope.spawn(|| worker.run(&stop).unwrap());
        let began = Instant::now();
        let is_done = || read_plan(&engine, plan_id).stage().to_string() == "strategize/complete";
        while !is_done() && began.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(20));
        }
        stop.request();
        assert!(is_done(), "the plan was not taken over");
        assert_eq!(worked.join().unwrap().leases_reclaimed, 1);
    });
}

/// A process that renews does not count as hanging, even if it is watched for longer than a lease.
#[test]
fn a_process_that_renews_keeps_its_plan_while_it_is_watched() {
    let host = HostFixture::new();
    let engine = host.open_engine(Span(0));
    let _living = host
        .make_sandboxes()
        .processes()
        .register_presence("living")
        .unwrap();
    let lease = Span(300_000);
    let plan_id = create_held_plan("living", &engine, lease);
    let epoch = read_plan(&engine, plan_id).epoch();
    let ahead = host.open_engine(ONE_HOUR);
    let mut watch = LeaseWatch::new(lease);
    let began = Instant::now();
    while began.elapsed() < 3 * lease.as_duration() {
        engine
            .submit_command(plan_id, RenewLease::new(epoch, lease), &call_as_ada())
            .unwrap();
        assert!(
            ahead
                .leases()
                .take_over_lease(plan_id, &mut watch, &call_as_ada())
                .is_err()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    let began = Instant::now();
    while ahead
        .leases()
        .take_over_lease(plan_id, &mut watch, &call_as_ada())
        .is_err()
    {
        assert!(began.elapsed() < Duration::from_secs(60), "not taken over");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(read_plan(&engine, plan_id).stage().holder().is_none());
}

/// Makes the store run out of space when it works.
struct DiskFillingActor(Arc<AtomicBool>);

impl Actor for DiskFillingActor {
    fn work(&self, _: &Assignment, _: &Workplace<'_>) -> Report {
        self.0.store(true, Ordering::SeqCst);
        Report::done("filled the disk")
    }

    fn strategizes(&self) -> bool {
        true
    }
}

/// A worker on a full disk reports it and ends before its lease does. Once space is free, the plan continues at once.
#[test]
fn a_full_disk_is_reported_and_does_not_block_the_plan() {
    let host = HostFixture::new();
    let is_full = Arc::new(AtomicBool::new(false));
    let fails = Arc::clone(&is_full);
    let faults = StoreFaults::new(move |at| {
        match at == FaultPoint::BeforeCommit && fails.load(Ordering::SeqCst) {
            true => StoreFault::Full,
            false => StoreFault::None,
        }
    });
    let engine = host.open_engine_with_faults(Span(0), faults);
    let plan_id = create_plan(&engine);
    let messages = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&messages);
    let stop = Stop::default();
    let worker = Worker::new(&engine)
        .actor("bot", DiskFillingActor(Arc::clone(&is_full)))
        .lease(ONE_HOUR)
        .on_progress(move |_, progress| {
            if let DriveProgress::Retrying(text) | DriveProgress::EngineFailure(text) = progress {
                sink.lock().unwrap().push(text.clone());
            }
        });
    let (ended, has_ended) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| ended.send(worker.drain(&stop)));
        let drained = has_ended.recv_timeout(Duration::from_secs(60));
        stop.request();
        let stats = drained.expect("the worker never ended").unwrap();
        assert!(stats.errors > 0, "{stats:?}");
    });
    let messages = messages.lock().unwrap().join("\n");
    assert!(messages.contains("no space left"), "{messages}");
    assert_eq!(
        read_plan(&engine, plan_id).stage().to_string(),
        "strategize/processing"
    );

    is_full.store(false, Ordering::SeqCst);
    let worker = Worker::new(&engine).actor("bot", ReportingActor);
    let stats = worker.drain(&Stop::default()).unwrap();
    assert_eq!(stats.leases_reclaimed, 1);
    assert_eq!(
        read_plan(&engine, plan_id).stage().to_string(),
        "strategize/complete"
    );
}

/// After a full disk, the worker itself continues its plan once space is free.
#[test]
fn a_worker_reclaims_its_own_plan_that_no_thread_works_on() {
    let host = HostFixture::new();
    let engine = host.open_engine(Span(0));
    let plan_id = create_held_plan("worker", &engine, ONE_HOUR);
    // Held under the worker's name, but no thread works on it.
    let worker = Worker::new(&engine)
        .actor("bot", ReportingActor)
        .owner("worker");
    let stats = worker.drain(&Stop::default()).unwrap();
    assert_eq!((stats.leases_reclaimed, stats.plans_driven), (1, 1));
    assert_eq!(
        read_plan(&engine, plan_id).stage().to_string(),
        "strategize/complete"
    );
}
