//! Files that are not what they should be. Nothing is stored, and where it is wrong is said.

use crate::shell::{ACTION, Shell};

/// Refused as a malformed file: exit code 1.
#[track_caller]
fn check(shell: &Shell, name: &str, source: impl AsRef<[u8]>) {
    let file = format!("{name}.yaml");
    shell.write(&file, source);
    let said = shell.bad(1, &["action", "create", "--config", &file]);
    assert!(said.stderr.contains(&file), "it names the file: {said:?}");
    assert!(!shell.store().exists(), "{name} made a store");
}

/// The good action with one thing put in the place of another.
#[track_caller]
fn but(from: &str, to: &str) -> String {
    assert!(ACTION.contains(from), "{from}");
    ACTION.replacen(from, to, 1)
}

#[test]
fn yaml_that_is_none() {
    let shell = Shell::new();
    check(&shell, "empty", "");
    check(&shell, "only-a-comment", "# nothing here\n");
    check(&shell, "a-list", "- name: tidy\n");
    check(&shell, "a-text", "tidy");
    check(&shell, "open-quote", "name: \"tidy\ndescription: x\n");
    check(&shell, "open-bracket", "name: [tidy\ndescription: x\n");
    check(
        &shell,
        "tab-indented",
        "name: tidy\narguments:\n\t- name: x\n",
    );
    check(&shell, "wrong-indent", "name: tidy\n  description: x\n");
    check(&shell, "two-documents", "name: a\n---\nname: b\n");
    check(&shell, "an-alias", "name: &n tidy\ndescription: *n\n");
    check(&shell, "a-tag", "name: !!str tidy\ndescription: x\n");
    check(&shell, "not-utf-8", b"name: \xff\xfe\n");
    check(&shell, "a-nul", b"name: ti\0dy\ndescription: x\n");
    check(&shell, "huge", "#".repeat(300 * 1024));
    check(
        &shell,
        "deep",
        format!("name: {}{}\n", "[".repeat(5000), "]".repeat(5000)),
    );
    insta::assert_snapshot!(shell.transcript());
}

#[test]
fn keys_that_do_not_belong() {
    let shell = Shell::new();
    check(&shell, "unknown-key", but("actor: bot", "acter: bot"));
    check(
        &shell,
        "unknown-nested",
        but("    required: true", "    requird: true"),
    );
    check(&shell, "misplaced", but("actor: bot", "actor: bot\nmin: 3"));
    check(
        &shell,
        "misplaced-nested",
        but("    required: true", "    reusable: true"),
    );
    check(&shell, "twice", but("actor: bot", "actor: bot\nactor: cat"));
    check(&shell, "argument-twice", but("name: depth", "name: area"));
    check(
        &shell,
        "of-the-reference",
        but("actor: bot", "actor: bot\nestimation_actor: cat"),
    );
    check(
        &shell,
        "review-actor",
        but("actor: bot", "actor: bot\nreview_actor: cat"),
    );
    check(
        &shell,
        "done",
        but(
            "actor: bot",
            "actor: bot\ndefinition_of_done: {tests: pass}",
        ),
    );
    check(
        &shell,
        "both-actors",
        but("actor: bot", "actor: bot\nstrategy_actor: cat"),
    );
    check(
        &shell,
        "half-the-actors",
        but("actor: bot", "strategy_actor: cat"),
    );
    insta::assert_snapshot!(shell.transcript());
}

#[test]
fn values_that_do_not_fit() {
    let shell = Shell::new();
    check(&shell, "no-name", but("name: tidy\n", ""));
    check(
        &shell,
        "no-description",
        but("description: Tidy one area\n", ""),
    );
    check(&shell, "null-name", but("name: tidy", "name:"));
    check(
        &shell,
        "empty-description",
        but("description: Tidy one area", "description: ''"),
    );
    check(&shell, "number-name", but("name: tidy", "name: 7"));
    check(&shell, "list-name", but("name: tidy", "name: [a, b]"));
    check(&shell, "shouted-name", but("name: tidy", "name: Tidy"));
    check(&shell, "spaced-name", but("name: tidy", "name: tidy up"));
    check(&shell, "deep-name", but("name: tidy", "name: a/b/c"));
    check(&shell, "dotted-name", but("name: tidy", "name: ../tidy"));
    check(
        &shell,
        "yes",
        but("    required: true", "    required: yes"),
    );
    check(
        &shell,
        "text-flag",
        but("    required: true", "    required: 'true'"),
    );
    check(
        &shell,
        "arguments-map",
        but("arguments:\n  - name: area", "arguments:\n    name: area"),
    );
    check(&shell, "unknown-type", but("type: integer", "type: number"));
    check(&shell, "text-default", but("default: 2", "default: two"));
    check(&shell, "low-default", but("default: 2", "default: 0"));
    check(&shell, "min-over-max", but("min: 1", "min: 10"));
    check(
        &shell,
        "min-of-a-boolean",
        but(
            "type: string\n    required: true",
            "type: boolean\n    min: 3",
        ),
    );
    check(
        &shell,
        "huge-number",
        but("default: 2", "default: 99999999999999999999"),
    );
    check(
        &shell,
        "bad-pattern",
        but("    required: true", "    pattern: '['"),
    );
    check(
        &shell,
        "unknown-profile",
        but("actor: bot", "actor: bot\nautomation_profile: yolo"),
    );
    check(&shell, "odd-actor", but("actor: bot", "actor: 'my bot'"));
    insta::assert_snapshot!(shell.transcript());
}

#[test]
fn rules_that_are_none() {
    let shell = Shell::new();
    let rule = |rule: &str| format!("{ACTION}invariants:\n{rule}");
    check(&shell, "no-expr", rule("  - name: a\n"));
    check(&shell, "no-name", rule("  - expr: 'true'\n"));
    check(
        &shell,
        "two-kinds",
        rule("  - name: a\n    command: make test\n    ask: Is it good?\n"),
    );
    check(
        &shell,
        "unknown-gate",
        rule("  - name: a\n    expr: 'true'\n    at: [later]\n"),
    );
    check(
        &shell,
        "twice",
        rule("  - {name: a, expr: 'true'}\n  - {name: a, expr: 'false'}\n"),
    );
    insta::assert_snapshot!(shell.transcript());
}

/// What is wrong with an expression is found out by the engine, and is wrong with the file.
#[test]
fn expressions_in_a_file_that_are_none() {
    let shell = Shell::new();
    for (file, expr) in [
        ("half.yaml", "plan."),
        ("unknown.yaml", "goal == 1"),
        ("loops.yaml", "[1].all(a, [1].all(b, [1].all(c, true)))"),
    ] {
        let source = format!("{ACTION}invariants:\n  - name: odd\n    expr: {expr:?}\n");
        shell.write(file, source);
        shell.bad(1, &["action", "create", "--config", file]);
        assert!(!shell.store().exists());
    }
    insta::assert_snapshot!(shell.transcript());
}

#[test]
fn files_that_cannot_be_read() {
    let shell = Shell::new();
    shell.bad(3, &["action", "create", "--config", "absent.yaml"]);
    shell.bad(1, &["action", "create", "--config", "."]);
    shell.bad(1, &["action", "create", "--config", "/proc/self/mem"]);
    let words = ["action", "create", "--config", "-"];
    let run = shell.run(&words).reading("name: [");
    shell.bad_run(1, &words, &run);
    assert!(!shell.store().exists());
    insta::assert_snapshot!(shell.transcript());
}

#[test]
fn a_file_can_come_from_standard_input() {
    let shell = Shell::new();
    let words = ["action", "create", "--config", "-"];
    let said = shell.run(&words).reading(ACTION).finish();
    assert_eq!(said.code(), Some(0), "{said:?}");
}

#[test]
fn settings_that_do_not_fit() {
    let shell = Shell::new();
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
        shell.write("config.yaml", text);
        let code = match text {
            "profile: yolo" | "actor: My Bot" | "store: mysql://here" | "store: memory" => 2,
            _ => 1,
        };
        let said = shell.bad(code, &["list"]);
        assert!(said.stderr.contains("config.yaml"), "{said:?}");
    }
    std::fs::remove_file(shell.home().join("config.yaml")).unwrap();
    std::fs::create_dir(shell.home().join("config.yaml")).unwrap();
    shell.bad(1, &["list"]);
    insta::assert_snapshot!(shell.transcript());
}
