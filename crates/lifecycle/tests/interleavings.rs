//! The execution context under a scheduler that takes the place of the operating system's: however
//! threads that share one context interleave, every entry is in the changeset of its unit of work.
//!
//! Run with `cargo test -p planwright-lifecycle --features shuttle --test interleavings`.

#![cfg(feature = "shuttle")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed, and the panic says where"
)]

use std::sync::Arc;

use plan::changeset::{ChangesetEntry, Node, PathOperation, TreePath};
use plan::{Caller, PlanActors, PlanId, Refusal, Span};
use planwright_lifecycle::{Call, ExecutionContext, Lifecycle, LifecycleError, UseRequest};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::{Config, Runner, thread};
use store::{Clock, MemoryStore, fault::StoreFaults};

/// Orders tried at random, and as many with few changes of priority, which finds rarer ones.
const TRIES: usize = 300;

/// The same orders in every run.
const SEED: u64 = 1;

#[test]
fn threads_that_share_a_context_record_each_into_their_own_changeset() {
    explore(|| {
        let (lifecycle, plan, context) = executing();
        let workers: Vec<_> = ["a", "b"]
            .into_iter()
            .map(|node| {
                let context = context.for_node(node.parse::<Node>().unwrap());
                thread::spawn(move || {
                    let handle = context.start_changeset().unwrap();
                    handle.record(entry(&format!("{node}/by-handle"))).unwrap();
                    assert_eq!(
                        context
                            .record_change(entry(&format!("{node}/by-node")))
                            .unwrap(),
                        handle.id()
                    );
                })
            })
            .collect();
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
        for (changeset, entries) in lifecycle.changesets(plan).unwrap() {
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
        let (lifecycle, plan, context) = executing();
        let first = context
            .for_node("first".parse().unwrap())
            .start_changeset()
            .unwrap()
            .id();
        let opener = {
            let context = context.for_node("second".parse().unwrap());
            thread::spawn(move || context.start_changeset().unwrap().id())
        };
        let recorded = context.record_change(entry("x"));
        opener.join().unwrap();
        // Before the second opened it can only be the first; after, nobody guesses.
        match recorded {
            Ok(into) => assert_eq!(into, first),
            Err(Error::Refused(Refusal::AmbiguousChangeset { open })) => assert_eq!(open.len(), 2),
            Err(error) => panic!("{error}"),
        }
        let entries: usize = lifecycle
            .changesets(plan)
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
        let (lifecycle, plan, context) = executing();
        let handle = context.start_changeset().unwrap();
        let epoch = lifecycle.get_plan(plan).unwrap().plan.epoch;
        let finisher = {
            let lifecycle = lifecycle.clone();
            thread::spawn(move || {
                lifecycle
                    .complete_execute(plan, epoch, &Default::default(), &call())
                    .unwrap()
            })
        };
        let recorded = handle.record(entry("x"));
        finisher.join().unwrap();
        let (changeset, entries) = lifecycle.changesets(plan).unwrap().remove(0);
        let seal = changeset.seal.unwrap();
        assert_eq!(entries.len(), usize::from(recorded.is_ok()));
        assert_eq!(seal.entries, entries.len() as u64);
    });
}

fn explore(scene: impl Fn() + Send + Sync + 'static) {
    let scene = Arc::new(scene);
    let again = Arc::clone(&scene);
    Runner::new(RandomScheduler::new_from_seed(SEED, TRIES), config()).run(move || scene());
    Runner::new(PctScheduler::new_from_seed(SEED, 3, TRIES), config()).run(move || again());
}

/// As the default, with stacks that hold a decision.
fn config() -> Config {
    let mut config = Config::default();
    config.stack_size = 1 << 20;
    config
}

/// A plan whose execute phase is claimed, and the context of the claim.
fn executing() -> (Lifecycle, PlanId, ExecutionContext) {
    let clock = Clock::new(|| plan::Timestamp(1_000_000));
    let next = AtomicU64::new(1);
    let lifecycle = Lifecycle::open(MemoryStore::with(clock.clone(), Faults::default()))
        .with_ids(clock, move || {
            u128::from(next.fetch_add(1, Ordering::SeqCst))
        });
    let request = UseRequest {
        goal: Some("explore".to_owned()),
        fallback_actors: Some(Actors::both("bot".parse().unwrap())),
        ..UseRequest::default()
    };
    let plan = lifecycle.use_action(request, &call()).unwrap().plan.id;
    let lease = Span::seconds(60);
    lifecycle
        .start_strategize(plan, "w", lease, &call())
        .unwrap()
        .complete_strategize(Vec::new())
        .unwrap();
    lifecycle.execute_plan(plan, &call()).unwrap();
    let context = lifecycle
        .start_execute(plan, "w", lease, &call())
        .unwrap()
        .context();
    (lifecycle, plan, context)
}

fn call() -> Call {
    Call::by(Caller::Person("ada".to_owned()))
}

fn entry(path: &str) -> Entry {
    Entry::new(TreePath::new(path).unwrap(), Operation::Modify)
}
