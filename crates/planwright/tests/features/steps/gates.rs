//! Gates that do not open.

use cucumber::{given, then, when};
use plan::Event;
use plan::invariant::{RuleCheck, RuleDraft, RuleScope};
use planwright::{LifecycleError, plan};

use crate::scenario_commands;
use crate::world::{TryOutcome, World, call_by_ada};

const WAIVE_REASON: &str = "we know better";

#[given(regex = r"^a rule that never holds at the (\w+) gate$")]
fn a_rule_that_never_holds(world: &mut World, gate: String) {
    add_rule(
        world,
        scenario_commands::failing_rule(gate.parse().unwrap()),
    );
}

#[given(regex = r"^a non-overridable rule that never holds at the (\w+) gate$")]
fn a_non_overridable_rule(world: &mut World, gate: String) {
    let draft = RuleDraft {
        non_overridable: true,
        ..scenario_commands::failing_rule(gate.parse().unwrap())
    };
    add_rule(world, draft);
}

#[given(regex = r#"^the rule "(.+)" at the (\w+) gate$"#)]
fn the_rule(world: &mut World, expression: String, gate: String) {
    let draft = RuleDraft {
        check: RuleCheck::Expr(expression),
        ..scenario_commands::failing_rule(gate.parse().unwrap())
    };
    add_rule(world, draft);
}

fn add_rule(world: &mut World, draft: RuleDraft) {
    let engine = world.open_engine();
    engine
        .rules()
        .add_rule(RuleScope::Global, draft, &call_by_ada())
        .unwrap();
    world.remember_store();
}

#[when("the rule is removed")]
fn the_rule_is_removed(world: &mut World) {
    world
        .open_engine()
        .rules()
        .remove_rule(RuleScope::Global, "never".parse().unwrap(), &call_by_ada())
        .unwrap();
}

#[when("the rule is waived")]
fn the_rule_is_waived(world: &mut World) {
    world
        .open_engine()
        .rules()
        .waive_rule(
            world.plan_id(),
            "never".parse().unwrap(),
            WAIVE_REASON,
            &call_by_ada(),
        )
        .unwrap();
}

#[when("the rule is waived in vain")]
fn the_rule_is_waived_in_vain(world: &mut World) {
    let waived = world.open_engine().rules().waive_rule(
        world.plan_id(),
        "never".parse().unwrap(),
        WAIVE_REASON,
        &call_by_ada(),
    );
    assert!(
        matches!(
            waived,
            Err(LifecycleError::Refused(
                plan::Refusal::NonOverridable { .. }
            ))
        ),
        "{waived:?}"
    );
}

#[then("it is blocked by the rule")]
fn it_is_blocked_by_the_rule(world: &mut World) {
    match world.outcome.as_ref().unwrap() {
        TryOutcome::Call(Err(LifecycleError::Blocked(blocked))) => {
            assert_eq!(blocked.plan, world.plan_id());
            assert_eq!(blocked.failed.len(), 1);
            assert_eq!(blocked.failed[0].rule.name.as_str(), "never");
        }
        TryOutcome::Call(other) => panic!("it was not blocked: {other:?}"),
        TryOutcome::Process(said) => {
            assert_eq!(said.exit_code(), Some(5), "{said:?}");
            let data = said.data();
            assert_eq!(data["kind"], "reconciliation_blocked");
            assert_eq!(data["plan_id"], world.plan_id().to_string());
            let told = said.messages();
            assert!(told.contains("never"), "{told}");
            let unchanged = ["The plan did not change", "Nothing landed"];
            assert!(unchanged.iter().any(|text| told.contains(text)), "{told}");
        }
    }
}

#[then("phase, state, version and timestamps are as they were")]
fn nothing_of_the_plan_moved(world: &mut World) {
    let before = &world.store_before().find_plan(world.plan_id()).unwrap().row;
    let now = world.open_engine().get_plan(world.plan_id()).unwrap();
    assert_eq!(now.plan.phase(), before.plan.phase());
    assert_eq!(now.plan.stage(), before.plan.stage());
    assert_eq!(now.plan.version(), before.plan.version());
    assert_eq!(now.plan.updated_at(), before.plan.updated_at());
    assert_eq!(now.plan, before.plan);
    assert_eq!(now.head, before.head);
    assert_eq!(now.lease, before.lease);
}

#[then("the log is as it was")]
fn the_log_is_as_it_was(world: &mut World) {
    let now = world.dump_store();
    let log = |dump: &testkit::StoreDump| dump.find_plan(world.plan_id()).unwrap().events.clone();
    assert_eq!(log(&now), log(world.store_before()));
}

#[then("everybody sees that the plan is blocked")]
fn everybody_sees_that_it_is_blocked(world: &mut World) {
    let row = world.open_engine().get_plan(world.plan_id()).unwrap();
    let verdict = row.verdict.expect("the verdict is stored beside the plan");
    assert_eq!(verdict.version, row.plan.version());
    assert_eq!(verdict.failed[0].rule.name.as_str(), "never");
    if world.store().address().is_none() {
        return;
    }
    let plan = world.plan_id().to_string();
    let look = |words: &[&str]| {
        let said = world
            .program
            .run(["--format", "json"].iter().chain(words))
            .finish();
        assert_eq!(said.exit_code(), Some(0), "{said:?}");
        said.data()
    };
    assert_eq!(look(&["list"])["plans"][0]["standing"], "blocked");
    assert_eq!(look(&[])["needs_me"][0]["plan_id"], plan.as_str());
    assert_eq!(look(&["status", &plan])["standing"], "blocked");
    let shown = look(&["plumbing", "show", &plan]);
    assert_eq!(shown["verdict"]["failed"][0]["rule"]["name"], "never");
}

#[then("the log says who waived the rule and why")]
fn the_log_says_who_waived(world: &mut World) {
    let history = world
        .open_engine()
        .history()
        .read_history(world.plan_id())
        .unwrap();
    let waived = history.iter().find_map(|recorded| match &recorded.event {
        Event::Waived { rule, reason } => Some((recorded, rule, reason)),
        _ => None,
    });
    let (recorded, rule, reason) = waived.expect("the waiver is an event");
    assert_eq!(recorded.by.to_string(), "ada");
    assert_eq!(rule.name.as_str(), "never");
    assert_eq!(reason.as_str(), WAIVE_REASON);
}
