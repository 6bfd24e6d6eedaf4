//! The memory store under a scheduler that takes the place of the operating system's and tries
//! thousands of orders in which threads can take its lock.
//!
//! Run with `cargo test -p planwright-store --features shuttle --test interleavings`.

#![cfg(feature = "shuttle")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed, and the panic says where"
)]

// Everybody else knows the crate by this name.
extern crate planwright_store as store;

use std::sync::Arc;
use std::time::Duration;

use plan::action::{ActionDefinition, ActionState};
use plan::changeset::{ChangesetEntry, ChangesetSeal, Node};
use plan::command::{ChangesetSelector, ReclaimGrounds};
use plan::invariant::{Gate, RuleScope};
use plan::{Command, Phase, PlanId, PlanVersion, ReceiptOutcome, Refusal};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::{Config, Runner, thread};
use store::verify::verify;
use store::{CommitError, Cursor, MemoryStore, PlanFilter, Store};
use testkit::client::{EXPIRED_LEASE, LONG_LEASE, expect_done};
use testkit::{FaultSwitch, TestClient, TestClock, TestIds, samples};

/// Orders tried at random, and as many with few changes of priority, which finds rarer ones.
const TRIES: usize = 500;

/// The same orders in every run.
const SEED: u64 = 1;

fn explore(scene: impl Fn() + Send + Sync + 'static) {
    let scene = Arc::new(scene);
    let again = Arc::clone(&scene);
    let random = RandomScheduler::new_from_seed(SEED, TRIES);
    Runner::new(random, config()).run(move || scene());
    let by_priority = PctScheduler::new_from_seed(SEED, 3, TRIES);
    Runner::new(by_priority, config()).run(move || again());
}

/// As the default, with stacks that hold a decision.
fn config() -> Config {
    let mut config = Config::default();
    config.stack_size = 1 << 20;
    config
}

fn at_a_new_store() -> Client {
    let clock = TestClock::default().clock();
    let store = MemoryStore::with(clock, FaultSwitch::default().faults());
    Client::new(Arc::new(store), Arc::new(Ids::new(1)))
}

/// Runs both, each in a thread of its own.
fn together<A: Send + 'static, B: Send + 'static>(
    one: impl FnOnce() -> A + Send + 'static,
    other: impl FnOnce() -> B + Send + 'static,
) -> (A, B) {
    let (one, other) = (thread::spawn(one), thread::spawn(other));
    (one.join().unwrap(), other.join().unwrap())
}

#[test]
fn of_two_actions_of_one_name_one_is_created_and_the_other_is_told() {
    explore(|| {
        let client = at_a_new_store();
        let create = |by: &str| {
            let client = client.person(by);
            move || client.submit(Command::CreateAction(samples::action("tidy")))
        };
        let answers = together(create("ada"), create("bob"));
        let told = match answers {
            (Ok(_), Err(told)) | (Err(told), Ok(_)) => told,
            both => panic!("{both:?}"),
        };
        let stored = client
            .store()
            .action(&samples::parse_name("tidy"))
            .unwrap()
            .unwrap();
        let CommitError::Refused(Refusal::ActionExists { by, .. }) = told else {
            panic!("{told:?}");
        };
        assert_eq!(by, stored.created_by);
    });
}

#[test]
fn two_actions_of_different_names_are_both_kept() {
    explore(|| {
        let client = at_a_new_store();
        let create = |name: &'static str| {
            let client = client.clone();
            move || client.add_action(samples::action(name))
        };
        together(create("tidy"), create("sort"));
        assert_eq!(client.store().actions(None, 10).unwrap().len(), 2);
    });
}

#[test]
fn an_action_is_used_before_it_is_archived_or_not_at_all() {
    explore(|| {
        let client = at_a_new_store();
        // Using it writes it, so that one could undo the other.
        let name = client.add_action(ActionDefinition {
            reusable: false,
            ..samples::action("tidy")
        });
        let new = samples::use_of(client.ids().plan(), &name);
        let plan = new.id;
        let (user, archiver, archived) = (client.clone(), client.clone(), name.clone());
        let (used, _) = together(
            move || user.submit(Command::Use(new)),
            move || done(archiver.submit(Command::ArchiveAction(archived))),
        );
        let stored = client.store().plan(plan).unwrap();
        match used {
            Ok(_) => assert!(stored.is_some()),
            Err(CommitError::Refused(Refusal::ActionArchived { .. })) => assert!(stored.is_none()),
            Err(other) => panic!("{other:?}"),
        }
        let action = client.store().action(&name).unwrap().unwrap();
        assert!(matches!(action.state, ActionState::Archived { .. }));
    });
}

#[test]
fn a_reader_never_sees_half_a_commit() {
    explore(|| {
        let client = at_a_new_store();
        let plan = client.queued("be claimed");
        let (writer, reader) = (client.clone(), client.clone());
        together(
            move || {
                let epoch = writer.claim(plan, LONG);
                writer.must(plan, Command::Release { epoch });
            },
            move || (0..3).for_each(|_| looks_whole(reader.store(), plan)),
        );
        looks_whole(client.store(), plan);
        assert_eq!(
            verify(client.store()).unwrap().problems,
            Vec::<String>::new()
        );
    });
}

/// Plan, lease and log tell the same story.
fn looks_whole(store: &dyn Store, plan: PlanId) {
    let row = store.plan(plan).unwrap().unwrap();
    let holder = row.plan.stage.holder().map(|holder| holder.epoch);
    assert_eq!(row.lease.map(|lease| lease.epoch), holder);
    let events = store.plan_events(plan, Version(0), 100).unwrap();
    let last = events
        .iter()
        .find(|stored| stored.recorded.version == row.plan.version);
    assert_eq!(last.map(|last| last.hash), Some(row.head));
    let tail = store.events(&Cursor::START, 100).unwrap().events;
    assert!(
        tail.len() >= events.len(),
        "the tail lags behind the plan's log"
    );
    assert_eq!(tail[events.len() - 1].hash, events[events.len() - 1].hash);
}

#[test]
fn of_two_claimers_one_wins_and_the_other_learns_who() {
    explore(|| {
        let client = at_a_new_store();
        let plan = client.queued("be claimed");
        let claim = |by: &str| {
            let client = client.worker(by);
            move || client.on(plan, client.start(plan, Phase::Strategize, LONG))
        };
        let answers = together(claim("one"), claim("two"));
        let (winner, told) = match answers {
            (Ok(_), Err(told)) => ("one", told),
            (Err(told), Ok(_)) => ("two", told),
            both => panic!("{both:?}"),
        };
        let CommitError::Refused(Refusal::Held { holder, .. }) = told else {
            panic!("{told:?}");
        };
        assert_eq!(holder.owner, winner);
    });
}

#[test]
fn a_holder_completes_or_is_reclaimed_never_both() {
    explore(|| {
        let client = at_a_new_store();
        let plan = client.queued("be late");
        let epoch = client.claim(plan, OVER);
        let (holder, other) = (client.clone(), client.worker("other"));
        let (completed, reclaimed) = together(
            move || {
                let decisions = Vec::new();
                holder.on(plan, Command::CompleteStrategize { epoch, decisions })
            },
            move || {
                let grounds = Grounds::Expired;
                other.on(plan, Command::Reclaim { grounds })
            },
        );
        match (completed, reclaimed) {
            (Ok(_), Err(CommitError::Refused(_))) | (Err(CommitError::Refused(_)), Ok(_)) => {}
            both => panic!("{both:?}"),
        }
        assert_eq!(client.store().plan(plan).unwrap().unwrap().lease, None);
    });
}

#[test]
fn one_key_is_done_once() {
    explore(|| {
        let client = at_a_new_store();
        let create = || {
            let client = client.clone();
            move || {
                let new = samples::goal(client.ids().plan(), "once");
                client
                    .with_key("k", "once", None, Command::Use(new))
                    .unwrap()
            }
        };
        let (one, other) = together(create(), create());
        assert_eq!(one.receipt, other.receipt);
        assert_ne!(one.remembered, other.remembered);
        let plans = client
            .store()
            .plans(&PlanFilter::default(), None, 10)
            .unwrap();
        assert_eq!(plans.len(), 1);
    });
}

#[test]
fn a_gate_opens_before_a_rule_forbids_it_or_not_at_all() {
    explore(|| {
        let client = at_a_new_store();
        let plan = client.queued("be judged");
        let added = Arc::new(AtomicBool::new(false));
        let (starter, ruler, known) = (client.clone(), client.clone(), Arc::clone(&added));
        together(
            move || {
                let start = starter.start(plan, Phase::Strategize, LONG);
                let forbidden = known.load(Ordering::SeqCst);
                match starter.on(plan, start) {
                    Ok(committed) if committed.receipt.outcome == Outcome::Done => {
                        assert!(!forbidden);
                    }
                    Ok(_) | Err(CommitError::Refused(Refusal::JudgementStale { .. })) => {}
                    Err(other) => panic!("{other:?}"),
                }
            },
            move || {
                ruler.add_rule(Scope::Global, samples::rule("never", "false", &Gate::ALL));
                added.store(true, Ordering::SeqCst);
            },
        );
    });
}

#[test]
fn a_record_is_in_the_seal_or_refused() {
    explore(|| {
        let client = at_a_new_store();
        let (plan, epoch) = client.executing("change things", LONG);
        let (id, node) = (client.ids().changeset(), Node::main());
        client.must(plan, Command::OpenChangeset { epoch, id, node });
        let (recorder, sealer) = (client.clone(), client.clone());
        let (recorded, _) = together(
            move || {
                let (into, entry) = (Into::Changeset(id), samples::created("a"));
                recorder.on(plan, Command::RecordChange { epoch, into, entry })
            },
            move || {
                sealer.must(
                    plan,
                    Command::SealChangeset {
                        epoch,
                        changeset: id,
                    },
                )
            },
        );
        let expected: Vec<Entry> = recorded.iter().map(|_| samples::created("a")).collect();
        let (changeset, entries) = client.store().changesets(plan).unwrap().remove(0);
        assert_eq!(entries, expected);
        let seal = changeset.seal.unwrap();
        assert_eq!(seal, Seal::of(&expected, seal.at));
    });
}

#[test]
fn parallel_nodes_open_and_record_each_into_its_own() {
    explore(|| {
        let client = at_a_new_store();
        let (plan, epoch) = client.executing("change things", LONG);
        let work = |name: &'static str| {
            let client = client.clone();
            move || {
                let (id, node): (_, Node) = (client.ids().changeset(), name.parse().unwrap());
                client.must(
                    plan,
                    Command::OpenChangeset {
                        epoch,
                        id,
                        node: node.clone(),
                    },
                );
                for into in [Into::Changeset(id), Into::Node(node)] {
                    let mut entry = samples::modified("same", "0", name);
                    entry.tool = Some(name.to_owned());
                    client.must(plan, Command::RecordChange { epoch, into, entry });
                }
            }
        };
        together(work("one"), work("two"));
        let stored = client.store().changesets(plan).unwrap();
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
        let client = at_a_new_store();
        let (plan, epoch) = client.executing("change things", LONG);
        let open = || {
            let client = client.clone();
            move || {
                let (id, node) = (client.ids().changeset(), Node::main());
                client.on(plan, Command::OpenChangeset { epoch, id, node })
            }
        };
        let (one, other) = together(open(), open());
        assert_ne!(one.is_ok(), other.is_ok(), "{one:?} {other:?}");
        assert_eq!(client.store().changesets(plan).unwrap().len(), 1);
    });
}

/// Here a wait has no timeout: one that is not woken is a deadlock, which the scheduler finds.
#[test]
fn a_waiter_is_woken_by_a_commit() {
    let scene = || {
        let client = at_a_new_store();
        let woken = Arc::new(AtomicBool::new(false));
        let (waiter, tell) = (client.clone(), Arc::clone(&woken));
        together(
            move || {
                waiter.store().wait(Duration::from_secs(1)).unwrap();
                tell.store(true, Ordering::SeqCst);
            },
            move || {
                // The first may come before the wait began.
                while !woken.load(Ordering::SeqCst) {
                    client.queued("wake up");
                    thread::yield_now();
                }
            },
        );
    };
    let random = RandomScheduler::new_from_seed(SEED, TRIES);
    Runner::new(random, config()).run(scene);
}
