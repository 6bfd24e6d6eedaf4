//! The budget ledger: reserved before a run, charged once after it.

use planwright_plan as plan;

use plan::command::{FailRun, KeepEvidence, ReclaimLease, ReserveBudget, RetryPhase, SettleUsage};
use plan::decide::{DecisionRequest, decide_batch};
use plan::judgement::GateJudgement;
use plan::ledger::{
    AccountName, BudgetAccount, BudgetAmount, BudgetShortfall, BudgetUnit, GlobalBudget,
    MeteringLevel,
};
use plan::plan::PlanLimits;
use plan::stage::FailureCategory;
use plan::{Command, Epoch, Money, Profile, ReceiptOutcome, Refusal, Span, Verb};
use serde_json::json;

use crate::spot::Spot;
use crate::world::{LandingSetup, PlanWorld, ada, worker};

const DOLLAR_MICROS: u64 = 1_000_000;

/// A claimed plan with these limits.
fn claimed_world(limits: PlanLimits) -> PlanWorld {
    let mut world = PlanWorld::new(Profile::Review, LandingSetup::OnTargets);
    world.edit_plan(|fields| fields["limits"] = json!(limits));
    world.submit_as_person(Verb::StartStrategize);
    world
}

fn dollar_limits(limit: u64) -> PlanLimits {
    PlanLimits {
        cost: Some(Money(limit * DOLLAR_MICROS)),
        ..PlanLimits::default()
    }
}

fn global_dollar_budget(limit: u64) -> GlobalBudget {
    GlobalBudget {
        cost: Some(Money(limit * DOLLAR_MICROS)),
        tokens: None,
    }
}

fn reserve_command(world: &PlanWorld, metering: MeteringLevel, budget: GlobalBudget) -> Command {
    Command::from(ReserveBudget {
        epoch: world.plan().epoch(),
        metering,
        budget,
    })
}

fn settle_command(epoch: Epoch, cost: u64) -> Command {
    let used = BudgetAmount {
        cost,
        ..BudgetAmount::default()
    };
    Command::from(SettleUsage { epoch, used })
}

fn submit_reservation(
    world: &mut PlanWorld,
    metering: MeteringLevel,
    budget: GlobalBudget,
) -> plan::ledger::BudgetGrant {
    let command = reserve_command(world, metering, budget);
    let decision = world.submit(&worker(), command).unwrap();
    assert!(decision.plans.is_empty(), "no plan moves");
    *decision.receipt.grant.unwrap()
}

fn plan_account(world: &PlanWorld) -> BudgetAccount {
    world.facts.ledger.plan
}

#[test]
fn a_run_reserves_what_is_left_and_settles_its_usage() {
    let mut world = claimed_world(dollar_limits(5));
    world.facts.ledger.plan.settled.cost = 2 * DOLLAR_MICROS;
    world.facts.ledger.global.settled.cost = 2 * DOLLAR_MICROS;
    let grant = submit_reservation(&mut world, MeteringLevel::Cost, GlobalBudget::default());
    let [cost] = grant.0.as_slice() else {
        panic!("{grant:?}");
    };
    assert_eq!(
        (cost.limit, cost.spent, cost.left),
        (5 * DOLLAR_MICROS, 2 * DOLLAR_MICROS, 3 * DOLLAR_MICROS)
    );
    assert_eq!(plan_account(&world).reserved.cost, 3 * DOLLAR_MICROS);
    let epoch = world.plan().epoch();
    let version = world.plan().version();
    world
        .submit(&worker(), settle_command(epoch, DOLLAR_MICROS))
        .unwrap();
    assert_eq!(world.plan().version(), version);
    let ledger = world.facts.ledger.clone();
    for account in [ledger.global, ledger.plan] {
        assert_eq!(account.settled.cost, 3 * DOLLAR_MICROS);
        assert_eq!(account.reserved, BudgetAmount::default());
    }
    assert!(ledger.reservations.is_empty());
}

#[test]
fn settling_again_charges_nothing() {
    let mut world = claimed_world(dollar_limits(5));
    submit_reservation(&mut world, MeteringLevel::Cost, GlobalBudget::default());
    let epoch = world.plan().epoch();
    world
        .submit(&worker(), settle_command(epoch, DOLLAR_MICROS))
        .unwrap();
    let again = world
        .submit(&worker(), settle_command(epoch, DOLLAR_MICROS))
        .unwrap();
    assert_eq!(again.receipt.outcome, ReceiptOutcome::AlreadyDone);
    assert!(again.rows.is_empty());
    assert_eq!(plan_account(&world).settled.cost, DOLLAR_MICROS);
    // An epoch that was never issued cannot settle.
    let refusal = world.expect_refusal(&worker(), settle_command(epoch.next(), DOLLAR_MICROS));
    assert!(matches!(refusal, Refusal::Fenced { .. }), "{refusal:?}");
}

/// An actor that judges a rule is charged in addition to the holder.
#[test]
fn judging_is_charged_even_after_the_plan_ended() {
    let mut world = claimed_world(dollar_limits(5));
    submit_reservation(&mut world, MeteringLevel::Cost, GlobalBudget::default());
    let keep_evidence = |cost| {
        Command::from(KeepEvidence {
            judgement: GateJudgement::default(),
            used: BudgetAmount {
                cost,
                ..BudgetAmount::default()
            },
        })
    };
    world
        .submit(&worker(), keep_evidence(DOLLAR_MICROS))
        .unwrap();
    let ledger = world.facts.ledger.clone();
    for account in [ledger.global, ledger.plan] {
        assert_eq!(account.settled.cost, DOLLAR_MICROS);
        assert_eq!(account.reserved.cost, 5 * DOLLAR_MICROS);
    }
    // Cancelling charges the holder its whole reservation of five dollars.
    world.submit_as_person(Verb::Cancel);
    world
        .submit(&worker(), keep_evidence(2 * DOLLAR_MICROS))
        .unwrap();
    assert_eq!(plan_account(&world).settled.cost, 8 * DOLLAR_MICROS);
    let refusal = world.expect_refusal(&worker(), keep_evidence(0));
    assert!(matches!(refusal, Refusal::Final { .. }), "{refusal:?}");
}

#[test]
fn reserving_again_reserves_nothing_more() {
    let mut world = claimed_world(dollar_limits(5));
    let first = submit_reservation(&mut world, MeteringLevel::Cost, GlobalBudget::default());
    let command = reserve_command(&world, MeteringLevel::Cost, GlobalBudget::default());
    let again = world.submit(&worker(), command).unwrap();
    assert_eq!(again.receipt.outcome, ReceiptOutcome::AlreadyDone);
    assert_eq!(again.receipt.grant.as_deref(), Some(&first));
    assert_eq!(plan_account(&world).reserved.cost, 5 * DOLLAR_MICROS);
}

#[test]
fn a_spent_limit_is_final_and_a_reserved_one_is_not() {
    let mut world = claimed_world(PlanLimits::default());
    world.facts.ledger.global.reserved.cost = 4 * DOLLAR_MICROS;
    world.facts.ledger.global.settled.cost = DOLLAR_MICROS;
    let refusal = world.expect_refusal(
        &worker(),
        reserve_command(&world, MeteringLevel::Cost, global_dollar_budget(5)),
    );
    let Refusal::OverBudget(shortfall) = refusal else {
        panic!("{refusal:?}");
    };
    let expected = BudgetShortfall {
        unit: BudgetUnit::Cost,
        account: AccountName::Global,
        limit: 5 * DOLLAR_MICROS,
        spent: DOLLAR_MICROS,
        reserved: 4 * DOLLAR_MICROS,
    };
    assert_eq!(shortfall, expected);
    assert!(!shortfall.is_spent());
    // An actor that does not report money reserves none.
    submit_reservation(
        &mut world.clone(),
        MeteringLevel::Tokens,
        global_dollar_budget(5),
    );
    world.facts.ledger.global.settled.cost = 5 * DOLLAR_MICROS;
    for metering in [MeteringLevel::Cost, MeteringLevel::Time] {
        let refusal = world.expect_refusal(
            &worker(),
            reserve_command(&world, metering, global_dollar_budget(5)),
        );
        assert!(matches!(refusal, Refusal::OverBudget(shortfall) if shortfall.is_spent()));
    }
}

#[test]
fn the_tighter_limit_counts_and_without_limits_nothing_is_reserved() {
    let mut world = claimed_world(dollar_limits(5));
    let grant = submit_reservation(
        &mut world.clone(),
        MeteringLevel::Cost,
        global_dollar_budget(3),
    );
    assert_eq!(
        (grant.0[0].account, grant.0[0].left),
        (AccountName::Global, 3 * DOLLAR_MICROS)
    );
    let grant = submit_reservation(&mut world, MeteringLevel::Time, global_dollar_budget(3));
    assert_eq!(grant.0[0].left, 3 * DOLLAR_MICROS);
    assert_eq!(plan_account(&world).reserved, BudgetAmount::default());
    let mut world = claimed_world(PlanLimits::default());
    assert!(
        submit_reservation(&mut world, MeteringLevel::Cost, GlobalBudget::default())
            .0
            .is_empty()
    );
    assert_eq!(plan_account(&world).reserved, BudgetAmount::default());
}

#[test]
fn the_remainder_of_a_shared_limit_goes_to_one_run() {
    let mut world = claimed_world(dollar_limits(3));
    world.facts.ledger.global.reserved.cost = 3 * DOLLAR_MICROS;
    submit_reservation(
        &mut world.clone(),
        MeteringLevel::Cost,
        global_dollar_budget(6),
    );
    let refusal = world.expect_refusal(
        &worker(),
        reserve_command(&world, MeteringLevel::Cost, global_dollar_budget(5)),
    );
    assert!(matches!(refusal, Refusal::OverBudget(shortfall) if !shortfall.is_spent()));
    world.facts.ledger.global.reserved.cost = 0;
    let grant = submit_reservation(&mut world, MeteringLevel::Cost, global_dollar_budget(2));
    assert_eq!(grant.0[0].left, 2 * DOLLAR_MICROS);
}

#[test]
fn a_fenced_holder_is_charged_in_full_until_it_reports() {
    let limits = PlanLimits {
        time: Some(Span::from_seconds(60)),
        ..dollar_limits(5)
    };
    for verb in [Verb::Reclaim, Verb::Cancel] {
        let mut world = claimed_world(limits);
        submit_reservation(&mut world, MeteringLevel::Cost, GlobalBudget::default());
        let fenced = world.plan().epoch();
        world
            .advance_clock(Span::from_seconds(10))
            .submit_as_person(verb);
        let account = plan_account(&world);
        assert_eq!(account.settled.cost, 5 * DOLLAR_MICROS, "{verb}");
        assert_eq!(
            account.settled.time_span(),
            Span::from_seconds(10),
            "{verb}"
        );
        assert_eq!(account.forfeited, account.settled, "{verb}");
        assert_eq!(account.reserved, BudgetAmount::default(), "{verb}");
        // The holder reports late. Its usage replaces the charge, once.
        for _ in 0..2 {
            world
                .submit(&worker(), settle_command(fenced, DOLLAR_MICROS))
                .unwrap();
            let account = plan_account(&world);
            assert_eq!(account.settled.cost, DOLLAR_MICROS, "{verb}");
            assert_eq!(account.forfeited, BudgetAmount::default(), "{verb}");
            assert_eq!(world.facts.ledger.global, account, "{verb}");
        }
    }
}

#[test]
fn a_running_holder_keeps_its_reservation() {
    let mut world = claimed_world(dollar_limits(5));
    submit_reservation(&mut world, MeteringLevel::Cost, GlobalBudget::default());
    let before = world.facts.ledger.clone();
    world.submit_as_person(Verb::Renew);
    assert_eq!(world.facts.ledger, before);
}

/// A landing uses no budget, so reached limits do not stop it. New limits are checked anyway.
#[test]
fn a_result_lands_although_the_limit_is_reached() {
    let mut world = Spot::ApplyConstrained.default_world();
    world.edit_plan(|fields| fields["limits"] = json!(dollar_limits(2)));
    world.facts.ledger.plan.settled.cost = 2 * DOLLAR_MICROS;
    let retry = |limits| {
        let fresh = false;
        world.decide(&ada(), Command::from(RetryPhase { fresh, limits }))
    };
    for limits in [None, Some(dollar_limits(2)), Some(dollar_limits(3))] {
        assert!(retry(limits).is_ok(), "{limits:?}");
    }
    let refusal = retry(Some(dollar_limits(1))).unwrap_err();
    assert!(matches!(refusal, Refusal::LimitTooLow { .. }), "{refusal}");
}

/// A batch settles each holder's own reservation.
#[test]
fn in_a_batch_each_holder_has_its_own_reservation() {
    let mut world = claimed_world(PlanLimits::default());
    let budget = GlobalBudget::default();
    submit_reservation(&mut world, MeteringLevel::Cost, budget);
    let fenced = world.plan().epoch();
    world
        .submit(&worker(), settle_command(fenced, DOLLAR_MICROS))
        .unwrap();
    world
        .submit_as_person(Verb::Reclaim)
        .submit_as_person(Verb::StartStrategize);
    submit_reservation(&mut world, MeteringLevel::Cost, budget);
    let second = world.plan().epoch();
    world
        .submit_as_person(Verb::Reclaim)
        .submit_as_person(Verb::StartStrategize);
    let third = world.plan().epoch();
    let commands = [
        reserve_command(&world, MeteringLevel::Time, budget),
        settle_command(second, 2 * DOLLAR_MICROS),
        settle_command(third, 3 * DOLLAR_MICROS),
        settle_command(second, 5 * DOLLAR_MICROS),
    ];
    let mut one_by_one = world.clone();
    for command in commands.clone() {
        one_by_one.submit(&worker(), command).unwrap();
    }
    assert_eq!(plan_account(&one_by_one).settled.cost, 6 * DOLLAR_MICROS);
    let requests = commands.map(|command| DecisionRequest {
        command,
        plan_id: Some(world.plan().id()),
        caller: worker(),
        if_version: None,
    });
    let decision = decide_batch(&world.facts, &requests, world.now).unwrap();
    world.commit(&decision);
    assert_eq!(world.facts.ledger, one_by_one.facts.ledger);
}

#[test]
fn a_forfeited_holder_is_not_charged_again() {
    let mut world = claimed_world(dollar_limits(5));
    submit_reservation(&mut world, MeteringLevel::Cost, GlobalBudget::default());
    world
        .advance_clock(Span::from_seconds(10))
        .submit_as_person(Verb::Reclaim);
    let charged = plan_account(&world);
    assert_eq!(charged.settled.cost, 5 * DOLLAR_MICROS);
    world
        .advance_clock(Span::from_seconds(10))
        .submit_as_person(Verb::StartStrategize);
    world
        .advance_clock(Span::from_seconds(10))
        .submit_as_person(Verb::Cancel);
    assert_eq!(plan_account(&world), charged);
}

#[test]
fn a_silent_holder_is_charged_until_its_lease_expired() {
    let mut world = claimed_world(PlanLimits::default());
    submit_reservation(&mut world, MeteringLevel::Time, GlobalBudget::default());
    let epoch = world.plan().epoch();
    world.advance_clock(Span::from_seconds(86_400));
    let command = Command::from(ReclaimLease {
        grounds: plan::command::ReclaimGrounds::Expired,
    });
    world.submit(&worker(), command).unwrap();
    assert_eq!(
        plan_account(&world).settled.time_span(),
        crate::world::LEASE_LENGTH
    );
    assert_eq!(plan_account(&world).settled.cost, 0);
    assert!(world.facts.ledger.reservation(epoch).is_some());
}

#[test]
fn a_limit_that_leaves_nothing_is_refused_with_the_figures() {
    let mut world = claimed_world(dollar_limits(2));
    submit_reservation(&mut world, MeteringLevel::Cost, GlobalBudget::default());
    let epoch = world.plan().epoch();
    world
        .submit(&worker(), settle_command(epoch, 2 * DOLLAR_MICROS + 1))
        .unwrap();
    let fail = Command::from(FailRun {
        epoch,
        category: FailureCategory::Budget,
        message: "spent".into(),
    });
    world.submit(&worker(), fail).unwrap();
    assert_eq!(world.stage(), "strategize/errored");
    let retry = |limits| {
        Command::from(RetryPhase {
            fresh: false,
            limits,
        })
    };
    for limits in [None, Some(dollar_limits(1)), Some(dollar_limits(2))] {
        let refusal = world.expect_refusal(&ada(), retry(limits));
        assert!(
            matches!(refusal, Refusal::LimitTooLow { spent, .. } if spent == 2 * DOLLAR_MICROS + 1),
            "{refusal:?}"
        );
    }
    world.submit(&ada(), retry(Some(dollar_limits(3)))).unwrap();
    assert_eq!(world.plan().limits(), dollar_limits(3));
    assert_eq!(world.stage(), "strategize/queued");
}

#[test]
fn a_limit_is_nearly_exhausted_at_80_percent() {
    let mut world = claimed_world(dollar_limits(5));
    let grant = submit_reservation(&mut world, MeteringLevel::Cost, GlobalBudget::default());
    let used = |cost| BudgetAmount {
        cost,
        ..BudgetAmount::default()
    };
    let allowance = grant.0[0];
    assert!(!allowance.is_nearly_exhausted_by(used(4 * DOLLAR_MICROS - 1)));
    assert!(allowance.is_nearly_exhausted_by(used(4 * DOLLAR_MICROS)));
    assert_eq!(grant.find_exhausted(used(5 * DOLLAR_MICROS - 1)), None);
    assert_eq!(
        grant.find_exhausted(used(5 * DOLLAR_MICROS)),
        Some(&allowance)
    );
    assert_eq!(
        allowance.format_usage(used(DOLLAR_MICROS)),
        "$1.00 of $5.00 for this plan"
    );
}

#[test]
fn amounts_are_formatted_for_people() {
    let shown = |means: BudgetUnit| means.format_amount(90_000_000);
    assert_eq!(
        BudgetUnit::ALL.map(shown),
        ["$90.00", "90000000 tokens", "90s"]
    );
    let plan = PlanWorld::new(Profile::Review, LandingSetup::OnTargets)
        .plan()
        .id();
    let accounts = [AccountName::Global, AccountName::Plan(plan)];
    assert_eq!(
        accounts.map(|name| name.to_string()),
        ["global".to_owned(), format!("plan:{plan}")]
    );
    let shortfall = |account, spent| BudgetShortfall {
        unit: BudgetUnit::Tokens,
        account,
        limit: 10,
        spent,
        reserved: 4,
    };
    assert_eq!(
        shortfall(accounts[0], 10).to_string(),
        "10 tokens spent, limit 10 tokens for all plans"
    );
    assert_eq!(
        shortfall(accounts[1], 7).to_string(),
        "7 tokens spent and 4 tokens reserved for running plans, limit 10 tokens for this plan"
    );
}

#[test]
fn zero_amounts_are_not_serialized() {
    let amount = BudgetAmount {
        tokens: 7,
        ..BudgetAmount::default()
    };
    assert_eq!(
        serde_json::json!(amount),
        serde_json::json!({ "tokens": 7 })
    );
    assert_eq!(
        serde_json::json!(BudgetAmount::default()),
        serde_json::json!({})
    );
}
