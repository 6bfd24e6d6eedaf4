//! The engine embedded in a program: contexts, handles, the event log and diagnoses.

use std::time::Duration;

use plan::action::ActionDefinition;
use plan::argument::ArgumentType;
use plan::changeset::Node;
use plan::invariant::{Gate, RuleDraft, RuleScope};
use plan::{Caller, Phase, PlanActors, PlanId, PlanVersion, Refusal, Span, Verb};
use planwright_lifecycle::{
    Call, ExecutionContext, HandleError, Lifecycle, LifecycleError, UseRequest,
};
use store::{Cursor, MemoryStore};
use testkit::samples;

const TEST_LEASE: Span = Span::from_seconds(60);

fn call_as_ada() -> Call {
    Call::by(Caller::Person("ada".to_owned()))
}

fn open_engine() -> Lifecycle {
    Lifecycle::open(MemoryStore::new())
}

fn create_plan(lifecycle: &Lifecycle) -> PlanId {
    let request = UseRequest {
        goal: Some("Look around".to_owned()),
        fallback_actors: Some(PlanActors::for_both_phases(samples::parse_name("robot"))),
        ..UseRequest::default()
    };
    lifecycle
        .use_action(request, &call_as_ada())
        .unwrap()
        .plan
        .id()
}

fn start_executing(lifecycle: &Lifecycle) -> (PlanId, ExecutionContext) {
    let plan_id = create_plan(lifecycle);
    let claim = lifecycle
        .claims()
        .start_strategize(plan_id, "w", TEST_LEASE, &call_as_ada())
        .unwrap();
    claim.complete_strategize(Vec::new()).unwrap();
    lifecycle.execute_plan(plan_id, &call_as_ada()).unwrap();
    let claim = lifecycle
        .claims()
        .start_execute(plan_id, "w", TEST_LEASE, &call_as_ada())
        .unwrap();
    (plan_id, claim.context())
}

fn parse_node(name: &str) -> Node {
    name.parse().unwrap()
}

#[test]
fn changes_go_to_the_changeset_of_their_unit_of_work() {
    let lifecycle = open_engine();
    let (plan_id, context) = start_executing(&lifecycle);
    let [front, back] = ["front", "back"].map(|name| context.for_node(parse_node(name)));
    let front_changes = front.start_changeset().unwrap();
    // The only open changeset needs no name.
    assert_eq!(
        context.record_change(samples::created_entry("a")).unwrap(),
        front_changes.id()
    );
    let back_changes = back.start_changeset().unwrap();
    assert_eq!(
        back.record_change(samples::created_entry("b")).unwrap(),
        back_changes.id()
    );
    let ambiguous = context.record_change(samples::created_entry("c"));
    assert!(
        matches!(
            ambiguous,
            Err(LifecycleError::Refused(Refusal::AmbiguousChangeset { .. }))
        ),
        "{ambiguous:?}"
    );
    front_changes
        .record_change(samples::created_entry("d"))
        .unwrap();
    let front_id = front_changes.id();
    front_changes.seal().unwrap();
    assert!(front.record_change(samples::created_entry("e")).is_err());
    for (changeset, entries) in lifecycle.history().list_changesets(plan_id).unwrap() {
        let paths: Vec<String> = entries.iter().map(|entry| entry.path.to_string()).collect();
        match changeset.id == front_id {
            true => assert_eq!(paths, ["a", "d"]),
            false => assert_eq!(paths, ["b"]),
        }
    }
    assert!(
        lifecycle
            .history()
            .list_changesets(PlanId::from_parts(1, 1))
            .is_err()
    );
}

#[test]
fn a_handle_is_an_id_a_part_of_one_or_the_newest_plan() {
    let lifecycle = open_engine();
    assert!(matches!(
        lifecycle.resolve_handle("@"),
        Err(HandleError::NoPlans)
    ));
    let (one, two) = (create_plan(&lifecycle), create_plan(&lifecycle));
    assert_eq!(lifecycle.resolve_handle("@").unwrap(), one.max(two));
    assert_eq!(lifecycle.resolve_handle(&one.to_string()).unwrap(), one);
    let short = lifecycle.short_handle(one).unwrap();
    assert!(short.len() >= 4);
    assert_eq!(lifecycle.resolve_handle(&short).unwrap(), one);
    assert_eq!(
        lifecycle
            .resolve_handle(&two.to_string().to_lowercase())
            .unwrap(),
        two
    );
    assert!(matches!(
        lifecycle.resolve_handle("0"),
        Err(HandleError::Ambiguous { .. })
    ));
    assert!(matches!(
        lifecycle.resolve_handle("7zzzzzzz"),
        Err(HandleError::Unknown(_))
    ));
    for invalid in ["", "not an id", "ILOU", &"0".repeat(27)] {
        assert!(
            matches!(
                lifecycle.resolve_handle(invalid),
                Err(HandleError::NotAHandle(_))
            ),
            "{invalid}"
        );
    }
}

#[test]
fn the_log_can_be_followed_from_any_cursor() {
    let lifecycle = open_engine();
    let plan_id = create_plan(&lifecycle);
    let mut events = lifecycle.events(Cursor::START);
    let first = events.next_ready().unwrap().unwrap();
    assert_eq!(first.recorded.event.kind(), "created");
    assert!(events.next_ready().unwrap().is_none());
    assert!(
        events
            .next_within(Duration::from_millis(1))
            .unwrap()
            .is_none()
    );
    lifecycle
        .cancel_plan(plan_id, None, &call_as_ada())
        .unwrap();
    let second = events
        .next_within(Duration::from_secs(10))
        .unwrap()
        .unwrap();
    assert_eq!(second.recorded.event.kind(), "cancelled");
    let mut late = lifecycle.events(first.cursor.unwrap());
    assert_eq!(
        late.next_ready().unwrap().unwrap().recorded,
        second.recorded
    );
}

#[test]
fn a_diagnosis_agrees_with_the_gate_and_changes_nothing() {
    let lifecycle = open_engine();
    let plan_id = create_plan(&lifecycle);
    let rule = samples::rule_draft("never", "false", &[Gate::Strategize]);
    lifecycle
        .rules()
        .add_rule(RuleScope::Plan(plan_id), rule, &call_as_ada())
        .unwrap();
    let before = lifecycle.get_plan(plan_id).unwrap();
    let why = lifecycle.diagnose_plan(plan_id).unwrap();
    let gate = why.gate.unwrap();
    assert_eq!((gate.gate, gate.failed_rules.len()), (Gate::Strategize, 1));
    assert_eq!(lifecycle.get_plan(plan_id).unwrap(), before);
    let blocked = lifecycle
        .claims()
        .start_strategize(plan_id, "w", TEST_LEASE, &call_as_ada());
    assert!(matches!(blocked, Err(LifecycleError::Blocked(_))));
    lifecycle
        .rules()
        .waive_rule(plan_id, "never".parse().unwrap(), "today", &call_as_ada())
        .unwrap();
    let gate = lifecycle.diagnose_plan(plan_id).unwrap().gate.unwrap();
    assert_eq!((gate.counts.waived, gate.failed_rules.len()), (1, 0));
    let claim = lifecycle
        .claims()
        .start_strategize(plan_id, "w", TEST_LEASE, &call_as_ada())
        .unwrap();
    assert!(lifecycle.diagnose_plan(plan_id).unwrap().gate.is_none());
    claim.complete_strategize(Vec::new()).unwrap();
    let why = lifecycle.diagnose_plan(plan_id).unwrap();
    assert_eq!(why.gate.unwrap().gate, Gate::Execute);
    assert_eq!(why.options.first(), Some(&Verb::ExecutePlan));
    assert!(lifecycle.diagnose_plan(PlanId::from_parts(1, 1)).is_err());
}

fn action_with_arguments(rule: RuleDraft) -> ActionDefinition {
    let kinds = [
        ("text", ArgumentType::String),
        ("number", ArgumentType::Integer),
        ("share", ArgumentType::Float),
        ("flag", ArgumentType::Boolean),
        ("items", ArgumentType::List),
    ];
    ActionDefinition {
        arguments: kinds
            .map(|(name, kind)| samples::optional_argument(name, kind))
            .into(),
        invariants: vec![rule],
        ..samples::reusable_action("tidy")
    }
}

#[test]
fn rules_see_arguments_of_every_type() {
    let lifecycle = open_engine();
    let expression = "arguments.text == 'docs' && arguments.number == 3 && arguments.share < 0.6 \
                      && arguments.flag && arguments.items.exists(item, item == 'b') \
                      && {'k': [1, 2]}['k'].size() == 2";
    let rule = samples::rule_draft("sees", expression, &[Gate::Strategize]);
    lifecycle
        .actions()
        .create_action(action_with_arguments(rule), &call_as_ada())
        .unwrap();
    let request = |share: &str| UseRequest {
        action: Some(samples::parse_name("tidy")),
        arguments: [
            ("text", "docs"),
            ("number", "3"),
            ("share", share),
            ("flag", "true"),
            ("items", "a"),
            ("items", "b"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
        ..UseRequest::default()
    };
    let holds = lifecycle
        .use_action(request("0.5"), &call_as_ada())
        .unwrap()
        .plan
        .id();
    lifecycle
        .claims()
        .start_strategize(holds, "w", TEST_LEASE, &call_as_ada())
        .unwrap()
        .release()
        .unwrap();
    let fails = lifecycle
        .use_action(request("0.7"), &call_as_ada())
        .unwrap()
        .plan
        .id();
    assert!(matches!(
        lifecycle
            .claims()
            .start_strategize(fails, "w", TEST_LEASE, &call_as_ada()),
        Err(LifecycleError::Blocked(_))
    ));
    assert_eq!(lifecycle.actions().list_actions(None, 10).unwrap().len(), 1);
    assert_eq!(lifecycle.rules().list_rules().unwrap().rules.len(), 1);
    lifecycle
        .actions()
        .archive_action(&samples::parse_name("tidy"), &call_as_ada())
        .unwrap();
    assert!(matches!(
        lifecycle.use_action(request("0.5"), &call_as_ada()),
        Err(LifecycleError::Refused(Refusal::ActionArchived { .. }))
    ));
}

#[test]
fn an_invalid_rule_is_refused_before_it_is_stored() {
    let lifecycle = open_engine();
    for invalid in ["", "1 +", "nonsense.field == 1", &"a".repeat(100_000)] {
        let rule = samples::rule_draft("wrong", invalid, &[Gate::Execute]);
        let added = lifecycle
            .rules()
            .add_rule(RuleScope::Global, rule.clone(), &call_as_ada());
        assert!(
            matches!(added, Err(LifecycleError::InvalidRule(_))),
            "{invalid:.20}"
        );
        let created = lifecycle
            .actions()
            .create_action(action_with_arguments(rule), &call_as_ada());
        assert!(
            matches!(created, Err(LifecycleError::InvalidRule(_))),
            "{invalid:.20}"
        );
    }
    assert!(lifecycle.rules().list_rules().unwrap().rules.is_empty());
}

#[test]
fn a_call_can_require_a_version_or_have_a_key() {
    let lifecycle = open_engine();
    let plan_id = create_plan(&lifecycle);
    let stale = call_as_ada().if_version(PlanVersion(7));
    assert!(matches!(
        lifecycle.cancel_plan(plan_id, None, &stale),
        Err(LifecycleError::Refused(Refusal::VersionMismatch { .. }))
    ));
    let keyed = call_as_ada().with_key("once");
    let first = lifecycle
        .cancel_plan(plan_id, Some("enough"), &keyed)
        .unwrap();
    let again = lifecycle
        .cancel_plan(plan_id, Some("enough"), &keyed)
        .unwrap();
    assert!(!first.repeated && again.repeated);
    assert_eq!(first.receipt, again.receipt);
    assert!(matches!(
        lifecycle.cancel_plan(plan_id, Some("other"), &keyed),
        Err(LifecycleError::KeyReused { .. })
    ));
    assert_eq!(
        lifecycle.get_plan(plan_id).unwrap().plan.phase(),
        Phase::Strategize
    );
}
