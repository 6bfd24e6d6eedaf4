//! Names that are typed, stored or shown: each parses back to the same value, and an invalid one is
//! refused with a list of the valid ones.

use std::fmt::{Debug, Display};
use std::str::FromStr;
use std::time::Duration;

use planwright_plan as plan;

use plan::actor::{ActorDefinition, ActorKind, CommandLine};
use plan::argument::ArgumentValue;
use plan::changeset::{ChangesetEntry, Node, PathOperation, TreePath};
use plan::decision::{Confidence, DecisionKind};
use plan::invariant::RuleScope;
use plan::plan::ProfileSource;
use plan::project::{HostId, ResourceName};
use plan::repository_policy::{RepositoryPolicy, SandboxCleanupPolicy};
use plan::stage::{ConstraintKind, FailureCategory, StateName};
use plan::{
    Caller, Epoch, ErasableText, LandingOptions, Phase, PlanId, PlanVersion, Profile, Span,
    Timestamp,
};

#[track_caller]
fn check_names<T: FromStr<Err: Display> + PartialEq + Debug>(
    names: &[(&str, T)],
    invalid: &str,
    expected: &str,
) {
    for (name, value) in names {
        match name.parse::<T>() {
            Ok(parsed) => assert_eq!(parsed, *value),
            Err(error) => panic!("`{name}`: {error}"),
        }
    }
    match invalid.parse::<T>() {
        Ok(parsed) => panic!("`{invalid}` parses as {parsed:?}"),
        Err(error) => assert!(error.to_string().contains(expected), "{error}"),
    }
}

#[test]
fn names_parse_to_their_values() {
    check_names(
        &ConstraintKind::ALL.map(|kind| (kind.as_str(), kind)),
        "odd",
        "local_edits",
    );
    check_names(
        &FailureCategory::ALL.map(|category| (category.as_str(), category)),
        "odd",
        "transient",
    );
    check_names(
        &PathOperation::ALL.map(|operation| (operation.as_str(), operation)),
        "odd",
        "rename",
    );
    check_names(
        &Phase::ALL.map(|phase| (phase.as_str(), phase)),
        "odd",
        "strategize",
    );
    check_names(
        &StateName::ALL.map(|state| (state.as_str(), state)),
        "odd",
        "queued",
    );
    let profiles: Vec<_> = Profile::ALL
        .iter()
        .map(|profile| (profile.as_str(), *profile))
        .collect();
    check_names(&profiles, "odd", "review");
}

#[test]
fn scopes_parse_what_they_display() {
    let id = PlanId::from_parts(1_750_000_000_000, 7);
    for scope in [
        RuleScope::Global,
        RuleScope::Action("tidy".parse().unwrap()),
        RuleScope::Plan(id),
    ] {
        assert_eq!(scope.to_string().parse::<RuleScope>().unwrap(), scope);
    }
    for invalid in ["", "everything", "action:", "plan:7"] {
        assert!(invalid.parse::<RuleScope>().is_err(), "{invalid}");
    }
}

#[test]
fn decision_kinds_have_names_and_some_are_engine_only() {
    let kinds: Vec<(String, bool)> = [
        DecisionKind::PromptDefinition,
        DecisionKind::InvariantEnforced,
        DecisionKind::UserIntervention,
        DecisionKind::StrategyChoice,
        DecisionKind::ResourceSelection,
        DecisionKind::ImplementationChoice,
        DecisionKind::ToolInvocation,
        DecisionKind::ErrorRecovery,
        DecisionKind::ValidationResponse,
    ]
    .map(|kind| {
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        (kind.to_string(), kind.is_for_actors())
    })
    .into();
    let for_actors: Vec<&str> = kinds
        .iter()
        .filter(|(_, for_actors)| *for_actors)
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(
        for_actors,
        [
            "strategy_choice",
            "resource_selection",
            "implementation_choice",
            "tool_invocation",
            "error_recovery",
            "validation_response"
        ]
    );
}

#[test]
fn a_confidence_is_between_0_and_1() {
    for (text, value) in [("0", 0.0), ("0.25", 0.25), ("1", 1.0)] {
        let confidence: Confidence = text.parse().unwrap();
        assert!((f64::from(confidence) - value).abs() < f64::EPSILON);
    }
    for invalid in ["-0.1", "1.1", "NaN", "much"] {
        assert!(invalid.parse::<Confidence>().is_err(), "{invalid}");
    }
}

#[test]
fn profile_sources_have_names() {
    let words = [
        ProfileSource::Flag,
        ProfileSource::Action,
        ProfileSource::Repository,
        ProfileSource::User,
        ProfileSource::Default,
    ]
    .map(ProfileSource::as_str);
    let expected = ["flag", "action", "planwright.yaml", "user", "default"];
    assert_eq!(words, expected);
}

#[test]
fn timestamps_and_spans_parse_what_they_display() {
    for moment in [0, 1, 1_750_000_000_123_456, i64::MAX] {
        let moment = Timestamp(moment);
        assert_eq!(moment.to_string().parse::<Timestamp>().unwrap(), moment);
    }
    assert!("yesterday".parse::<Timestamp>().is_err());
    assert_eq!(Span::from_seconds(90).as_seconds(), 90);
    assert_eq!(Span(1_999_999).as_seconds(), 1);
    for span in ["1s", "90s", "20m", "2h", "61m"] {
        assert_eq!(span.parse::<Span>().unwrap().to_string(), span);
    }
    assert_eq!("1d".parse::<Span>().unwrap(), Span::from_seconds(86_400));
    assert_eq!(Span(1_500).to_string(), "1ms");
    let too_long = format!("{}d", i64::MAX);
    for invalid in [
        "", "s", "0s", "-1s", "+1s", "1.5h", "10", "5 m", "5é", &too_long,
    ] {
        assert!(invalid.parse::<Span>().is_err(), "{invalid}");
    }
    assert_eq!(PlanVersion(3).next(), PlanVersion(4));
    assert_eq!(format!("{:>3}", PlanVersion(4)), "  4");
    assert_eq!(Epoch(3).next().to_string(), "4");
}

#[test]
fn a_node_is_printable_and_bounded() {
    assert_eq!("backend".parse::<Node>().unwrap().to_string(), "backend");
    for invalid in ["", "a\nb", &"n".repeat(129)] {
        assert!(invalid.parse::<Node>().is_err(), "{invalid}");
    }
    let longest = "ä".repeat(128);
    assert_eq!(longest.parse::<Node>().unwrap().as_str(), longest);
    // Names that the engine gives to nodes can also be typed.
    let named = Node::for_resource(&"ö".repeat(200));
    assert_eq!(named.as_str().parse::<Node>(), Ok(named));
}

#[test]
fn hosts_and_resources_round_trip_through_json() {
    let host: HostId = "h-1".parse().unwrap();
    assert_eq!(
        (host.as_str(), format!("{host:>5}")),
        ("h-1", "  h-1".into())
    );
    let name: ResourceName = "app".parse().unwrap();
    assert_eq!(
        (name.as_str(), format!("{name:>5}")),
        ("app", "  app".into())
    );
    let written = serde_json::json!(["h-1", "app"]);
    assert_eq!(serde_json::json!((&host, &name)), written);
    assert_eq!(
        serde_json::from_value::<(HostId, ResourceName)>(written).unwrap(),
        (host, name)
    );
    assert!(serde_json::from_str::<HostId>(r#""a b""#).is_err());
    assert!(serde_json::from_str::<ResourceName>(r#"".git""#).is_err());
}

#[test]
fn callers_and_paths_display_for_people() {
    assert_eq!(Caller::Person("ada".into()).to_string(), "ada");
    assert_eq!(Caller::Worker("w1".into()).to_string(), "worker w1");
    let path = TreePath::new("src/a\nb").unwrap();
    assert_eq!(format!("{path} {path:?}"), r"src/a\nb `src/a\nb`");
}

/// Default values are not serialized, so that events written before a field existed stay the same.
#[test]
fn default_fields_are_not_serialized() {
    let mut entry = ChangesetEntry::new(TreePath::new("a").unwrap(), PathOperation::Create);
    assert!(
        !serde_json::json!(entry)
            .as_object()
            .unwrap()
            .contains_key("unseen")
    );
    entry.unseen = true;
    assert_eq!(serde_json::json!(entry)["unseen"], true);
    let mut options = LandingOptions::default();
    assert_eq!(
        serde_json::json!(options),
        serde_json::json!({ "shape": "commit" })
    );
    (options.merge, options.allow_empty) = (true, true);
    let policy = RepositoryPolicy {
        clean: SandboxCleanupPolicy::Manual,
        ..RepositoryPolicy::default()
    };
    assert!(RepositoryPolicy::default().is_default() && !policy.is_default());
    let expected = serde_json::json!({ "shape": "commit", "merge": true, "allow_empty": true });
    assert_eq!(serde_json::json!(options), expected);
}

#[test]
fn argument_values_convert_to_plain_json() {
    for (value, json) in [
        (ArgumentValue::String("a \"b\"".into()), r#""a \"b\"""#),
        (ArgumentValue::Integer(-7), "-7"),
        (ArgumentValue::Float(1.5), "1.5"),
        (ArgumentValue::Boolean(true), "true"),
        (
            ArgumentValue::List(vec!["a".into(), "b".into()]),
            r#"["a","b"]"#,
        ),
    ] {
        assert_eq!(value.to_json().to_string(), json);
    }
}

#[test]
fn an_actor_with_a_strategize_command_strategizes_by_default() {
    let actor_of = |kind| ActorDefinition {
        name: "bot".parse().unwrap(),
        description: None,
        kind,
    };
    let program = |strategize| {
        actor_of(ActorKind::Command(Box::new(CommandLine {
            strategize,
            ..CommandLine::default()
        })))
    };
    assert!(program(Some(vec!["think".to_owned()])).strategizes_by_default());
    assert!(!program(None).strategizes_by_default());
    assert!(!actor_of(ActorKind::Human { timeout: None }).strategizes_by_default());
}

#[test]
fn spans_convert_to_durations() {
    assert_eq!(
        Span::from_seconds(90).as_duration(),
        Duration::from_secs(90)
    );
    assert_eq!(Span(-1).as_duration(), Duration::ZERO);
    // The span in microseconds must fit into 63 bits.
    assert!("9223372036854s".parse::<Span>().is_ok());
    assert!("9223372036855s".parse::<Span>().is_err());
    let timestamp = Timestamp(1_000_001);
    assert_eq!(format!("{timestamp:?}"), timestamp.to_string());
}

#[test]
fn a_persons_timeout_is_serialized_in_seconds() {
    let kept = r#"{"name":"local/me","kind":"human","timeout_seconds":90}"#;
    let me: ActorDefinition = serde_json::from_str(kept).unwrap();
    let timeout = Some(Span::from_seconds(90));
    assert_eq!(me.kind, ActorKind::Human { timeout });
    assert_eq!(serde_json::to_string(&me).unwrap(), kept);
}

#[test]
fn texts_have_256_kibibytes_at_most() {
    assert_eq!(ErasableText::MAX_BYTES, 262_144);
}
