//! Means: set aside before work, charged once after it.

use planwright_plan as plan;

use plan::decide::{Request, decide_in_a_row};
use plan::judgement::Judgement;
use plan::ledger::{Account, AccountName, Amount, Budget, Means, Metering, Over};
use plan::plan::Limits;
use plan::stage::Category;
use plan::{Command, Epoch, Money, Outcome, Profile, Refusal, Span, Verb};

use crate::spot::Spot;
use crate::world::{Lands, World, ada, worker};

const DOLLAR: u64 = 1_000_000;

/// A plan with these limits that somebody works on.
fn at_work(limits: Limits) -> World {
    let mut world = World::new(Profile::Review, Lands::OnTargets);
    world.plan_mut().limits = limits;
    world.person(Verb::StartStrategize);
    world
}

fn dollars(limit: u64) -> Limits {
    Limits {
        cost: Some(Money(limit * DOLLAR)),
        ..Limits::default()
    }
}

fn for_all(limit: u64) -> Budget {
    Budget {
        cost: Some(Money(limit * DOLLAR)),
        tokens: None,
    }
}

fn reserve(world: &World, metering: Metering, budget: Budget) -> Command {
    Command::Reserve {
        epoch: world.plan().epoch,
        metering,
        budget,
    }
}

fn settle(epoch: Epoch, cost: u64) -> Command {
    let used = Amount {
        cost,
        ..Amount::default()
    };
    Command::Settle { epoch, used }
}

fn reserved(world: &mut World, metering: Metering, budget: Budget) -> plan::ledger::Grant {
    let command = reserve(world, metering, budget);
    let decision = world.submit(&worker(), command).unwrap();
    assert!(decision.plans.is_empty(), "no plan moves");
    *decision.receipt.grant.unwrap()
}

fn of_plan(world: &World) -> Account {
    world.facts.ledger.plan
}

#[test]
fn a_run_is_given_what_is_left_and_settled_by_what_it_used() {
    let mut world = at_work(dollars(5));
    world.facts.ledger.plan.settled.cost = 2 * DOLLAR;
    world.facts.ledger.global.settled.cost = 2 * DOLLAR;
    let grant = reserved(&mut world, Metering::Cost, Budget::default());
    let [cost] = grant.0.as_slice() else {
        panic!("{grant:?}");
    };
    assert_eq!(
        (cost.limit, cost.spent, cost.left),
        (5 * DOLLAR, 2 * DOLLAR, 3 * DOLLAR)
    );
    assert_eq!(of_plan(&world).reserved.cost, 3 * DOLLAR);
    let epoch = world.plan().epoch;
    let version = world.plan().version;
    world.submit(&worker(), settle(epoch, DOLLAR)).unwrap();
    assert_eq!(world.plan().version, version);
    let ledger = world.facts.ledger.clone();
    for account in [ledger.global, ledger.plan] {
        assert_eq!(account.settled.cost, 3 * DOLLAR);
        assert_eq!(account.reserved, Amount::default());
    }
    assert!(ledger.reservations.is_empty());
}

#[test]
fn telling_again_charges_nothing() {
    let mut world = at_work(dollars(5));
    reserved(&mut world, Metering::Cost, Budget::default());
    let epoch = world.plan().epoch;
    world.submit(&worker(), settle(epoch, DOLLAR)).unwrap();
    let again = world.submit(&worker(), settle(epoch, DOLLAR)).unwrap();
    assert_eq!(again.receipt.outcome, Outcome::AlreadyDone);
    assert!(again.rows.is_empty());
    assert_eq!(of_plan(&world).settled.cost, DOLLAR);
    // Nobody works under an epoch that was never given.
    let refusal = world.refused(&worker(), settle(epoch.next(), DOLLAR));
    assert!(matches!(refusal, Refusal::Fenced { .. }), "{refusal:?}");
}

/// An actor that is asked about a rule works beside the holder, if there is one.
#[test]
fn whoever_is_asked_is_charged_whatever_became_of_the_plan() {
    let mut world = at_work(dollars(5));
    reserved(&mut world, Metering::Cost, Budget::default());
    let asked = |cost| Command::KeepEvidence {
        judgement: Judgement::default(),
        used: Amount {
            cost,
            ..Amount::default()
        },
    };
    world.submit(&worker(), asked(DOLLAR)).unwrap();
    let ledger = world.facts.ledger.clone();
    for account in [ledger.global, ledger.plan] {
        assert_eq!(account.settled.cost, DOLLAR);
        assert_eq!(account.reserved.cost, 5 * DOLLAR);
    }
    // Cancelled, its holder is charged all of the five.
    world.person(Verb::Cancel);
    world.submit(&worker(), asked(2 * DOLLAR)).unwrap();
    assert_eq!(of_plan(&world).settled.cost, 8 * DOLLAR);
    let refusal = world.refused(&worker(), asked(0));
    assert!(matches!(refusal, Refusal::Final { .. }), "{refusal:?}");
}

#[test]
fn asking_again_sets_nothing_more_aside() {
    let mut world = at_work(dollars(5));
    let first = reserved(&mut world, Metering::Cost, Budget::default());
    let command = reserve(&world, Metering::Cost, Budget::default());
    let again = world.submit(&worker(), command).unwrap();
    assert_eq!(again.receipt.outcome, Outcome::AlreadyDone);
    assert_eq!(again.receipt.grant.as_deref(), Some(&first));
    assert_eq!(of_plan(&world).reserved.cost, 5 * DOLLAR);
}

#[test]
fn what_is_spent_is_over_and_what_others_have_may_come_back() {
    let mut world = at_work(Limits::default());
    world.facts.ledger.global.reserved.cost = 4 * DOLLAR;
    world.facts.ledger.global.settled.cost = DOLLAR;
    let refusal = world.refused(&worker(), reserve(&world, Metering::Cost, for_all(5)));
    let Refusal::OverBudget(over) = refusal else {
        panic!("{refusal:?}");
    };
    let expected = Over {
        means: Means::Cost,
        account: AccountName::Global,
        limit: 5 * DOLLAR,
        spent: DOLLAR,
        reserved: 4 * DOLLAR,
    };
    assert_eq!(over, expected);
    assert!(!over.is_spent());
    // Whoever tells of no money needs none to be set aside.
    reserved(&mut world.clone(), Metering::Tokens, for_all(5));
    world.facts.ledger.global.settled.cost = 5 * DOLLAR;
    for metering in [Metering::Cost, Metering::Time] {
        let refusal = world.refused(&worker(), reserve(&world, metering, for_all(5)));
        assert!(matches!(refusal, Refusal::OverBudget(over) if over.is_spent()));
    }
}

#[test]
fn the_tighter_of_two_limits_counts_and_without_any_nothing_is_set_aside() {
    let mut world = at_work(dollars(5));
    let grant = reserved(&mut world.clone(), Metering::Cost, for_all(3));
    assert_eq!(
        (grant.0[0].account, grant.0[0].left),
        (AccountName::Global, 3 * DOLLAR)
    );
    let grant = reserved(&mut world, Metering::Time, for_all(3));
    assert_eq!(grant.0[0].left, 3 * DOLLAR);
    assert_eq!(of_plan(&world).reserved, Amount::default());
    let mut world = at_work(Limits::default());
    assert!(
        reserved(&mut world, Metering::Cost, Budget::default())
            .0
            .is_empty()
    );
    assert_eq!(of_plan(&world).reserved, Amount::default());
}

#[test]
fn a_share_is_given_whole_or_to_one_alone() {
    let mut world = at_work(dollars(3));
    world.facts.ledger.global.reserved.cost = 3 * DOLLAR;
    reserved(&mut world.clone(), Metering::Cost, for_all(6));
    let refusal = world.refused(&worker(), reserve(&world, Metering::Cost, for_all(5)));
    assert!(matches!(refusal, Refusal::OverBudget(over) if !over.is_spent()));
    world.facts.ledger.global.reserved.cost = 0;
    let grant = reserved(&mut world, Metering::Cost, for_all(2));
    assert_eq!(grant.0[0].left, 2 * DOLLAR);
}

#[test]
fn whoever_is_fenced_is_charged_in_full_until_it_tells() {
    let limits = Limits {
        time: Some(Span::seconds(60)),
        ..dollars(5)
    };
    for verb in [Verb::Reclaim, Verb::Cancel] {
        let mut world = at_work(limits);
        reserved(&mut world, Metering::Cost, Budget::default());
        let fenced = world.plan().epoch;
        world.wait(Span::seconds(10)).person(verb);
        let account = of_plan(&world);
        assert_eq!(account.settled.cost, 5 * DOLLAR, "{verb}");
        assert_eq!(account.settled.span(), Span::seconds(10), "{verb}");
        assert_eq!(account.forfeited, account.settled, "{verb}");
        assert_eq!(account.reserved, Amount::default(), "{verb}");
        // It comes back, and knows better. Once.
        for _ in 0..2 {
            world.submit(&worker(), settle(fenced, DOLLAR)).unwrap();
            let account = of_plan(&world);
            assert_eq!(account.settled.cost, DOLLAR, "{verb}");
            assert_eq!(account.forfeited, Amount::default(), "{verb}");
            assert_eq!(world.facts.ledger.global, account, "{verb}");
        }
    }
}

#[test]
fn whoever_is_at_work_keeps_what_was_set_aside() {
    let mut world = at_work(dollars(5));
    reserved(&mut world, Metering::Cost, Budget::default());
    let before = world.facts.ledger.clone();
    world.person(Verb::Renew);
    assert_eq!(world.facts.ledger, before);
}

/// Landing takes nothing of what is limited; limits that are given anew are looked at all the same.
#[test]
fn what_was_worked_out_lands_although_its_limit_is_reached() {
    let mut world = Spot::ApplyConstrained.world();
    world.plan_mut().limits = dollars(2);
    world.facts.ledger.plan.settled.cost = 2 * DOLLAR;
    let retry = |limits| {
        let fresh = false;
        world.decide(&ada(), Command::Retry { fresh, limits })
    };
    for limits in [None, Some(dollars(2)), Some(dollars(3))] {
        assert!(retry(limits).is_ok(), "{limits:?}");
    }
    let refusal = retry(Some(dollars(1))).unwrap_err();
    assert!(matches!(refusal, Refusal::LimitTooLow { .. }), "{refusal}");
}

/// What is told in a row of several holders is settled for each.
#[test]
fn in_a_row_each_holder_has_its_own_ticket() {
    let mut world = at_work(Limits::default());
    let budget = Budget::default();
    reserved(&mut world, Metering::Cost, budget);
    let fenced = world.plan().epoch;
    world.submit(&worker(), settle(fenced, DOLLAR)).unwrap();
    world.person(Verb::Reclaim).person(Verb::StartStrategize);
    reserved(&mut world, Metering::Cost, budget);
    let second = world.plan().epoch;
    world.person(Verb::Reclaim).person(Verb::StartStrategize);
    let third = world.plan().epoch;
    let commands = [
        reserve(&world, Metering::Time, budget),
        settle(second, 2 * DOLLAR),
        settle(third, 3 * DOLLAR),
        settle(second, 5 * DOLLAR),
    ];
    let mut one_by_one = world.clone();
    for command in commands.clone() {
        one_by_one.submit(&worker(), command).unwrap();
    }
    assert_eq!(of_plan(&one_by_one).settled.cost, 6 * DOLLAR);
    let requests = commands.map(|command| Request {
        command,
        plan: Some(world.plan().id),
        caller: worker(),
        if_version: None,
    });
    let decision = decide_in_a_row(&world.facts, &requests, world.now).unwrap();
    world.commit(&decision);
    assert_eq!(world.facts.ledger, one_by_one.facts.ledger);
}

#[test]
fn whoever_was_charged_is_not_charged_again_whatever_becomes_of_the_plan() {
    let mut world = at_work(dollars(5));
    reserved(&mut world, Metering::Cost, Budget::default());
    world.wait(Span::seconds(10)).person(Verb::Reclaim);
    let charged = of_plan(&world);
    assert_eq!(charged.settled.cost, 5 * DOLLAR);
    world.wait(Span::seconds(10)).person(Verb::StartStrategize);
    world.wait(Span::seconds(10)).person(Verb::Cancel);
    assert_eq!(of_plan(&world), charged);
}

#[test]
fn a_holder_that_went_silent_is_charged_the_time_of_its_lease() {
    let mut world = at_work(Limits::default());
    reserved(&mut world, Metering::Time, Budget::default());
    let epoch = world.plan().epoch;
    world.wait(Span::seconds(86_400));
    let command = Command::Reclaim {
        grounds: plan::command::Grounds::Expired,
    };
    world.submit(&worker(), command).unwrap();
    assert_eq!(of_plan(&world).settled.span(), crate::world::LEASE);
    assert_eq!(of_plan(&world).settled.cost, 0);
    assert!(world.facts.ledger.reservation(epoch).is_some());
}

#[test]
fn a_limit_that_leaves_nothing_is_refused_with_the_figures() {
    let mut world = at_work(dollars(2));
    reserved(&mut world, Metering::Cost, Budget::default());
    let epoch = world.plan().epoch;
    world
        .submit(&worker(), settle(epoch, 2 * DOLLAR + 1))
        .unwrap();
    let fail = Command::Fail {
        epoch,
        category: Category::Budget,
        message: "spent".into(),
    };
    world.submit(&worker(), fail).unwrap();
    assert_eq!(world.stage(), "strategize/errored");
    let retry = |limits| Command::Retry {
        fresh: false,
        limits,
    };
    for limits in [None, Some(dollars(1)), Some(dollars(2))] {
        let refusal = world.refused(&ada(), retry(limits));
        assert!(
            matches!(refusal, Refusal::LimitTooLow { spent, .. } if spent == 2 * DOLLAR + 1),
            "{refusal:?}"
        );
    }
    world.submit(&ada(), retry(Some(dollars(3)))).unwrap();
    assert_eq!(world.plan().limits, dollars(3));
    assert_eq!(world.stage(), "strategize/queued");
}

#[test]
fn four_fifths_are_nearly_all() {
    let mut world = at_work(dollars(5));
    let grant = reserved(&mut world, Metering::Cost, Budget::default());
    let used = |cost| Amount {
        cost,
        ..Amount::default()
    };
    let allowance = grant.0[0];
    assert!(!allowance.is_nearly_used_up_by(used(4 * DOLLAR - 1)));
    assert!(allowance.is_nearly_used_up_by(used(4 * DOLLAR)));
    assert_eq!(grant.used_up_by(used(5 * DOLLAR - 1)), None);
    assert_eq!(grant.used_up_by(used(5 * DOLLAR)), Some(&allowance));
    assert_eq!(
        allowance.shown(used(DOLLAR)),
        "$1.00 of $5.00 for this plan"
    );
}

#[test]
fn means_are_shown_as_people_count_them() {
    let shown = |means: Means| means.shown(90_000_000);
    assert_eq!(Means::ALL.map(shown), ["$90.00", "90000000 tokens", "90s"]);
    let plan = World::new(Profile::Review, Lands::OnTargets).plan().id;
    let accounts = [AccountName::Global, AccountName::Plan(plan)];
    assert_eq!(
        accounts.map(|name| name.to_string()),
        ["global".to_owned(), format!("plan:{plan}")]
    );
    let over = |account, spent| Over {
        means: Means::Tokens,
        account,
        limit: 10,
        spent,
        reserved: 4,
    };
    assert_eq!(
        over(accounts[0], 10).to_string(),
        "10 tokens of 10 tokens for all plans are spent"
    );
    assert_eq!(
        over(accounts[1], 7).to_string(),
        "7 tokens of 10 tokens for this plan are spent, and 4 tokens are set aside for plans at work"
    );
}

#[test]
fn of_an_amount_only_what_there_is_is_written() {
    let amount = Amount {
        tokens: 7,
        ..Amount::default()
    };
    assert_eq!(
        serde_json::json!(amount),
        serde_json::json!({ "tokens": 7 })
    );
    assert_eq!(serde_json::json!(Amount::default()), serde_json::json!({}));
}
