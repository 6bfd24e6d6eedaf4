//! Files that are not what they should be. Nothing is stored, and where it is wrong is said.

use crate::shell::{TIDY_ACTION, TranscriptShell};

/// Refused as a malformed file: exit code 1.
#[track_caller]
fn check_malformed(shell: &TranscriptShell, name: &str, source: impl AsRef<[u8]>) {
    let file = format!("{name}.yaml");
    shell.write_file(&file, source);
    let said = shell.run_bad(1, &["action", "create", "--config", &file]);
    assert!(said.stderr.contains(&file), "it names the file: {said:?}");
    assert!(!shell.store_path().exists(), "{name} made a store");
}

/// The good action with one thing put in the place of another.
#[track_caller]
fn action_with(from: &str, to: &str) -> String {
    assert!(TIDY_ACTION.contains(from), "{from}");
    TIDY_ACTION.replacen(from, to, 1)
}

#[test]
fn yaml_that_is_none() {
    let shell = TranscriptShell::new();
    check_malformed(&shell, "empty", "");
    check_malformed(&shell, "only-a-comment", "# nothing here\n");
    check_malformed(&shell, "a-list", "- name: tidy\n");
    check_malformed(&shell, "a-text", "tidy");
    check_malformed(&shell, "open-quote", "name: \"tidy\ndescription: x\n");
    check_malformed(&shell, "open-bracket", "name: [tidy\ndescription: x\n");
    check_malformed(
        &shell,
        "tab-indented",
        "name: tidy\narguments:\n\t- name: x\n",
    );
    check_malformed(&shell, "wrong-indent", "name: tidy\n  description: x\n");
    check_malformed(&shell, "two-documents", "name: a\n---\nname: b\n");
    check_malformed(&shell, "an-alias", "name: &n tidy\ndescription: *n\n");
    check_malformed(&shell, "a-tag", "name: !!str tidy\ndescription: x\n");
    check_malformed(&shell, "not-utf-8", b"name: \xff\xfe\n");
    check_malformed(&shell, "a-nul", b"name: ti\0dy\ndescription: x\n");
    check_malformed(&shell, "huge", "#".repeat(300 * 1024));
    check_malformed(
        &shell,
        "deep",
        format!("name: {}{}\n", "[".repeat(5000), "]".repeat(5000)),
    );
    insta::assert_snapshot!(shell.transcript());
}

#[test]
fn keys_that_do_not_belong() {
    let shell = TranscriptShell::new();
    check_malformed(
        &shell,
        "unknown-key",
        action_with("actor: bot", "acter: bot"),
    );
    check_malformed(
        &shell,
        "unknown-nested",
        action_with("    required: true", "    requird: true"),
    );
    check_malformed(
        &shell,
        "misplaced",
        action_with("actor: bot", "actor: bot\nmin: 3"),
    );
    check_malformed(
        &shell,
        "misplaced-nested",
        action_with("    required: true", "    reusable: true"),
    );
    check_malformed(
        &shell,
        "twice",
        action_with("actor: bot", "actor: bot\nactor: cat"),
    );
    check_malformed(
        &shell,
        "argument-twice",
        action_with("name: depth", "name: area"),
    );
    check_malformed(
        &shell,
        "of-the-reference",
        action_with("actor: bot", "actor: bot\nestimation_actor: cat"),
    );
    check_malformed(
        &shell,
        "review-actor",
        action_with("actor: bot", "actor: bot\nreview_actor: cat"),
    );
    check_malformed(
        &shell,
        "done",
        action_with(
            "actor: bot",
            "actor: bot\ndefinition_of_done: {tests: pass}",
        ),
    );
    check_malformed(
        &shell,
        "both-actors",
        action_with("actor: bot", "actor: bot\nstrategy_actor: cat"),
    );
    check_malformed(
        &shell,
        "half-the-actors",
        action_with("actor: bot", "strategy_actor: cat"),
    );
    insta::assert_snapshot!(shell.transcript());
}

#[test]
fn values_that_do_not_fit() {
    let shell = TranscriptShell::new();
    check_malformed(&shell, "no-name", action_with("name: tidy\n", ""));
    check_malformed(
        &shell,
        "no-description",
        action_with("description: Tidy one area\n", ""),
    );
    check_malformed(&shell, "null-name", action_with("name: tidy", "name:"));
    check_malformed(
        &shell,
        "empty-description",
        action_with("description: Tidy one area", "description: ''"),
    );
    check_malformed(&shell, "number-name", action_with("name: tidy", "name: 7"));
    check_malformed(
        &shell,
        "list-name",
        action_with("name: tidy", "name: [a, b]"),
    );
    check_malformed(
        &shell,
        "shouted-name",
        action_with("name: tidy", "name: Tidy"),
    );
    check_malformed(
        &shell,
        "spaced-name",
        action_with("name: tidy", "name: tidy up"),
    );
    check_malformed(
        &shell,
        "deep-name",
        action_with("name: tidy", "name: a/b/c"),
    );
    check_malformed(
        &shell,
        "dotted-name",
        action_with("name: tidy", "name: ../tidy"),
    );
    check_malformed(
        &shell,
        "yes",
        action_with("    required: true", "    required: yes"),
    );
    check_malformed(
        &shell,
        "text-flag",
        action_with("    required: true", "    required: 'true'"),
    );
    check_malformed(
        &shell,
        "arguments-map",
        action_with("arguments:\n  - name: area", "arguments:\n    name: area"),
    );
    check_malformed(
        &shell,
        "unknown-type",
        action_with("type: integer", "type: number"),
    );
    check_malformed(
        &shell,
        "text-default",
        action_with("default: 2", "default: two"),
    );
    check_malformed(
        &shell,
        "low-default",
        action_with("default: 2", "default: 0"),
    );
    check_malformed(&shell, "min-over-max", action_with("min: 1", "min: 10"));
    check_malformed(
        &shell,
        "min-of-a-boolean",
        action_with(
            "type: string\n    required: true",
            "type: boolean\n    min: 3",
        ),
    );
    check_malformed(
        &shell,
        "huge-number",
        action_with("default: 2", "default: 99999999999999999999"),
    );
    check_malformed(
        &shell,
        "bad-pattern",
        action_with("    required: true", "    pattern: '['"),
    );
    check_malformed(
        &shell,
        "unknown-profile",
        action_with("actor: bot", "actor: bot\nautomation_profile: yolo"),
    );
    check_malformed(
        &shell,
        "odd-actor",
        action_with("actor: bot", "actor: 'my bot'"),
    );
    insta::assert_snapshot!(shell.transcript());
}

#[test]
fn rules_that_are_none() {
    let shell = TranscriptShell::new();
    let rule = |rule: &str| format!("{TIDY_ACTION}invariants:\n{rule}");
    check_malformed(&shell, "no-expr", rule("  - name: a\n"));
    check_malformed(&shell, "no-name", rule("  - expr: 'true'\n"));
    check_malformed(
        &shell,
        "two-kinds",
        rule("  - name: a\n    command: make test\n    ask: Is it good?\n"),
    );
    check_malformed(
        &shell,
        "unknown-gate",
        rule("  - name: a\n    expr: 'true'\n    at: [later]\n"),
    );
    check_malformed(
        &shell,
        "twice",
        rule("  - {name: a, expr: 'true'}\n  - {name: a, expr: 'false'}\n"),
    );
    insta::assert_snapshot!(shell.transcript());
}

/// What is wrong with an expression is found out by the engine, and is wrong with the file.
#[test]
fn expressions_in_a_file_that_are_none() {
    let shell = TranscriptShell::new();
    for (file, expr) in [
        ("half.yaml", "plan."),
        ("unknown.yaml", "goal == 1"),
        ("loops.yaml", "[1].all(a, [1].all(b, [1].all(c, true)))"),
    ] {
        let source = format!("{TIDY_ACTION}invariants:\n  - name: odd\n    expr: {expr:?}\n");
        shell.write_file(file, source);
        shell.run_bad(1, &["action", "create", "--config", file]);
        assert!(!shell.store_path().exists());
    }
    insta::assert_snapshot!(shell.transcript());
}

#[test]
fn files_that_cannot_be_read() {
    let shell = TranscriptShell::new();
    shell.run_bad(3, &["action", "create", "--config", "absent.yaml"]);
    shell.run_bad(1, &["action", "create", "--config", "."]);
    shell.run_bad(1, &["action", "create", "--config", "/proc/self/mem"]);
    let words = ["action", "create", "--config", "-"];
    let run = shell.run(&words).with_input("name: [");
    shell.finish_bad_run(1, &words, &run);
    assert!(!shell.store_path().exists());
    insta::assert_snapshot!(shell.transcript());
}

#[test]
fn a_file_can_come_from_standard_input() {
    let shell = TranscriptShell::new();
    let words = ["action", "create", "--config", "-"];
    let said = shell.run(&words).with_input(TIDY_ACTION).finish();
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
}

#[test]
fn settings_that_do_not_fit() {
    let shell = TranscriptShell::new();
    for text in [
        "store: [",
        "- a list",
        "shop: sqlite:/tmp/x",
        "profile: yolo",
        "actor: My Bot",
        "store: mysql://here",
        "store: memory",
        "profile: [review]",
        "actor: a\nactor: b",
    ] {
        shell.write_file("config.yaml", text);
        let code = match text {
            "profile: yolo" | "actor: My Bot" | "store: mysql://here" | "store: memory" => 2,
            _ => 1,
        };
        let said = shell.run_bad(code, &["list"]);
        assert!(said.stderr.contains("config.yaml"), "{said:?}");
    }
    std::fs::remove_file(shell.home_path().join("config.yaml")).unwrap();
    std::fs::create_dir(shell.home_path().join("config.yaml")).unwrap();
    shell.run_bad(1, &["list"]);
    insta::assert_snapshot!(shell.transcript());
}
