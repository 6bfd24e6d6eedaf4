//! Every word that is typed, stored or shown: read back it means the same, and what is no word is refused
//! with those that are.

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
use plan::stage::{ConstraintKind, FailureCategory, StateName};
use plan::ways::{RepositoryPolicy, SandboxCleanupPolicy};
use plan::{
    Caller, Epoch, ErasableText, LandingOptions, Phase, PlanId, PlanVersion, Profile, Span,
    Timestamp,
};

#[track_caller]
fn check_words<T: FromStr<Err: Display> + PartialEq + Debug>(
    words: &[(&str, T)],
    wrong: &str,
    says: &str,
) {
    for (word, meant) in words {
        match word.parse::<T>() {
            Ok(read) => assert_eq!(read, *meant),
            Err(error) => panic!("`{word}`: {error}"),
        }
    }
    match wrong.parse::<T>() {
        Ok(read) => panic!("`{wrong}` is read as {read:?}"),
        Err(error) => assert!(error.to_string().contains(says), "{error}"),
    }
}

#[test]
fn words_mean_what_they_say() {
    check_words(
        &ConstraintKind::ALL.map(|kind| (kind.as_str(), kind)),
        "odd",
        "local_edits",
    );
    check_words(
        &FailureCategory::ALL.map(|category| (category.as_str(), category)),
        "odd",
        "transient",
    );
    check_words(
        &PathOperation::ALL.map(|operation| (operation.as_str(), operation)),
        "odd",
        "rename",
    );
    check_words(
        &Phase::ALL.map(|phase| (phase.as_str(), phase)),
        "odd",
        "strategize",
    );
    check_words(
        &StateName::ALL.map(|state| (state.as_str(), state)),
        "odd",
        "queued",
    );
    let profiles: Vec<_> = Profile::ALL
        .iter()
        .map(|profile| (profile.as_str(), *profile))
        .collect();
    check_words(&profiles, "odd", "review");
}

#[test]
fn scopes_are_read_as_they_are_shown() {
    let id = PlanId::from_parts(1_750_000_000_000, 7);
    for scope in [
        RuleScope::Global,
        RuleScope::Action("tidy".parse().unwrap()),
        RuleScope::Plan(id),
    ] {
        assert_eq!(scope.to_string().parse::<RuleScope>().unwrap(), scope);
    }
    for wrong in ["", "everything", "action:", "plan:7"] {
        assert!(wrong.parse::<RuleScope>().is_err(), "{wrong}");
    }
}

#[test]
fn kinds_of_decisions_are_told_and_some_are_the_engines() {
    let told: Vec<(String, bool)> = [
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
    let for_actors: Vec<&str> = told
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
fn a_confidence_lies_between_nothing_and_everything() {
    for (text, value) in [("0", 0.0), ("0.25", 0.25), ("1", 1.0)] {
        let confidence: Confidence = text.parse().unwrap();
        assert!((f64::from(confidence) - value).abs() < f64::EPSILON);
    }
    for wrong in ["-0.1", "1.1", "NaN", "much"] {
        assert!(wrong.parse::<Confidence>().is_err(), "{wrong}");
    }
}

#[test]
fn where_a_profile_was_said_has_a_word() {
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
fn moments_and_spans_are_read_as_they_are_shown() {
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
    for wrong in [
        "", "s", "0s", "-1s", "+1s", "1.5h", "10", "5 m", "5é", &too_long,
    ] {
        assert!(wrong.parse::<Span>().is_err(), "{wrong}");
    }
    assert_eq!(PlanVersion(3).next(), PlanVersion(4));
    assert_eq!(format!("{:>3}", PlanVersion(4)), "  4");
    assert_eq!(Epoch(3).next().to_string(), "4");
}

#[test]
fn a_node_is_printable_and_short() {
    assert_eq!("backend".parse::<Node>().unwrap().to_string(), "backend");
    for wrong in ["", "a\nb", &"n".repeat(129)] {
        assert!(wrong.parse::<Node>().is_err(), "{wrong}");
    }
    let longest = "ä".repeat(128);
    assert_eq!(longest.parse::<Node>().unwrap().as_str(), longest);
    // What the engine names a node after is one that can be typed.
    let named = Node::for_resource(&"ö".repeat(200));
    assert_eq!(named.as_str().parse::<Node>(), Ok(named));
}

#[test]
fn hosts_and_resources_are_kept_as_they_are_written() {
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
fn callers_and_paths_are_shown_to_people() {
    assert_eq!(Caller::Person("ada".into()).to_string(), "ada");
    assert_eq!(Caller::Worker("w1".into()).to_string(), "worker w1");
    let path = TreePath::new("src/a\nb").unwrap();
    assert_eq!(format!("{path} {path:?}"), r"src/a\nb `src/a\nb`");
}

/// What is usual is not written down, so that events stay as they were before there was anything else.
#[test]
fn a_flag_is_written_only_if_it_is_set() {
    let mut entry = ChangesetEntry::new(TreePath::new("a").unwrap(), PathOperation::Create);
    assert!(
        !serde_json::json!(entry)
            .as_object()
            .unwrap()
            .contains_key("unseen")
    );
    entry.unseen = true;
    assert_eq!(serde_json::json!(entry)["unseen"], true);
    let mut how = LandingOptions::default();
    assert_eq!(
        serde_json::json!(how),
        serde_json::json!({ "shape": "commit" })
    );
    (how.merge, how.allow_empty) = (true, true);
    let ways = RepositoryPolicy {
        clean: SandboxCleanupPolicy::Manual,
        ..RepositoryPolicy::default()
    };
    assert!(RepositoryPolicy::default().is_default() && !ways.is_default());
    let signed = serde_json::json!({ "shape": "commit", "merge": true, "allow_empty": true });
    assert_eq!(serde_json::json!(how), signed);
}

#[test]
fn values_of_arguments_are_plain_json() {
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
fn who_has_a_command_for_it_strategizes() {
    let of = |kind| ActorDefinition {
        name: "bot".parse().unwrap(),
        description: None,
        kind,
    };
    let program = |strategize| {
        of(ActorKind::Command(Box::new(CommandLine {
            strategize,
            ..CommandLine::default()
        })))
    };
    assert!(program(Some(vec!["think".to_owned()])).strategizes_by_default());
    assert!(!program(None).strategizes_by_default());
    assert!(!of(ActorKind::Human { timeout: None }).strategizes_by_default());
}

#[test]
fn spans_are_as_long_as_they_say() {
    assert_eq!(
        Span::from_seconds(90).as_duration(),
        Duration::from_secs(90)
    );
    assert_eq!(Span(-1).as_duration(), Duration::ZERO);
    // In microseconds it has to fit into 63 bits.
    assert!("9223372036854s".parse::<Span>().is_ok());
    assert!("9223372036855s".parse::<Span>().is_err());
    let moment = Timestamp(1_000_001);
    assert_eq!(format!("{moment:?}"), moment.to_string());
}

#[test]
fn how_long_a_person_has_is_kept_in_seconds() {
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
