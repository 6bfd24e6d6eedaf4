//! Workers with built-in actors: each result is stored once, and nothing starts that the profile does not
//! allow.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use actors::{Actor, Assignment, Report, ReportOutcome, RunProgress, Stop, Workplace};
use plan::stage::{FailureCategory, StateName};
use plan::transcript::TranscriptContent;
use plan::{Caller, Phase, PlanActors, PlanId, Profile, Span, Timestamp};
use planwright_lifecycle::{ActorSet, Call, DriveProgress, Lifecycle, UseRequest, Worker};
use store::fault::{FaultPoint, StoreFault, StoreFaults};
use store::{MemoryStore, PlanFilter, SqliteOptions, SqliteStore};
use testkit::clock::TestClock;
use testkit::samples;

fn call_as_ada() -> Call {
    Call::by(Caller::Person("ada".to_owned()))
}

/// How often each attempt was run.
type RunCounts = BTreeMap<(PlanId, Phase, u32), usize>;

/// Counts its runs by plan, phase and attempt, and returns a fixed outcome.
#[derive(Clone)]
struct CountingActor {
    runs: Arc<Mutex<RunCounts>>,
    outcome: ReportOutcome,
    strategizes: bool,
}

impl CountingActor {
    fn with_outcome(outcome: ReportOutcome) -> Self {
        Self {
            runs: Arc::default(),
            outcome,
            strategizes: false,
        }
    }

    fn run_counts(&self) -> RunCounts {
        self.runs.lock().unwrap().clone()
    }
}

impl Actor for CountingActor {
    fn work(&self, assignment: &Assignment, workplace: &Workplace<'_>) -> Report {
        let key = (assignment.plan, assignment.phase, assignment.attempt);
        *self.runs.lock().unwrap().entry(key).or_default() += 1;
        if self.outcome == ReportOutcome::Stopped {
            workplace.stop.wait_for_request(Duration::from_secs(30));
        }
        Report {
            summary: Some(format!("worked on {}", assignment.goal)),
            ..Report::with_outcome(self.outcome.clone())
        }
    }

    fn strategizes(&self) -> bool {
        self.strategizes
    }
}

fn create_plan(lifecycle: &Lifecycle, profile: Profile) -> PlanId {
    let request = UseRequest {
        goal: Some("Look around".to_owned()),
        fallback_actors: Some(PlanActors::for_both_phases(samples::parse_name("bot"))),
        profile: Some(profile),
        ..UseRequest::default()
    };
    lifecycle
        .use_action(request, &call_as_ada())
        .unwrap()
        .plan
        .id()
}

fn read_stage(lifecycle: &Lifecycle, plan_id: PlanId) -> String {
    lifecycle
        .get_plan(plan_id)
        .unwrap()
        .plan
        .stage()
        .to_string()
}

fn make_worker(lifecycle: &Lifecycle, actor: &CountingActor) -> Worker {
    Worker::new(lifecycle).actor("bot", actor.clone())
}

#[test]
fn a_worker_stops_where_the_profile_requires_a_person() {
    for (profile, expected) in [
        (Profile::Manual, "strategize/queued"),
        (Profile::Supervised, "strategize/complete"),
        (Profile::Review, "apply/applied"),
        (Profile::Auto, "apply/applied"),
    ] {
        let lifecycle = Lifecycle::open(MemoryStore::new());
        let plan_id = create_plan(&lifecycle, profile);
        let actor = CountingActor::with_outcome(ReportOutcome::Done);
        make_worker(&lifecycle, &actor)
            .drain(&Stop::default())
            .unwrap();
        assert_eq!(read_stage(&lifecycle, plan_id), expected, "{profile}");
    }
}

#[test]
fn plans_without_an_available_actor_do_not_hide_others() {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let unavailable = || UseRequest {
        goal: Some("Look around".to_owned()),
        fallback_actors: Some(PlanActors::for_both_phases(samples::parse_name("stranger"))),
        ..UseRequest::default()
    };
    // More plans than one scan reads, or two.
    for _ in 0..2_100 {
        lifecycle.use_action(unavailable(), &call_as_ada()).unwrap();
    }
    let actor = CountingActor::with_outcome(ReportOutcome::Done);
    let worker = make_worker(&lifecycle, &actor).concurrency(4);
    let first = create_plan(&lifecycle, Profile::Review);
    worker.run_once(&Stop::default()).unwrap();
    assert_eq!(read_stage(&lifecycle, first), "apply/applied");
    let others = [(); 3].map(|()| create_plan(&lifecycle, Profile::Review));
    worker.drain(&Stop::default()).unwrap();
    for plan in others {
        assert_eq!(read_stage(&lifecycle, plan), "apply/applied");
    }
    let last = create_plan(&lifecycle, Profile::Review);
    let stop = Stop::default();
    std::thread::scope(|scope| {
        let working = scope.spawn(|| worker.run(&stop).unwrap());
        // All others are tried once before it, so the deadline is generous.
        let deadline = Instant::now() + Duration::from_secs(600);
        while read_stage(&lifecycle, last) != "apply/applied" && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        stop.request();
        working.join().unwrap();
    });
    assert_eq!(read_stage(&lifecycle, last), "apply/applied");
}

#[test]
fn an_actor_that_does_not_strategize_runs_only_in_execute() {
    for (strategizes, expected) in [
        (false, vec![Phase::Execute]),
        (true, vec![Phase::Strategize, Phase::Execute]),
    ] {
        let lifecycle = Lifecycle::open(MemoryStore::new());
        let plan_id = create_plan(&lifecycle, Profile::Review);
        let actor = CountingActor {
            strategizes,
            ..CountingActor::with_outcome(ReportOutcome::Done)
        };
        make_worker(&lifecycle, &actor)
            .drain(&Stop::default())
            .unwrap();
        let phases: Vec<Phase> = actor
            .run_counts()
            .keys()
            .map(|(_, phase, _)| *phase)
            .collect();
        assert_eq!(phases, expected);
        let choices: Vec<String> = lifecycle
            .history()
            .read_decisions(plan_id)
            .unwrap()
            .iter()
            .map(|node| node.choice.to_string())
            .collect();
        let strategy = strategizes.then_some("worked on Look around".to_owned());
        assert_eq!(choices.get(1).cloned(), strategy);
    }
}

#[test]
fn a_plan_waits_for_an_actor_that_is_not_available() {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let plan_id = create_plan(&lifecycle, Profile::Review);
    let stats = Worker::new(&lifecycle)
        .actor_set(ActorSet::default())
        .drain(&Stop::default())
        .unwrap();
    assert_eq!(stats.plans_driven, 0);
    assert_eq!(read_stage(&lifecycle, plan_id), "strategize/queued");
}

#[test]
fn the_outcome_of_a_report_decides_the_state_of_the_plan() {
    let failed = |category| ReportOutcome::Failed {
        category,
        message: "it rained".to_owned(),
    };
    let asks = ReportOutcome::NeedsAnswer {
        question: "Which way?".to_owned(),
        timeout: None,
    };
    for (outcome, expected) in [
        (failed(FailureCategory::Actor), "execute/errored"),
        (failed(FailureCategory::Transient), "execute/queued"),
        (asks, "execute/awaiting_input"),
    ] {
        let lifecycle = Lifecycle::open(MemoryStore::new());
        let plan_id = create_plan(&lifecycle, Profile::Review);
        let actor = CountingActor::with_outcome(outcome.clone());
        make_worker(&lifecycle, &actor)
            .drain(&Stop::default())
            .unwrap();
        assert_eq!(read_stage(&lifecycle, plan_id), expected, "{outcome:?}");
        assert_eq!(actor.run_counts().len(), 1);
    }
}

#[test]
fn a_panic_of_an_actor_fails_its_plan_but_not_the_worker() {
    struct PanickingActor;
    impl Actor for PanickingActor {
        fn work(&self, _: &Assignment, _: &Workplace<'_>) -> Report {
            panic!("by design");
        }
    }
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let plan_id = create_plan(&lifecycle, Profile::Review);
    let worker = Worker::new(&lifecycle).actor("bot", PanickingActor);
    assert_eq!(worker.drain(&Stop::default()).unwrap().plans_driven, 1);
    let row = lifecycle.get_plan(plan_id).unwrap();
    let failure = row.plan.stage().failure().unwrap();
    assert_eq!(failure.category, FailureCategory::Internal);
    let message = failure.message.as_str();
    assert_eq!(message, "the agent panicked: by design");
}

#[test]
fn cancelling_reaches_a_running_actor_before_its_lease_is_renewed() {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let plan_id = create_plan(&lifecycle, Profile::Review);
    let actor = CountingActor::with_outcome(ReportOutcome::Stopped);
    std::thread::scope(|scope| {
        let working = scope.spawn(|| {
            make_worker(&lifecycle, &actor)
                .drain(&Stop::default())
                .unwrap()
        });
        while actor.run_counts().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let cancelled = Instant::now();
        lifecycle
            .cancel_plan(plan_id, None, &call_as_ada())
            .unwrap();
        working.join().unwrap();
        assert!(cancelled.elapsed() < Duration::from_secs(8));
    });
    assert_eq!(read_stage(&lifecycle, plan_id), "execute/cancelled");
}

#[test]
fn a_stopped_worker_releases_its_plan() {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let plan_id = create_plan(&lifecycle, Profile::Review);
    let actor = CountingActor::with_outcome(ReportOutcome::Stopped);
    let stop = Stop::default();
    std::thread::scope(|scope| {
        let working = scope.spawn(|| make_worker(&lifecycle, &actor).run(&stop).unwrap());
        while actor.run_counts().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.request();
        working.join().unwrap();
    });
    let row = lifecycle.get_plan(plan_id).unwrap();
    assert_eq!(row.plan.stage().to_string(), "execute/queued");
    assert_eq!(row.plan.attempt(), 1, "a release is not an attempt");
}

#[test]
fn an_expired_lease_is_taken_over_and_the_old_holder_is_refused() {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let plan_id = create_plan(&lifecycle, Profile::Review);
    lifecycle
        .claims()
        .start_strategize(plan_id, "sleeper", Span(1), &call_as_ada())
        .unwrap()
        .complete_strategize(Vec::new())
        .unwrap();
    lifecycle.execute_plan(plan_id, &call_as_ada()).unwrap();
    let sleeping_claim = lifecycle
        .claims()
        .start_execute(plan_id, "sleeper", Span(1), &call_as_ada())
        .unwrap();
    let actor = CountingActor::with_outcome(ReportOutcome::Done);
    make_worker(&lifecycle, &actor)
        .drain(&Stop::default())
        .unwrap();
    assert_eq!(read_stage(&lifecycle, plan_id), "apply/applied");
    assert!(
        sleeping_claim
            .complete_execute(&Default::default())
            .is_err()
    );
}

/// Sleeps until its lease has expired, as on a suspended machine.
struct OversleepingActor(TestClock);

impl Actor for OversleepingActor {
    fn work(&self, _: &Assignment, _: &Workplace<'_>) -> Report {
        self.0.advance(Span::from_seconds(3600));
        // Meanwhile the worker looks for dead holders.
        std::thread::sleep(Duration::from_millis(2500));
        Report::with_outcome(ReportOutcome::Done)
    }
}

#[test]
fn a_worker_does_not_reclaim_its_own_running_plan() {
    let clock = TestClock::starting_at(Timestamp(1_750_000_000_000_000));
    let lifecycle = Lifecycle::open(MemoryStore::with_clock_and_faults(
        clock.to_store_clock(),
        StoreFaults::default(),
    ));
    let plan_id = create_plan(&lifecycle, Profile::Review);
    let worker = Worker::new(&lifecycle).actor("bot", OversleepingActor(clock));
    let stats = worker.concurrency(2).drain(&Stop::default()).unwrap();
    assert_eq!(stats.leases_reclaimed, 0);
    assert_eq!(read_stage(&lifecycle, plan_id), "apply/applied");
}

#[test]
fn many_workers_run_each_plan_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("planwright.db");
    let open = || Lifecycle::open(SqliteStore::new(&path, SqliteOptions::default()));
    let lifecycle = open();
    let plans: Vec<PlanId> = (0..60)
        .map(|_| create_plan(&lifecycle, Profile::Review))
        .collect();
    let actor = CountingActor::with_outcome(ReportOutcome::Done);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            // Each worker has its own store, as separate processes do.
            scope.spawn(|| {
                let lifecycle = open();
                let worker = make_worker(&lifecycle, &actor).concurrency(3);
                worker.drain(&Stop::default()).unwrap();
            });
        }
    });
    let runs = actor.run_counts();
    assert_eq!(runs.len(), plans.len());
    assert!(runs.values().all(|count| *count == 1), "{runs:?}");
    for plan in plans {
        assert_eq!(read_stage(&lifecycle, plan), "apply/applied");
    }
    let left = PlanFilter {
        state: Some(StateName::Processing),
        ..PlanFilter::default()
    };
    assert!(lifecycle.list_plans(&left, None, 10).unwrap().is_empty());
}

/// Says something and ends.
struct TalkingActor;

impl Actor for TalkingActor {
    fn work(&self, _: &Assignment, workplace: &Workplace<'_>) -> Report {
        for text in ["I look.", "Done."] {
            let text = text.to_owned();
            (workplace.on_progress)(RunProgress::Entry(TranscriptContent::Text { text }));
        }
        Report::done("Done.")
    }
}

/// Whoever is notified of the result can read what led to it.
#[test]
fn transcript_is_stored_when_the_plan_comes_to_rest() {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let plan_id = create_plan(&lifecycle, Profile::Review);
    let other = lifecycle.clone();
    let stored = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&stored);
    let worker = Worker::new(&lifecycle)
        .actor("bot", TalkingActor)
        .on_progress(move |plan, progress| {
            if *progress == DriveProgress::Idle {
                let entries = other.store().read_transcript(plan.id(), None, 10).unwrap();
                sink.lock().unwrap().extend(entries);
            }
        });
    worker.drain(&Stop::default()).unwrap();
    let stored = stored.lock().unwrap();
    let texts: Vec<Option<String>> = stored
        .iter()
        .map(|stored| stored.entry.content.describe_activity())
        .collect();
    let expected = ["I look.", "Done."].map(|text| Some(text.to_owned()));
    assert_eq!(texts, expected);
    let epoch = lifecycle.get_plan(plan_id).unwrap().plan.epoch();
    assert!(stored[0].position.epoch <= epoch, "{stored:?}");
}

/// A store whose writes fail at `point` during an outage, which begins when the actor ends.
struct StoreOutageFixture {
    _directory: tempfile::TempDir,
    lifecycle: Lifecycle,
    is_unavailable: Arc<AtomicBool>,
    actor: CountingActor,
}

impl StoreOutageFixture {
    fn failing_at(point: FaultPoint) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let is_unavailable = Arc::new(AtomicBool::new(false));
        let fails = Arc::clone(&is_unavailable);
        let options = SqliteOptions {
            faults: StoreFaults::new(
                move |at| match at == point && fails.load(Ordering::SeqCst) {
                    true => StoreFault::Fail,
                    false => StoreFault::None,
                },
            ),
            ..SqliteOptions::default()
        };
        let store = SqliteStore::new(directory.path().join("planwright.db"), options);
        Self {
            _directory: directory,
            lifecycle: Lifecycle::open(store),
            is_unavailable,
            actor: CountingActor::with_outcome(ReportOutcome::Done),
        }
    }

    /// A worker whose leases outlast the test.
    fn make_worker(&self) -> Worker {
        let (actor, is_unavailable) = (self.actor.clone(), Arc::clone(&self.is_unavailable));
        let outage_actor = OutageActor {
            actor,
            is_unavailable,
        };
        Worker::new(&self.lifecycle)
            .actor("bot", outage_actor)
            .lease(Span::from_seconds(600))
    }

    fn wait_for_run(&self) {
        while !self.is_unavailable.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

struct OutageActor {
    actor: CountingActor,
    is_unavailable: Arc<AtomicBool>,
}

impl Actor for OutageActor {
    fn work(&self, assignment: &Assignment, workplace: &Workplace<'_>) -> Report {
        let report = self.actor.work(assignment, workplace);
        self.is_unavailable.store(true, Ordering::SeqCst);
        report
    }
}

#[test]
fn a_result_is_submitted_once_the_store_is_back() {
    for point in [
        FaultPoint::Decided,
        FaultPoint::BeforeCommit,
        FaultPoint::AfterCommit,
    ] {
        let fixture = StoreOutageFixture::failing_at(point);
        let plan_id = create_plan(&fixture.lifecycle, Profile::Review);
        let stats = std::thread::scope(|scope| {
            let working = scope.spawn(|| fixture.make_worker().drain(&Stop::default()).unwrap());
            fixture.wait_for_run();
            std::thread::sleep(Duration::from_millis(600));
            fixture.is_unavailable.store(false, Ordering::SeqCst);
            working.join().unwrap()
        });
        assert_eq!(stats.errors, 0, "{point:?}");
        assert_eq!(fixture.actor.run_counts().len(), 1, "{point:?}");
        assert_eq!(
            read_stage(&fixture.lifecycle, plan_id),
            "apply/applied",
            "{point:?}"
        );
    }
}

#[test]
fn a_stopped_worker_does_not_wait_for_the_store() {
    let fixture = StoreOutageFixture::failing_at(FaultPoint::BeforeCommit);
    let plan_id = create_plan(&fixture.lifecycle, Profile::Review);
    let stop = Stop::default();
    let began = Instant::now();
    let stats = std::thread::scope(|scope| {
        let working = scope.spawn(|| fixture.make_worker().run(&stop).unwrap());
        fixture.wait_for_run();
        stop.request();
        working.join().unwrap()
    });
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(stats.errors, 1);
    assert_eq!(
        read_stage(&fixture.lifecycle, plan_id),
        "execute/processing"
    );
}

#[test]
fn an_unanswered_question_expires() {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let plan_id = create_plan(&lifecycle, Profile::Review);
    let asks = ReportOutcome::NeedsAnswer {
        question: "Which way?".to_owned(),
        timeout: Some(Span(1)),
    };
    let actor = CountingActor::with_outcome(asks);
    make_worker(&lifecycle, &actor)
        .drain(&Stop::default())
        .unwrap();
    assert_eq!(read_stage(&lifecycle, plan_id), "execute/errored");
    let row = lifecycle.get_plan(plan_id).unwrap();
    assert_eq!(
        row.plan.stage().failure().unwrap().category,
        FailureCategory::Unanswered
    );
}

#[test]
fn a_plan_left_between_two_phases_is_continued() {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let plan_id = create_plan(&lifecycle, Profile::Review);
    lifecycle
        .claims()
        .start_strategize(plan_id, "gone", Span::from_seconds(60), &call_as_ada())
        .unwrap()
        .complete_strategize(Vec::new())
        .unwrap();
    let actor = CountingActor::with_outcome(ReportOutcome::Done);
    make_worker(&lifecycle, &actor)
        .drain(&Stop::default())
        .unwrap();
    assert_eq!(read_stage(&lifecycle, plan_id), "apply/applied");
}

#[test]
fn a_second_worker_leaves_running_plans_alone() {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let plan_id = create_plan(&lifecycle, Profile::Review);
    let (working, idle) = (
        CountingActor::with_outcome(ReportOutcome::Stopped),
        AtomicUsize::new(0),
    );
    let stop = Stop::default();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| make_worker(&lifecycle, &working).run(&stop).unwrap());
        while working.run_counts().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let second = CountingActor::with_outcome(ReportOutcome::Done);
        let stats = make_worker(&lifecycle, &second)
            .drain(&Stop::default())
            .unwrap();
        idle.store(second.run_counts().len(), Ordering::SeqCst);
        assert_eq!((stats.plans_driven, stats.leases_reclaimed), (0, 0));
        assert_eq!(read_stage(&lifecycle, plan_id), "execute/processing");
        stop.request();
        first.join().unwrap();
    });
    assert_eq!(idle.load(Ordering::SeqCst), 0);
}
