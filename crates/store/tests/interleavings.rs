//! Runs the memory store under the `shuttle` scheduler, which tries thousands of thread
//! interleavings.
//!
//! Run with `cargo test -p planwright-store --features shuttle --test interleavings`.

#![cfg(feature = "shuttle")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

// The name other crates use.
extern crate planwright_store as store;

use std::sync::Arc;
use std::time::Duration;

use plan::action::{ActionDefinition, ActionState};
use plan::changeset::{ChangesetEntry, ChangesetSeal, Node};
use plan::command::{
    ArchiveAction, CompleteStrategize, CreateAction, CreatePlan, OpenChangeset, ReclaimLease,
    RecordChange, ReleaseLease, SealChangeset,
};
use plan::command::{ChangesetSelector, ReclaimGrounds};
use plan::invariant::{Gate, RuleScope};
use plan::{Command, Phase, PlanId, PlanVersion, ReceiptOutcome, Refusal};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::{Config, Runner, thread};
use store::verify::verify_store;
use store::{CommitError, Cursor, MemoryStore, PlanFilter, Store};
use testkit::client::{EXPIRED_LEASE, LONG_LEASE, expect_done};
use testkit::{FaultSwitch, TestClient, TestClock, TestIds, samples};

/// Random schedules, and as many PCT schedules with few priority changes, which find rarer bugs.
const SCHEDULES_PER_SCHEDULER: usize = 500;

/// The same schedules in every run.
const SEED: u64 = 1;

fn explore(scene: impl Fn() + Send + Sync + 'static) {
    let scene = Arc::new(scene);
    let again = Arc::clone(&scene);
    let random = RandomScheduler::new_from_seed(SEED, SCHEDULES_PER_SCHEDULER);
    Runner::new(random, config()).run(move || scene());
    let by_priority = PctScheduler::new_from_seed(SEED, 3, SCHEDULES_PER_SCHEDULER);
    Runner::new(by_priority, config()).run(move || again());
}

/// The default with larger stacks, because a decision needs them.
fn config() -> Config {
    let mut config = Config::default();
    config.stack_size = 1 << 20;
    config
}

fn client_of_new_store() -> TestClient {
    let clock = TestClock::default().to_store_clock();
    let store = MemoryStore::with_clock_and_faults(clock, FaultSwitch::default().faults());
    TestClient::new(Arc::new(store), Arc::new(TestIds::new(1)))
}

/// Runs both functions, each in its own thread.
fn run_both<A: Send + 'static, B: Send + 'static>(
    one: impl FnOnce() -> A + Send + 'static,
    other: impl FnOnce() -> B + Send + 'static,
) -> (A, B) {
    let (one, other) = (thread::spawn(one), thread::spawn(other));
    (one.join().unwrap(), other.join().unwrap())
}

#[test]
fn of_two_actions_with_one_name_one_is_created_and_the_other_is_refused() {
    explore(|| {
        let client = client_of_new_store();
        let create = |by: &str| {
            let client = client.as_person(by);
            move || {
                client.submit(Command::from(CreateAction(samples::reusable_action(
                    "tidy",
                ))))
            }
        };
        let answers = run_both(create("ada"), create("bob"));
        let error = match answers {
            (Ok(_), Err(error)) | (Err(error), Ok(_)) => error,
            both => panic!("{both:?}"),
        };
        let stored = client
            .store()
            .read_action(&samples::parse_name("tidy"))
            .unwrap()
            .unwrap();
        let CommitError::Refused(Refusal::ActionExists { by, .. }) = error else {
            panic!("{error:?}");
        };
        assert_eq!(by, stored.created_by);
    });
}

#[test]
fn two_actions_with_different_names_are_both_kept() {
    explore(|| {
        let client = client_of_new_store();
        let create = |name: &'static str| {
            let client = client.clone();
            move || client.add_action(samples::reusable_action(name))
        };
        run_both(create("tidy"), create("sort"));
        assert_eq!(client.store().list_actions(None, 10).unwrap().len(), 2);
    });
}

#[test]
fn an_action_is_used_before_it_is_archived_or_not_at_all() {
    explore(|| {
        let client = client_of_new_store();
        // Using this action also writes it, so that one command could undo the other.
        let name = client.add_action(ActionDefinition {
            reusable: false,
            ..samples::reusable_action("tidy")
        });
        let new = samples::plan_of_action(client.ids().next_plan_id(), &name);
        let plan = new.id;
        let (user, archiver, archived) = (client.clone(), client.clone(), name.clone());
        let (used, _) = run_both(
            move || user.submit(Command::from(CreatePlan(new))),
            move || expect_done(archiver.submit(Command::from(ArchiveAction(archived)))),
        );
        let stored = client.store().read_plan(plan).unwrap();
        match used {
            Ok(_) => assert!(stored.is_some()),
            Err(CommitError::Refused(Refusal::ActionArchived { .. })) => assert!(stored.is_none()),
            Err(other) => panic!("{other:?}"),
        }
        let action = client.store().read_action(&name).unwrap().unwrap();
        assert!(matches!(action.state, ActionState::Archived { .. }));
    });
}

#[test]
fn a_reader_never_sees_half_a_commit() {
    explore(|| {
        let client = client_of_new_store();
        let plan = client.create_queued_plan("be claimed");
        let (writer, reader) = (client.clone(), client.clone());
        run_both(
            move || {
                let epoch = writer.claim_phase(plan, LONG_LEASE);
                writer.must_submit(plan, Command::from(ReleaseLease { epoch }));
            },
            move || (0..3).for_each(|_| assert_consistent(reader.store(), plan)),
        );
        assert_consistent(client.store(), plan);
        assert_eq!(
            verify_store(client.store()).unwrap().problems,
            Vec::<String>::new()
        );
    });
}

/// Checks that plan, lease and log agree.
fn assert_consistent(store: &dyn Store, plan: PlanId) {
    let row = store.read_plan(plan).unwrap().unwrap();
    let holder = row.plan.stage().holder().map(|holder| holder.epoch);
    assert_eq!(row.lease.map(|lease| lease.epoch), holder);
    let events = store.read_plan_events(plan, PlanVersion(0), 100).unwrap();
    let last = events
        .iter()
        .find(|stored| stored.recorded.version == row.plan.version());
    assert_eq!(last.map(|last| last.hash), Some(row.head));
    let tail = store.read_events(&Cursor::START, 100).unwrap().events;
    assert!(
        tail.len() >= events.len(),
        "the log lags behind the plan's events"
    );
    assert_eq!(tail[events.len() - 1].hash, events[events.len() - 1].hash);
}

#[test]
fn of_two_claimers_one_wins_and_the_other_learns_who() {
    explore(|| {
        let client = client_of_new_store();
        let plan = client.create_queued_plan("be claimed");
        let claim = |by: &str| {
            let client = client.as_worker(by);
            move || {
                client.submit_for_plan(
                    plan,
                    client.start_command(plan, Phase::Strategize, LONG_LEASE),
                )
            }
        };
        let answers = run_both(claim("one"), claim("two"));
        let (winner, error) = match answers {
            (Ok(_), Err(error)) => ("one", error),
            (Err(error), Ok(_)) => ("two", error),
            both => panic!("{both:?}"),
        };
        let CommitError::Refused(Refusal::Held { holder, .. }) = error else {
            panic!("{error:?}");
        };
        assert_eq!(holder.owner, winner);
    });
}

#[test]
fn a_holder_completes_or_is_reclaimed_never_both() {
    explore(|| {
        let client = client_of_new_store();
        let plan = client.create_queued_plan("be late");
        let epoch = client.claim_phase(plan, EXPIRED_LEASE);
        let (holder, other) = (client.clone(), client.as_worker("other"));
        let (completed, reclaimed) = run_both(
            move || {
                let decisions = Vec::new();
                holder.submit_for_plan(plan, Command::from(CompleteStrategize { epoch, decisions }))
            },
            move || {
                let grounds = ReclaimGrounds::Expired;
                other.submit_for_plan(plan, Command::from(ReclaimLease { grounds }))
            },
        );
        match (completed, reclaimed) {
            (Ok(_), Err(CommitError::Refused(_))) | (Err(CommitError::Refused(_)), Ok(_)) => {}
            both => panic!("{both:?}"),
        }
        assert_eq!(client.store().read_plan(plan).unwrap().unwrap().lease, None);
    });
}

#[test]
fn one_key_commits_once() {
    explore(|| {
        let client = client_of_new_store();
        let create = || {
            let client = client.clone();
            move || {
                let new = samples::plan_for_goal(client.ids().next_plan_id(), "once");
                client
                    .submit_with_key("k", "once", None, Command::from(CreatePlan(new)))
                    .unwrap()
            }
        };
        let (one, other) = run_both(create(), create());
        assert_eq!(one.receipt, other.receipt);
        assert_ne!(one.is_repeat, other.is_repeat);
        let plans = client
            .store()
            .list_plans(&PlanFilter::default(), None, 10)
            .unwrap();
        assert_eq!(plans.len(), 1);
    });
}

#[test]
fn a_gate_opens_before_a_rule_forbids_it_or_not_at_all() {
    explore(|| {
        let client = client_of_new_store();
        let plan = client.create_queued_plan("be judged");
        let added = Arc::new(AtomicBool::new(false));
        let (starter, ruler, is_added) = (client.clone(), client.clone(), Arc::clone(&added));
        run_both(
            move || {
                let start = starter.start_command(plan, Phase::Strategize, LONG_LEASE);
                let forbidden = is_added.load(Ordering::SeqCst);
                match starter.submit_for_plan(plan, start) {
                    Ok(committed) if committed.receipt.outcome == ReceiptOutcome::Done => {
                        assert!(!forbidden);
                    }
                    Ok(_) | Err(CommitError::Refused(Refusal::JudgementStale { .. })) => {}
                    Err(other) => panic!("{other:?}"),
                }
            },
            move || {
                ruler.add_rule(
                    RuleScope::Global,
                    samples::rule_draft("never", "false", &Gate::ALL),
                );
                added.store(true, Ordering::SeqCst);
            },
        );
    });
}

#[test]
fn a_record_is_in_the_seal_or_refused() {
    explore(|| {
        let client = client_of_new_store();
        let (plan, epoch) = client.create_executing_plan("change things", LONG_LEASE);
        let (id, node) = (client.ids().next_changeset_id(), Node::main());
        client.must_submit(plan, Command::from(OpenChangeset { epoch, id, node }));
        let (recorder, sealer) = (client.clone(), client.clone());
        let (recorded, _) = run_both(
            move || {
                let (into, entry) = (
                    ChangesetSelector::Changeset(id),
                    samples::created_entry("a"),
                );
                recorder.submit_for_plan(plan, Command::from(RecordChange { epoch, into, entry }))
            },
            move || {
                sealer.must_submit(
                    plan,
                    Command::from(SealChangeset {
                        epoch,
                        changeset: id,
                    }),
                )
            },
        );
        let expected: Vec<ChangesetEntry> = recorded
            .iter()
            .map(|_| samples::created_entry("a"))
            .collect();
        let (changeset, entries) = client.store().list_changesets(plan).unwrap().remove(0);
        assert_eq!(entries, expected);
        let seal = changeset.seal.unwrap();
        assert_eq!(seal, ChangesetSeal::from_entries(&expected, seal.at));
    });
}

#[test]
fn parallel_nodes_record_into_their_own_changesets() {
    explore(|| {
        let client = client_of_new_store();
        let (plan, epoch) = client.create_executing_plan("change things", LONG_LEASE);
        let work = |name: &'static str| {
            let client = client.clone();
            move || {
                let (id, node): (_, Node) =
                    (client.ids().next_changeset_id(), name.parse().unwrap());
                client.must_submit(
                    plan,
                    Command::from(OpenChangeset {
                        epoch,
                        id,
                        node: node.clone(),
                    }),
                );
                for into in [
                    ChangesetSelector::Changeset(id),
                    ChangesetSelector::Node(node),
                ] {
                    let mut entry = samples::modified_entry("same", "0", name);
                    entry.tool = Some(name.to_owned());
                    client.must_submit(plan, Command::from(RecordChange { epoch, into, entry }));
                }
            }
        };
        run_both(work("one"), work("two"));
        let stored = client.store().list_changesets(plan).unwrap();
        assert_eq!(stored.len(), 2);
        for (changeset, entries) in stored {
            assert_eq!(entries.len(), 1);
            assert_eq!(entries[0].tool.as_deref(), Some(changeset.node.as_str()));
        }
    });
}

#[test]
fn of_two_openings_for_one_node_one_wins() {
    explore(|| {
        let client = client_of_new_store();
        let (plan, epoch) = client.create_executing_plan("change things", LONG_LEASE);
        let open = || {
            let client = client.clone();
            move || {
                let (id, node) = (client.ids().next_changeset_id(), Node::main());
                client.submit_for_plan(plan, Command::from(OpenChangeset { epoch, id, node }))
            }
        };
        let (one, other) = run_both(open(), open());
        assert_ne!(one.is_ok(), other.is_ok(), "{one:?} {other:?}");
        assert_eq!(client.store().list_changesets(plan).unwrap().len(), 1);
    });
}

/// A wait has no timeout here: a missed wake-up is a deadlock, which the scheduler detects.
#[test]
fn a_waiter_is_woken_by_a_commit() {
    let scene = || {
        let client = client_of_new_store();
        let woken = Arc::new(AtomicBool::new(false));
        let (waiter, woken_in_waiter) = (client.clone(), Arc::clone(&woken));
        run_both(
            move || {
                waiter
                    .store()
                    .wait_for_commit(Duration::from_secs(1))
                    .unwrap();
                woken_in_waiter.store(true, Ordering::SeqCst);
            },
            move || {
                // The first commit may happen before the wait begins.
                while !woken.load(Ordering::SeqCst) {
                    client.create_queued_plan("wake up");
                    thread::yield_now();
                }
            },
        );
    };
    let random = RandomScheduler::new_from_seed(SEED, SCHEDULES_PER_SCHEDULER);
    Runner::new(random, config()).run(scene);
}
