//! Tests the ledger: concurrent plans cannot overspend, and repeated reports are charged once.

use std::sync::atomic::{AtomicU64, Ordering};

use plan::command::{NewPlan, ReclaimGrounds};
use plan::command::{ReclaimLease, ReserveBudget, SettleUsage};
use plan::ledger::{BudgetAccount, BudgetAmount, GlobalBudget, MeteringLevel};
use plan::plan::PlanLimits;
use plan::{Command, Epoch, Money, PlanId, ReceiptOutcome, Refusal};
use store::CommitError;
use store::fault::FaultPoint;
use testkit::client::{EXPIRED_LEASE, LONG_LEASE};
use testkit::{TestClient, samples};

use crate::store_fixture::StoreFixture;

super::on_every_store! {
    of_sixteen_spenders_none_overshoots_by_more_than_a_call,
    plans_with_limits_of_their_own_spend_at_once,
    a_repeated_report_is_charged_once,
    a_report_with_a_lost_response_is_charged_once,
    a_replaced_holder_is_charged_in_full_until_it_reports,
    accounts_and_reservations_read_back_as_they_were_written,
}

const DOLLAR: u64 = 1_000_000;

fn budget(dollars: u64) -> GlobalBudget {
    GlobalBudget {
        cost: Some(Money(dollars * DOLLAR)),
        tokens: None,
    }
}

fn start_work(client: &TestClient, cost: Option<Money>) -> (PlanId, Epoch) {
    start_work_for(client, cost, LONG_LEASE)
}

fn start_work_for(client: &TestClient, cost: Option<Money>, lease: plan::Span) -> (PlanId, Epoch) {
    let plan = client.add_plan(NewPlan {
        limits: PlanLimits {
            cost,
            ..PlanLimits::default()
        },
        ..samples::plan_for_goal(client.ids().next_plan_id(), "spend")
    });
    (plan, client.claim_phase(plan, lease))
}

fn reserve(epoch: Epoch, budget: GlobalBudget) -> Command {
    Command::from(ReserveBudget {
        epoch,
        metering: MeteringLevel::Cost,
        budget,
    })
}

fn settle(epoch: Epoch, cost: u64) -> Command {
    let used = BudgetAmount {
        cost,
        tokens: cost / 100,
        time: 1,
    };
    Command::from(SettleUsage { epoch, used })
}

fn global(client: &TestClient, plan: PlanId) -> BudgetAccount {
    client.store().read_ledger(plan).unwrap().global
}

/// Spends call by call until the budget is used up. Returns the number of calls.
fn spend(client: &TestClient, plan: PlanId, epoch: Epoch, limit: GlobalBudget, call: u64) -> u64 {
    let mut calls = 0;
    loop {
        match client.submit_for_plan(plan, reserve(epoch, limit)) {
            Ok(_) => {
                client.must_submit(plan, settle(epoch, call));
                calls += 1;
            }
            Err(CommitError::Refused(Refusal::OverBudget(over))) if over.is_spent() => {
                return calls;
            }
            // Other plans reserved it and may release some.
            Err(CommitError::Refused(Refusal::OverBudget(_))) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

fn of_sixteen_spenders_none_overshoots_by_more_than_a_call(fixture: &StoreFixture) {
    const CALL: u64 = 1_300_000;
    let client = fixture.client();
    let plans: Vec<_> = (0..16).map(|_| start_work(&client, None)).collect();
    let calls: u64 = fixture
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
    assert_eq!(account.reserved, BudgetAmount::default());
    let of_plans: u64 = plans
        .iter()
        .map(|(plan, _)| client.store().read_ledger(*plan).unwrap().plan.settled.cost)
        .sum();
    assert_eq!(of_plans, account.settled.cost);
}

fn plans_with_limits_of_their_own_spend_at_once(fixture: &StoreFixture) {
    let client = fixture.client();
    let plans: Vec<_> = (0..16)
        .map(|_| start_work(&client, Some(Money(DOLLAR))))
        .collect();
    let most = AtomicU64::new(0);
    let begun = fixture.race(16, |number, racer| {
        let (plan, epoch) = plans[number];
        let begun = racer.submit_for_plan(plan, reserve(epoch, budget(10)));
        let reserved = global(racer, plan).reserved.cost;
        most.fetch_max(reserved, Ordering::SeqCst);
        begun.is_ok()
    });
    assert_eq!(begun.iter().filter(|begun| **begun).count(), 10);
    assert_eq!(most.into_inner(), 10 * DOLLAR);
    for ((plan, epoch), begun) in plans.iter().zip(&begun) {
        if *begun {
            client.must_submit(*plan, settle(*epoch, DOLLAR / 4));
        }
    }
    // What the ten left is enough for the six.
    for ((plan, epoch), begun) in plans.iter().zip(&begun) {
        if !begun {
            client.must_submit(*plan, reserve(*epoch, budget(10)));
        }
    }
    let account = global(&client, plans[0].0);
    assert_eq!(account.settled.cost, 10 * DOLLAR / 4);
    assert_eq!(account.reserved.cost, 6 * DOLLAR);
}

fn a_repeated_report_is_charged_once(fixture: &StoreFixture) {
    let client = fixture.client();
    let (plan, epoch) = start_work(&client, Some(Money(DOLLAR)));
    client.must_submit(plan, reserve(epoch, GlobalBudget::default()));
    let answers = fixture.race(16, |_, racer| {
        racer.submit_for_plan(plan, settle(epoch, 7)).unwrap()
    });
    let done = |one: &&store::CommitOutcome| one.receipt.outcome == ReceiptOutcome::Done;
    assert_eq!(answers.iter().filter(done).count(), 1);
    assert_eq!(global(&client, plan).settled.cost, 7);
    assert_eq!(global(&client, plan).reserved, BudgetAmount::default());
}

fn a_report_with_a_lost_response_is_charged_once(fixture: &StoreFixture) {
    let client = fixture.client();
    let (plan, epoch) = start_work(&client, Some(Money(100)));
    let mut expected = 0;
    for point in [
        FaultPoint::Decided,
        FaultPoint::BeforeCommit,
        FaultPoint::AfterCommit,
    ] {
        for command in [reserve(epoch, GlobalBudget::default()), settle(epoch, 7)] {
            fixture.faults.arm(point);
            // The outcome does not matter, because the command is repeated.
            let _lost = client.submit_for_plan(plan, command.clone());
            fixture.faults.disarm();
            client.submit_for_plan(plan, command).unwrap();
        }
        expected += 7;
        let ledger = client.store().read_ledger(plan).unwrap();
        assert_eq!(ledger.plan.settled.cost, expected, "{point:?}");
        assert_eq!(ledger.plan.reserved, BudgetAmount::default(), "{point:?}");
        assert_eq!(ledger.global, ledger.plan, "{point:?}");
        assert!(ledger.reservations.is_empty(), "{point:?}");
    }
}

fn a_replaced_holder_is_charged_in_full_until_it_reports(fixture: &StoreFixture) {
    let client = fixture.client();
    let (plan, epoch) = start_work_for(&client, Some(Money(DOLLAR)), EXPIRED_LEASE);
    client.must_submit(plan, reserve(epoch, GlobalBudget::default()));
    let grounds = ReclaimGrounds::Expired;
    client.must_submit(plan, Command::from(ReclaimLease { grounds }));
    let account = global(&client, plan);
    assert_eq!(account.settled.cost, DOLLAR);
    assert_eq!(account.forfeited.cost, DOLLAR);
    assert_eq!(account.reserved, BudgetAmount::default());
    // The successor has no budget left.
    let successor = client.claim_phase(plan, LONG_LEASE);
    let refused = client.submit_for_plan(plan, reserve(successor, GlobalBudget::default()));
    assert!(
        matches!(&refused, Err(CommitError::Refused(Refusal::OverBudget(over))) if over.is_spent()),
        "{refused:?}"
    );
    // The old holder was only slow. Its report still counts, once.
    client.must_submit(plan, settle(epoch, 7));
    client.submit_for_plan(plan, settle(epoch, 7)).unwrap();
    assert_eq!(global(&client, plan).settled.cost, 7);
    assert_eq!(global(&client, plan).forfeited, BudgetAmount::default());
    client.must_submit(plan, reserve(successor, GlobalBudget::default()));
    assert_eq!(global(&client, plan).reserved.cost, DOLLAR - 7);
}

fn accounts_and_reservations_read_back_as_they_were_written(fixture: &StoreFixture) {
    const MOST: u64 = i64::MAX.unsigned_abs();
    let client = fixture.client();
    let (plan, epoch) = start_work(&client, Some(Money(MOST)));
    let other = start_work(&client, None).0;
    client.must_submit(plan, reserve(epoch, GlobalBudget::default()));
    let ledger = fixture.open().read_ledger(plan).unwrap();
    assert_eq!(ledger.plan.reserved.cost, MOST);
    assert_eq!(ledger.reservations.len(), 1);
    assert_eq!(ledger.reservations[0].plan, plan);
    assert_eq!(ledger.reservations[0].amount.cost, MOST);
    let other_ledger = fixture.open().read_ledger(other).unwrap();
    assert_eq!(other_ledger.global, ledger.global);
    assert_eq!(other_ledger.plan, BudgetAccount::default());
    assert!(other_ledger.reservations.is_empty());
    let used = BudgetAmount {
        cost: MOST,
        tokens: MOST,
        time: MOST,
    };
    client.must_submit(plan, Command::from(SettleUsage { epoch, used }));
    let ledger = fixture.open().read_ledger(plan).unwrap();
    assert_eq!(ledger.plan.settled, used);
    assert!(ledger.reservations.is_empty());
}
