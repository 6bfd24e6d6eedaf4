//! The engine as a program embeds it: contexts, handles, the log, and why a plan does not move.

#![cfg(not(feature = "shuttle"))]
#![allow(
    clippy::unwrap_used,
    reason = "a test whose set-up fails has failed, and the panic says where"
)]

use std::time::Duration;

use plan::action::ActionDefinition;
use plan::argument::ArgumentType;
use plan::changeset::Node;
use plan::invariant::{Gate, RuleDraft, Scope};
use plan::{Actors, Caller, Phase, PlanId, Refusal, Span, Verb, Version};
use planwright_lifecycle::{Call, Error, ExecutionContext, HandleError, Lifecycle, UseRequest};
use store::{Cursor, MemoryStore};
use testkit::samples;

const LEASE: Span = Span::seconds(60);

fn ada() -> Call {
    Call::by(Caller::Person("ada".to_owned()))
}

fn engine() -> Lifecycle {
    Lifecycle::open(MemoryStore::new())
}

fn used(lifecycle: &Lifecycle) -> PlanId {
    let request = UseRequest {
        goal: Some("Look around".to_owned()),
        fallback_actors: Some(Actors::both(samples::name("robot"))),
        ..UseRequest::default()
    };
    lifecycle.use_action(request, &ada()).unwrap().plan.id
}

fn executing(lifecycle: &Lifecycle) -> (PlanId, ExecutionContext) {
    let plan = used(lifecycle);
    let claim = lifecycle
        .start_strategize(plan, "w", LEASE, &ada())
        .unwrap();
    claim.complete_strategize(Vec::new()).unwrap();
    lifecycle.execute_plan(plan, &ada()).unwrap();
    let claim = lifecycle.start_execute(plan, "w", LEASE, &ada()).unwrap();
    (plan, claim.context())
}

fn node(name: &str) -> Node {
    name.parse().unwrap()
}

#[test]
fn changes_go_to_the_changeset_of_their_unit_of_work() {
    let lifecycle = engine();
    let (plan, context) = executing(&lifecycle);
    let [front, back] = ["front", "back"].map(|name| context.for_node(node(name)));
    let front_changes = front.start_changeset().unwrap();
    // The only one that is open needs no name.
    assert_eq!(
        context.record_change(samples::created("a")).unwrap(),
        front_changes.id()
    );
    let back_changes = back.start_changeset().unwrap();
    assert_eq!(
        back.record_change(samples::created("b")).unwrap(),
        back_changes.id()
    );
    let ambiguous = context.record_change(samples::created("c"));
    assert!(
        matches!(
            ambiguous,
            Err(Error::Refused(Refusal::AmbiguousChangeset { .. }))
        ),
        "{ambiguous:?}"
    );
    front_changes.record(samples::created("d")).unwrap();
    let front_id = front_changes.id();
    front_changes.seal().unwrap();
    assert!(front.record_change(samples::created("e")).is_err());
    for (changeset, entries) in lifecycle.changesets(plan).unwrap() {
        let paths: Vec<String> = entries.iter().map(|entry| entry.path.to_string()).collect();
        match changeset.id == front_id {
            true => assert_eq!(paths, ["a", "d"]),
            false => assert_eq!(paths, ["b"]),
        }
    }
    assert!(lifecycle.changesets(PlanId::from_parts(1, 1)).is_err());
}

#[test]
fn a_handle_is_an_id_a_part_of_one_or_the_newest() {
    let lifecycle = engine();
    assert!(matches!(lifecycle.resolve("@"), Err(HandleError::NoPlans)));
    let (one, two) = (used(&lifecycle), used(&lifecycle));
    assert_eq!(lifecycle.resolve("@").unwrap(), one.max(two));
    assert_eq!(lifecycle.resolve(&one.to_string()).unwrap(), one);
    let short = lifecycle.short_name(one).unwrap();
    assert!(short.len() >= 4);
    assert_eq!(lifecycle.resolve(&short).unwrap(), one);
    assert_eq!(
        lifecycle.resolve(&two.to_string().to_lowercase()).unwrap(),
        two
    );
    assert!(matches!(
        lifecycle.resolve("0"),
        Err(HandleError::Ambiguous { .. })
    ));
    assert!(matches!(
        lifecycle.resolve("7zzzzzzz"),
        Err(HandleError::Unknown(_))
    ));
    for wrong in ["", "not an id", "ILOU", &"0".repeat(27)] {
        assert!(
            matches!(lifecycle.resolve(wrong), Err(HandleError::NotAHandle(_))),
            "{wrong}"
        );
    }
}

#[test]
fn the_log_is_followed_from_any_place() {
    let lifecycle = engine();
    let plan = used(&lifecycle);
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
    lifecycle.cancel(plan, None, &ada()).unwrap();
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
fn why_says_what_the_gate_would_say_and_moves_nothing() {
    let lifecycle = engine();
    let plan = used(&lifecycle);
    let rule = samples::rule("never", "false", &[Gate::Strategize]);
    lifecycle.add_rule(Scope::Plan(plan), rule, &ada()).unwrap();
    let before = lifecycle.get_plan(plan).unwrap();
    let why = lifecycle.why(plan).unwrap();
    let gate = why.gate.unwrap();
    assert_eq!((gate.gate, gate.failed.len()), (Gate::Strategize, 1));
    assert_eq!(lifecycle.get_plan(plan).unwrap(), before);
    let blocked = lifecycle.start_strategize(plan, "w", LEASE, &ada());
    assert!(matches!(blocked, Err(Error::Blocked(_))));
    lifecycle
        .waive(plan, "never".parse().unwrap(), "today", &ada())
        .unwrap();
    let gate = lifecycle.why(plan).unwrap().gate.unwrap();
    assert_eq!((gate.counts.waived, gate.failed.len()), (1, 0));
    let claim = lifecycle
        .start_strategize(plan, "w", LEASE, &ada())
        .unwrap();
    assert!(lifecycle.why(plan).unwrap().gate.is_none());
    claim.complete_strategize(Vec::new()).unwrap();
    let why = lifecycle.why(plan).unwrap();
    assert_eq!(why.gate.unwrap().gate, Gate::Execute);
    assert_eq!(why.options.first(), Some(&Verb::ExecutePlan));
    assert!(lifecycle.why(PlanId::from_parts(1, 1)).is_err());
}

fn with_arguments(rule: RuleDraft) -> ActionDefinition {
    let kinds = [
        ("text", ArgumentType::String),
        ("number", ArgumentType::Integer),
        ("share", ArgumentType::Float),
        ("flag", ArgumentType::Boolean),
        ("items", ArgumentType::List),
    ];
    ActionDefinition {
        arguments: kinds
            .map(|(name, kind)| samples::argument(name, kind))
            .into(),
        invariants: vec![rule],
        ..samples::action("tidy")
    }
}

#[test]
fn rules_see_arguments_of_every_type() {
    let lifecycle = engine();
    let expression = "arguments.text == 'docs' && arguments.number == 3 && arguments.share < 0.6 \
                      && arguments.flag && arguments.items.exists(item, item == 'b') \
                      && {'k': [1, 2]}['k'].size() == 2";
    let rule = samples::rule("sees", expression, &[Gate::Strategize]);
    lifecycle
        .create_action(with_arguments(rule), &ada())
        .unwrap();
    let request = |share: &str| UseRequest {
        action: Some(samples::name("tidy")),
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
        .use_action(request("0.5"), &ada())
        .unwrap()
        .plan
        .id;
    lifecycle
        .start_strategize(holds, "w", LEASE, &ada())
        .unwrap()
        .release()
        .unwrap();
    let fails = lifecycle
        .use_action(request("0.7"), &ada())
        .unwrap()
        .plan
        .id;
    assert!(matches!(
        lifecycle.start_strategize(fails, "w", LEASE, &ada()),
        Err(Error::Blocked(_))
    ));
    assert_eq!(lifecycle.list_actions(None, 10).unwrap().len(), 1);
    assert_eq!(lifecycle.list_rules().unwrap().rules.len(), 1);
    lifecycle
        .archive_action(&samples::name("tidy"), &ada())
        .unwrap();
    assert!(matches!(
        lifecycle.use_action(request("0.5"), &ada()),
        Err(Error::Refused(Refusal::ActionArchived { .. }))
    ));
}

#[test]
fn what_is_no_expression_is_refused_before_it_is_stored() {
    let lifecycle = engine();
    for wrong in ["", "1 +", "nonsense.field == 1", &"a".repeat(100_000)] {
        let rule = samples::rule("wrong", wrong, &[Gate::Execute]);
        let added = lifecycle.add_rule(Scope::Global, rule.clone(), &ada());
        assert!(matches!(added, Err(Error::Expr(_))), "{wrong:.20}");
        let created = lifecycle.create_action(with_arguments(rule), &ada());
        assert!(matches!(created, Err(Error::Expr(_))), "{wrong:.20}");
    }
    assert!(lifecycle.list_rules().unwrap().rules.is_empty());
}

#[test]
fn a_call_may_insist_on_a_version() {
    let lifecycle = engine();
    let plan = used(&lifecycle);
    let stale = ada().if_version(Version(7));
    assert!(matches!(
        lifecycle.cancel(plan, None, &stale),
        Err(Error::Refused(Refusal::VersionMismatch { .. }))
    ));
    let keyed = ada().with_key("once");
    let first = lifecycle.cancel(plan, Some("enough"), &keyed).unwrap();
    let again = lifecycle.cancel(plan, Some("enough"), &keyed).unwrap();
    assert!(!first.repeated && again.repeated);
    assert_eq!(first.receipt, again.receipt);
    assert!(matches!(
        lifecycle.cancel(plan, Some("other"), &keyed),
        Err(Error::KeyReused { .. })
    ));
    assert_eq!(
        lifecycle.get_plan(plan).unwrap().plan.phase(),
        Phase::Strategize
    );
}
