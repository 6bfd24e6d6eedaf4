//! Leases: authority is the epoch; expiry only permits that somebody takes over.

use plan::changeset::Node;
use plan::command::{Grounds, Into};
use plan::stage::StateName;
use plan::{Command, Epoch, Phase, Refusal};
use store::CommitError;
use testkit::client::{LONG, OVER};
use testkit::{Client, samples};

use crate::bench::{Bench, due};

super::on_every_store! {
    a_renewal_extends_the_lease_and_is_no_event,
    expired_leases_are_listed_longest_ago_first,
    a_running_lease_is_not_reclaimed_unless_its_owner_is_dead,
    a_reclaim_raises_the_epoch_and_fences_the_old_holder,
    an_expired_holder_nobody_reclaimed_may_renew_and_complete,
    of_sixteen_reclaims_one_wins,
    a_lease_ends_with_the_work,
}

fn a_renewal_extends_the_lease_and_is_no_event(bench: &Bench) {
    let client = bench.client();
    let plan = client.queued("be renewed");
    let epoch = client.claim(plan, OVER);
    let before = client.store().plan(plan).unwrap().unwrap();
    assert_eq!(client.store().expired(10).unwrap(), [plan]);
    let renewed = client.must(plan, Command::Renew { epoch, lease: LONG });
    let after = bench.open().plan(plan).unwrap().unwrap();
    assert!(after.lease.clone().unwrap().expires_at > before.lease.unwrap().expires_at);
    assert_eq!((after.plan, after.head), (before.plan.clone(), before.head));
    assert_eq!(renewed.receipt.version, Some(before.plan.version));
    assert!(client.store().expired(10).unwrap().is_empty());
}

fn expired_leases_are_listed_longest_ago_first(bench: &Bench) {
    let client = bench.client();
    let claimed = |seconds| {
        let plan = client.queued("expire");
        client.claim(plan, plan::Span::seconds(seconds));
        plan
    };
    let (recent, running, oldest, old) =
        (claimed(-60), claimed(3600), claimed(-7200), claimed(-3600));
    let store = bench.open();
    assert_eq!(store.expired(10).unwrap(), [oldest, old, recent]);
    assert_eq!(store.expired(2).unwrap(), [oldest, old]);
    client.must(running, Command::Cancel { reason: None });
    client.must(oldest, Command::Cancel { reason: None });
    assert_eq!(store.expired(10).unwrap(), [old, recent]);
}

fn a_running_lease_is_not_reclaimed_unless_its_owner_is_dead(bench: &Bench) {
    let client = bench.client();
    let plan = client.queued("keep working");
    let epoch = client.claim(plan, LONG);
    let answer = client.on(plan, reclaim(Grounds::Expired));
    let Err(CommitError::Refused(Refusal::LeaseRuns { holder, expires_at })) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(holder.epoch, epoch);
    let lease = client.store().plan(plan).unwrap().unwrap().lease.unwrap();
    assert_eq!(lease.expires_at, expires_at);
    // Who was seen to be dead had it before: whoever has it now lives.
    let another = reclaim(Grounds::OwnerDead(Epoch(epoch.0 - 1)));
    let answer = client.on(plan, another);
    assert!(
        matches!(answer, Err(CommitError::Refused(Refusal::LeaseRuns { .. }))),
        "{answer:?}"
    );
    client.must(plan, reclaim(Grounds::OwnerDead(epoch)));
    assert_eq!(client.plan(plan).epoch, epoch.next());
}

fn a_reclaim_raises_the_epoch_and_fences_the_old_holder(bench: &Bench) {
    let client = bench.client();
    let (plan, epoch) = client.executing("be taken over", OVER);
    let (id, node) = (client.ids().changeset(), Node::main());
    client.must(plan, Command::OpenChangeset { epoch, id, node });
    client.must(plan, reclaim(Grounds::Expired));
    let row = client.store().plan(plan).unwrap().unwrap();
    assert_eq!(row.lease, None);
    assert_eq!((row.plan.epoch, row.plan.attempt), (epoch.next(), 2));
    assert_eq!(row.plan.stage.state(), StateName::Queued);
    assert_eq!(due(client.store(), Phase::Execute), [plan]);
    is_fenced(&client, plan, epoch);

    let successor = client.worker("successor").claim(plan, LONG);
    assert_eq!(successor, Epoch(epoch.0 + 2));
    is_fenced(&client, plan, epoch);
    let lease = client.store().plan(plan).unwrap().unwrap().lease.unwrap();
    assert_eq!(
        (lease.owner.as_str(), lease.epoch),
        ("successor", successor)
    );
}

/// Nothing the holder of this epoch could do is still done.
fn is_fenced(client: &Client, plan: plan::PlanId, epoch: Epoch) {
    let entry = samples::created("late");
    let node = "late".parse().unwrap();
    let message = "late".to_owned();
    let commands = [
        Command::Renew { epoch, lease: LONG },
        Command::OpenChangeset {
            epoch,
            id: client.ids().changeset(),
            node,
        },
        Command::RecordChange {
            epoch,
            into: Into::OnlyOpen,
            entry,
        },
        Command::CompleteExecute {
            epoch,
            result: samples::result("late"),
            captured: Vec::new(),
            allow_empty: false,
            judgement: client.judge(plan, plan::invariant::Gate::Result),
        },
        Command::Fail {
            epoch,
            category: plan::stage::Category::Actor,
            message,
        },
        Command::Release { epoch },
    ];
    let before = client.store().plan(plan).unwrap();
    for command in commands {
        let verb = command.verb();
        match client.on(plan, command) {
            Err(CommitError::Refused(Refusal::Fenced { given, .. })) => assert_eq!(given, epoch),
            // Without a holder there is nothing to be renewed, opened or recorded.
            Err(CommitError::Refused(Refusal::WrongState { .. })) => {
                assert!(before.as_ref().unwrap().lease.is_none(), "{verb}");
            }
            other => panic!("{verb}: {other:?}"),
        }
    }
    assert_eq!(client.store().plan(plan).unwrap(), before);
}

fn an_expired_holder_nobody_reclaimed_may_renew_and_complete(bench: &Bench) {
    let client = bench.client();
    let plan = client.queued("be late but not too late");
    let epoch = client.claim(plan, OVER);
    let decisions = Vec::new();
    client.must(plan, Command::Renew { epoch, lease: OVER });
    client.must(plan, Command::CompleteStrategize { epoch, decisions });
    assert_eq!(client.plan(plan).stage.state(), StateName::Complete);
    assert!(client.store().expired(10).unwrap().is_empty());
}

fn of_sixteen_reclaims_one_wins(bench: &Bench) {
    let client = bench.client();
    let plan = client.queued("be reclaimed once");
    let epoch = client.claim(plan, OVER);
    let answers = bench.race(16, |_, racer| racer.on(plan, reclaim(Grounds::Expired)));
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    assert_eq!(client.plan(plan).epoch, epoch.next());
    assert_eq!(client.plan(plan).attempt, 2);
}

fn a_lease_ends_with_the_work(bench: &Bench) {
    let client = bench.client();
    let ends: [fn(Epoch) -> Command; 4] = [
        |epoch| Command::Release { epoch },
        |epoch| Command::CompleteStrategize {
            epoch,
            decisions: Vec::new(),
        },
        |epoch| Command::Ask {
            epoch,
            question: "which?".to_owned(),
            patience: None,
        },
        |_| Command::Cancel { reason: None },
    ];
    for end in ends {
        let plan = client.queued("end");
        let epoch = client.claim(plan, OVER);
        client.must(plan, end(epoch));
        assert_eq!(client.store().plan(plan).unwrap().unwrap().lease, None);
        assert!(client.store().expired(10).unwrap().is_empty());
    }
}

fn reclaim(grounds: Grounds) -> Command {
    Command::Reclaim { grounds }
}
