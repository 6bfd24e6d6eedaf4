//! G4: values are stored and read back exactly.

use plan::action::ActionDefinition;
use plan::actor::{ActorDefinition, ActorKind};
use plan::argument::{ArgumentType, ArgumentValue};
use plan::changeset::{ChangesetEntry, PathOperation};
use plan::command::{CancelPlan, CompleteStrategize, OpenChangeset, RecordChange};
use plan::command::{ChangesetSelector, NewPlan};
use plan::decision::{DecisionKind, ReportedDecision};
use plan::evolve::replay_events;
use plan::plan::PlanLimits;
use plan::{Command, ErasableText, Span, Timestamp};
use store::verify::verify_store;
use testkit::client::LONG_LEASE;
use testkit::dump::read_all_events;
use testkit::samples;

use crate::store_fixture::StoreFixture;

super::on_every_store! {
    extreme_arguments_survive,
    extreme_moments_survive,
    long_and_unusual_texts_survive,
    every_field_of_an_action_survives,
    every_field_of_an_entry_survives,
}

const ODD_TEXTS: [&str; 9] = [
    "naïve Ünïcode – „quoted“",
    "\u{1f469}\u{200d}\u{1f52c} \u{202e}backwards\u{202c} e\u{301}",
    "line one\nline two\r\n\ttabbed\u{b}\u{1f}\u{7f}",
    "'; DROP TABLE plans; -- \" \\ $1 ?1 %s {}",
    "\u{fffd}\u{feff}\u{10ffff}\u{e000}",
    "{\"$text\": \"not a text\"}",
    "$erased",
    "\\u0000 is not a NUL",
    "  spaces around  ",
];

fn extreme_arguments_survive(fixture: &StoreFixture) {
    let client = fixture.client();
    let kinds = [
        ("i", ArgumentType::Integer),
        ("f", ArgumentType::Float),
        ("b", ArgumentType::Boolean),
        ("s", ArgumentType::String),
        ("l", ArgumentType::List),
    ];
    let action = client.add_action(ActionDefinition {
        arguments: kinds
            .map(|(name, kind)| samples::optional_argument(name, kind))
            .into(),
        ..samples::reusable_action("values")
    });
    let integers = [i64::MIN, i64::MAX, 0, -1, (1 << 53) + 1].map(ArgumentValue::Integer);
    let sum = 0.1 + 0.2;
    let tenth = 1.0 / 10.0;
    let floats = [
        sum,
        tenth,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        5e-324,
        -0.0,
        1e23,
        1.0,
    ];
    let booleans = [true, false].map(ArgumentValue::Boolean);
    let lists = [vec![], vec![""], ODD_TEXTS.to_vec(), vec!["same", "same"]];
    let list =
        |texts: Vec<&str>| ArgumentValue::List(texts.into_iter().map(ErasableText::from).collect());
    let check = |name: &str, value: ArgumentValue| {
        let given = value.to_json().to_string();
        let given = match value {
            ArgumentValue::String(ref text) => text.as_str().to_owned(),
            _ => given,
        };
        let plan = client.add_plan(NewPlan {
            arguments: vec![(name.to_owned(), given)],
            ..samples::plan_of_action(client.ids().next_plan_id(), &action)
        });
        let stored = fixture.open().read_plan(plan).unwrap().unwrap().plan;
        assert_eq!(stored.arguments().get(name), Some(&value));
        if let (ArgumentValue::Float(stored), ArgumentValue::Float(given)) =
            (&stored.arguments()[name], &value)
        {
            assert_eq!(stored.to_bits(), given.to_bits(), "{given}");
        }
        let recorded: Vec<_> = read_all_events(client.store(), plan)
            .into_iter()
            .map(|event| event.recorded)
            .collect();
        assert_eq!(replay_events(&recorded).unwrap(), Some(stored));
    };
    integers.into_iter().for_each(|value| check("i", value));
    floats
        .map(ArgumentValue::Float)
        .into_iter()
        .for_each(|value| check("f", value));
    booleans.into_iter().for_each(|value| check("b", value));
    let texts = ODD_TEXTS.iter().copied().chain(["", "\n"]);
    texts.for_each(|text| check("s", ArgumentValue::String(text.into())));
    lists.into_iter().for_each(|texts| check("l", list(texts)));
}

fn extreme_moments_survive(fixture: &StoreFixture) {
    for moment in [
        i64::MIN,
        i64::MAX,
        -1,
        0,
        1,
        1_763_000_000_123_456,
        253_402_300_799_999_999,
    ] {
        let client = fixture.client().with_decision_time(Timestamp(moment));
        let plan = client.create_queued_plan("be at an odd time");
        let claimed = client.must_submit(
            plan,
            client.start_command(plan, plan::Phase::Strategize, Span(i64::MAX)),
        );
        let row = fixture.open().read_plan(plan).unwrap().unwrap();
        assert_eq!(row.plan.created_at(), Timestamp(moment));
        assert_eq!(Some(&row.plan), claimed.plan.as_deref());
        assert_eq!(claimed.receipt.at, Timestamp(moment));
        assert_eq!(
            row.lease.unwrap().expires_at,
            Timestamp(moment.saturating_add(i64::MAX))
        );
    }
    assert_eq!(
        verify_store(fixture.open().as_ref()).unwrap().problems,
        Vec::<String>::new()
    );
}

fn long_and_unusual_texts_survive(fixture: &StoreFixture) {
    let client = fixture.client();
    let longest = "ü".repeat(ErasableText::MAX_BYTES / 2);
    for text in ODD_TEXTS.into_iter().chain([longest.as_str()]) {
        let plan = client.create_queued_plan(text);
        let epoch = client.as_person(text).claim_phase(plan, LONG_LEASE);
        let decision = ReportedDecision {
            kind: DecisionKind::StrategyChoice,
            question: text.to_owned(),
            choice: text.to_owned(),
            alternatives: vec![text.to_owned(), String::new()],
            rationale: Some(text.to_owned()),
            confidence: Some(0.333.try_into().unwrap()),
            parent: None,
        };
        let decisions = vec![decision];
        client.must_submit(plan, Command::from(CompleteStrategize { epoch, decisions }));
        let reason = Some(text.to_owned());
        let committed = client
            .must_submit(plan, Command::from(CancelPlan { reason }))
            .plan
            .unwrap();
        let row = fixture.open().read_plan(plan).unwrap().unwrap();
        assert_eq!(row.plan, *committed);
        assert_eq!(row.plan.goal().as_str(), text);
        let by = plan::Caller::Person(text.to_owned());
        let completions = client.store().read_completions(plan).unwrap();
        assert_eq!(completions[&plan::Verb::StartStrategize].by, by);
        let events = read_all_events(client.store(), plan);
        let decided = events
            .iter()
            .find_map(|stored| match &stored.recorded.event {
                plan::Event::DecisionsRecorded { decisions } if decisions[0].number == 2 => {
                    Some(decisions[0].clone())
                }
                _ => None,
            });
        let decided = decided.unwrap();
        assert_eq!(
            decided.alternatives,
            [ErasableText::from(text), ErasableText::from("")]
        );
        assert_eq!(decided.rationale, Some(text.into()));
    }
    assert_eq!(
        verify_store(fixture.open().as_ref()).unwrap().problems,
        Vec::<String>::new()
    );
}

fn every_field_of_an_action_survives(fixture: &StoreFixture) {
    let client = fixture.client();
    let definition = ActionDefinition {
        name: samples::parse_name("acme/everything-2.0_x"),
        description: ODD_TEXTS[0].to_owned(),
        long_description: Some(ODD_TEXTS.join("\n")),
        actors: Some(plan::PlanActors {
            strategy: samples::parse_name("acme/thinker"),
            execution: samples::parse_name("worker"),
            invariant: Some(samples::parse_name("judge")),
        }),
        arguments: vec![plan::argument::ArgumentSpec {
            default: Some(ArgumentValue::Float(0.1 + 0.2)),
            min: Some(-1e300),
            max: Some(f64::MAX),
            description: Some(ODD_TEXTS[3].to_owned()),
            ..samples::optional_argument("ratio", ArgumentType::Float)
        }],
        invariants: vec![samples::rule_draft("fine", "'\\\n\u{1f469}' == \"\"", &[])],
        automation_profile: Some(plan::Profile::Auto),
        read_only: true,
        reusable: false,
        tools: plan::permission::ToolPolicy {
            ask: vec!["execute(*git push*)".parse().unwrap()],
            ..plan::permission::ToolPolicy::default()
        },
    };
    let name = client.add_action(definition.clone());
    let stored = fixture.open().read_action(&name).unwrap().unwrap();
    assert_eq!(stored.definition, definition);
    let limits = PlanLimits {
        attempts: u32::MAX,
        timeout: Some(plan::Span::from_seconds(1)),
        cost: Some(plan::Money(i64::MAX.unsigned_abs())),
        tokens: Some(i64::MAX.unsigned_abs()),
        time: Some(plan::Span::from_seconds(7)),
    };
    // Only agents that can ask keep the tool policy of the action.
    let asking_actor = |name: &str| ActorDefinition {
        name: samples::parse_name(name),
        description: None,
        kind: ActorKind::Acp(Box::default()),
    };
    let plan = client.add_plan(NewPlan {
        limits,
        definitions: ["acme/thinker", "worker", "judge"].map(asking_actor).into(),
        ..samples::plan_of_action(client.ids().next_plan_id(), &name)
    });
    assert_eq!(client.load_plan(plan).limits(), limits);
    let used = fixture.open().read_action(&name).unwrap().unwrap();
    assert_eq!((used.used_by, used.definition), (Some(plan), definition));
}

fn every_field_of_an_entry_survives(fixture: &StoreFixture) {
    let client = fixture.client();
    let (plan, epoch) = client.create_executing_plan("change things", LONG_LEASE);
    let (id, node) = (
        client.ids().next_changeset_id(),
        ODD_TEXTS[0].parse().unwrap(),
    );
    client.must_submit(plan, Command::from(OpenChangeset { epoch, id, node }));
    let entry = ChangesetEntry {
        resource: Some("shop/code".to_owned()),
        path: samples::tree_path(*b"to/\xfe"),
        operation: PathOperation::Rename,
        from: Some(samples::tree_path(*b"from/\xff\n")),
        before: Some("0".repeat(64)),
        after: Some("f".repeat(64)),
        mode: Some("100755".to_owned()),
        actor: Some(ODD_TEXTS[1].to_owned()),
        tool: Some(ODD_TEXTS[2].to_owned()),
        unseen: true,
    };
    let into = ChangesetSelector::OnlyOpen;
    client.must_submit(
        plan,
        Command::from(RecordChange {
            epoch,
            into,
            entry: entry.clone(),
        }),
    );
    let stored = fixture.open().list_changesets(plan).unwrap();
    assert_eq!(stored[0].1, [entry]);
    assert_eq!(stored[0].0.node.as_str(), ODD_TEXTS[0]);
}
