//! Budgets: an exhausted limit stops a plan and keeps its work, plans wait for budget that others reserved, and
//! usage is always charged exactly once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use actors::{Actor, Assignment, Report, ReportOutcome, RunProgress, Stop, Usage, Workplace};
use plan::ledger::{BudgetAmount, GlobalBudget, MeteringLevel};
use plan::plan::PlanLimits;
use plan::stage::FailureCategory;
use plan::transcript::TranscriptContent;
use plan::{Caller, Money, PlanActors, PlanId, Profile, Refusal, Span};
use planwright_lifecycle::{Call, DriveProgress, Lifecycle, LifecycleError, UseRequest, Worker};
use store::{MemoryStore, PostgresOptions, PostgresStore, SqliteOptions, SqliteStore, Store};
use testkit::{PostgresDatabase, SqliteFile, samples};

const CENT: u64 = 10_000;

fn call_as_ada() -> Call {
    Call::by(Caller::Person("ada".to_owned()))
}

/// How long a spender waits for others to run in parallel.
const PARALLEL_TIMEOUT: Duration = Duration::from_secs(20);

/// Makes calls that cost something, and reports the total after each.
#[derive(Clone)]
struct SpendingActor {
    calls: u64,
    price: u64,
    metering: MeteringLevel,
    /// Waits until this many runs are active at once, up to a timeout.
    min_parallel: usize,
    /// The number of active runs, and its maximum so far.
    running_and_peak: Arc<(AtomicUsize, AtomicUsize)>,
}

impl SpendingActor {
    fn spending(calls: u64, price: u64) -> Self {
        Self {
            calls,
            price,
            metering: MeteringLevel::Cost,
            min_parallel: 1,
            running_and_peak: Arc::default(),
        }
    }

    fn peak_parallel(&self) -> usize {
        self.running_and_peak.1.load(Ordering::SeqCst)
    }
}

impl Actor for SpendingActor {
    fn work(&self, _: &Assignment, workplace: &Workplace<'_>) -> Report {
        let (running, peak) = &*self.running_and_peak;
        peak.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let began = Instant::now();
        while peak.load(Ordering::SeqCst) < self.min_parallel && began.elapsed() < PARALLEL_TIMEOUT
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut usage = Usage::default();
        let mut outcome = ReportOutcome::Done;
        for _ in 0..self.calls {
            usage.cost_micros += self.price;
            usage.output_tokens += 10;
            if self.metering != MeteringLevel::Time {
                (workplace.on_progress)(RunProgress::Entry(TranscriptContent::Usage(usage)));
            }
            if workplace.stop.wait_for_request(Duration::from_millis(5)) {
                outcome = ReportOutcome::Stopped;
                break;
            }
        }
        running.fetch_sub(1, Ordering::SeqCst);
        Report {
            summary: Some("spent".to_owned()),
            usage,
            ..Report::with_outcome(outcome)
        }
    }

    fn metering(&self) -> MeteringLevel {
        self.metering
    }
}

fn create_plan(lifecycle: &Lifecycle, limits: PlanLimits) -> PlanId {
    let request = UseRequest {
        goal: Some("Spend".to_owned()),
        fallback_actors: Some(PlanActors::for_both_phases(samples::parse_name("bot"))),
        profile: Some(Profile::Auto),
        limits,
        ..UseRequest::default()
    };
    lifecycle
        .use_action(request, &call_as_ada())
        .unwrap()
        .plan
        .id()
}

fn limit_cents(cents: u64) -> PlanLimits {
    PlanLimits {
        cost: Some(Money(cents * CENT)),
        ..PlanLimits::default()
    }
}

fn budget_of_cents(cents: u64) -> GlobalBudget {
    GlobalBudget {
        cost: Some(Money(cents * CENT)),
        tokens: None,
    }
}

fn drain_worker(lifecycle: &Lifecycle, spender: &SpendingActor, concurrency: usize) {
    let worker = Worker::new(lifecycle).actor("bot", spender.clone());
    let stats = worker.concurrency(concurrency).drain(&Stop::default());
    assert_eq!(stats.unwrap().errors, 0);
}

fn read_stage(lifecycle: &Lifecycle, plan_id: PlanId) -> String {
    lifecycle
        .get_plan(plan_id)
        .unwrap()
        .plan
        .stage()
        .to_string()
}

fn is_out_of_budget(lifecycle: &Lifecycle, plan_id: PlanId) -> bool {
    let plan = lifecycle.get_plan(plan_id).unwrap().plan;
    let failure = plan.stage().failure();
    failure.is_some_and(|failure| failure.category == FailureCategory::Budget)
}

/// A run that jumps over its limit is stopped, and that message says so. It is not "near" the limit any more.
#[test]
fn a_limit_that_is_passed_at_once_is_not_called_near() {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    create_plan(&lifecycle, limit_cents(10));
    let warnings: Arc<Mutex<Vec<String>>> = Arc::default();
    let warning_sink = Arc::clone(&warnings);
    let worker = Worker::new(&lifecycle)
        .actor("bot", SpendingActor::spending(1, 50 * CENT))
        .on_progress(move |_, progress| {
            if let DriveProgress::NearLimit(text) = progress {
                warning_sink.lock().unwrap().push(text.clone());
            }
        });
    worker.drain(&Stop::default()).unwrap();
    assert_eq!(*warnings.lock().unwrap(), [""; 0]);
}

#[test]
fn an_exhausted_limit_stops_the_plan_until_it_is_raised() {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let plan_id = create_plan(&lifecycle, limit_cents(10));
    let warnings: Arc<Mutex<Vec<String>>> = Arc::default();
    let warning_sink = Arc::clone(&warnings);
    let worker = Worker::new(&lifecycle)
        .actor("bot", SpendingActor::spending(1000, CENT))
        .on_progress(move |_, progress| {
            if let DriveProgress::NearLimit(text) = progress {
                warning_sink.lock().unwrap().push(text.clone());
            }
        });
    worker.drain(&Stop::default()).unwrap();
    assert!(is_out_of_budget(&lifecycle, plan_id));
    let message = lifecycle
        .get_plan(plan_id)
        .unwrap()
        .plan
        .stage()
        .failure()
        .unwrap()
        .message
        .clone();
    let text = message.as_str();
    assert!(
        text.starts_with("limit reached: $") && text.ends_with(" of $0.10 for this plan"),
        "{text}"
    );
    let spent = lifecycle.budgets().read_ledger(plan_id).unwrap().plan;
    assert!(
        (10 * CENT..=11 * CENT).contains(&spent.settled.cost),
        "{spent:?}"
    );
    assert!(
        spent.settled.time > 0 && spent.settled.tokens > 0,
        "{spent:?}"
    );
    assert_eq!(spent.reserved, BudgetAmount::default());
    let warnings = warnings.lock().unwrap().clone();
    assert_eq!(warnings, ["$0.08 of $0.10 for this plan used"]);

    let retry = |limits| lifecycle.retry_phase(plan_id, false, limits, &call_as_ada());
    for too_low in [None, Some(limit_cents(9))] {
        let refused = retry(too_low);
        assert!(
            matches!(
                refused,
                Err(LifecycleError::Refused(Refusal::LimitTooLow { .. }))
            ),
            "{refused:?}"
        );
    }
    retry(Some(limit_cents(100))).unwrap();
    drain_worker(&lifecycle, &SpendingActor::spending(20, CENT), 1);
    assert_eq!(read_stage(&lifecycle, plan_id), "apply/applied");
    let spent = lifecycle
        .budgets()
        .read_ledger(plan_id)
        .unwrap()
        .plan
        .settled
        .cost;
    assert!((30 * CENT..=31 * CENT).contains(&spent), "{spent}");
}

#[test]
fn a_silent_actor_is_stopped_at_its_time_limit() {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let limits = PlanLimits {
        time: Some(Span(300_000)),
        ..PlanLimits::default()
    };
    let plan_id = create_plan(&lifecycle, limits);
    let silent = SpendingActor {
        metering: MeteringLevel::Time,
        ..SpendingActor::spending(6000, 0)
    };
    drain_worker(&lifecycle, &silent, 1);
    assert!(is_out_of_budget(&lifecycle, plan_id));
    let spent = lifecycle
        .budgets()
        .read_ledger(plan_id)
        .unwrap()
        .plan
        .settled
        .time_span();
    assert!((300_000..5_000_000).contains(&spent.0), "{spent:?}");
}

#[test]
fn a_finished_result_is_kept_even_over_the_limit() {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let plan_id = create_plan(&lifecycle, limit_cents(10));
    // It reports its cost only at the end.
    let late = SpendingActor {
        metering: MeteringLevel::Time,
        ..SpendingActor::spending(1, 50 * CENT)
    };
    drain_worker(&lifecycle, &late, 1);
    assert_eq!(read_stage(&lifecycle, plan_id), "apply/applied");
    assert_eq!(
        lifecycle
            .budgets()
            .read_ledger(plan_id)
            .unwrap()
            .plan
            .settled
            .cost,
        50 * CENT
    );
}

fn run_on_each_store(run: impl Fn(&str, &Lifecycle)) {
    let (file, database) = (SqliteFile::new(), PostgresDatabase::new());
    let sqlite = SqliteStore::new(file.path(), SqliteOptions::default());
    let postgres = PostgresStore::new(&database.url(), PostgresOptions::default()).unwrap();
    let stores: [(&str, Arc<dyn Store>); 3] = [
        ("memory", Arc::new(MemoryStore::new())),
        ("sqlite", Arc::new(sqlite)),
        ("postgres", Arc::new(postgres)),
    ];
    for (name, store) in stores {
        run(name, &Lifecycle::on(store));
    }
}

/// Reads the ledger when its work begins.
struct LedgerReadingActor {
    lifecycle: Lifecycle,
    reserved_amounts: Arc<Mutex<Vec<BudgetAmount>>>,
}

impl Actor for LedgerReadingActor {
    fn work(&self, assignment: &Assignment, _: &Workplace<'_>) -> Report {
        let ledger = self
            .lifecycle
            .budgets()
            .read_ledger(assignment.plan)
            .unwrap();
        self.reserved_amounts
            .lock()
            .unwrap()
            .push(ledger.plan.reserved);
        Report {
            summary: Some("read".to_owned()),
            ..Report::with_outcome(ReportOutcome::Done)
        }
    }

    fn metering(&self) -> MeteringLevel {
        MeteringLevel::Cost
    }

    fn strategizes(&self) -> bool {
        false
    }
}

/// No reader sees a holder without its reservation.
#[test]
fn claiming_and_completing_take_one_commit_each_with_the_budget() {
    run_on_each_store(|store, lifecycle| {
        let plan_id = create_plan(lifecycle, limit_cents(10));
        let seen = Arc::default();
        let auditor = LedgerReadingActor {
            lifecycle: lifecycle.clone(),
            reserved_amounts: Arc::clone(&seen),
        };
        let worker = Worker::new(lifecycle).actor("bot", auditor);
        assert_eq!(worker.drain(&Stop::default()).unwrap().errors, 0);
        assert_eq!(read_stage(lifecycle, plan_id), "apply/applied", "{store}");
        let seen: Vec<u64> = seen.lock().unwrap().iter().map(|one| one.cost).collect();
        assert_eq!(seen, [10 * CENT], "{store}");
        let history = lifecycle.history().read_history(plan_id).unwrap();
        let claims = history.iter().enumerate().skip(1);
        let mut claims = claims.filter(|(_, one)| one.event.kind() == "claimed");
        let (execute, _) = claims.nth(1).unwrap();
        // Events of one commit have the same timestamp.
        let mut claim_events = history[1..=execute].iter();
        assert!(
            claim_events.all(|one| one.at == history[1].at),
            "{store}: {claim_events:?}"
        );
        // So do the events from there to the end.
        let completion_events = &history[execute + 1..];
        let landed = completion_events.last().unwrap();
        assert_eq!(landed.event.kind(), "landed", "{store}");
        assert!(
            completion_events.iter().all(|one| one.at == landed.at),
            "{store}: {completion_events:?}"
        );
        assert_eq!(
            lifecycle
                .budgets()
                .read_ledger(plan_id)
                .unwrap()
                .plan
                .reserved,
            BudgetAmount::default(),
            "{store}"
        );
    });
}

#[test]
fn plans_without_limits_use_the_global_budget_one_at_a_time() {
    run_on_each_store(|store, lifecycle| {
        let lifecycle = lifecycle.clone().with_budget(budget_of_cents(50));
        let plans: Vec<PlanId> = (0..16)
            .map(|_| create_plan(&lifecycle, PlanLimits::default()))
            .collect();
        let spender = SpendingActor::spending(2, 6 * CENT);
        drain_worker(&lifecycle, &spender, 16);
        assert_eq!(spender.peak_parallel(), 1, "{store}");
        let spent = lifecycle.budgets().read_ledger(plans[0]).unwrap().global;
        // The last plan started with 2 cents left and could not be stopped before its first call.
        assert!(
            (50 * CENT..50 * CENT + 6 * CENT).contains(&spent.settled.cost),
            "{store}: {spent:?}"
        );
        assert_eq!(spent.reserved, BudgetAmount::default(), "{store}");
        let landed = plans
            .iter()
            .filter(|plan| read_stage(&lifecycle, **plan) == "apply/applied");
        assert_eq!(landed.count(), 4, "{store}");
        for plan in &plans {
            let landed = read_stage(&lifecycle, *plan) == "apply/applied";
            assert!(landed || is_out_of_budget(&lifecycle, *plan), "{store}");
        }
    });
}

#[test]
fn plans_with_limits_share_the_global_budget_in_parallel() {
    run_on_each_store(|store, lifecycle| {
        let lifecycle = lifecycle.clone().with_budget(budget_of_cents(80));
        let plans: Vec<PlanId> = (0..16)
            .map(|_| create_plan(&lifecycle, limit_cents(21)))
            .collect();
        let spender = SpendingActor {
            min_parallel: 2,
            ..SpendingActor::spending(2, 10 * CENT)
        };
        drain_worker(&lifecycle, &spender, 16);
        assert!(spender.peak_parallel() > 1, "{store}");
        let spent = lifecycle.budgets().read_ledger(plans[0]).unwrap().global;
        assert!(
            (80 * CENT..90 * CENT).contains(&spent.settled.cost),
            "{store}: {spent:?}"
        );
        let landed = plans
            .iter()
            .filter(|plan| read_stage(&lifecycle, **plan) == "apply/applied");
        assert!((3..=4).contains(&landed.count()), "{store}");
    });
}

#[test]
fn a_cancelled_run_is_charged_what_it_used() {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let plan_id = create_plan(&lifecycle, limit_cents(1000));
    let other = lifecycle.clone();
    let worker = Worker::new(&lifecycle)
        .actor("bot", SpendingActor::spending(1000, CENT))
        .on_progress(move |plan, progress| {
            if let DriveProgress::AgentEntry(_) = progress {
                let _ = other.cancel_plan(plan.id(), None, &call_as_ada());
            }
        });
    worker.drain(&Stop::default()).unwrap();
    assert_eq!(read_stage(&lifecycle, plan_id), "execute/cancelled");
    let spent = lifecycle.budgets().read_ledger(plan_id).unwrap().plan;
    assert!(spent.settled.cost < 1000 * CENT, "{spent:?}");
    assert!(spent.settled.cost > 0, "{spent:?}");
    assert_eq!(spent.forfeited, BudgetAmount::default());
}
