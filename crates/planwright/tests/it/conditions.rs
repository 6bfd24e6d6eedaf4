//! Epochs, versions and keys: when a write is done, and how it is repeated.

use crate::shell::TranscriptShell;

/// A plan that is being executed under epoch 2; its version is 7.
fn plan_in_execute() -> (TranscriptShell, String) {
    let (shell, plan) = TranscriptShell::with_plan();
    let p = plan.as_str();
    shell.run_quietly(&["plumbing", "start-strategize", p, "--owner", "bot"]);
    shell.run_quietly(&["plumbing", "complete-strategize", p, "--epoch", "1"]);
    shell.run_quietly(&["plumbing", "execute-plan", p]);
    let claimed = shell.run_quietly(&["plumbing", "start-execute", p, "--owner", "bot"]);
    assert_eq!(claimed["lease"]["epoch"], 2);
    (shell, plan)
}

#[test]
fn a_wrong_epoch_is_a_conflict() {
    let (shell, plan) = plan_in_execute();
    let p = plan.as_str();
    for epoch in ["1", "3", "18446744073709551615"] {
        let run = |verb: &str, more: &[&str]| {
            let words = [&["plumbing", verb, p, "--epoch", epoch], more].concat();
            shell.run_bad(4, &words);
        };
        run("complete-execute", &[]);
        run("renew", &[]);
        run("release", &[]);
        run("open-changeset", &[]);
        run("record-change", &["--path", "a", "--operation", "create"]);
        run("fail", &["--category", "actor", "--message", "x"]);
        run("ask", &["--question", "x"]);
    }
    insta::assert_snapshot!(shell.transcript());
}

#[test]
fn a_wrong_version_is_a_conflict_and_the_right_one_is_none() {
    let (shell, plan) = plan_in_execute();
    let p = plan.as_str();
    let version = shell.run_quietly(&["status", p])["version"].to_string();
    shell.run_bad(4, &["cancel", p, "--if-version", "1"]);
    shell.run_bad(
        4,
        &[
            "plumbing",
            "complete-execute",
            p,
            "--epoch",
            "2",
            "--if-version",
            "99",
        ],
    );
    shell.run_bad(2, &["cancel", p, "--if-version", "latest"]);
    shell.run_quietly(&["cancel", p, "--if-version", &version]);
    insta::assert_snapshot!(shell.transcript());
}

#[test]
fn a_key_makes_repeating_safe() {
    let (shell, plan) = plan_in_execute();
    let p = plan.as_str();
    let use_it = [
        "use",
        "tidy",
        "--arg",
        "area=docs",
        "--idempotency-key",
        "k",
    ];
    let first = shell.run_quietly(&use_it);
    let again = shell.run_quietly(&use_it);
    assert_eq!(first["plan_id"], again["plan_id"]);
    assert_eq!(
        shell.run_quietly(&["list"])["plans"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    // With other arguments it is something else.
    shell.run_bad(
        4,
        &["use", "tidy", "--arg", "area=src", "--idempotency-key", "k"],
    );
    let fail = |message: &'static str| {
        let words = ["plumbing", "fail", p, "--epoch", "2", "--category", "actor"];
        [
            &words[..],
            &["--message", message, "--idempotency-key", "k"],
        ]
        .concat()
    };
    shell.run_quietly(&fail("broke"));
    let repeated = shell.run_quietly(&fail("broke"));
    assert_eq!(repeated["receipt"]["repeated"], true);
    shell.run_bad(4, &fail("broke differently"));
    // A refusal is not remembered: what was impossible may become possible.
    let answer = ["answer", p, "yes", "--idempotency-key", "a"];
    shell.run_bad(4, &answer);
    shell.run_bad(
        2,
        &["use", "tidy", "--arg", "area=docs", "--idempotency-key", ""],
    );
    insta::assert_snapshot!(shell.transcript());
}

#[test]
fn commands_that_do_not_fit_the_stage_are_refused() {
    let (shell, plan) = TranscriptShell::with_plan();
    let p = plan.as_str();
    shell.run_bad(4, &["answer", p, "yes"]);
    shell.run_bad(4, &["retry", p]);
    shell.run_bad(4, &["revise", p, "better"]);
    shell.run_bad(4, &["revert", p, "--reason", "no"]);
    shell.run_bad(4, &["approve", p]);
    shell.run_bad(4, &["plumbing", "execute-plan", p]);
    shell.run_bad(4, &["plumbing", "apply-plan", p]);
    shell.run_bad(4, &["plumbing", "start-execute", p, "--owner", "bot"]);
    shell.run_bad(4, &["plumbing", "start-apply", p, "--owner", "bot"]);
    shell.run_bad(4, &["plumbing", "reclaim", p]);
    shell.run_quietly(&["plumbing", "start-strategize", p, "--owner", "bot"]);
    shell.run_bad(4, &["plumbing", "start-strategize", p, "--owner", "cat"]);
    shell.run_bad(4, &["plumbing", "reclaim", p]);
    shell.run_bad(4, &["plumbing", "open-changeset", p, "--epoch", "1"]);
    shell.run_quietly(&["cancel", p, "--reason", "enough"]);
    shell.run_bad(4, &["plumbing", "start-strategize", p, "--owner", "cat"]);
    shell.run_bad(4, &["retry", p]);
    shell.run_bad(4, &["waive", p, "calm", "--reason", "x"]);
    insta::assert_snapshot!(shell.transcript());
}

#[test]
fn changesets_that_cannot_be_recorded_into() {
    let (shell, plan) = plan_in_execute();
    let p = plan.as_str();
    let record = |more: &[&str]| {
        let words = [
            "plumbing",
            "record-change",
            p,
            "--epoch",
            "2",
            "--path",
            "a",
        ];
        let words = [&words[..], &["--operation", "create"], more].concat();
        shell.run_bad(if more.contains(&"--changeset") { 3 } else { 4 }, &words);
    };
    record(&[]);
    record(&["--node", "left"]);
    record(&["--changeset", "01ARZ3NDEKTSV4RRFFQ69G5FAV"]);
    shell.run_quietly(&[
        "plumbing",
        "open-changeset",
        p,
        "--epoch",
        "2",
        "--node",
        "left",
    ]);
    shell.run_bad(
        4,
        &[
            "plumbing",
            "open-changeset",
            p,
            "--epoch",
            "2",
            "--node",
            "left",
        ],
    );
    shell.run_quietly(&[
        "plumbing",
        "open-changeset",
        p,
        "--epoch",
        "2",
        "--node",
        "right",
    ]);
    record(&[]);
    insta::assert_snapshot!(shell.transcript());
}

/// Profiles stop workers, not the person at the command line.
#[test]
fn a_person_may_what_the_profile_asks_a_person_for() {
    let shell = TranscriptShell::with_action();
    let made = shell.run_quietly(&["use", "tidy", "--arg", "area=src", "--profile", "manual"]);
    let plan = made["plan_id"].as_str().unwrap();
    assert_eq!(made["needs_person"], true);
    shell.run_good(&[]);
    shell.run_quietly(&["plumbing", "start-strategize", plan, "--owner", "me"]);
    shell.run_quietly(&["plumbing", "complete-strategize", plan, "--epoch", "1"]);
    shell.run_good(&[]);
    shell.run_good(&["list", "--needs-me"]);
    shell.run_quietly(&["plumbing", "execute-plan", plan]);
    insta::assert_snapshot!(shell.transcript());
}
