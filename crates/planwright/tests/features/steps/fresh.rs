//! Nobody acts on what they read before.

use cucumber::gherkin::Step;
use cucumber::{then, when};
use plan::Refusal;
use plan::invariant::{Gate, RuleScope};
use planwright::{Lifecycle, LifecycleError, PlanFilter, plan};

use crate::scenario_commands;
use crate::steps::checks::{last_output_text, last_refusal};
use crate::steps::tries::take_step;
use crate::world::{TryOutcome, World, call_by_ada};

#[when("others take the plan to apply/applied")]
fn others_take_the_plan_to_its_end(world: &mut World) {
    for command in [
        "start-execute",
        "complete-execute",
        "apply-plan",
        "start-apply",
        "complete-apply",
    ] {
        take_step(world, command);
    }
}

#[then("it is refused, because the plan is applied")]
fn refused_because_it_is_applied(world: &mut World) {
    let refusal = last_refusal(world);
    assert!(
        matches!(
            refusal,
            Refusal::Final {
                state: "applied",
                ..
            }
        ),
        "{refusal:?}"
    );
}

#[then("it is told when the plan was applied and by whom")]
fn told_when_and_by_whom(world: &mut World) {
    let plan = world.stored_plan();
    let ending = plan.stage().ending().unwrap();
    let told = last_output_text(world);
    assert!(told.contains(&ending.by.to_string()), "{told}");
    match world.outcome.as_ref().unwrap() {
        TryOutcome::Process(output) => {
            assert_eq!(output.data()["ending"]["at"], ending.at.to_string());
        }
        TryOutcome::Call(_) => assert!(
            matches!(last_refusal(world), Refusal::Final { ending: said, .. } if said.at == ending.at)
        ),
    }
}

#[then("after every step that a process takes, the worker sees it at once")]
fn the_worker_sees_every_step(world: &mut World, step: &Step) {
    let worker = long_lived_worker(world);
    for row in &step.table.as_ref().unwrap().rows {
        let [command, stage] = row.as_slice() else {
            panic!("a step has a command and a stage");
        };
        take_step(world, command);
        let seen = worker.get_plan(world.plan_id()).unwrap().plan;
        assert_eq!(seen.stage().to_string(), *stage, "after {command}");
        let listed = worker.list_plans(&PlanFilter::default(), None, 10).unwrap();
        assert_eq!(listed[0].plan, seen);
        let history = worker.history().read_history(world.plan_id()).unwrap();
        assert_eq!(history.last().unwrap().version, seen.version());
    }
}

#[when("a process adds a rule that blocks the execute gate")]
fn a_process_adds_a_rule(world: &mut World) {
    let said = world
        .program
        .run(["rule", "add", "never", "--expr", "false", "--at", "execute"])
        .finish();
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
}

#[when("a process archives the action")]
fn a_process_archives_the_action(world: &mut World) {
    take_step(world, "archive-action");
}

#[then("it is blocked")]
fn it_is_blocked(world: &mut World) {
    match &world.outcome {
        Some(crate::world::TryOutcome::Call(Err(LifecycleError::Blocked(blocked)))) => {
            assert_eq!(blocked.gate, Gate::Execute);
            assert_eq!(blocked.failed[0].rule.scope, RuleScope::Global);
        }
        other => panic!("it was not blocked: {other:?}"),
    }
}

#[then("it is refused, because the action was archived")]
fn refused_because_it_was_archived(world: &mut World) {
    let refusal = last_refusal(world);
    assert!(
        matches!(refusal, Refusal::ActionArchived { .. }),
        "{refusal:?}"
    );
}

#[when("the store loses everything")]
fn the_store_loses_everything(world: &mut World) {
    world.store().delete_everything();
}

#[then("the worker does not find the plan")]
fn the_worker_does_not_find_the_plan(world: &mut World) {
    let (worker, plan) = (long_lived_worker(world), world.plan_id());
    let refused = |found: LifecycleError| {
        assert!(
            matches!(found, LifecycleError::Refused(Refusal::NoSuchPlan(id)) if id == plan),
            "{found:?}"
        );
    };
    refused(worker.get_plan(plan).map(drop).unwrap_err());
    refused(worker.history().read_history(plan).map(drop).unwrap_err());
    refused(
        worker
            .history()
            .list_changesets(plan)
            .map(drop)
            .unwrap_err(),
    );
    refused(
        worker
            .claims()
            .start_execute(plan, "late", scenario_commands::LONG_LEASE, &call_by_ada())
            .map(drop)
            .unwrap_err(),
    );
}

#[then("the worker finds no plans")]
fn the_worker_finds_no_plans(world: &mut World) {
    let found = long_lived_worker(world).list_plans(&PlanFilter::default(), None, 10);
    assert_eq!(found.unwrap(), Vec::new());
}

#[then("a process does not find the plan")]
fn a_process_does_not_find_the_plan(world: &mut World) {
    let plan = world.plan_id().to_string();
    let said = world
        .program
        .run(["--format", "json", "status", &plan])
        .finish();
    assert_eq!(said.exit_code(), Some(3), "{said:?}");
}

fn long_lived_worker(world: &World) -> Lifecycle {
    world.worker.clone().expect("there is a worker")
}
