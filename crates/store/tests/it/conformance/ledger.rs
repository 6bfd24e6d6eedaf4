//! The ledger: however many spend at once, they spend what there is; what is told twice is charged once.

use std::sync::atomic::{AtomicU64, Ordering};

use plan::command::{Grounds, NewPlan};
use plan::ledger::{Account, Amount, Budget, Metering};
use plan::plan::Limits;
use plan::{Command, Epoch, Money, Outcome, PlanId, Refusal};
use store::CommitError;
use store::fault::FaultPoint;
use testkit::client::{LONG, OVER};
use testkit::{Client, samples};

use crate::bench::Bench;

super::on_every_store! {
    of_sixteen_spenders_none_overshoots_by_more_than_a_call,
    plans_with_limits_of_their_own_spend_at_once,
    what_is_told_twice_is_charged_once,
    what_a_crash_left_untold_is_charged_once,
    who_is_taken_over_is_charged_in_full_until_it_tells,
    accounts_and_reservations_read_back_as_they_were_written,
}

const DOLLAR: u64 = 1_000_000;

fn budget(dollars: u64) -> Budget {
    Budget {
        cost: Some(Money(dollars * DOLLAR)),
        tokens: None,
    }
}

fn at_work(client: &Client, cost: Option<Money>) -> (PlanId, Epoch) {
    at_work_for(client, cost, LONG)
}

fn at_work_for(client: &Client, cost: Option<Money>, lease: plan::Span) -> (PlanId, Epoch) {
    let plan = client.add_plan(NewPlan {
        limits: Limits {
            cost,
            ..Limits::default()
        },
        ..samples::goal(client.ids().plan(), "spend")
    });
    (plan, client.claim(plan, lease))
}

fn reserve(epoch: Epoch, budget: Budget) -> Command {
    Command::Reserve {
        epoch,
        metering: Metering::Cost,
        budget,
    }
}

fn settle(epoch: Epoch, cost: u64) -> Command {
    let used = Amount {
        cost,
        tokens: cost / 100,
        time: 1,
    };
    Command::Settle { epoch, used }
}

fn global(client: &Client, plan: PlanId) -> Account {
    client.store().ledger(plan).unwrap().global
}

/// Spends call by call until all is spent, and tells how often it did.
fn spend(client: &Client, plan: PlanId, epoch: Epoch, limit: Budget, call: u64) -> u64 {
    let mut calls = 0;
    loop {
        match client.on(plan, reserve(epoch, limit)) {
            Ok(_) => {
                client.must(plan, settle(epoch, call));
                calls += 1;
            }
            Err(CommitError::Refused(Refusal::OverBudget(over))) if over.is_spent() => {
                return calls;
            }
            // Others have it; they may leave something.
            Err(CommitError::Refused(Refusal::OverBudget(_))) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

fn of_sixteen_spenders_none_overshoots_by_more_than_a_call(bench: &Bench) {
    const CALL: u64 = 1_300_000;
    let client = bench.client();
    let plans: Vec<_> = (0..16).map(|_| at_work(&client, None)).collect();
    let calls: u64 = bench
        .race(16, |number, racer| {
            let (plan, epoch) = plans[number];
            spend(racer, plan, epoch, budget(10), CALL)
        })
        .into_iter()
        .sum();
    let account = global(&client, plans[0].0);
    assert_eq!(account.settled.cost, calls * CALL);
    assert!(
        (10 * DOLLAR..10 * DOLLAR + CALL).contains(&account.settled.cost),
        "{account:?}"
    );
    assert_eq!(account.reserved, Amount::default());
    let of_plans: u64 = plans
        .iter()
        .map(|(plan, _)| client.store().ledger(*plan).unwrap().plan.settled.cost)
        .sum();
    assert_eq!(of_plans, account.settled.cost);
}

fn plans_with_limits_of_their_own_spend_at_once(bench: &Bench) {
    let client = bench.client();
    let plans: Vec<_> = (0..16)
        .map(|_| at_work(&client, Some(Money(DOLLAR))))
        .collect();
    let most = AtomicU64::new(0);
    let begun = bench.race(16, |number, racer| {
        let (plan, epoch) = plans[number];
        let begun = racer.on(plan, reserve(epoch, budget(10)));
        let reserved = global(racer, plan).reserved.cost;
        most.fetch_max(reserved, Ordering::SeqCst);
        begun.is_ok()
    });
    assert_eq!(begun.iter().filter(|begun| **begun).count(), 10);
    assert_eq!(most.into_inner(), 10 * DOLLAR);
    for ((plan, epoch), begun) in plans.iter().zip(&begun) {
        if *begun {
            client.must(*plan, settle(*epoch, DOLLAR / 4));
        }
    }
    // What the ten left is enough for the six.
    for ((plan, epoch), begun) in plans.iter().zip(&begun) {
        if !begun {
            client.must(*plan, reserve(*epoch, budget(10)));
        }
    }
    let account = global(&client, plans[0].0);
    assert_eq!(account.settled.cost, 10 * DOLLAR / 4);
    assert_eq!(account.reserved.cost, 6 * DOLLAR);
}

fn what_is_told_twice_is_charged_once(bench: &Bench) {
    let client = bench.client();
    let (plan, epoch) = at_work(&client, Some(Money(DOLLAR)));
    client.must(plan, reserve(epoch, Budget::default()));
    let told = bench.race(16, |_, racer| racer.on(plan, settle(epoch, 7)).unwrap());
    let done = |one: &&store::Committed| one.receipt.outcome == Outcome::Done;
    assert_eq!(told.iter().filter(done).count(), 1);
    assert_eq!(global(&client, plan).settled.cost, 7);
    assert_eq!(global(&client, plan).reserved, Amount::default());
}

fn what_a_crash_left_untold_is_charged_once(bench: &Bench) {
    let client = bench.client();
    let (plan, epoch) = at_work(&client, Some(Money(100)));
    let mut expected = 0;
    for point in [
        FaultPoint::Decided,
        FaultPoint::BeforeCommit,
        FaultPoint::AfterCommit,
    ] {
        for command in [reserve(epoch, Budget::default()), settle(epoch, 7)] {
            bench.faults.arm(point);
            // Whatever came of it, it is said again.
            let _lost = client.on(plan, command.clone());
            bench.faults.disarm();
            client.on(plan, command).unwrap();
        }
        expected += 7;
        let ledger = client.store().ledger(plan).unwrap();
        assert_eq!(ledger.plan.settled.cost, expected, "{point:?}");
        assert_eq!(ledger.plan.reserved, Amount::default(), "{point:?}");
        assert_eq!(ledger.global, ledger.plan, "{point:?}");
        assert!(ledger.reservations.is_empty(), "{point:?}");
    }
}

fn who_is_taken_over_is_charged_in_full_until_it_tells(bench: &Bench) {
    let client = bench.client();
    let (plan, epoch) = at_work_for(&client, Some(Money(DOLLAR)), OVER);
    client.must(plan, reserve(epoch, Budget::default()));
    let grounds = Grounds::Expired;
    client.must(plan, Command::Reclaim { grounds });
    let account = global(&client, plan);
    assert_eq!(account.settled.cost, DOLLAR);
    assert_eq!(account.forfeited.cost, DOLLAR);
    assert_eq!(account.reserved, Amount::default());
    // The successor has nothing to work with.
    let successor = client.claim(plan, LONG);
    let refused = client.on(plan, reserve(successor, Budget::default()));
    assert!(
        matches!(&refused, Err(CommitError::Refused(Refusal::OverBudget(over))) if over.is_spent()),
        "{refused:?}"
    );
    // The old holder only slept. What it tells counts, and once.
    client.must(plan, settle(epoch, 7));
    client.on(plan, settle(epoch, 7)).unwrap();
    assert_eq!(global(&client, plan).settled.cost, 7);
    assert_eq!(global(&client, plan).forfeited, Amount::default());
    client.must(plan, reserve(successor, Budget::default()));
    assert_eq!(global(&client, plan).reserved.cost, DOLLAR - 7);
}

fn accounts_and_reservations_read_back_as_they_were_written(bench: &Bench) {
    const MOST: u64 = i64::MAX.unsigned_abs();
    let client = bench.client();
    let (plan, epoch) = at_work(&client, Some(Money(MOST)));
    let other = at_work(&client, None).0;
    client.must(plan, reserve(epoch, Budget::default()));
    let ledger = bench.open().ledger(plan).unwrap();
    assert_eq!(ledger.plan.reserved.cost, MOST);
    assert_eq!(ledger.reservations.len(), 1);
    assert_eq!(ledger.reservations[0].plan, plan);
    assert_eq!(ledger.reservations[0].amount.cost, MOST);
    let elsewhere = bench.open().ledger(other).unwrap();
    assert_eq!(elsewhere.global, ledger.global);
    assert_eq!(elsewhere.plan, Account::default());
    assert!(elsewhere.reservations.is_empty());
    let used = Amount {
        cost: MOST,
        tokens: MOST,
        time: MOST,
    };
    client.must(plan, Command::Settle { epoch, used });
    let ledger = bench.open().ledger(plan).unwrap();
    assert_eq!(ledger.plan.settled, used);
    assert!(ledger.reservations.is_empty());
}
