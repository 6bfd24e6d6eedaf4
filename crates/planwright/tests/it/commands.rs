//! Every command with good input: what people see, and what programs get.

use std::collections::BTreeSet;

use clap::CommandFactory;
use planwright::cli::Cli;
use serde_json::Value;

use crate::shell::{ACTION, Shell};
use crate::yard::Yard;

/// A rule, an action and a plan on the way to its landing, as a person sees it.
#[test]
fn the_life_of_a_plan_for_people() {
    let shell = Shell::new();
    shell.good(&[]);
    shell.good(&["init"]);
    shell.good(&["init"]);
    shell.write("tidy.yaml", ACTION);
    shell.good(&["action", "create", "--config", "tidy.yaml"]);
    shell.good(&["action", "list"]);
    shell.good(&["action", "show", "tidy"]);
    shell.good(&["use", "tidy", "--arg", "area=src"]);
    shell.good(&["list"]);
    shell.good(&["status", "@"]);
    shell.good(&["why", "@"]);
    shell.good(&["plumbing", "start-strategize", "@", "--owner", "bot-1"]);
    shell.good(&["why", "@"]);
    let decisions = r#"[{"kind":"strategy_choice","question":"Where?","choice":"Tests first"}]"#;
    shell.good(&[
        "plumbing",
        "complete-strategize",
        "@",
        "--epoch",
        "1",
        "--decisions",
        decisions,
    ]);
    shell.good(&["invariant", "add", "small", "--expr", "arguments.depth < 2"]);
    shell.good(&["invariant", "list"]);
    shell.bad_but_stored(5, &["plumbing", "execute-plan", "@"]);
    shell.good(&["list"]);
    shell.good(&["why", "@"]);
    shell.good(&["waive", "@", "small", "--reason", "two levels are fine"]);
    shell.good(&["plumbing", "execute-plan", "@"]);
    shell.good(&["plumbing", "start-execute", "@", "--owner", "bot-1"]);
    shell.good(&["plumbing", "open-changeset", "@", "--epoch", "2"]);
    let record = ["plumbing", "record-change", "@", "--epoch", "2"];
    shell.good(&[&record[..], &["--path", "a.rs", "--operation", "modify"]].concat());
    let report = "Tidied a.rs";
    shell.good(&[
        "plumbing",
        "complete-execute",
        "@",
        "--epoch",
        "2",
        "--report",
        report,
    ]);
    shell.good(&[]);
    shell.good(&["status", "@"]);
    shell.good(&["plumbing", "apply-plan", "@"]);
    shell.good(&["plumbing", "start-apply", "@", "--owner", "bot-1"]);
    shell.good(&["plumbing", "complete-apply", "@", "--epoch", "3"]);
    shell.good(&["status", "@"]);
    shell.good(&["why", "@"]);
    shell.good(&["log", "@"]);
    shell.good(&["log", "@", "--decisions"]);
    shell.good(&["store", "verify"]);
    insta::assert_snapshot!(shell.transcript());
}

/// What a person does to plans that stop.
#[test]
fn plans_that_stop_for_people() {
    let (shell, plan) = Shell::with_plan();
    let p = plan.as_str();
    shell.quietly(&["plumbing", "start-strategize", p, "--owner", "bot"]);
    shell.quietly(&["plumbing", "ask", p, "--epoch", "1", "--question", "Which?"]);
    shell.good(&["status", p]);
    shell.good(&["answer", p, "The left one"]);
    shell.quietly(&["plumbing", "start-strategize", p, "--owner", "bot"]);
    let failure = ["--category", "actor", "--message", "it crashed"];
    shell.quietly(&[&["plumbing", "fail", p, "--epoch", "2"], &failure[..]].concat());
    shell.good(&["status", p]);
    shell.good(&["why", p]);
    shell.good(&["retry", p, "--attempts", "5"]);
    shell.quietly(&["plumbing", "start-strategize", p, "--owner", "bot"]);
    shell.quietly(&["plumbing", "complete-strategize", p, "--epoch", "3"]);
    shell.good(&["revise", p, "Think again"]);
    shell.quietly(&["plumbing", "start-strategize", p, "--owner", "bot"]);
    shell.quietly(&["plumbing", "complete-strategize", p, "--epoch", "5"]);
    shell.quietly(&["plumbing", "execute-plan", p]);
    shell.quietly(&["plumbing", "start-execute", p, "--owner", "bot"]);
    shell.quietly(&[
        "plumbing",
        "complete-execute",
        p,
        "--epoch",
        "6",
        "--report",
        "Done",
    ]);
    shell.good(&["approve", p]);
    shell.good(&["revert", p, "--reason", "Wrong area"]);
    shell.good(&["cancel", p, "--reason", "Not needed"]);
    shell.good(&["list"]);
    shell.good(&["list", "--needs-me"]);
    shell.good(&["log", p]);
    insta::assert_snapshot!(shell.transcript());
}

#[test]
fn settings_rules_and_upkeep_for_people() {
    let (shell, plan) = Shell::with_plan();
    shell.good(&["config", "list"]);
    shell.good(&["config", "set", "profile", "supervised"]);
    shell.good(&["config", "set", "actor", "claude"]);
    shell.good(&["config", "get", "profile"]);
    shell.good(&["config", "list", "--show-origin"]);
    shell.good(&["profile", "list"]);
    shell.good(&["profile", "show", "auto"]);
    shell.good(&[
        "invariant",
        "add",
        "calm",
        "--expr",
        "plan.attempt < 9",
        "--non-overridable",
    ]);
    let narrow = ["--plan", &plan, "--at", "execute", "--advisory"];
    shell.good(
        &[
            &[
                "invariant",
                "add",
                "shallow",
                "--expr",
                "arguments.depth < 2",
            ],
            &narrow[..],
        ]
        .concat(),
    );
    shell.good(&["invariant", "list"]);
    shell.good(&["invariant", "list", "--effective", &plan]);
    shell.good(&["invariant", "remove", "calm"]);
    shell.good(&["action", "archive", "tidy"]);
    shell.good(&["action", "list"]);
    shell.good(&["store", "migrate"]);
    shell.good(&["store", "backup", "copy.db"]);
    shell.good(&["store", "verify"]);
    shell.good(&["doctor"]);
    shell.good(&["doctor", "--fix"]);
    insta::assert_snapshot!(shell.transcript());
}

#[test]
fn pages_of_a_list() {
    let shell = Shell::with_action();
    for area in ["a", "b", "c"] {
        let goal = format!("Tidy {area}\nand a second line");
        let area = format!("area={area}");
        shell.quietly(&["use", "tidy", "--arg", &area, "--goal", &goal]);
    }
    let first = shell.json(&["list", "--limit", "2"]);
    let next = first["data"]["next"].as_str().unwrap().to_owned();
    let second = shell.json(&["list", "--limit", "2", "--after", &next]);
    assert_eq!(second["data"]["plans"].as_array().unwrap().len(), 1);
    assert_eq!(second["data"]["next"], Value::Null);
    shell.good(&["list", "--limit", "2"]);
    shell.good(&["list", "--phase", "execute"]);
    shell.good(&["list", "--state", "queued", "--action", "tidy", "--all"]);
    insta::assert_snapshot!(shell.transcript());
}

/// Every command there is answers programs in one envelope, and is shown what it holds.
#[test]
fn every_command_for_programs() {
    let shell = Shell::new();
    shell.write("tidy.yaml", ACTION);
    let mut ran: BTreeSet<String> = BTreeSet::new();
    let mut run = |words: &[&str]| -> Value {
        let envelope = shell.json(words);
        assert_eq!(envelope["exit_code"], 0, "{words:?}");
        ran.insert(envelope["command"].as_str().unwrap().to_owned());
        envelope
    };
    let last_plan = |envelope: Value| envelope["data"]["plan_id"].as_str().unwrap().to_owned();
    run(&[]);
    run(&["init"]);
    run(&["config", "set", "actor", "bot"]);
    run(&["config", "set", "profile", "manual"]);
    run(&["config", "unset", "profile"]);
    run(&["config", "get", "actor"]);
    run(&["config", "list"]);
    run(&["profile", "list"]);
    run(&["profile", "show", "review"]);
    run(&["action", "create", "--config", "tidy.yaml"]);
    run(&["action", "list"]);
    run(&["action", "show", "tidy"]);
    let plan = last_plan(run(&[
        "use", "tidy", "--arg", "area=src", "--arg", "depth=3",
    ]));
    let p = plan.as_str();
    run(&["list"]);
    run(&["status", p]);
    run(&["why", p]);
    run(&["invariant", "add", "calm", "--expr", "plan.attempt < 9"]);
    run(&["invariant", "list"]);
    run(&["waive", p, "calm", "--reason", "today"]);
    run(&["invariant", "remove", "calm"]);
    run(&["plumbing", "start-strategize", p, "--owner", "bot"]);
    run(&["plumbing", "renew", p, "--epoch", "1"]);
    run(&["plumbing", "ask", p, "--epoch", "1", "--question", "Which?"]);
    run(&["answer", p, "This"]);
    run(&["plumbing", "start-strategize", p, "--owner", "bot"]);
    run(&["plumbing", "release", p, "--epoch", "2"]);
    run(&["plumbing", "start-strategize", p, "--owner", "bot"]);
    run(&["plumbing", "complete-strategize", p, "--epoch", "3"]);
    run(&["plumbing", "execute-plan", p]);
    run(&["plumbing", "start-execute", p, "--owner", "bot"]);
    let opened = run(&[
        "plumbing",
        "open-changeset",
        p,
        "--epoch",
        "4",
        "--node",
        "n",
    ]);
    let changeset = opened["data"]["changeset_id"].as_str().unwrap().to_owned();
    run(&[
        "plumbing",
        "record-change",
        p,
        "--epoch",
        "4",
        "--changeset",
        &changeset,
        "--path",
        "b.rs",
        "--operation",
        "rename",
        "--from",
        "a.rs",
        "--before",
        "1111",
        "--after",
        "2222",
        "--mode",
        "100644",
        "--tool",
        "mv",
    ]);
    run(&[
        "plumbing",
        "seal-changeset",
        p,
        "--epoch",
        "4",
        "--changeset",
        &changeset,
    ]);
    run(&["plumbing", "changesets", p]);
    run(&[
        "plumbing",
        "complete-execute",
        p,
        "--epoch",
        "4",
        "--report",
        "Done",
    ]);
    run(&["approve", p]);
    run(&["plumbing", "apply-plan", p]);
    run(&["plumbing", "start-apply", p, "--owner", "bot"]);
    run(&["plumbing", "prepare-apply", p, "--epoch", "5"]);
    run(&["plumbing", "withdraw-apply", p, "--epoch", "5"]);
    run(&["plumbing", "constrain", p, "--epoch", "5", "--path", "a.rs"]);
    run(&["retry", p]);
    run(&["plumbing", "start-apply", p, "--owner", "bot"]);
    run(&["plumbing", "complete-apply", p, "--epoch", "6"]);
    run(&["plumbing", "show", p]);
    run(&["log", p]);
    run(&["plumbing", "reclaim"]);
    let other = last_plan(run(&["plan", "use", "tidy", "--arg", "area=docs"]));
    let o = other.as_str();
    run(&["plan", "list", "--limit", "1"]);
    run(&["plan", "status", o]);
    run(&["plan", "why", o]);
    run(&["plan", "log", o]);
    run(&["plan", "history", o]);
    run(&["plan", "tree", o]);
    shell.quietly(&["plumbing", "start-strategize", o, "--owner", "bot"]);
    shell.quietly(&["plumbing", "ask", o, "--epoch", "1", "--question", "Which?"]);
    run(&["plan", "answer", o, "This"]);
    shell.quietly(&["plumbing", "start-strategize", o, "--owner", "bot"]);
    let failure = ["--category", "actor", "--message", "crashed"];
    run(&[&["plumbing", "fail", o, "--epoch", "2"], &failure[..]].concat());
    run(&["plan", "retry", o]);
    shell.quietly(&["plumbing", "start-strategize", o, "--owner", "bot"]);
    shell.quietly(&["plumbing", "complete-strategize", o, "--epoch", "3"]);
    run(&["plan", "revise", o, "Again"]);
    shell.quietly(&["plumbing", "start-strategize", o, "--owner", "bot"]);
    shell.quietly(&["plumbing", "complete-strategize", o, "--epoch", "5"]);
    run(&["revise", o, "Once more"]);
    shell.quietly(&["plumbing", "start-strategize", o, "--owner", "bot"]);
    shell.quietly(&["plumbing", "complete-strategize", o, "--epoch", "7"]);
    run(&["plumbing", "revise", o, "And again"]);
    shell.quietly(&["plumbing", "start-strategize", o, "--owner", "bot"]);
    shell.quietly(&["plumbing", "ask", o, "--epoch", "9", "--question", "Sure?"]);
    run(&["plumbing", "answer", o, "Yes"]);
    shell.quietly(&["plumbing", "start-strategize", o, "--owner", "bot"]);
    shell.quietly(&[&["plumbing", "fail", o, "--epoch", "10"], &failure[..]].concat());
    run(&["plumbing", "retry", o]);
    shell.quietly(&["plumbing", "start-strategize", o, "--owner", "bot"]);
    shell.quietly(&["plumbing", "complete-strategize", o, "--epoch", "11"]);
    shell.quietly(&["plumbing", "execute-plan", o]);
    run(&["revert", o, "--reason", "no"]);
    finish_execute(&shell, o, 13);
    run(&["plan", "approve", o]);
    run(&["plumbing", "approve", o]);
    shell.quietly(&["invariant", "add", "odd", "--expr", "true"]);
    run(&["plan", "waive", o, "odd", "--reason", "why not"]);
    run(&["plan", "revert", o, "--reason", "no"]);
    finish_execute(&shell, o, 16);
    run(&["plumbing", "revert", o, "--reason", "no"]);
    run(&["cancel", o]);
    for words in [["plan", "cancel"], ["plumbing", "cancel"]] {
        let made = shell.quietly(&["use", "tidy", "--arg", "area=x"]);
        run(&[words[0], words[1], made["plan_id"].as_str().unwrap()]);
    }
    run(&["action", "archive", "tidy"]);
    run(&["store", "migrate"]);
    run(&["store", "backup", "copy.db"]);
    run(&["store", "verify"]);
    run(&["doctor"]);
    run(&["demo"]);
    run(&["help", "exit-codes"]);
    insta::assert_snapshot!(shell.transcript());
    // Two that print more than an envelope, or more than anybody reads.
    let events = shell.run(&["plumbing", "events", "--limit", "2"]).finish();
    assert_eq!(events.envelope()["data"]["events"], 2);
    ran.insert("plumbing events".to_owned());
    let script = shell.quietly(&["completions", "bash"]);
    assert!(script["script"].as_str().unwrap().contains("planwright"));
    ran.insert("completions".to_owned());
    ran.extend(on_a_repository());
    ran.remove("overview");
    let mut all = BTreeSet::new();
    leaves(&Cli::command(), "", &mut all);
    assert_eq!(ran, all, "every command is run here");
}

/// Takes a plan from strategize/queued to execute/complete; its next claim has this epoch.
fn finish_execute(shell: &Shell, plan: &str, epoch: u32) {
    let (first, second) = (epoch.to_string(), (epoch + 1).to_string());
    shell.quietly(&["plumbing", "start-strategize", plan, "--owner", "bot"]);
    shell.quietly(&["plumbing", "complete-strategize", plan, "--epoch", &first]);
    shell.quietly(&["plumbing", "execute-plan", plan]);
    shell.quietly(&["plumbing", "start-execute", plan, "--owner", "bot"]);
    shell.quietly(&["plumbing", "complete-execute", plan, "--epoch", &second]);
}

fn leaves(command: &clap::Command, path: &str, all: &mut BTreeSet<String>) {
    let mut inner = command.get_subcommands().peekable();
    if inner.peek().is_none() {
        all.insert(path.trim_start().to_owned());
        return;
    }
    for one in inner {
        leaves(one, &format!("{path} {}", one.get_name()), all);
    }
}

/// Runs what needs a repository; hashes of commits differ each time, so what was answered is looked
/// at instead of kept.
fn on_a_repository() -> BTreeSet<String> {
    let yard = Yard::new();
    let mut ran = BTreeSet::new();
    let shop = yard.shop().to_str().unwrap().to_owned();
    let other = yard.other_repository("docs");
    let mut run = |words: &[&str]| {
        let said = yard.run(words);
        assert_eq!(said.code(), Some(0), "{words:?}: {said:?}");
        let envelope = said.envelope();
        ran.insert(envelope["command"].as_str().unwrap().to_owned());
        envelope["data"].clone()
    };
    run(&["project", "create", "shop", "--git", &shop]);
    run(&["project", "link", "shop", "--git", &other]);
    run(&["project", "relink", "shop", "docs", "--git", &other]);
    run(&["project", "unlink", "shop", "docs"]);
    run(&["project", "pause", "shop"]);
    assert_eq!(run(&["project", "show", "shop"])["paused"], true);
    run(&["project", "resume", "shop"]);
    assert_eq!(run(&["project", "list"])["projects"][0]["name"], "shop");
    run(&["project", "create", "tools", "--git", &other]);
    assert_eq!(run(&["project", "list", "--limit", "1"])["next"], "shop");
    let rest = run(&["project", "list", "--after", "shop"]);
    assert_eq!(rest["projects"][0]["name"], "tools");
    assert_eq!(rest["next"], Value::Null);
    run(&["project", "delete", "tools"]);
    for (word, diff, apply, undo) in [
        ("", "diff", "apply", "undo"),
        ("plan", "diff", "apply", "undo"),
    ] {
        let plan = yard.usual();
        let words = |verb: &'static str| -> Vec<&str> {
            [word, verb]
                .into_iter()
                .filter(|word| !word.is_empty())
                .collect()
        };
        let files = run(&[&words(diff)[..], &[&plan]].concat());
        assert_eq!(files["resources"][0]["files"].as_array().unwrap().len(), 2);
        run(&["path", &plan]);
        let landed = run(&[&words(apply)[..], &[&plan, "--yes"]].concat());
        assert_eq!(landed["standing"], "landed");
        run(&[&words(undo)[..], &[&plan, "--yes"]].concat());
    }
    let scribe = yard.write_beside(
        "scribe.yaml",
        "name: scribe\nkind: command\ncommand: [sh, -c, echo >> written.txt]\n",
    );
    run(&["actor", "add", &scribe]);
    run(&["actor", "list"]);
    run(&["actor", "show", "scribe"]);
    let goal = ["--project", "shop", "--actor", "scribe", "Write it down"];
    let done = run(&[&["run", "--profile", "auto"], &goal[..]].concat());
    let plan = done["plan_id"].as_str().unwrap().to_owned();
    run(&["plan", "execute", &plan]);
    run(&["wait", &plan, "--until", "landed"]);
    run(&["plan", "wait", &plan]);
    let detached = run(&[&["run", "--detach"], &goal[..]].concat());
    assert_eq!(run(&["work", "--drain"])["taken"], 1);
    run(&["cancel", detached["plan_id"].as_str().unwrap()]);
    run(&["actor", "remove", "scribe"]);
    let plan = yard.usual();
    run(&["sandbox", "list"]);
    yard.ok(&["cancel", &plan]);
    run(&["sandbox", "clean"]);
    run(&["sandbox", "restore", &plan]);
    run(&["project", "delete", "shop"]);
    // A shell is for people: it answers no envelope, and has a test of its own.
    ran.insert("shell".to_owned());
    ran
}
