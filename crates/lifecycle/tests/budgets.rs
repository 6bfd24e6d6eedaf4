//! Budgets at work: what is used up halts a plan with its work kept, what others have is waited for, and
//! whatever happens on the way, what was used is charged once.

#![cfg(not(feature = "shuttle"))]
#![allow(
    clippy::unwrap_used,
    reason = "a test whose set-up fails has failed, and the panic says where"
)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use actors::{Actor, Assignment, Outcome, Progress, Report, Stop, Usage, Workplace};
use plan::ledger::{Amount, Budget, Metering};
use plan::plan::Limits;
use plan::stage::Category;
use plan::{Actors, Caller, Money, PlanId, Profile, Refusal, Span};
use planwright_lifecycle::{Call, Error, Happening, Lifecycle, UseRequest, Worker};
use store::{MemoryStore, PostgresOptions, PostgresStore, SqliteOptions, SqliteStore, Store};
use testkit::{PostgresDatabase, SqliteFile, samples};

const CENT: u64 = 10_000;

fn ada() -> Call {
    Call::by(Caller::Person("ada".to_owned()))
}

/// How long a spender waits for company.
const PATIENCE: Duration = Duration::from_secs(20);

/// Makes calls that cost something, and tells after each what all of them did so far.
#[derive(Clone)]
struct Spender {
    calls: u64,
    price: u64,
    metering: Metering,
    /// Waits for this many to be at work at once before it goes on, but not for ever.
    company: usize,
    /// How many work at this moment, and the most that ever did.
    at_work: Arc<(AtomicUsize, AtomicUsize)>,
}

impl Spender {
    fn of(calls: u64, price: u64) -> Self {
        Self {
            calls,
            price,
            metering: Metering::Cost,
            company: 1,
            at_work: Arc::default(),
        }
    }

    fn most_at_work(&self) -> usize {
        self.at_work.1.load(Ordering::SeqCst)
    }
}

impl Actor for Spender {
    fn work(&self, _: &Assignment, workplace: &Workplace<'_>) -> Report {
        let (now, most) = &*self.at_work;
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let began = Instant::now();
        while most.load(Ordering::SeqCst) < self.company && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut usage = Usage::default();
        let mut outcome = Outcome::Done;
        for _ in 0..self.calls {
            usage.cost_micros += self.price;
            usage.output_tokens += 10;
            if self.metering != Metering::Time {
                (workplace.progress)(Progress::Used(usage));
            }
            if workplace.stop.wait(Duration::from_millis(5)) {
                outcome = Outcome::Stopped;
                break;
            }
        }
        now.fetch_sub(1, Ordering::SeqCst);
        Report {
            summary: Some("spent".to_owned()),
            usage,
            ..Report::of(outcome)
        }
    }

    fn metering(&self) -> Metering {
        self.metering
    }
}

fn used(lifecycle: &Lifecycle, limits: Limits) -> PlanId {
    let request = UseRequest {
        goal: Some("Spend".to_owned()),
        fallback_actors: Some(Actors::both(samples::name("bot"))),
        profile: Some(Profile::Auto),
        limits,
        ..UseRequest::default()
    };
    lifecycle.use_action(request, &ada()).unwrap().plan.id
}

fn cents(cents: u64) -> Limits {
    Limits {
        cost: Some(Money(cents * CENT)),
        ..Limits::default()
    }
}

fn for_all(cents: u64) -> Budget {
    Budget {
        cost: Some(Money(cents * CENT)),
        tokens: None,
    }
}

fn drain(lifecycle: &Lifecycle, spender: &Spender, concurrency: usize) {
    let worker = Worker::new(lifecycle).actor("bot", spender.clone());
    let tally = worker.concurrency(concurrency).drain(&Stop::default());
    assert_eq!(tally.unwrap().troubles, 0);
}

fn stage(lifecycle: &Lifecycle, plan: PlanId) -> String {
    lifecycle.get_plan(plan).unwrap().plan.stage.to_string()
}

fn is_halted_by_its_budget(lifecycle: &Lifecycle, plan: PlanId) -> bool {
    let plan = lifecycle.get_plan(plan).unwrap().plan;
    let failure = plan.stage.failure();
    failure.is_some_and(|failure| failure.category == Category::Budget)
}

#[test]
fn what_is_used_up_halts_the_plan_and_more_lets_it_go_on() {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let plan = used(&lifecycle, cents(10));
    let warnings: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = Arc::clone(&warnings);
    let worker = Worker::new(&lifecycle)
        .actor("bot", Spender::of(1000, CENT))
        .telling(move |_, happening| {
            if let Happening::NearLimit(how) = happening {
                told.lock().unwrap().push(how.clone());
            }
        });
    worker.drain(&Stop::default()).unwrap();
    assert!(is_halted_by_its_budget(&lifecycle, plan));
    let message = lifecycle
        .get_plan(plan)
        .unwrap()
        .plan
        .stage
        .failure()
        .unwrap()
        .message
        .clone();
    assert!(
        message
            .as_str()
            .contains("of $0.10 for this plan are used up"),
        "{message}"
    );
    let spent = lifecycle.ledger(plan).unwrap().plan;
    assert!(
        (10 * CENT..=11 * CENT).contains(&spent.settled.cost),
        "{spent:?}"
    );
    assert!(
        spent.settled.time > 0 && spent.settled.tokens > 0,
        "{spent:?}"
    );
    assert_eq!(spent.reserved, Amount::default());
    let warnings = warnings.lock().unwrap().clone();
    assert_eq!(warnings, ["$0.08 of $0.10 for this plan are used"]);

    let retry = |limits| lifecycle.retry(plan, false, limits, &ada());
    for too_low in [None, Some(cents(9))] {
        let refused = retry(too_low);
        assert!(
            matches!(refused, Err(Error::Refused(Refusal::LimitTooLow { .. }))),
            "{refused:?}"
        );
    }
    retry(Some(cents(100))).unwrap();
    drain(&lifecycle, &Spender::of(20, CENT), 1);
    assert_eq!(stage(&lifecycle, plan), "apply/applied");
    let spent = lifecycle.ledger(plan).unwrap().plan.settled.cost;
    assert!((30 * CENT..=31 * CENT).contains(&spent), "{spent}");
}

#[test]
fn who_tells_nothing_is_stopped_when_its_time_is_over() {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let limits = Limits {
        time: Some(Span(300_000)),
        ..Limits::default()
    };
    let plan = used(&lifecycle, limits);
    let silent = Spender {
        metering: Metering::Time,
        ..Spender::of(6000, 0)
    };
    drain(&lifecycle, &silent, 1);
    assert!(is_halted_by_its_budget(&lifecycle, plan));
    let spent = lifecycle.ledger(plan).unwrap().plan.settled.span();
    assert!((300_000..5_000_000).contains(&spent.0), "{spent:?}");
}

#[test]
fn what_was_finished_is_kept_whatever_it_cost() {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let plan = used(&lifecycle, cents(10));
    // It tells what it cost with its last word only.
    let late = Spender {
        metering: Metering::Time,
        ..Spender::of(1, 50 * CENT)
    };
    drain(&lifecycle, &late, 1);
    assert_eq!(stage(&lifecycle, plan), "apply/applied");
    assert_eq!(lifecycle.ledger(plan).unwrap().plan.settled.cost, 50 * CENT);
}

/// Runs on each store: memory, SQLite, PostgreSQL.
fn on_every_store(run: impl Fn(&str, &Lifecycle)) {
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

/// Looks at the books when its work begins.
struct Auditor {
    lifecycle: Lifecycle,
    seen: Arc<Mutex<Vec<Amount>>>,
}

impl Actor for Auditor {
    fn work(&self, assignment: &Assignment, _: &Workplace<'_>) -> Report {
        let ledger = self.lifecycle.ledger(assignment.plan).unwrap();
        self.seen.lock().unwrap().push(ledger.plan.reserved);
        Report {
            summary: Some("looked".to_owned()),
            ..Report::of(Outcome::Done)
        }
    }

    fn metering(&self) -> Metering {
        Metering::Cost
    }

    fn strategizes(&self) -> bool {
        false
    }
}

/// Nobody sees the one without the other: a holder, and what is set aside for it.
#[test]
fn the_way_to_the_work_and_out_of_it_are_a_commit_each_with_its_means_in_it() {
    on_every_store(|store, lifecycle| {
        let plan = used(lifecycle, cents(10));
        let seen = Arc::default();
        let auditor = Auditor {
            lifecycle: lifecycle.clone(),
            seen: Arc::clone(&seen),
        };
        let worker = Worker::new(lifecycle).actor("bot", auditor);
        assert_eq!(worker.drain(&Stop::default()).unwrap().troubles, 0);
        assert_eq!(stage(lifecycle, plan), "apply/applied", "{store}");
        let seen: Vec<u64> = seen.lock().unwrap().iter().map(|one| one.cost).collect();
        assert_eq!(seen, [10 * CENT], "{store}");
        let history = lifecycle.history(plan).unwrap();
        let claims = history.iter().enumerate().skip(1);
        let mut claims = claims.filter(|(_, one)| one.event.kind() == "claimed");
        let (execute, _) = claims.nth(1).unwrap();
        // Those of one commit happened at one moment.
        let mut way = history[1..=execute].iter();
        assert!(way.all(|one| one.at == history[1].at), "{store}: {way:?}");
        // And so did those from there to its end.
        let out = &history[execute + 1..];
        let landed = out.last().unwrap();
        assert_eq!(landed.event.kind(), "landed", "{store}");
        assert!(
            out.iter().all(|one| one.at == landed.at),
            "{store}: {out:?}"
        );
        assert_eq!(
            lifecycle.ledger(plan).unwrap().plan.reserved,
            Amount::default(),
            "{store}"
        );
    });
}

#[test]
fn sixteen_plans_share_a_budget_one_after_the_other_where_nothing_else_bounds_them() {
    on_every_store(|store, lifecycle| {
        let lifecycle = lifecycle.clone().with_budget(for_all(50));
        let plans: Vec<PlanId> = (0..16)
            .map(|_| used(&lifecycle, Limits::default()))
            .collect();
        let spender = Spender::of(2, 6 * CENT);
        drain(&lifecycle, &spender, 16);
        assert_eq!(spender.most_at_work(), 1, "{store}");
        let spent = lifecycle.ledger(plans[0]).unwrap().global;
        // The last one began with 2 cents left, and one call is what it could not be kept from.
        assert!(
            (50 * CENT..50 * CENT + 6 * CENT).contains(&spent.settled.cost),
            "{store}: {spent:?}"
        );
        assert_eq!(spent.reserved, Amount::default(), "{store}");
        let landed = plans
            .iter()
            .filter(|plan| stage(&lifecycle, **plan) == "apply/applied");
        assert_eq!(landed.count(), 4, "{store}");
        for plan in &plans {
            let landed = stage(&lifecycle, *plan) == "apply/applied";
            assert!(
                landed || is_halted_by_its_budget(&lifecycle, *plan),
                "{store}"
            );
        }
    });
}

#[test]
fn sixteen_plans_with_limits_of_their_own_work_at_once_and_spend_what_there_is() {
    on_every_store(|store, lifecycle| {
        let lifecycle = lifecycle.clone().with_budget(for_all(80));
        let plans: Vec<PlanId> = (0..16).map(|_| used(&lifecycle, cents(21))).collect();
        let spender = Spender {
            company: 2,
            ..Spender::of(2, 10 * CENT)
        };
        drain(&lifecycle, &spender, 16);
        assert!(spender.most_at_work() > 1, "{store}");
        let spent = lifecycle.ledger(plans[0]).unwrap().global;
        assert!(
            (80 * CENT..90 * CENT).contains(&spent.settled.cost),
            "{store}: {spent:?}"
        );
        let landed = plans
            .iter()
            .filter(|plan| stage(&lifecycle, **plan) == "apply/applied");
        assert!((3..=4).contains(&landed.count()), "{store}");
    });
}

#[test]
fn who_is_cancelled_at_work_is_charged_what_it_used() {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let plan = used(&lifecycle, cents(1000));
    let other = lifecycle.clone();
    let worker = Worker::new(&lifecycle)
        .actor("bot", Spender::of(1000, CENT))
        .telling(move |plan, happening| {
            if let Happening::Progress(Progress::Used(_)) = happening {
                let _ = other.cancel(plan.id, None, &ada());
            }
        });
    worker.drain(&Stop::default()).unwrap();
    assert_eq!(stage(&lifecycle, plan), "execute/cancelled");
    let spent = lifecycle.ledger(plan).unwrap().plan;
    assert!(spent.settled.cost < 1000 * CENT, "{spent:?}");
    assert!(spent.settled.cost > 0, "{spent:?}");
    assert_eq!(spent.forfeited, Amount::default());
}
