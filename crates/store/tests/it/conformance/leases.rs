//! Tests leases: the epoch decides who may write; expiry only allows a takeover.

use plan::changeset::Node;
use plan::command::{
    AskPerson, CancelPlan, CompleteExecute, CompleteStrategize, FailRun, OpenChangeset,
    ReclaimLease, RecordChange, ReleaseLease, RenewLease,
};
use plan::command::{ChangesetSelector, ReclaimGrounds};
use plan::stage::StateName;
use plan::{Command, Epoch, Phase, Refusal};
use store::CommitError;
use testkit::client::{EXPIRED_LEASE, LONG_LEASE};
use testkit::{TestClient, samples};

use crate::store_fixture::{StoreFixture, due};

super::on_every_store! {
    a_renewal_extends_the_lease_without_an_event,
    expired_leases_are_listed_longest_ago_first,
    a_running_lease_is_not_reclaimed_unless_its_owner_is_dead,
    a_reclaim_raises_the_epoch_and_fences_the_old_holder,
    an_expired_holder_may_renew_and_complete_until_reclaimed,
    of_sixteen_reclaims_one_wins,
    a_lease_ends_with_the_work,
}

fn a_renewal_extends_the_lease_without_an_event(fixture: &StoreFixture) {
    let client = fixture.client();
    let plan = client.create_queued_plan("be renewed");
    let epoch = client.claim_phase(plan, EXPIRED_LEASE);
    let before = client.store().read_plan(plan).unwrap().unwrap();
    assert_eq!(client.store().list_expired_leases(10).unwrap(), [plan]);
    let renewed = client.must_submit(
        plan,
        Command::from(RenewLease {
            epoch,
            lease: LONG_LEASE,
        }),
    );
    let after = fixture.open().read_plan(plan).unwrap().unwrap();
    assert!(after.lease.clone().unwrap().expires_at > before.lease.unwrap().expires_at);
    assert_eq!((after.plan, after.head), (before.plan.clone(), before.head));
    assert_eq!(renewed.receipt.version, Some(before.plan.version()));
    assert!(client.store().list_expired_leases(10).unwrap().is_empty());
}

fn expired_leases_are_listed_longest_ago_first(fixture: &StoreFixture) {
    let client = fixture.client();
    let claimed = |seconds| {
        let plan = client.create_queued_plan("expire");
        client.claim_phase(plan, plan::Span::from_seconds(seconds));
        plan
    };
    let (recent, running, oldest, old) =
        (claimed(-60), claimed(3600), claimed(-7200), claimed(-3600));
    let store = fixture.open();
    assert_eq!(
        store.list_expired_leases(10).unwrap(),
        [oldest, old, recent]
    );
    assert_eq!(store.list_expired_leases(2).unwrap(), [oldest, old]);
    client.must_submit(running, Command::from(CancelPlan { reason: None }));
    client.must_submit(oldest, Command::from(CancelPlan { reason: None }));
    assert_eq!(store.list_expired_leases(10).unwrap(), [old, recent]);
}

fn a_running_lease_is_not_reclaimed_unless_its_owner_is_dead(fixture: &StoreFixture) {
    let client = fixture.client();
    let plan = client.create_queued_plan("keep working");
    let epoch = client.claim_phase(plan, LONG_LEASE);
    let answer = client.submit_for_plan(plan, reclaim(ReclaimGrounds::Expired));
    let Err(CommitError::Refused(Refusal::LeaseRuns { holder, expires_at })) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(holder.epoch, epoch);
    let lease = client
        .store()
        .read_plan(plan)
        .unwrap()
        .unwrap()
        .lease
        .unwrap();
    assert_eq!(lease.expires_at, expires_at);
    // The dead owner held an earlier epoch; the current holder is alive.
    let another = reclaim(ReclaimGrounds::OwnerDead(Epoch(epoch.0 - 1)));
    let answer = client.submit_for_plan(plan, another);
    assert!(
        matches!(answer, Err(CommitError::Refused(Refusal::LeaseRuns { .. }))),
        "{answer:?}"
    );
    client.must_submit(plan, reclaim(ReclaimGrounds::OwnerDead(epoch)));
    assert_eq!(client.load_plan(plan).epoch(), epoch.next());
}

fn a_reclaim_raises_the_epoch_and_fences_the_old_holder(fixture: &StoreFixture) {
    let client = fixture.client();
    let (plan, epoch) = client.create_executing_plan("be taken over", EXPIRED_LEASE);
    let (id, node) = (client.ids().next_changeset_id(), Node::main());
    client.must_submit(plan, Command::from(OpenChangeset { epoch, id, node }));
    client.must_submit(plan, reclaim(ReclaimGrounds::Expired));
    let row = client.store().read_plan(plan).unwrap().unwrap();
    assert_eq!(row.lease, None);
    assert_eq!((row.plan.epoch(), row.plan.attempt()), (epoch.next(), 2));
    assert_eq!(row.plan.stage().state_name(), StateName::Queued);
    assert_eq!(due(client.store(), Phase::Execute), [plan]);
    is_fenced(&client, plan, epoch);

    let successor = client.as_worker("successor").claim_phase(plan, LONG_LEASE);
    assert_eq!(successor, Epoch(epoch.0 + 2));
    is_fenced(&client, plan, epoch);
    let lease = client
        .store()
        .read_plan(plan)
        .unwrap()
        .unwrap()
        .lease
        .unwrap();
    assert_eq!(
        (lease.owner.as_str(), lease.epoch),
        ("successor", successor)
    );
}

/// Checks that every command of this epoch's holder is refused.
fn is_fenced(client: &TestClient, plan: plan::PlanId, epoch: Epoch) {
    let entry = samples::created_entry("late");
    let node = "late".parse().unwrap();
    let message = "late".to_owned();
    let commands = [
        Command::from(RenewLease {
            epoch,
            lease: LONG_LEASE,
        }),
        Command::from(OpenChangeset {
            epoch,
            id: client.ids().next_changeset_id(),
            node,
        }),
        Command::from(RecordChange {
            epoch,
            into: ChangesetSelector::OnlyOpen,
            entry,
        }),
        Command::from(CompleteExecute {
            epoch,
            result: samples::result_content("late"),
            captured: Vec::new(),
            allow_empty: false,
            judgement: client.judge_rules(plan, plan::invariant::Gate::Result),
        }),
        Command::from(FailRun {
            epoch,
            category: plan::stage::FailureCategory::Actor,
            message,
        }),
        Command::from(ReleaseLease { epoch }),
    ];
    let before = client.store().read_plan(plan).unwrap();
    for command in commands {
        let verb = command.verb();
        match client.submit_for_plan(plan, command) {
            Err(CommitError::Refused(Refusal::Fenced { given, .. })) => assert_eq!(given, epoch),
            // Without a holder there is nothing to renew, open or record.
            Err(CommitError::Refused(Refusal::WrongState { .. })) => {
                assert!(before.as_ref().unwrap().lease.is_none(), "{verb}");
            }
            other => panic!("{verb}: {other:?}"),
        }
    }
    assert_eq!(client.store().read_plan(plan).unwrap(), before);
}

fn an_expired_holder_may_renew_and_complete_until_reclaimed(fixture: &StoreFixture) {
    let client = fixture.client();
    let plan = client.create_queued_plan("be late but not too late");
    let epoch = client.claim_phase(plan, EXPIRED_LEASE);
    let decisions = Vec::new();
    client.must_submit(
        plan,
        Command::from(RenewLease {
            epoch,
            lease: EXPIRED_LEASE,
        }),
    );
    client.must_submit(plan, Command::from(CompleteStrategize { epoch, decisions }));
    assert_eq!(
        client.load_plan(plan).stage().state_name(),
        StateName::Complete
    );
    assert!(client.store().list_expired_leases(10).unwrap().is_empty());
}

fn of_sixteen_reclaims_one_wins(fixture: &StoreFixture) {
    let client = fixture.client();
    let plan = client.create_queued_plan("be reclaimed once");
    let epoch = client.claim_phase(plan, EXPIRED_LEASE);
    let answers = fixture.race(16, |_, racer| {
        racer.submit_for_plan(plan, reclaim(ReclaimGrounds::Expired))
    });
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    assert_eq!(client.load_plan(plan).epoch(), epoch.next());
    assert_eq!(client.load_plan(plan).attempt(), 2);
}

fn a_lease_ends_with_the_work(fixture: &StoreFixture) {
    let client = fixture.client();
    let ends: [fn(Epoch) -> Command; 4] = [
        |epoch| Command::from(ReleaseLease { epoch }),
        |epoch| {
            Command::CompleteStrategize(CompleteStrategize {
                epoch,
                decisions: Vec::new(),
            })
        },
        |epoch| {
            Command::from(AskPerson {
                epoch,
                question: "which?".to_owned(),
                answer_timeout: None,
            })
        },
        |_| Command::from(CancelPlan { reason: None }),
    ];
    for end in ends {
        let plan = client.create_queued_plan("end");
        let epoch = client.claim_phase(plan, EXPIRED_LEASE);
        client.must_submit(plan, end(epoch));
        assert_eq!(client.store().read_plan(plan).unwrap().unwrap().lease, None);
        assert!(client.store().list_expired_leases(10).unwrap().is_empty());
    }
}

fn reclaim(grounds: ReclaimGrounds) -> Command {
    Command::from(ReclaimLease { grounds })
}
