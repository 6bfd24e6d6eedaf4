//! The execution context under a model checker's scheduler: however threads that share a context interleave,
//! every entry is in the changeset of its unit of work.
//!
//! Run with `cargo test -p planwright-lifecycle --features shuttle --test interleavings`.

#![cfg(feature = "shuttle")]
#![allow(
    clippy::unwrap_used,
    reason = "a test whose set-up fails has failed, and the panic says where"
)]

use std::sync::Arc;

use plan::changeset::{ChangesetEntry, Node, PathOperation, TreePath};
use plan::{Caller, PlanActors, PlanId, Refusal, Span};
use planwright_lifecycle::{Call, ExecutionContext, Lifecycle, LifecycleError, UseRequest};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::{Config, Runner, thread};
use store::{Clock, MemoryStore, fault::StoreFaults};

/// The number of random schedules, and of schedules with few priority changes, which find rarer bugs.
const SCHEDULES: usize = 300;

/// Fixed, so that every run explores the same schedules.
const SEED: u64 = 1;

#[test]
fn threads_that_share_a_context_record_each_into_their_own_changeset() {
    explore(|| {
        let (lifecycle, plan_id, context) = start_executing();
        let workers: Vec<_> = ["a", "b"]
            .into_iter()
            .map(|node| {
                let context = context.for_node(node.parse::<Node>().unwrap());
                thread::spawn(move || {
                    let handle = context.start_changeset().unwrap();
                    handle
                        .record_change(modified_entry(&format!("{node}/by-handle")))
                        .unwrap();
                    assert_eq!(
                        context
                            .record_change(modified_entry(&format!("{node}/by-node")))
                            .unwrap(),
                        handle.id()
                    );
                })
            })
            .collect();
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
        for (changeset, entries) in lifecycle.history().list_changesets(plan_id).unwrap() {
            let own = format!("{}/", changeset.node);
            assert_eq!(entries.len(), 2);
            assert!(
                entries
                    .iter()
                    .all(|entry| entry.path.to_string().starts_with(&own)),
                "{entries:?}"
            );
        }
    });
}

#[test]
fn without_a_node_a_record_goes_to_the_only_open_changeset_or_is_refused() {
    explore(|| {
        let (lifecycle, plan_id, context) = start_executing();
        let first = context
            .for_node("first".parse().unwrap())
            .start_changeset()
            .unwrap()
            .id();
        let opener = {
            let context = context.for_node("second".parse().unwrap());
            thread::spawn(move || context.start_changeset().unwrap().id())
        };
        let recorded = context.record_change(modified_entry("x"));
        opener.join().unwrap();
        // Before the second is opened, only the first is possible; afterwards the call is ambiguous.
        match recorded {
            Ok(into) => assert_eq!(into, first),
            Err(LifecycleError::Refused(Refusal::AmbiguousChangeset { open })) => {
                assert_eq!(open.len(), 2)
            }
            Err(error) => panic!("{error}"),
        }
        let entries: usize = lifecycle
            .history()
            .list_changesets(plan_id)
            .unwrap()
            .iter()
            .map(|(_, entries)| entries.len())
            .sum();
        assert!(entries <= 1);
    });
}

#[test]
fn a_record_that_races_the_result_is_in_it_or_refused() {
    explore(|| {
        let (lifecycle, plan_id, context) = start_executing();
        let handle = context.start_changeset().unwrap();
        let epoch = lifecycle.get_plan(plan_id).unwrap().plan.epoch();
        let finisher = {
            let lifecycle = lifecycle.clone();
            thread::spawn(move || {
                lifecycle
                    .complete_execute(plan_id, epoch, &Default::default(), &call_as_ada())
                    .unwrap()
            })
        };
        let recorded = handle.record_change(modified_entry("x"));
        finisher.join().unwrap();
        let (changeset, entries) = lifecycle
            .history()
            .list_changesets(plan_id)
            .unwrap()
            .remove(0);
        let seal = changeset.seal.unwrap();
        assert_eq!(entries.len(), usize::from(recorded.is_ok()));
        assert_eq!(seal.entries, entries.len() as u64);
    });
}

fn explore(test: impl Fn() + Send + Sync + 'static) {
    let test = Arc::new(test);
    let same_test = Arc::clone(&test);
    Runner::new(RandomScheduler::new_from_seed(SEED, SCHEDULES), config()).run(move || test());
    Runner::new(PctScheduler::new_from_seed(SEED, 3, SCHEDULES), config()).run(move || same_test());
}

/// The default configuration, with a stack large enough for a decision.
fn config() -> Config {
    let mut config = Config::default();
    config.stack_size = 1 << 20;
    config
}

/// A plan whose execute phase is claimed, and the context of the claim.
fn start_executing() -> (Lifecycle, PlanId, ExecutionContext) {
    let clock = Clock::new(|| plan::Timestamp(1_000_000));
    let next = AtomicU64::new(1);
    let lifecycle = Lifecycle::open(MemoryStore::with_clock_and_faults(
        clock.clone(),
        StoreFaults::default(),
    ))
    .with_ids(clock, move || {
        u128::from(next.fetch_add(1, Ordering::SeqCst))
    });
    let request = UseRequest {
        goal: Some("explore".to_owned()),
        fallback_actors: Some(PlanActors::for_both_phases("bot".parse().unwrap())),
        ..UseRequest::default()
    };
    let plan_id = lifecycle
        .use_action(request, &call_as_ada())
        .unwrap()
        .plan
        .id();
    let lease = Span::from_seconds(60);
    lifecycle
        .claims()
        .start_strategize(plan_id, "w", lease, &call_as_ada())
        .unwrap()
        .complete_strategize(Vec::new())
        .unwrap();
    lifecycle.execute_plan(plan_id, &call_as_ada()).unwrap();
    let context = lifecycle
        .claims()
        .start_execute(plan_id, "w", lease, &call_as_ada())
        .unwrap()
        .context();
    (lifecycle, plan_id, context)
}

fn call_as_ada() -> Call {
    Call::by(Caller::Person("ada".to_owned()))
}

fn modified_entry(path: &str) -> ChangesetEntry {
    ChangesetEntry::new(TreePath::new(path).unwrap(), PathOperation::Modify)
}
