//! The prompts that agents get, word by word.

use plan::Phase;
use plan::decision::DecisionKind;
use plan::review::DiffSide;
use planwright_actors::{
    AssignedComment, AssignedRule, AssignedSandbox, AssignmentLimits, EarlierSession, Usage,
    build_prompt, build_resume_prompt,
};

use crate::sample_assignments::{make_decision_node, make_note, sample_assignment};

const ASK_TEXT: &str = "
Only if you cannot continue without a person's answer: write {\"outcome\": \"ask\", \"question\": \"…\"} to \
the file that the environment variable PLANWRIGHT_REPORT names, and end.
";

const EXECUTE_TEXT: &str = "# What to do now

Do the task. Change the files in the current directory, which is a private copy: what you leave in them is \
the result, and a person reviews it before it is brought in. You need not commit. Do not ask whether to \
continue. End with a short summary of what you changed.
";

#[test]
fn plain_assignment_has_a_short_prompt() {
    let expected = format!(
        "# Task\n\nMake the footer say 2025\n\n- dry_run: a \"b\"\n\n{EXECUTE_TEXT}{ASK_TEXT}"
    );
    assert_eq!(build_prompt(&sample_assignment(Phase::Execute)), expected);
}

#[test]
fn strategize_prompt_forbids_changes() {
    let prompt_text = build_prompt(&sample_assignment(Phase::Strategize));
    assert!(
        prompt_text.contains("do not change any file"),
        "{prompt_text}"
    );
    assert!(
        prompt_text.contains("Your last message is the strategy"),
        "{prompt_text}"
    );
    let mut read_only_task = sample_assignment(Phase::Execute);
    read_only_task.read_only = true;
    let prompt_text = build_prompt(&read_only_task);
    assert!(
        prompt_text.contains("nothing you change is kept"),
        "{prompt_text}"
    );
    assert!(!prompt_text.contains("Change the files"), "{prompt_text}");
}

#[test]
fn full_prompt_has_all_sections_in_order() {
    let mut assignment = sample_assignment(Phase::Execute);
    assignment.description = Some("It is in every page.".into());
    assignment.strategy = vec![
        make_decision_node(
            1,
            DecisionKind::PromptDefinition,
            "Make the footer say 2025",
        ),
        make_decision_node(2, DecisionKind::StrategyChoice, "1. Change it\n2. Build"),
        make_decision_node(3, DecisionKind::UserIntervention, "said elsewhere"),
    ];
    assignment.rules = vec![
        AssignedRule {
            name: "small".into(),
            says: "size(result.paths) < 5".into(),
            advisory: false,
        },
        AssignedRule {
            name: "tested".into(),
            says: "make test".into(),
            advisory: true,
        },
    ];
    assignment.feedback = vec![
        make_note("you", "Older."),
        make_note("you", "Keep the year a link."),
    ];
    assignment.revises = true;
    assignment.dropped = vec!["package-lock.json".into()];
    assignment.conflicts = vec!["footer.html".into()];
    assignment.answers = vec![make_note("Which footer?", "The lower.")];
    assignment.findings = vec![make_note("timeout", "It took\ntoo long.")];
    assignment.limits = AssignmentLimits {
        seconds: Some(600),
        attempts: 3,
    };
    assignment.sandboxes = ["site", "docs"]
        .map(|resource| AssignedSandbox {
            resource: resource.into(),
            path: format!("/s/{resource}").into(),
        })
        .into();
    let prompt_text = build_prompt(&assignment);
    let expected_parts = [
        "# Task\n\nMake the footer say 2025\n\nIt is in every page.\n\n- dry_run",
        "# What to do now",
        "The task is about several directories:\n\n- site: /s/site\n- docs: /s/docs\n",
        "# Feedback on your result\n\nKeep the year a link.\n\nThe current directory holds",
        "# Conflicts to resolve\n",
        "\n- footer.html\n",
        "# Leave these alone\n",
        "\n- package-lock.json\n",
        "# Strategy\n\n1. Change it\n2. Build\n",
        "# Rules\n\nThe result is checked against these:\n\n- small: size(result.paths) < 5\n- tested: make test (advisory)\n",
        "# Feedback on earlier results\n\n- you: Older.\n",
        "# Answers to earlier questions\n\n- Which footer?: The lower.\n",
        "# Earlier attempts\n\n- timeout: It took\n  too long.\n",
        "You have 10 minutes.",
        "PLANWRIGHT_REPORT",
    ];
    let mut rest = prompt_text.as_str();
    for part in expected_parts {
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
fn resumed_session_gets_only_what_is_new() {
    let mut assignment = sample_assignment(Phase::Execute);
    assignment.earlier = Some(EarlierSession {
        session: "s".into(),
        used: Usage::default(),
        lost_runs: Vec::new(),
    });
    assignment.strategy = vec![make_decision_node(
        1,
        DecisionKind::StrategyChoice,
        "long strategy",
    )];
    assignment.feedback = vec![make_note("you", "Older."), make_note("you", "Newer.")];
    assignment.revises = true;
    assignment.answers = vec![make_note("Which?", "This.")];
    let prompt_text = build_resume_prompt(&assignment);
    assert!(
        prompt_text
            .starts_with("# Task (unchanged)\n\nMake the footer say 2025\n\n# What to do now")
    );
    assert!(
        prompt_text.contains("# Feedback on your result\n\nNewer.\n"),
        "{prompt_text}"
    );
    for old in ["Older.", "long strategy", "This.", "dry_run"] {
        assert!(!prompt_text.contains(old), "{old} in\n{prompt_text}");
    }

    assignment.revises = false;
    assignment.findings = vec![make_note("actor", "crashed")];
    let prompt_text = build_resume_prompt(&assignment);
    assert!(
        prompt_text.contains("# Answer to your question\n\n- Which?: This.\n"),
        "{prompt_text}"
    );
    assert!(
        prompt_text.contains("# How the last attempt ended\n\n- actor: crashed\n"),
        "{prompt_text}"
    );
    assert!(
        prompt_text.contains("# Strategy\n\nlong strategy\n"),
        "{prompt_text}"
    );
    assert!(!prompt_text.contains("Newer."), "{prompt_text}");
}

#[test]
fn assignment_is_plain_json() {
    let mut assignment = sample_assignment(Phase::Execute);
    assignment.strategy = vec![make_decision_node(1, DecisionKind::StrategyChoice, "So")];
    let json = serde_json::to_value(&assignment).unwrap();
    assert_eq!(json["arguments"]["dry_run"], "a \"b\"");
    assert_eq!(json["strategy"][0]["choice"], "So");
    assert_eq!(json["strategy"][0]["alternatives"][0], "nothing");
    assert_eq!(json["phase"], "execute");
    assert!(!json.to_string().contains("$text"));
}

#[test]
fn comments_are_quoted_with_their_place() {
    let comment = |side, first_line, last_line, quote: &str| AssignedComment {
        resource: "site".into(),
        path: "footer.html".into(),
        side,
        first_line,
        last_line,
        quote: quote.into(),
        text: "why?\n".into(),
    };
    let mut feedback = make_note("you", "Two questions. ");
    feedback.comments = vec![
        comment(DiffSide::New, 2, 3, "<b>\n\t2024"),
        comment(DiffSide::Old, 7, 7, "# Task"),
    ];
    let expected = "Two questions.\n\nfooter.html, lines 2 to 3:\n> <b>\n> \t2024\nwhy?\n\n\
                    footer.html, line 7 before the change:\n> # Task\nwhy?";
    assert_eq!(feedback.full_text(), expected);
    feedback.text = String::new();
    assert!(
        feedback
            .full_text()
            .starts_with("footer.html, lines 2 to 3:")
    );
    let mut assignment = sample_assignment(Phase::Execute);
    assignment.feedback = vec![feedback.clone()];
    assignment.revises = true;
    let section = format!("# Feedback on your result\n\n{}\n", feedback.full_text());
    for text in [build_prompt(&assignment), build_resume_prompt(&assignment)] {
        assert!(text.contains(&section), "{text}");
    }
}
