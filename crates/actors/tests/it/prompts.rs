//! What agents are told, word by word.

use plan::Phase;
use plan::decision::DecisionKind;
use planwright_actors::{
    AssignmentLimits, EarlierSession, RuleTold, SandboxTold, Usage, build_prompt,
    build_resume_prompt,
};

use crate::sample_assignments::{make_decision_node, make_note, sample_assignment};

const ASK_TEXT: &str = "
Only if you cannot go on without a person's answer: write {\"outcome\": \"ask\", \"question\": \"…\"} to \
the file that the environment variable PLANWRIGHT_REPORT names, and end.
";

const EXECUTE_TEXT: &str = "# What to do now

Do the task. Change the files in the current directory, which is a private copy: what you leave in them is \
the result, and a person reviews it before it is brought in. You need not commit. Do not ask whether to go \
on. End with a short summary of what you changed.
";

#[test]
fn a_plain_assignment_is_short() {
    let expected = format!(
        "# Task\n\nMake the footer say 2025\n\n- dry_run: a \"b\"\n\n{EXECUTE_TEXT}{ASK_TEXT}"
    );
    assert_eq!(build_prompt(&sample_assignment(Phase::Execute)), expected);
}

#[test]
fn in_strategize_nothing_is_to_be_changed() {
    let prompt_text = build_prompt(&sample_assignment(Phase::Strategize));
    assert!(
        prompt_text.contains("do not change any file"),
        "{prompt_text}"
    );
    assert!(
        prompt_text.contains("Your last message is the strategy"),
        "{prompt_text}"
    );
    let mut reading = sample_assignment(Phase::Execute);
    reading.read_only = true;
    let prompt_text = build_prompt(&reading);
    assert!(
        prompt_text.contains("nothing you change is kept"),
        "{prompt_text}"
    );
    assert!(!prompt_text.contains("Change the files"), "{prompt_text}");
}

#[test]
fn a_full_assignment_is_written_in_order() {
    let mut given = sample_assignment(Phase::Execute);
    given.description = Some("It is in every page.".into());
    given.strategy = vec![
        make_decision_node(
            1,
            DecisionKind::PromptDefinition,
            "Make the footer say 2025",
        ),
        make_decision_node(2, DecisionKind::StrategyChoice, "1. Change it\n2. Build"),
        make_decision_node(3, DecisionKind::UserIntervention, "said elsewhere"),
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
        make_note("you", "Older."),
        make_note("you", "Keep the year a link."),
    ];
    given.revises = true;
    given.dropped = vec!["package-lock.json".into()];
    given.conflicts = vec!["footer.html".into()];
    given.answers = vec![make_note("Which footer?", "The lower.")];
    given.findings = vec![make_note("timeout", "It took\ntoo long.")];
    given.limits = AssignmentLimits {
        seconds: Some(600),
        attempts: 3,
    };
    given.sandboxes = ["site", "docs"]
        .map(|resource| SandboxTold {
            resource: resource.into(),
            path: format!("/s/{resource}").into(),
        })
        .into();
    let prompt_text = build_prompt(&given);
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
    let mut rest = prompt_text.as_str();
    for part in in_order {
        let found = rest
            .find(part)
            .unwrap_or_else(|| panic!("{part:?} in\n{prompt_text}"));
        rest = &rest[found + part.len()..];
    }
    assert_eq!(
        prompt_text.matches("Keep the year a link.").count(),
        1,
        "{prompt_text}"
    );
    assert!(!prompt_text.contains("said elsewhere"), "{prompt_text}");
}

#[test]
fn a_resumed_session_gets_only_what_is_new() {
    let mut given = sample_assignment(Phase::Execute);
    given.earlier = Some(EarlierSession {
        session: "s".into(),
        used: Usage::default(),
        lost_runs: Vec::new(),
    });
    given.strategy = vec![make_decision_node(
        1,
        DecisionKind::StrategyChoice,
        "long strategy",
    )];
    given.feedback = vec![make_note("you", "Older."), make_note("you", "Newer.")];
    given.revises = true;
    given.answers = vec![make_note("Which?", "This.")];
    let prompt_text = build_resume_prompt(&given);
    assert!(
        prompt_text
            .starts_with("# Task, as before\n\nMake the footer say 2025\n\n# What to do now")
    );
    assert!(
        prompt_text.contains("# Your result was sent back with this\n\nNewer.\n"),
        "{prompt_text}"
    );
    for old in ["Older.", "long strategy", "This.", "dry_run"] {
        assert!(!prompt_text.contains(old), "{old} in\n{prompt_text}");
    }

    given.revises = false;
    given.findings = vec![make_note("actor", "crashed")];
    let prompt_text = build_resume_prompt(&given);
    assert!(
        prompt_text.contains("# Answer to your question\n\n- Which?: This.\n"),
        "{prompt_text}"
    );
    assert!(
        prompt_text.contains("# How the last attempt ended\n\n- actor: crashed\n"),
        "{prompt_text}"
    );
    assert!(
        prompt_text.contains("# Strategy decided on\n\nlong strategy\n"),
        "{prompt_text}"
    );
    assert!(!prompt_text.contains("Newer."), "{prompt_text}");
}

#[test]
fn the_assignment_is_plain_json() {
    let mut given = sample_assignment(Phase::Execute);
    given.strategy = vec![make_decision_node(1, DecisionKind::StrategyChoice, "So")];
    let json = serde_json::to_value(&given).unwrap();
    assert_eq!(json["arguments"]["dry_run"], "a \"b\"");
    assert_eq!(json["strategy"][0]["choice"], "So");
    assert_eq!(json["strategy"][0]["alternatives"][0], "nothing");
    assert_eq!(json["phase"], "execute");
    assert!(!json.to_string().contains("$text"));
}
