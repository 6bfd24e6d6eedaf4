//! Every command with good input: what people see, and what programs get.

use std::collections::BTreeSet;

use clap::CommandFactory;
use planwright::cli::Cli;
use serde_json::Value;

use crate::shell::{TIDY_ACTION, TranscriptShell};
use crate::shop_repository::ShopRepository;

/// A rule, an action and a plan on the way to its landing, as a person sees it.
#[test]
fn the_life_of_a_plan_for_people() {
    let shell = TranscriptShell::new();
    shell.run_good(&[]);
    shell.run_good(&["init"]);
    shell.run_good(&["init"]);
    shell.write_file("tidy.yaml", TIDY_ACTION);
    shell.run_good(&["action", "create", "--config", "tidy.yaml"]);
    shell.run_good(&["action", "list"]);
    shell.run_good(&["action", "show", "tidy"]);
    shell.run_good(&["use", "tidy", "--arg", "area=src"]);
    shell.run_good(&["list"]);
    shell.run_good(&["status", "@"]);
    shell.run_good(&["why", "@"]);
    shell.run_good(&["plumbing", "start-strategize", "@", "--owner", "bot-1"]);
    shell.run_good(&["why", "@"]);
    let decisions = r#"[{"kind":"strategy_choice","question":"Where?","choice":"Tests first"}]"#;
    shell.run_good(&[
        "plumbing",
        "complete-strategize",
        "@",
        "--epoch",
        "1",
        "--decisions",
        decisions,
    ]);
    shell.run_good(&["rule", "add", "small", "--expr", "arguments.depth < 2"]);
    shell.run_good(&["rule", "list"]);
    shell.run_bad_but_stored(5, &["plumbing", "execute-plan", "@"]);
    shell.run_good(&["list"]);
    shell.run_good(&["why", "@"]);
    shell.run_good(&["waive", "@", "small", "--reason", "two levels are fine"]);
    shell.run_good(&["plumbing", "execute-plan", "@"]);
    shell.run_good(&["plumbing", "start-execute", "@", "--owner", "bot-1"]);
    shell.run_good(&["plumbing", "open-changeset", "@", "--epoch", "2"]);
    let record = ["plumbing", "record-change", "@", "--epoch", "2"];
    shell.run_good(&[&record[..], &["--path", "a.rs", "--operation", "modify"]].concat());
    let report = "Tidied a.rs";
    shell.run_good(&[
        "plumbing",
        "complete-execute",
        "@",
        "--epoch",
        "2",
        "--report",
        report,
    ]);
    shell.run_good(&[]);
    shell.run_good(&["status", "@"]);
    shell.run_good(&["plumbing", "apply-plan", "@"]);
    shell.run_good(&["plumbing", "start-apply", "@", "--owner", "bot-1"]);
    shell.run_good(&["plumbing", "complete-apply", "@", "--epoch", "3"]);
    shell.run_good(&["status", "@"]);
    shell.run_good(&["why", "@"]);
    shell.run_good(&["log", "@"]);
    shell.run_good(&["log", "@", "--decisions"]);
    shell.run_good(&["store", "verify"]);
    insta::assert_snapshot!(shell.transcript());
}

/// What a person does to plans that stop.
#[test]
fn plans_that_stop_for_people() {
    let (shell, plan) = TranscriptShell::with_plan();
    let p = plan.as_str();
    shell.run_quietly(&["plumbing", "start-strategize", p, "--owner", "bot"]);
    shell.run_quietly(&["plumbing", "ask", p, "--epoch", "1", "--question", "Which?"]);
    shell.run_good(&["status", p]);
    shell.run_good(&["answer", p, "The left one"]);
    shell.run_quietly(&["plumbing", "start-strategize", p, "--owner", "bot"]);
    let failure = ["--category", "actor", "--message", "it crashed"];
    shell.run_quietly(&[&["plumbing", "fail", p, "--epoch", "2"], &failure[..]].concat());
    shell.run_good(&["status", p]);
    shell.run_good(&["why", p]);
    shell.run_good(&["retry", p, "--attempts", "5"]);
    shell.run_quietly(&["plumbing", "start-strategize", p, "--owner", "bot"]);
    shell.run_quietly(&["plumbing", "complete-strategize", p, "--epoch", "3"]);
    shell.run_good(&["revise", p, "Think again"]);
    shell.run_quietly(&["plumbing", "start-strategize", p, "--owner", "bot"]);
    shell.run_quietly(&["plumbing", "complete-strategize", p, "--epoch", "5"]);
    shell.run_quietly(&["plumbing", "execute-plan", p]);
    shell.run_quietly(&["plumbing", "start-execute", p, "--owner", "bot"]);
    shell.run_quietly(&[
        "plumbing",
        "complete-execute",
        p,
        "--epoch",
        "6",
        "--report",
        "Done",
    ]);
    shell.run_good(&["approve", p]);
    shell.run_good(&["revert", p, "--reason", "Wrong area"]);
    shell.run_good(&["cancel", p, "--reason", "Not needed"]);
    shell.run_good(&["list"]);
    shell.run_good(&["list", "--needs-me"]);
    shell.run_good(&["log", p]);
    insta::assert_snapshot!(shell.transcript());
}

#[test]
fn settings_rules_and_upkeep_for_people() {
    let (shell, plan) = TranscriptShell::with_plan();
    shell.run_good(&["config", "list"]);
    shell.run_good(&["config", "set", "profile", "supervised"]);
    shell.run_good(&["config", "set", "actor", "claude"]);
    shell.run_good(&["config", "get", "profile"]);
    shell.run_good(&["config", "list", "--show-origin"]);
    shell.run_good(&["profile", "list"]);
    shell.run_good(&["profile", "show", "auto"]);
    shell.run_good(&[
        "rule",
        "add",
        "calm",
        "--expr",
        "plan.attempt < 9",
        "--non-overridable",
    ]);
    let narrow = ["--plan", &plan, "--at", "execute", "--advisory"];
    shell.run_good(
        &[
            &["rule", "add", "shallow", "--expr", "arguments.depth < 2"],
            &narrow[..],
        ]
        .concat(),
    );
    shell.run_good(&["rule", "list"]);
    shell.run_good(&["rule", "list", "--effective", &plan]);
    shell.run_good(&["rule", "remove", "calm"]);
    shell.run_good(&["action", "archive", "tidy"]);
    shell.run_good(&["action", "list"]);
    shell.run_good(&["store", "migrate"]);
    shell.run_good(&["store", "backup", "copy.db"]);
    shell.run_good(&["store", "verify"]);
    shell.run_good(&["doctor"]);
    shell.run_good(&["doctor", "--fix"]);
    insta::assert_snapshot!(shell.transcript());
}

#[test]
fn pages_of_a_list() {
    let shell = TranscriptShell::with_action();
    for area in ["a", "b", "c"] {
        let goal = format!("Tidy {area}\nand a second line");
        let area = format!("area={area}");
        shell.run_quietly(&["use", "tidy", "--arg", &area, "--goal", &goal]);
    }
    let first = shell.run_json(&["list", "--limit", "2"]);
    let next = first["data"]["next"].as_str().unwrap().to_owned();
    let second = shell.run_json(&["list", "--limit", "2", "--after", &next]);
    assert_eq!(second["data"]["plans"].as_array().unwrap().len(), 1);
    assert_eq!(second["data"]["next"], Value::Null);
    shell.run_good(&["list", "--limit", "2"]);
    shell.run_good(&["list", "--phase", "execute"]);
    shell.run_good(&["list", "--state", "queued", "--action", "tidy", "--all"]);
    insta::assert_snapshot!(shell.transcript());
}

/// Every command there is answers programs in one envelope, and is shown what it holds.
#[test]
fn every_command_for_programs() {
    let shell = TranscriptShell::new();
    shell.write_file("tidy.yaml", TIDY_ACTION);
    let mut ran: BTreeSet<String> = BTreeSet::new();
    let mut run = |words: &[&str]| -> Value {
        let envelope = shell.run_json(words);
        assert_eq!(envelope["exit_code"], 0, "{words:?}");
        ran.insert(envelope["command"].as_str().unwrap().to_owned());
        envelope
    };
    let last_plan = |envelope: Value| envelope["data"]["plan_id"].as_str().unwrap().to_owned();
    run(&[]);
    run(&["init"]);
    run(&["config", "set", "actor", "codex"]);
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
    run(&["rule", "add", "calm", "--expr", "plan.attempt < 9"]);
    run(&["rule", "list"]);
    run(&["waive", p, "calm", "--reason", "today"]);
    run(&["rule", "remove", "calm"]);
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
    shell.run_quietly(&["plumbing", "start-strategize", o, "--owner", "bot"]);
    shell.run_quietly(&["plumbing", "ask", o, "--epoch", "1", "--question", "Which?"]);
    run(&["plan", "answer", o, "This"]);
    shell.run_quietly(&["plumbing", "start-strategize", o, "--owner", "bot"]);
    let failure = ["--category", "actor", "--message", "crashed"];
    run(&[&["plumbing", "fail", o, "--epoch", "2"], &failure[..]].concat());
    run(&["plan", "retry", o]);
    shell.run_quietly(&["plumbing", "start-strategize", o, "--owner", "bot"]);
    shell.run_quietly(&["plumbing", "complete-strategize", o, "--epoch", "3"]);
    run(&["plan", "revise", o, "Again"]);
    shell.run_quietly(&["plumbing", "start-strategize", o, "--owner", "bot"]);
    shell.run_quietly(&["plumbing", "complete-strategize", o, "--epoch", "5"]);
    run(&["revise", o, "Once more"]);
    shell.run_quietly(&["plumbing", "start-strategize", o, "--owner", "bot"]);
    shell.run_quietly(&["plumbing", "complete-strategize", o, "--epoch", "7"]);
    run(&["plumbing", "revise", o, "And again"]);
    shell.run_quietly(&["plumbing", "start-strategize", o, "--owner", "bot"]);
    shell.run_quietly(&["plumbing", "ask", o, "--epoch", "9", "--question", "Sure?"]);
    run(&["plumbing", "answer", o, "Yes"]);
    shell.run_quietly(&["plumbing", "start-strategize", o, "--owner", "bot"]);
    shell.run_quietly(&[&["plumbing", "fail", o, "--epoch", "10"], &failure[..]].concat());
    run(&["plumbing", "retry", o]);
    shell.run_quietly(&["plumbing", "start-strategize", o, "--owner", "bot"]);
    shell.run_quietly(&["plumbing", "complete-strategize", o, "--epoch", "11"]);
    shell.run_quietly(&["plumbing", "execute-plan", o]);
    run(&["revert", o, "--reason", "no"]);
    finish_execute(&shell, o, 13);
    run(&["plan", "approve", o]);
    run(&["plumbing", "approve", o]);
    shell.run_quietly(&["rule", "add", "odd", "--expr", "true"]);
    run(&["plan", "waive", o, "odd", "--reason", "why not"]);
    run(&["plan", "revert", o, "--reason", "no"]);
    finish_execute(&shell, o, 16);
    run(&["plumbing", "revert", o, "--reason", "no"]);
    run(&["cancel", o]);
    for words in [["plan", "cancel"], ["plumbing", "cancel"]] {
        let made = shell.run_quietly(&["use", "tidy", "--arg", "area=x"]);
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
    // Servers, editors and tests of agents have tests of their own.
    let stopped = shell.run_quietly(&["open", "--stop"]);
    assert_eq!(stopped["stopped"], false);
    ran.extend(["acp", "actor test", "open", "serve"].map(str::to_owned));
    let script = shell.run_quietly(&["completions", "bash"]);
    assert!(script["script"].as_str().unwrap().contains("planwright"));
    ran.insert("completions".to_owned());
    ran.extend(commands_on_repository());
    ran.remove("overview");
    let mut all = BTreeSet::new();
    collect_leaf_commands(&Cli::command(), "", &mut all);
    // JSON keeps the names that these two had before they were renamed.
    let json_names: BTreeSet<String> = all
        .iter()
        .map(|name| {
            name.replace("agent ", "actor ")
                .replace("rule ", "invariant ")
        })
        .collect();
    assert_eq!(ran, json_names, "every command is run here");
}

/// Takes a plan from strategize/queued to execute/complete; its next claim has this epoch.
fn finish_execute(shell: &TranscriptShell, plan: &str, epoch: u32) {
    let (first, second) = (epoch.to_string(), (epoch + 1).to_string());
    shell.run_quietly(&["plumbing", "start-strategize", plan, "--owner", "bot"]);
    shell.run_quietly(&["plumbing", "complete-strategize", plan, "--epoch", &first]);
    shell.run_quietly(&["plumbing", "execute-plan", plan]);
    shell.run_quietly(&["plumbing", "start-execute", plan, "--owner", "bot"]);
    shell.run_quietly(&["plumbing", "complete-execute", plan, "--epoch", &second]);
}

fn collect_leaf_commands(command: &clap::Command, path: &str, all: &mut BTreeSet<String>) {
    let mut inner = command.get_subcommands().peekable();
    if inner.peek().is_none() {
        all.insert(path.trim_start().to_owned());
        return;
    }
    for one in inner {
        collect_leaf_commands(one, &format!("{path} {}", one.get_name()), all);
    }
}

/// Runs what needs a repository; hashes of commits differ each time, so what was answered is looked
/// at instead of kept.
fn commands_on_repository() -> BTreeSet<String> {
    let repo = ShopRepository::new();
    let mut ran = BTreeSet::new();
    let shop = repo.shop_path().to_str().unwrap().to_owned();
    let other = repo.clone_repository("docs");
    let mut run = |words: &[&str]| {
        let said = repo.run(words);
        assert_eq!(said.exit_code(), Some(0), "{words:?}: {said:?}");
        let envelope = said.envelope();
        ran.insert(envelope["command"].as_str().unwrap().to_owned());
        envelope["data"].clone()
    };
    run(&["mcp", "install", "codex", "--print"]);
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
        let plan = repo.submit_usual_change();
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
    let plan = repo.submit_usual_change();
    let hunks = run(&["diff", &plan, "--hunks"]);
    let hunk = hunks["files"][0]["hunks"][0]["short"].as_str();
    let hunk = hunk.unwrap().to_owned();
    run(&["review", "add", &plan, "new.txt:1", "why?"]);
    run(&["review", "edit", &plan, "1", "how?"]);
    run(&["review", "drop", &plan, "1"]);
    run(&["review", "reject", &plan, &hunk]);
    run(&["review", "accept", &plan, &hunk]);
    run(&["review", "viewed", &plan, "new.txt"]);
    run(&["drop", &plan, "new.txt"]);
    run(&["review", "add", &plan, "src/a.txt:1", "why?"]);
    run(&["review", "send", &plan, "--detach"]);
    repo.run_ok(&["cancel", &plan]);
    let scribe = repo.write_file_beside(
        "scribe.yaml",
        "name: scribe\nkind: command\ncommand: [sh, -c, echo >> written.txt]\n",
    );
    run(&["agent", "add", &scribe]);
    run(&["agent", "list"]);
    run(&["agent", "show", "scribe"]);
    let goal = ["--project", "shop", "--agent", "scribe", "Write it down"];
    let done = run(&[&["run", "--profile", "auto"], &goal[..]].concat());
    let plan = done["plan_id"].as_str().unwrap().to_owned();
    run(&["plan", "execute", &plan]);
    run(&["wait", &plan, "--until", "landed"]);
    run(&["plan", "wait", &plan]);
    let detached = run(&[&["run", "--detach"], &goal[..]].concat());
    assert_eq!(run(&["work", "--drain"])["taken"], 1);
    run(&["cancel", detached["plan_id"].as_str().unwrap()]);
    run(&["agent", "remove", "scribe"]);
    let plan = repo.submit_usual_change();
    run(&["sandbox", "list"]);
    repo.run_ok(&["cancel", &plan]);
    run(&["sandbox", "clean"]);
    run(&["sandbox", "restore", &plan]);
    run(&["project", "delete", "shop"]);
    // A shell is for people: it answers no envelope, and has a test of its own.
    ran.insert("shell".to_owned());
    ran
}
