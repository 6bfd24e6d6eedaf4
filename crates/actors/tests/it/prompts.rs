//! What agents are told, word by word.

use plan::Phase;
use plan::decision::DecisionKind;
use planwright_actors::{
    Earlier, LimitsTold, RuleTold, SandboxTold, Usage, prompt, prompt_to_resume,
};

use crate::given::{assignment, finding, node};

const ASK: &str = "
Only if you cannot go on without a person's answer: write {\"outcome\": \"ask\", \"question\": \"…\"} to \
the file that the environment variable PLANWRIGHT_REPORT names, and end.
";

const DO_IT: &str = "# What to do now

Do the task. Change the files in the current directory, which is a private copy: what you leave in them is \
the result, and a person reviews it before it is brought in. You need not commit. Do not ask whether to go \
on. End with a short summary of what you changed.
";

#[test]
fn a_plain_assignment_is_short() {
    let expected =
        format!("# Task\n\nMake the footer say 2025\n\n- dry_run: a \"b\"\n\n{DO_IT}{ASK}");
    assert_eq!(prompt(&assignment(Phase::Execute)), expected);
}

#[test]
fn in_strategize_nothing_is_to_be_changed() {
    let told = prompt(&assignment(Phase::Strategize));
    assert!(told.contains("do not change any file"), "{told}");
    assert!(told.contains("Your last message is the strategy"), "{told}");
    let mut reading = assignment(Phase::Execute);
    reading.read_only = true;
    let told = prompt(&reading);
    assert!(told.contains("nothing you change is kept"), "{told}");
    assert!(!told.contains("Change the files"), "{told}");
}

#[test]
fn everything_known_is_told_and_the_feedback_it_is_for_comes_first() {
    let mut given = assignment(Phase::Execute);
    given.description = Some("It is in every page.".into());
    given.strategy = vec![
        node(
            1,
            DecisionKind::PromptDefinition,
            "Make the footer say 2025",
        ),
        node(2, DecisionKind::StrategyChoice, "1. Change it\n2. Build"),
        node(3, DecisionKind::UserIntervention, "said elsewhere"),
    ];
    given.rules = vec![
        RuleTold {
            name: "small".into(),
            says: "size(result.paths) < 5".into(),
            advisory: false,
        },
        RuleTold {
            name: "tested".into(),
            says: "make test".into(),
            advisory: true,
        },
    ];
    given.feedback = vec![
        finding("you", "Older."),
        finding("you", "Keep the year a link."),
    ];
    given.revises = true;
    given.dropped = vec!["package-lock.json".into()];
    given.conflicts = vec!["footer.html".into()];
    given.answers = vec![finding("Which footer?", "The lower.")];
    given.findings = vec![finding("timeout", "It took\ntoo long.")];
    given.limits = LimitsTold {
        seconds: Some(600),
        attempts: 3,
    };
    given.sandboxes = ["site", "docs"]
        .map(|resource| SandboxTold {
            resource: resource.into(),
            path: format!("/s/{resource}").into(),
        })
        .into();
    let told = prompt(&given);
    let in_order = [
        "# Task\n\nMake the footer say 2025\n\nIt is in every page.\n\n- dry_run",
        "# What to do now",
        "The task is about several directories:\n\n- site: /s/site\n- docs: /s/docs\n",
        "# Your result was sent back with this\n\nKeep the year a link.\n\nThe current directory holds",
        "# Conflicts to solve\n",
        "\n- footer.html\n",
        "# Leave these alone\n",
        "\n- package-lock.json\n",
        "# Strategy decided on\n\n1. Change it\n2. Build\n",
        "# Rules\n\nThe result is checked against these:\n\n- small: size(result.paths) < 5\n- tested: make test (advice)\n",
        "# Said about earlier results\n\n- you: Older.\n",
        "# Answers to earlier questions\n\n- Which footer?: The lower.\n",
        "# What happened before\n\n- timeout: It took\n  too long.\n",
        "You have 10 minutes.",
        "PLANWRIGHT_REPORT",
    ];
    let mut rest = told.as_str();
    for part in in_order {
        let found = rest
            .find(part)
            .unwrap_or_else(|| panic!("{part:?} in\n{told}"));
        rest = &rest[found + part.len()..];
    }
    assert_eq!(told.matches("Keep the year a link.").count(), 1, "{told}");
    assert!(!told.contains("said elsewhere"), "{told}");
}

#[test]
fn a_resumed_conversation_is_told_only_what_is_new() {
    let mut given = assignment(Phase::Execute);
    given.earlier = Some(Earlier {
        session: "s".into(),
        used: Usage::default(),
        lost_runs: Vec::new(),
    });
    given.strategy = vec![node(1, DecisionKind::StrategyChoice, "long strategy")];
    given.feedback = vec![finding("you", "Older."), finding("you", "Newer.")];
    given.revises = true;
    given.answers = vec![finding("Which?", "This.")];
    let told = prompt_to_resume(&given);
    assert!(told.starts_with("# Task, as before\n\nMake the footer say 2025\n\n# What to do now"));
    assert!(
        told.contains("# Your result was sent back with this\n\nNewer.\n"),
        "{told}"
    );
    for old in ["Older.", "long strategy", "This.", "dry_run"] {
        assert!(!told.contains(old), "{old} in\n{told}");
    }

    given.revises = false;
    given.findings = vec![finding("actor", "crashed")];
    let told = prompt_to_resume(&given);
    assert!(
        told.contains("# Answer to your question\n\n- Which?: This.\n"),
        "{told}"
    );
    assert!(
        told.contains("# How the last attempt ended\n\n- actor: crashed\n"),
        "{told}"
    );
    assert!(
        told.contains("# Strategy decided on\n\nlong strategy\n"),
        "{told}"
    );
    assert!(!told.contains("Newer."), "{told}");
}

#[test]
fn the_assignment_is_plain_json() {
    let mut given = assignment(Phase::Execute);
    given.strategy = vec![node(1, DecisionKind::StrategyChoice, "So")];
    let json = serde_json::to_value(&given).unwrap();
    assert_eq!(json["arguments"]["dry_run"], "a \"b\"");
    assert_eq!(json["strategy"][0]["choice"], "So");
    assert_eq!(json["strategy"][0]["alternatives"][0], "nothing");
    assert_eq!(json["phase"], "execute");
    assert!(!json.to_string().contains("$text"));
}
