//! Threads that share a store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread::{self, ScopedJoinHandle};

use cucumber::{given, then, when};
use plan::action::ActionDefinition;
use plan::invariant::RuleScope;
use plan::{Action, ActionState, PlanId, QualifiedName, Refusal, evolve};
use planwright::{Call, Caller, Lifecycle, LifecycleError, Plan, PlanFilter, plan, yaml};

use crate::scenario_commands::{self, LONG_LEASE, SCENARIO_ACTION};
use crate::world::{World, call_by_ada};

/// Runs the same thing in so many threads, let go together, on the handle of one engine.
pub fn run_in_threads<T: Send>(
    engine: &Lifecycle,
    threads: usize,
    run: impl Fn(usize, &Lifecycle) -> T + Sync,
) -> Vec<T> {
    let start = Barrier::new(threads);
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|number| {
                let (start, run) = (&start, &run);
                scope.spawn(move || {
                    start.wait();
                    run(number, engine)
                })
            })
            .collect();
        running.into_iter().map(join_thread).collect()
    })
}

/// What a thread came to. Its panic goes on here: the test runner silences panics of other threads, and shows the
/// message of this one.
pub fn join_thread<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|payload| std::panic::resume_unwind(payload))
}

fn numbered_person(number: usize) -> Call {
    Call::by(Caller::Person(format!("person-{number}")))
}

/// An action of this name, described by this person.
fn action_definition(name: &str, number: usize) -> ActionDefinition {
    let source = SCENARIO_ACTION
        .replace("tidy", name)
        .replace("Tidy one area", &format!("By person {number}"));
    yaml::parse_action(&source, "action.yaml").unwrap()
}

/// What threads did and saw.
#[derive(Default)]
pub struct ThreadResults {
    actions: Vec<Action>,
    plans: Vec<Plan>,
    refusals: Vec<Refusal>,
    /// Plans as they were read, each with the log that was read after it.
    rows: Vec<(Plan, Vec<plan::RecordedEvent>)>,
}

/// What was done, and what was refused.
fn split_results<T>(results: Vec<Result<T, LifecycleError>>) -> (Vec<T>, Vec<Refusal>) {
    let (mut done, mut refused) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(one) => done.push(one),
            Err(LifecycleError::Refused(refusal)) => refused.push(refusal),
            Err(other) => panic!("neither done nor refused: {other:?}"),
        }
    }
    (done, refused)
}

#[when(regex = r"^(\d+) threads each create (\d+) actions of their own and (\d+) plans$")]
fn threads_create(world: &mut World, threads: usize, actions: usize, plans: usize) {
    let made = run_in_threads(&world.open_engine(), threads, |number, engine| {
        let call = numbered_person(number);
        let actions: Vec<Action> = (0..actions)
            .map(|one| {
                let name = format!("own-{number}-{one}");
                engine
                    .actions()
                    .create_action(action_definition(&name, number), &call)
                    .unwrap()
            })
            .collect();
        let plans: Vec<Plan> = (0..plans)
            .map(|one| {
                let action = &actions[one % actions.len()];
                engine
                    .use_action(scenario_commands::use_request(action.name()), &call)
                    .unwrap()
                    .plan
            })
            .collect();
        (actions, plans)
    });
    let mut kept = ThreadResults::default();
    for (actions, plans) in made {
        kept.actions.extend(actions);
        kept.plans.extend(plans);
    }
    world.thread_results = kept;
}

#[then(regex = r"^there are (\d+) actions and (\d+) plans$")]
fn there_are(world: &mut World, actions: usize, plans: usize) {
    let dump = world.dump_store();
    assert_eq!(dump.actions.len(), actions);
    assert_eq!(dump.plans.len(), plans);
}

#[then("everyone finds what they created, as they created it")]
fn everyone_finds_their_own(world: &mut World) {
    let engine = world.open_engine();
    let kept = &world.thread_results;
    for action in &kept.actions {
        assert_eq!(&engine.actions().get_action(action.name()).unwrap(), action);
    }
    for plan in &kept.plans {
        assert_eq!(&engine.get_plan(plan.id()).unwrap().plan, plan);
    }
}

#[when(regex = r"^(\d+) threads create an action of the same name$")]
fn threads_create_the_same(world: &mut World, threads: usize) {
    let made = run_in_threads(&world.open_engine(), threads, |number, engine| {
        engine
            .actions()
            .create_action(action_definition("same", number), &numbered_person(number))
    });
    let (actions, refusals) = split_results(made);
    world.thread_results = ThreadResults {
        actions,
        refusals,
        ..ThreadResults::default()
    };
}

#[then("one of them creates it")]
fn one_creates_it(world: &mut World) {
    assert_eq!(world.thread_results.actions.len(), 1);
}

#[then(regex = r"^the (\d+) others are told that it exists, since when and by whom$")]
fn the_others_are_told_that_it_exists(world: &mut World, count: usize) {
    let kept = &world.thread_results;
    let winner = &kept.actions[0];
    assert_eq!(kept.refusals.len(), count);
    for refusal in &kept.refusals {
        assert_eq!(
            refusal,
            &Refusal::ActionExists {
                name: winner.name().clone(),
                at: winner.created_at,
                by: winner.created_by.clone(),
            }
        );
    }
}

#[then("the action is the winner's")]
fn the_action_is_the_winners(world: &mut World) {
    let engine = world.open_engine();
    let kept = &world.thread_results;
    let winner = &kept.actions[0];
    assert_eq!(&engine.actions().get_action(winner.name()).unwrap(), winner);
}

#[given("an action")]
fn an_action(world: &mut World) {
    scenario_commands::create_action(&world.open_engine());
}

#[given("an action that is not reusable")]
fn an_action_that_is_not_reusable(world: &mut World) {
    let source = format!("{SCENARIO_ACTION}reusable: false\n");
    let definition = yaml::parse_action(&source, "action.yaml").unwrap();
    world
        .open_engine()
        .actions()
        .create_action(definition, &call_by_ada())
        .unwrap();
}

fn tidy_name() -> QualifiedName {
    "tidy".parse().unwrap()
}

#[when(regex = r"^(\d+) threads use the action$")]
fn threads_use_the_action(world: &mut World, threads: usize) {
    let made = run_in_threads(&world.open_engine(), threads, |number, engine| {
        engine.use_action(
            scenario_commands::use_request(&tidy_name()),
            &numbered_person(number),
        )
    });
    let (done, refusals) = split_results(made);
    world.thread_results = ThreadResults {
        plans: done.into_iter().map(|done| done.plan).collect(),
        refusals,
        ..ThreadResults::default()
    };
}

#[then("one of them makes a plan")]
fn one_makes_a_plan(world: &mut World) {
    assert_eq!(world.thread_results.plans.len(), 1);
    assert_eq!(world.dump_store().plans.len(), 1);
}

#[then(regex = r"^the (\d+) others are told which plan was made of it$")]
fn the_others_are_told_which_plan(world: &mut World, count: usize) {
    let kept = &world.thread_results;
    assert_eq!(kept.refusals.len(), count);
    let name = tidy_name();
    let plan = kept.plans[0].id();
    for refusal in &kept.refusals {
        assert_eq!(
            refusal,
            &Refusal::ActionUsedUp {
                name: name.clone(),
                plan
            }
        );
    }
}

#[when(regex = r"^(\d+) threads use the action again and again until it is archived$")]
fn threads_use_until_archived(world: &mut World, threads: usize) {
    let promised = Mutex::new(Vec::new());
    let told = run_in_threads(&world.open_engine(), threads + 1, |number, engine| {
        if number == threads {
            // The last one archives it once some have been served.
            while promised.lock().unwrap().len() < threads {
                thread::yield_now();
            }
            engine
                .actions()
                .archive_action(&tidy_name(), &call_by_ada())
                .unwrap();
            return None;
        }
        loop {
            match engine.use_action(
                scenario_commands::use_request(&tidy_name()),
                &numbered_person(number),
            ) {
                Ok(done) => promised.lock().unwrap().push(done.plan),
                Err(LifecycleError::Refused(refusal)) => return Some(refusal),
                Err(other) => panic!("neither done nor refused: {other:?}"),
            }
        }
    });
    world.thread_results = ThreadResults {
        plans: promised.into_inner().unwrap(),
        refusals: told.into_iter().flatten().collect(),
        ..ThreadResults::default()
    };
}

#[then("every plan that was promised is there, and no other")]
fn every_promised_plan_is_there(world: &mut World) {
    let stored: BTreeSet<PlanId> = world
        .dump_store()
        .plans
        .iter()
        .map(|plan| plan.row.plan.id())
        .collect();
    let promised: BTreeSet<PlanId> = world
        .thread_results
        .plans
        .iter()
        .map(planwright::Plan::id)
        .collect();
    assert_eq!(stored, promised);
}

#[then("no plan is younger than the archiving")]
fn no_plan_is_younger(world: &mut World) {
    let action = world
        .open_engine()
        .actions()
        .get_action(&tidy_name())
        .unwrap();
    let ActionState::Archived { at, .. } = action.state else {
        panic!("it was archived");
    };
    for plan in world.dump_store().plans {
        assert!(plan.row.plan.created_at() <= at, "{:?}", plan.row.plan);
    }
}

#[then("every thread was told at last that the action was archived")]
fn every_thread_was_told(world: &mut World) {
    let kept = &world.thread_results;
    assert_eq!(kept.refusals.len(), 32);
    for refusal in &kept.refusals {
        assert!(
            matches!(refusal, Refusal::ActionArchived { .. }),
            "{refusal:?}"
        );
    }
}

/// Takes a new plan of a new action from its making to its landing.
fn run_whole_plan(engine: &Lifecycle, writer: usize, number: usize) {
    let call = numbered_person(writer);
    let name = format!("life-{writer}-{number}");
    let action = engine
        .actions()
        .create_action(action_definition(&name, writer), &call)
        .unwrap();
    let plan = engine
        .use_action(scenario_commands::use_request(action.name()), &call)
        .unwrap()
        .plan
        .id();
    let work = engine
        .claims()
        .start_strategize(plan, "w", LONG_LEASE, &call)
        .unwrap();
    work.complete_strategize(Vec::new()).unwrap();
    engine.execute_plan(plan, &call).unwrap();
    let work = engine
        .claims()
        .start_execute(plan, "w", LONG_LEASE, &call)
        .unwrap();
    let changeset = work.context().start_changeset().unwrap();
    changeset
        .record_change(scenario_commands::created_entry("a"))
        .unwrap();
    work.complete_execute(&scenario_commands::result_content())
        .unwrap();
    engine.apply_plan(plan, &call).unwrap();
    let work = engine
        .claims()
        .start_apply(plan, "w", LONG_LEASE, &call)
        .unwrap();
    work.complete_apply(Vec::new()).unwrap();
}

#[when(
    regex = r"^(\d+) threads take (\d+) plans each from their making to their landing while (\d+) threads read$"
)]
fn threads_write_while_others_read(world: &mut World, writers: usize, each: usize, readers: usize) {
    let writing = AtomicUsize::new(writers);
    let read = run_in_threads(&world.open_engine(), writers + readers, |number, engine| {
        if number < writers {
            let _writes = WriterGuard(&writing);
            (0..each).for_each(|one| run_whole_plan(engine, number, one));
            return ThreadResults::default();
        }
        let mut kept = ThreadResults::default();
        while writing.load(Ordering::SeqCst) > 0 {
            let rows = engine.list_plans(&PlanFilter::default(), None, 50).unwrap();
            for row in rows {
                let again = engine.get_plan(row.plan.id()).unwrap().plan;
                assert!(again.version() >= row.plan.version(), "time went back");
                let history = engine.history().read_history(row.plan.id()).unwrap();
                kept.rows.push((row.plan, history));
            }
            for action in engine.actions().list_actions(None, 200).unwrap() {
                let scope = RuleScope::Action(action.name().clone());
                let rules = engine
                    .store()
                    .read_rules(std::slice::from_ref(&scope))
                    .unwrap();
                assert_eq!(rules.rules.len(), 1, "an action without its rule");
                kept.actions.push(action);
            }
        }
        kept
    });
    let mut all = ThreadResults::default();
    for kept in read {
        all.rows.extend(kept.rows);
        all.actions.extend(kept.actions);
    }
    world.thread_results = all;
}

/// One who writes, until they are done or panic: whoever waits for them is not left waiting.
struct WriterGuard<'a>(&'a AtomicUsize);

impl Drop for WriterGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[then("every plan that was read is what its events say, up to its version")]
fn every_plan_read_is_what_its_events_say(world: &mut World) {
    let kept = &world.thread_results;
    assert!(!kept.rows.is_empty(), "nobody read anything");
    for (plan, history) in &kept.rows {
        let mut replayed = None;
        for recorded in history
            .iter()
            .take_while(|one| one.version <= plan.version())
        {
            replayed = Some(evolve(replayed, recorded).unwrap());
        }
        assert_eq!(replayed.as_ref(), Some(plan));
    }
}

#[then("every action that was read had its rules")]
fn every_action_read_had_its_rules(world: &mut World) {
    let kept = &world.thread_results;
    assert!(!kept.actions.is_empty(), "nobody read anything");
    for action in &kept.actions {
        assert_eq!(action.definition.invariants.len(), 1);
        assert!(action.definition.description.starts_with("By person"));
    }
}

#[when(regex = r"^(\d+) threads start the execute phase$")]
fn threads_start_the_phase(world: &mut World, threads: usize) {
    let plan = world.plan_id();
    let claims = run_in_threads(&world.open_engine(), threads, |number, engine| {
        let owner = format!("thread-{number}");
        engine
            .claims()
            .start_execute(plan, &owner, LONG_LEASE, &numbered_person(number))
            .map(|claim| claim.plan().clone())
    });
    let (plans, refusals) = split_results(claims);
    world.thread_results = ThreadResults {
        plans,
        refusals,
        ..ThreadResults::default()
    };
}

#[then("one of them gets the claim")]
fn one_gets_the_claim(world: &mut World) {
    assert_eq!(world.thread_results.plans, [world.stored_plan()]);
}

#[then(regex = r"^the (\d+) others are told who holds it$")]
fn the_others_are_told_who_holds_it(world: &mut World, count: usize) {
    let stored = world.stored_plan();
    let holder = stored.stage().holder().unwrap();
    let mut told: BTreeMap<String, usize> = BTreeMap::new();
    let kept = &world.thread_results;
    for refusal in &kept.refusals {
        let Refusal::Held { holder, .. } = refusal else {
            panic!("{refusal:?}");
        };
        *told.entry(holder.owner.clone()).or_default() += 1;
    }
    assert_eq!(told, BTreeMap::from([(holder.owner.clone(), count)]));
}
