//! Changes, and the changesets they belong to.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use cucumber::{given, then, when};
use plan::changeset::Node;
use plan::command::{RecordChange, RenewLease, SealChangeset};
use plan::{ChangesetId, Refusal};
use planwright::{ExecutionContext, LifecycleError, plan};
use testkit::{TestRun, TestRunOutput};

use crate::scenario_commands::{self, EXPIRED_LEASE, LONG_LEASE, created_entry};
use crate::steps::checks::last_refusal;
use crate::steps::threads::join_thread;
use crate::world::{TryOutcome, World, call_by_ada};

fn parse_node(name: &str) -> Node {
    name.parse().unwrap()
}

fn execution_context(world: &World) -> &ExecutionContext {
    world.context.as_ref().expect("somebody executes the plan")
}

#[given("a worker who executes a plan")]
fn a_worker_who_executes(world: &mut World) {
    let engine = world.open_engine();
    let plan = engine
        .use_action(
            scenario_commands::goal_request("Record changes"),
            &call_by_ada(),
        )
        .unwrap()
        .plan
        .id();
    let call = call_by_ada();
    engine
        .claims()
        .start_strategize(plan, "worker", LONG_LEASE, &call)
        .unwrap()
        .complete_strategize(Vec::new())
        .unwrap();
    engine.execute_plan(plan, &call).unwrap();
    let claim = engine
        .claims()
        .start_execute(plan, "worker", LONG_LEASE, &call)
        .unwrap();
    world.plan = Some(plan);
    world.epoch = Some(claim.epoch());
    world.context = Some(claim.context());
    world.worker = Some(engine);
    world.remember_store();
}

#[given(regex = r"^its changeset for node (\w+) is open$")]
fn its_changeset_is_open(world: &mut World, name: String) {
    let handle = execution_context(world)
        .for_node(parse_node(&name))
        .start_changeset();
    world.changeset = Some(handle.unwrap().id());
    world.remember_store();
}

/// How a thread says where its change belongs.
#[derive(Clone, Copy)]
enum RecordMode {
    ByNode,
    ByHandle,
}

#[when(
    regex = r"^(\d+) threads that share its context each start a changeset for their node and record (\d+) changes by (node|handle)$"
)]
fn threads_record(world: &mut World, threads: usize, changes: usize, way: String) {
    let way = match way.as_str() {
        "node" => RecordMode::ByNode,
        _ => RecordMode::ByHandle,
    };
    let shared = execution_context(world);
    let start = Barrier::new(threads);
    let refused: usize = thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|number| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    record_as_node(shared, number, changes, way)
                })
            })
            .collect();
        running.into_iter().map(join_thread).sum()
    });
    world.counts.insert("refused", refused);
    world.counts.insert("nodes", threads);
    world.counts.insert("changes", changes);
}

/// Starts a changeset for a node and records; how often it was refused.
fn record_as_node(
    shared: &ExecutionContext,
    number: usize,
    changes: usize,
    way: RecordMode,
) -> usize {
    let own = shared.for_node(parse_node(&format!("node-{number}")));
    let Ok(handle) = own.start_changeset() else {
        return 1;
    };
    (0..changes)
        .filter(|change| {
            let entry = created_entry(&format!("node-{number}/{change}"));
            match way {
                RecordMode::ByNode => own.record_change(entry).is_err(),
                RecordMode::ByHandle => handle.record_change(entry).is_err(),
            }
        })
        .count()
}

#[then("no thread was refused")]
fn no_thread_was_refused(world: &mut World) {
    assert_eq!(world.counts["refused"], 0);
}

#[then("no process was refused")]
fn no_process_was_refused(world: &mut World) {
    for said in &world.race_outputs {
        assert_eq!(said.exit_code(), Some(0), "{said:?}");
    }
}

/// The paths of every changeset, by node.
fn recorded_paths(world: &World) -> BTreeMap<String, Vec<String>> {
    let changesets = world
        .open_engine()
        .history()
        .list_changesets(world.plan_id())
        .unwrap();
    let mut paths = BTreeMap::new();
    for (changeset, entries) in changesets {
        let entries = entries.iter().map(|entry| entry.path.to_string()).collect();
        let twice = paths.insert(changeset.node.to_string(), entries);
        assert!(twice.is_none(), "two changesets of one node");
    }
    paths
}

#[then("every change is in the changeset of its node, once")]
fn every_change_is_where_it_belongs(world: &mut World) {
    let (nodes, changes) = (world.counts["nodes"], world.counts["changes"]);
    let expected: BTreeMap<String, Vec<String>> = (0..nodes)
        .map(|number| {
            let mut paths: Vec<String> = (0..changes)
                .map(|change| format!("node-{number}/{change}"))
                .collect();
            paths.sort();
            (format!("node-{number}"), paths)
        })
        .collect();
    assert_eq!(recorded_paths(world), expected);
}

#[when(
    regex = r"^(\d+) threads record (\d+) changes each without a node while another starts and seals changesets$"
)]
fn threads_record_without_a_node(world: &mut World, threads: usize, changes: usize) {
    let shared = execution_context(world);
    let recording = AtomicBool::new(true);
    let start = Barrier::new(threads + 1);
    let answers: Vec<(String, Result<ChangesetId, LifecycleError>)> = thread::scope(|scope| {
        let (start, recording) = (&start, &recording);
        let other = scope.spawn(move || {
            let own = shared.for_node(parse_node("other"));
            start.wait();
            while recording.load(Ordering::SeqCst) {
                own.start_changeset().unwrap().seal().unwrap();
            }
        });
        let running: Vec<_> = (0..threads)
            .map(|number| {
                scope.spawn(move || {
                    start.wait();
                    (0..changes)
                        .map(|change| {
                            let path = format!("{number}-{change}");
                            let answer = shared.record_change(created_entry(&path));
                            (path, answer)
                        })
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        let answers = running.into_iter().flat_map(join_thread).collect();
        recording.store(false, Ordering::SeqCst);
        join_thread(other);
        answers
    });
    let base = world.changeset.unwrap();
    let mut taken = Vec::new();
    let mut ambiguous = 0;
    for (path, answer) in answers {
        match answer {
            Ok(into) => {
                assert_eq!(into, base, "{path} went into another's changeset");
                taken.push(path);
            }
            Err(LifecycleError::Refused(Refusal::AmbiguousChangeset { open })) => {
                assert_eq!(open.len(), 2, "{open:?}");
                ambiguous += 1;
            }
            Err(other) => panic!("{path}: {other:?}"),
        }
    }
    taken.sort();
    world.counts.insert("taken", taken.len());
    world.counts.insert("ambiguous", ambiguous);
    world.counts.insert("asked", threads * changes);
    assert_eq!(list_entries(world, base), taken);
}

fn list_entries(world: &World, id: ChangesetId) -> Vec<String> {
    let changesets = world
        .open_engine()
        .history()
        .list_changesets(world.plan_id())
        .unwrap();
    let found = changesets.into_iter().find(|(one, _)| one.id == id);
    let (_, entries) = found.expect("the changeset is there");
    entries.iter().map(|entry| entry.path.to_string()).collect()
}

#[then("every change that was taken is in the changeset that was answered")]
fn every_taken_change_is_where_it_was_answered(world: &mut World) {
    let stored = list_entries(world, world.changeset.unwrap());
    assert_eq!(stored.len(), world.counts["taken"]);
}

#[then("every other was refused as ambiguous")]
fn every_other_was_refused(world: &mut World) {
    let answered = world.counts["taken"] + world.counts["ambiguous"];
    assert_eq!(answered, world.counts["asked"]);
}

#[then("no changeset of the other holds a change")]
fn no_changeset_of_the_other_holds_a_change(world: &mut World) {
    let changesets = world
        .open_engine()
        .history()
        .list_changesets(world.plan_id())
        .unwrap();
    let others = changesets
        .iter()
        .filter(|(changeset, _)| changeset.node.as_str() == "other");
    for (changeset, entries) in others {
        assert!(entries.is_empty(), "{changeset:?}: {entries:?}");
    }
}

#[when(regex = r"^(\d+) threads start a changeset for the same node$")]
fn threads_start_the_same_node(world: &mut World, threads: usize) {
    let shared = execution_context(world);
    let start = Barrier::new(threads);
    let answers: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|_| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    shared.start_changeset().map(|handle| handle.id())
                })
            })
            .collect();
        running.into_iter().map(join_thread).collect()
    });
    let got: Vec<ChangesetId> = answers.iter().flatten().copied().collect();
    assert_eq!(got.len(), 1, "{answers:?}");
    world.changeset = Some(got[0]);
    let told = answers.iter().filter(|answer| {
        matches!(
            answer,
            Err(LifecycleError::Refused(Refusal::NodeHasOpenChangeset { open })) if open.id == got[0]
        )
    });
    world.counts.insert("told", told.count());
}

#[then("one of them gets it")]
fn one_of_them_gets_it(world: &mut World) {
    let changesets = world
        .open_engine()
        .history()
        .list_changesets(world.plan_id())
        .unwrap();
    assert_eq!(changesets.len(), 1);
    assert_eq!(Some(changesets[0].0.id), world.changeset);
}

#[then(regex = r"^the (\d+) others are told which one is open$")]
fn the_others_are_told_which(world: &mut World, count: usize) {
    assert_eq!(world.counts["told"], count);
}

#[when(
    regex = r"^(\d+) processes each open a changeset for their node and record (\d+) changes, all at once$"
)]
fn processes_record(world: &mut World, processes: usize, changes: usize) {
    let (plan, epoch) = (world.plan_id().to_string(), world.epoch().to_string());
    let program = &world.program;
    let said: Vec<TestRunOutput> = thread::scope(|scope| {
        let running: Vec<_> = (0..processes)
            .map(|number| {
                let (plan, epoch) = (plan.as_str(), epoch.as_str());
                scope.spawn(move || {
                    let node = format!("node-{number}");
                    let holder = [plan, "--epoch", epoch, "--node", &node];
                    let run = |verb: &str, more: &[&str]| -> TestRun {
                        let words = [&["plumbing", verb], holder.as_slice(), more].concat();
                        program.run(words)
                    };
                    let mut said = vec![run("open-changeset", &[]).finish()];
                    for change in 0..changes {
                        let path = format!("{node}/{change}");
                        let what = ["--path", &path, "--operation", "create"];
                        said.push(run("record-change", &what).finish());
                    }
                    said
                })
            })
            .collect();
        running.into_iter().flat_map(join_thread).collect()
    });
    world.race_outputs = said;
    world.counts.insert("nodes", processes);
    world.counts.insert("changes", changes);
}

fn a_process_records(world: &mut World, more: &[&str]) {
    let (plan, epoch) = (world.plan_id().to_string(), world.epoch().to_string());
    let words = ["plumbing", "record-change", &plan, "--epoch", &epoch];
    let what = ["--path", "a", "--operation", "create"];
    let run = world
        .program
        .run(words.iter().chain(&what).chain(more).copied());
    world.outcome = Some(TryOutcome::Process(run.finish()));
}

#[when("a process records a change without a node")]
fn a_process_records_without_a_node(world: &mut World) {
    a_process_records(world, &[]);
}

#[when(regex = r"^a process records a change for node (\w+)( with the old epoch)?$")]
fn a_process_records_for_a_node(world: &mut World, name: String, _old: String) {
    a_process_records(world, &["--node", &name]);
}

#[then(regex = r"^the changeset of node (\w+) holds (\d+) changes?$")]
fn the_changeset_holds(world: &mut World, name: String, count: usize) {
    assert_eq!(recorded_paths(world)[&name].len(), count);
}

#[when("the worker records a change without a node")]
fn the_worker_records_without_a_node(world: &mut World) {
    let answer = execution_context(world)
        .record_change(created_entry("a"))
        .map(drop);
    world.outcome = Some(TryOutcome::Call(answer));
}

#[when("the worker starts a changeset")]
fn the_worker_starts_a_changeset(world: &mut World) {
    let answer = execution_context(world).start_changeset().map(drop);
    world.outcome = Some(TryOutcome::Call(answer));
}

#[when("the worker records a change through its old handle")]
fn the_worker_records_through_its_handle(world: &mut World) {
    let worker = world.worker.as_ref().unwrap();
    let into = plan::command::ChangesetSelector::Changeset(world.changeset.unwrap());
    let answer = worker
        .submit_command(
            world.plan_id(),
            RecordChange::new(world.epoch(), into, created_entry("a")),
            &call_by_ada(),
        )
        .map(drop);
    world.outcome = Some(TryOutcome::Call(answer));
}

#[when(regex = r"^the changeset for node (\w+) is sealed$")]
fn the_changeset_is_sealed(world: &mut World, _name: String) {
    let engine = world.open_engine();
    engine
        .submit_command(
            world.plan_id(),
            SealChangeset::new(world.epoch(), world.changeset.unwrap()),
            &call_by_ada(),
        )
        .unwrap();
}

#[when("its lease expires, is reclaimed, and another worker starts")]
fn its_lease_is_taken(world: &mut World) {
    let (engine, plan) = (world.open_engine(), world.plan_id());
    engine
        .submit_command(
            plan,
            RenewLease::new(world.epoch(), EXPIRED_LEASE),
            &call_by_ada(),
        )
        .unwrap();
    engine.leases().reclaim_lease(plan, &call_by_ada()).unwrap();
    let claim = engine
        .claims()
        .start_execute(plan, "another", LONG_LEASE, &call_by_ada())
        .unwrap();
    assert!(claim.epoch() > world.epoch());
}

#[then("it is refused, because no changeset is open")]
fn refused_because_none_is_open(world: &mut World) {
    let refusal = last_refusal(world);
    assert_eq!(refusal, &Refusal::NoOpenChangeset { node: None });
    assert_eq!(refusal.to_string(), "no changeset is open");
}

#[then("it is refused, because that changeset is not open")]
fn refused_because_that_is_not_open(world: &mut World) {
    let refusal = last_refusal(world);
    assert!(
        matches!(refusal, Refusal::NoSuchChangeset { .. }),
        "{refusal:?}"
    );
}

#[then("it is refused, because its authority is over")]
fn refused_because_its_authority_is_over(world: &mut World) {
    let refusal = last_refusal(world);
    assert!(matches!(refusal, Refusal::Fenced { .. }), "{refusal:?}");
}

#[then(regex = r"^the changeset of node (\w+) is sealed$")]
fn the_changeset_of_a_node_is_sealed(world: &mut World, name: String) {
    let changesets = world
        .open_engine()
        .history()
        .list_changesets(world.plan_id())
        .unwrap();
    let found = changesets
        .iter()
        .find(|(changeset, _)| changeset.node.as_str() == name);
    assert!(found.unwrap().0.seal.is_some());
}
