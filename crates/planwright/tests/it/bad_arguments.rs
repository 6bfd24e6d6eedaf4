//! Words on the command line that are wrong. Nothing is stored, and what to do is said.

use crate::shell::TranscriptShell;

#[test]
fn arguments_of_an_action() {
    let shell = TranscriptShell::with_action();
    let usage = |arguments: &[&str]| {
        shell.run_bad(2, &[&["use", "tidy"], arguments].concat());
    };
    usage(&[]);
    usage(&["--arg", "area"]);
    usage(&["--arg", "=src"]);
    usage(&["--arg", "area=src", "--arg", "area=docs"]);
    usage(&["--arg", "area=src", "--arg", "aera=docs"]);
    usage(&["--arg", "area=src", "--arg", "depth=deep"]);
    usage(&["--arg", "area=src", "--arg", "depth=0"]);
    usage(&["--arg", "area=src", "--arg", "depth=10"]);
    usage(&["--arg", "area=src", "--arg", "depth=1.5"]);
    usage(&["--arg", "area=src", "--arg", "depth=99999999999999999999"]);
    usage(&["--arg", "area=src", "--arg", "depth=0", "--arg", "other=1"]);
    usage(&["--arg", &format!("area={}", "x".repeat(100_000))]);
    insta::assert_snapshot!(shell.transcript());
}

#[test]
fn actions_that_cannot_be_used() {
    let shell = TranscriptShell::with_action();
    shell.run_bad(3, &["use", "absent"]);
    shell.run_bad(2, &["use", "Tidy"]);
    shell.run_bad(2, &["use", "tidy up"]);
    shell.run_bad(2, &["use", "a/b/c"]);
    shell.run_bad(2, &["use", ""]);
    shell.run_bad(2, &["use", &"x".repeat(300)]);
    shell.run_bad(2, &["use", "tidy", "my-project"]);
    shell.run_bad(
        2,
        &["use", "tidy", "--arg", "area=src", "--profile", "yolo"],
    );
    shell.run_bad(2, &["use", "tidy", "--arg", "area=src", "--goal", ""]);
    shell.run_bad(3, &["action", "show", "absent"]);
    shell.run_bad(3, &["action", "archive", "absent"]);
    shell.run_bad(2, &["action", "show", "no/such/name"]);
    shell.run_bad(4, &["action", "create", "--config", "tidy.yaml"]);
    shell.run_quietly(&["action", "archive", "tidy"]);
    shell.run_bad(4, &["use", "tidy", "--arg", "area=src"]);
    shell.write_file(
        "once.yaml",
        "name: once\ndescription: x\nactor: bot\nreusable: false\n",
    );
    shell.run_quietly(&["action", "create", "--config", "once.yaml"]);
    shell.run_quietly(&["use", "once"]);
    shell.run_bad(4, &["use", "once"]);
    shell.write_file("nobody.yaml", "name: nobody\ndescription: x\n");
    shell.run_quietly(&["action", "create", "--config", "nobody.yaml"]);
    shell.run_bad(2, &["use", "nobody"]);
    insta::assert_snapshot!(shell.transcript());
}

#[test]
fn ids_that_name_no_plan() {
    let (shell, _) = TranscriptShell::with_plan();
    shell.run_quietly(&["use", "tidy", "--arg", "area=docs"]);
    // No id holds these letters.
    shell.run_bad(2, &["status", "hello"]);
    shell.run_bad(2, &["status", "not-an-id"]);
    shell.run_bad(2, &["status", ""]);
    shell.run_bad(2, &["status", &"0".repeat(27)]);
    shell.run_bad(2, &["status", "../../etc/passwd"]);
    // All ids of this century begin alike.
    shell.run_bad(2, &["status", "01"]);
    shell.run_bad(3, &["status", "00000000000000000000000000"]);
    shell.run_bad(3, &["cancel", "zzzz"]);
    shell.run_bad(2, &["list", "--after", "zzzz"]);
    let nowhere = TranscriptShell::new();
    nowhere.run_bad(3, &["status", "@"]);
    nowhere.run_bad(3, &["plumbing", "execute-plan", "@"]);
    assert!(!nowhere.store_path().exists());
    insta::assert_snapshot!(format!("{}{}", shell.transcript(), nowhere.transcript()));
}

#[test]
fn every_unambiguous_piece_of_an_id_names_the_plan() {
    let (shell, plan) = TranscriptShell::with_plan();
    for handle in [
        plan.as_str(),
        &plan.to_lowercase(),
        &plan[..10],
        &plan[20..],
        &plan[22..].to_lowercase(),
        "@",
    ] {
        assert_eq!(
            shell.run_quietly(&["status", handle])["plan_id"],
            plan.as_str()
        );
    }
}

#[test]
fn rules_that_are_none() {
    let (shell, plan) = TranscriptShell::with_plan();
    let add = ["rule", "add"];
    let usage = |words: &[&str]| {
        shell.run_bad(2, &[&add[..], words].concat());
    };
    usage(&["calm"]);
    usage(&["Calm", "--expr", "true"]);
    usage(&["calm", "--expr", ""]);
    usage(&["calm", "--expr", "plan."]);
    usage(&["calm", "--expr", "goal == 'x'"]);
    usage(&["calm", "--expr", "plan.goal == other"]);
    usage(&[
        "calm",
        "--expr",
        &format!("plan.goal == '{}'", "x".repeat(5000)),
    ]);
    usage(&[
        "calm",
        "--expr",
        &format!("{}true{}", "(".repeat(2000), ")".repeat(2000)),
    ]);
    let endless = "[1].all(a, [1].all(b, [1].all(c, [1].all(d, true))))";
    usage(&["calm", "--expr", endless]);
    usage(&["calm", "--expr", "true", "--at", "later"]);
    usage(&["calm", "--allow", "src/**", "--forbid", "*.lock"]);
    usage(&["calm", "--allow", "src/**", "--at", "strategize"]);
    usage(&["calm", "--forbid", "../*.lock"]);
    usage(&["calm", "--command", " "]);
    usage(&["calm", "--ask", ""]);
    usage(&["calm", "--expr", "true", "--timeout", "3s"]);
    shell.run_bad(
        3,
        &["rule", "add", "calm", "--expr", "true", "--project", "web"],
    );
    usage(&["calm", "--expr", "true", "--global", "--plan", &plan]);
    shell.run_bad(
        3,
        &[
            "rule", "add", "calm", "--expr", "true", "--action", "absent",
        ],
    );
    shell.run_bad(
        3,
        &["rule", "add", "calm", "--expr", "true", "--plan", "zzzz"],
    );
    shell.run_bad(3, &["rule", "remove", "absent"]);
    shell.run_bad(3, &["waive", &plan, "absent", "--reason", "x"]);
    shell.run_quietly(&["rule", "add", "calm", "--expr", "true", "--non-overridable"]);
    shell.run_bad(4, &["rule", "add", "calm", "--expr", "false"]);
    shell.run_bad(
        5,
        &["rule", "add", "calm", "--expr", "false", "--plan", &plan],
    );
    shell.run_bad(5, &["waive", &plan, "calm", "--reason", "x"]);
    shell.run_bad(2, &["waive", &plan, "calm", "--reason", ""]);
    insta::assert_snapshot!(shell.transcript());
}

#[test]
fn settings_that_do_not_fit() {
    let shell = TranscriptShell::new();
    shell.run_bad(2, &["config", "set", "profile", "yolo"]);
    shell.run_bad(2, &["config", "set", "actor", "My Bot"]);
    shell.run_bad(2, &["config", "set", "store", "mysql://here"]);
    shell.run_bad(2, &["config", "set", "colour", "blue"]);
    shell.run_bad(2, &["config", "get", "colour"]);
    shell.run_bad(2, &["profile", "show", "yolo"]);
    for (name, value) in [
        ("PLANWRIGHT_PROFILE", "yolo"),
        ("PLANWRIGHT_ACTOR", "My Bot"),
        ("PLANWRIGHT_STORE", "mysql://here"),
        ("PLANWRIGHT_FAULT", "never:ever"),
    ] {
        let shown = format!("({name}={value})");
        let run = shell.run(&["list"]).with_variable(name, value);
        shell.finish_bad_run(2, &["list", &shown], &run);
    }
    assert!(!shell.home_path().join("config.yaml").exists());
    assert!(!shell.store_path().exists());
    insta::assert_snapshot!(shell.transcript());
}

#[test]
fn commands_that_do_not_parse() {
    let (shell, plan) = TranscriptShell::with_plan();
    let p = plan.as_str();
    shell.run_bad(2, &["lsit"]);
    shell.run_bad(2, &["list", "--formt", "json"]);
    shell.run_bad(2, &["list", "--format", "xml"]);
    shell.run_bad(2, &["list", "--limit", "0"]);
    shell.run_bad(2, &["list", "--limit", "501"]);
    shell.run_bad(2, &["list", "--phase", "landing"]);
    shell.run_bad(2, &["list", "--state", "done"]);
    shell.run_bad(2, &["log", p, "--events", "--decisions"]);
    shell.run_bad(2, &["answer", p]);
    shell.run_bad(2, &["retry", p, "--attempts", "0"]);
    shell.run_bad(2, &["completions", "tcsh"]);
    shell.run_bad(2, &["help", "nothing"]);
    shell.run_bad(2, &["plumbing", "start-execute", p]);
    shell.run_bad(2, &["plumbing", "start-execute", p, "--owner", ""]);
    shell.run_bad(
        2,
        &[
            "plumbing",
            "start-execute",
            p,
            "--owner",
            "a",
            "--lease-seconds",
            "0",
        ],
    );
    shell.run_bad(
        2,
        &[
            "plumbing",
            "start-execute",
            p,
            "--owner",
            "a",
            "--lease-seconds",
            "99999",
        ],
    );
    shell.run_bad(2, &["plumbing", "complete-execute", p]);
    shell.run_bad(2, &["plumbing", "complete-execute", p, "--epoch", "-1"]);
    shell.run_bad(
        2,
        &[
            "plumbing",
            "fail",
            p,
            "--epoch",
            "1",
            "--category",
            "odd",
            "--message",
            "x",
        ],
    );
    shell.run_bad(2, &["plumbing", "events", "--after", "yesterday"]);
    let record = ["plumbing", "record-change", p, "--epoch", "1"];
    let usage = |words: &[&str]| {
        shell.run_bad(2, &[&record[..], words].concat());
    };
    usage(&["--path", "a", "--operation", "touch"]);
    usage(&["--path", "/etc/passwd", "--operation", "modify"]);
    usage(&["--path", "../up", "--operation", "modify"]);
    usage(&["--path", "a//b", "--operation", "modify"]);
    usage(&["--path", ".GIT/config", "--operation", "modify"]);
    usage(&["--path", "", "--operation", "modify"]);
    usage(&["--path", "a", "--operation", "rename"]);
    usage(&["--path", "a", "--operation", "modify", "--from", "b"]);
    usage(&["--path", "a", "--operation", "modify", "--mode", "rwx"]);
    usage(&["--path", "a", "--operation", "modify", "--before", ""]);
    usage(&["--path", "a", "--operation", "modify", "--changeset", "x"]);
    insta::assert_snapshot!(shell.transcript());
}

/// What an actor hands in is checked before anything is stored.
#[test]
fn reports_that_do_not_fit() {
    let (shell, plan) = TranscriptShell::with_plan();
    let p = plan.as_str();
    shell.run_quietly(&["plumbing", "start-strategize", p, "--owner", "bot"]);
    let complete = [
        "plumbing",
        "complete-strategize",
        p,
        "--epoch",
        "1",
        "--decisions",
    ];
    let usage = |decisions: &str| {
        shell.run_bad(2, &[&complete[..], &[decisions]].concat());
    };
    usage("not json");
    usage("{}");
    usage(r#"[{"kind":"strategy_choice"}]"#);
    usage(r#"[{"kind":"whim","question":"q","choice":"c"}]"#);
    usage(r#"[{"kind":"prompt_definition","question":"q","choice":"c"}]"#);
    usage(r#"[{"kind":"strategy_choice","question":"q","choice":"c","parent":9}]"#);
    usage(r#"[{"kind":"strategy_choice","question":"","choice":"c"}]"#);
    usage(r#"[{"kind":"strategy_choice","question":"q","choice":"c","confidence":2.0}]"#);
    usage(r#"[{"kind":"strategy_choice","question":"q","choice":"c","mood":"good"}]"#);
    let long = "x".repeat(2_000_000);
    let words = ["plumbing", "ask", p, "--epoch", "1", "--question", ""];
    shell.run_bad(2, &words);
    let words = [&complete[..], &["-"]].concat();
    let run = shell.run(&words).with_input(long);
    shell.finish_bad_run(2, &words, &run);
    insta::assert_snapshot!(shell.transcript());
}
