//! Reviews over HTTP: viewed files, chosen hunks and draft comments are kept by the store.

use serde_json::{Value, json};
use testkit::HttpClient;

use crate::daily::ScriptedAgentEnv;
use crate::server::RunningTestServer;

/// Changes two places of `src/a.txt`, and its comment once it was sent back.
const TWO_PLACES_SCRIPT: &str = "#!/bin/sh
round=$(ls done* 2>/dev/null | wc -l)
sed -i \"1s/.*/first $round/; \\$s/.*/last/\" src/a.txt
[ \"$round\" -gt 0 ] && rm -f new.txt
[ \"$round\" -eq 0 ] && printf 'one\\ntwo\\n' > new.txt
echo x > \"done$round\"
exit 0
";

fn post(client: &HttpClient, plan: &str, changes: &Value) -> Value {
    let path = format!("/v1/plans/{plan}/review");
    client.post(&path, &json!({ "changes": changes })).ok()
}

fn file<'a>(view: &'a Value, path: &str) -> &'a Value {
    let files = view["files"].as_array().unwrap();
    let found = files.iter().find(|file| file["path"] == path);
    found.unwrap_or_else(|| panic!("no {path}: {view:#}"))
}

fn standings(view: &Value, path: &str) -> Vec<String> {
    let hunks = file(view, path)["hunks"].as_array().unwrap();
    let words = hunks.iter().map(|hunk| hunk["standing"].as_str().unwrap());
    words.map(str::to_owned).collect()
}

#[test]
fn a_review_is_kept_by_the_store_and_follows_the_result() {
    let env = ScriptedAgentEnv::with_script(TWO_PLACES_SCRIPT);
    let (plan, _) = env.start_plan(6);
    let server = RunningTestServer::start(&env, &[]);
    let client = server.sign_in(&env);
    let path = format!("/v1/plans/{plan}/review");
    let view = client.get(&path).ok();
    assert_eq!(view["comments"], json!([]));
    assert_eq!(view["hunks"]["unmarked"], view["hunks"]["total"]);
    assert_eq!(standings(&view, "src/a.txt"), ["unmarked", "unmarked"]);
    let first = file(&view, "src/a.txt")["hunks"][0]["id"].clone();
    let blob = file(&view, "new.txt")["blob"].clone();
    let version = view["version"].clone();

    let view = post(
        &client,
        &plan,
        &json!([
            { "choose": { "hunks": [first], "choice": "rejected" } },
            { "view": { "path": "new.txt", "blob": blob, "viewed": true } },
            { "view": { "path": "done0", "blob": blob, "viewed": true } },
            { "comment": { "path": "src/a.txt", "side": "new", "first_line": 1, "last_line": 2,
                           "text": "why?" } },
            { "comment": { "path": "new.txt", "side": "new", "first_line": 2, "last_line": 2,
                           "text": "three?" } },
        ]),
    );
    // The plan itself did not change.
    assert_eq!(view["version"], version);
    assert_eq!(standings(&view, "src/a.txt"), ["rejected", "unmarked"]);
    assert_eq!(file(&view, "new.txt")["viewed"], true);
    // Another content than the one that was marked.
    assert_eq!(file(&view, "done0")["viewed"], false);
    assert_eq!(view["comments"][0]["quote"], "first 0\ntwo");
    assert_eq!(view["comments"][1]["place"], "current");

    // Another process reads the same, and a new result keeps what still fits.
    server.kill();
    env.run_expecting(6, &["revise", &plan, "again"]);
    let server = RunningTestServer::start(&env, &[]);
    let client = server.sign_in(&env);
    let view = client.get(&path).ok();
    assert_eq!(view["result"], 2);
    // The rejected hunk is another one now; the other hunk of the file is as it was.
    assert_eq!(standings(&view, "src/a.txt"), ["undecided", "unmarked"]);
    let places: Vec<&Value> = view["comments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["place"])
        .collect();
    assert_eq!(places, ["lines_gone", "file_gone"]);
    assert_eq!(view["comments"][1]["text"], "three?");

    let view = post(
        &client,
        &plan,
        &json!([
            { "rewrite": { "comment": 2, "text": "four?" } },
            { "drop": { "comments": [1] } },
        ]),
    );
    assert_eq!(view["comments"].as_array().unwrap().len(), 1);
    assert_eq!(view["comments"][0]["text"], "four?");
}

#[test]
fn a_change_of_a_review_that_does_not_fit_changes_nothing() {
    let env = ScriptedAgentEnv::with_script(TWO_PLACES_SCRIPT);
    let (plan, _) = env.start_plan(6);
    let server = RunningTestServer::start(&env, &[]);
    let client = server.sign_in(&env);
    let path = format!("/v1/plans/{plan}/review");
    let refuse = |change: Value, status: u16| {
        let good = json!({ "comment": { "path": "new.txt", "side": "new", "first_line": 1,
                                        "last_line": 1, "text": "kept?" } });
        let answer = client.post(&path, &json!({ "changes": [good, change] }));
        answer.problem(status).to_owned()
    };
    let comment = |path: &str, side: &str, first: u32, last: u32| {
        json!({ "comment": { "path": path, "side": side, "first_line": first, "last_line": last,
                             "text": "x" } })
    };
    assert_eq!(refuse(comment("gone.txt", "new", 1, 1), 404), "not_changed");
    for (side, first, last) in [("old", 1, 1), ("new", 0, 1), ("new", 2, 1), ("new", 2, 9)] {
        let change = comment("new.txt", side, first, last);
        assert_eq!(
            refuse(change, 404),
            "no_such_lines",
            "{side} {first} {last}"
        );
    }
    let unknown = "ab".repeat(32);
    let choose = json!({ "choose": { "hunks": [unknown], "choice": "rejected" } });
    assert_eq!(refuse(choose, 404), "unknown_hunk");
    assert_eq!(
        refuse(json!({ "drop": { "comments": [7] } }), 404),
        "no_such_comment"
    );
    let blank = json!({ "rewrite": { "comment": 1, "text": " " } });
    assert_eq!(refuse(blank, 422), "bad_text");
    assert_eq!(refuse(json!({ "shout": {} }), 400), "bad_body");
    assert_eq!(client.get(&path).ok()["comments"], json!([]));
    env.run_expecting(0, &["cancel", &plan]);
    let late = client.post(
        &path,
        &json!({ "changes": [comment("new.txt", "new", 1, 1)] }),
    );
    assert_eq!(late.problem(409), "final");
}

/// Keeps what it was told, and does as before.
const LISTENER_SCRIPT: &str = "#!/bin/sh
cp \"$PLANWRIGHT_ASSIGNMENT\" \"$STARTS.json\" || exit 1
printf 'one\\ntwo\\n' > new.txt
echo x >> more.txt
";

#[test]
fn comments_are_sent_as_one_revise_and_reach_the_agent_with_the_code_they_quote() {
    let env = ScriptedAgentEnv::with_script(LISTENER_SCRIPT);
    let (plan, _) = env.start_plan(6);
    let server = RunningTestServer::start(&env, &[]);
    let client = server.sign_in(&env);
    let comment = |line: u32, text: &str| {
        json!({ "comment": { "path": "new.txt", "side": "new", "first_line": line,
                             "last_line": line, "text": text } })
    };
    let drafts = json!([
        comment(2, "three?"),
        comment(1, "later"),
        comment(1, "zero?")
    ]);
    post(&client, &plan, &drafts);
    let shown = env.run_as_person(&["status", &plan]).stdout;
    assert!(
        shown.contains("3 draft comments: planwright review"),
        "{shown}"
    );

    // Repeated under its key, it sends nothing twice.
    let path = format!("/v1/plans/{plan}/revise");
    let body = json!({ "text": "Please look", "comments": [1, 3] });
    let headers = [
        ("content-type", "application/json"),
        ("idempotency-key", "send-1"),
    ];
    for _ in 0..2 {
        client
            .request("POST", &path, &headers, &body.to_string())
            .ok();
    }
    let unknown = client.post(&path, &json!({ "text": "", "comments": [1] }));
    assert_eq!(unknown.problem(409), "wrong_state");
    let view = client.get(&format!("/v1/plans/{plan}/review")).ok();
    assert_eq!(view["comments"].as_array().unwrap().len(), 1);
    assert_eq!(view["comments"][0]["text"], "later");
    let shown = env.run_as_person(&["status", &plan]).stdout;
    assert!(shown.contains("new.txt:2 three?"), "{shown}");
    let log = env.run_as_person(&["log", &plan]).stdout;
    assert_eq!(
        log.matches("sent it back with 2 comments: Please look")
            .count(),
        1,
        "{log}"
    );
    assert!(log.contains(" new.txt:1 zero?\n"), "{log}");

    env.run_expecting(6, &["run", &plan]);
    let told = std::fs::read_to_string(env.tool_path("starts.json")).unwrap();
    let told: Value = serde_json::from_str(&told).unwrap();
    let [.., feedback] = told["feedback"].as_array().unwrap().as_slice() else {
        panic!("{told:#}");
    };
    assert_eq!(feedback["text"], "Please look");
    assert_eq!(
        feedback["comments"][0],
        json!({ "resource": "shop/shop", "path": "new.txt", "side": "new", "first_line": 2,
                "last_line": 2, "quote": "two", "text": "three?" })
    );
    // What was sent is no longer shown once there is a new result.
    let shown = env.run_as_person(&["status", &plan]).stdout;
    assert!(!shown.contains("three?"), "{shown}");
}

#[test]
fn a_review_is_written_and_sent_in_the_terminal() {
    let env = ScriptedAgentEnv::with_script(LISTENER_SCRIPT);
    let (plan, _) = env.start_plan(6);
    let review = |words: &[&str]| env.run_expecting(0, &[&["review"], words].concat());
    review(&["add", "new.txt:1-2", "Say why"]);
    review(&["add", &plan, "new.txt:2", "Two?"]);
    let view = review(&["edit", "2", "Three?"]);
    assert_eq!(view["comments"][0]["quote"], "one\ntwo");
    assert_eq!(view["comments"][1]["text"], "Three?");
    let hunks = &file(&view, "new.txt")["hunks"];
    let hunk = hunks[0]["short"].as_str().unwrap().to_owned();
    let view = review(&["reject", "@", &hunk]);
    assert_eq!(standings(&view, "new.txt"), ["rejected"]);
    let view = review(&["viewed", "@", "new.txt", "more.txt"]);
    assert_eq!(file(&view, "new.txt")["viewed"], true);
    let view = review(&["viewed", "@", "more.txt", "--not"]);
    assert_eq!(file(&view, "more.txt")["viewed"], false);
    let shown = env.run_as_person(&["review", &plan]);
    for line in [
        "2 files".to_owned(),
        "1 rejected".to_owned(),
        "\u{2713} new.txt +2 \u{2212}0".to_owned(),
        format!("{hunk} rejected"),
        "  1 new.txt:1-2\n      > one\n      > two\n      Say why".to_owned(),
    ] {
        assert!(shown.stdout.contains(&line), "{line}: {shown:?}");
    }
    review(&["drop", "1"]);
    for (words, code, says) in [
        (&["add", "new.txt"][..], 2, "does not name lines"),
        (&["add", "new.txt:1"], 2, "The text is missing"),
        (&["add", "gone.txt:1", "x"], 3, "does not change `gone.txt`"),
        (
            &["add", "new.txt:1", "x", "--old"],
            3,
            "has no line 1 in its old version",
        ),
        (&["edit", "9", "x"], 3, "no draft comment 9"),
        (&["drop", "x"], 2, "not the number of a comment"),
        (
            &["viewed", "@", "gone.txt"],
            3,
            "does not change `gone.txt`",
        ),
        (&["reject", "@", "0000"], 3, "no hunk"),
        (&["send", "--idempotency-key", "k"], 2, "name the comments"),
        (&["@", "--pick"], 6, "needs a terminal"),
    ] {
        let answer = env.run_here(&[&["review"], words].concat());
        assert_eq!(answer.exit_code(), Some(code), "{words:?}: {answer:?}");
        assert!(answer.messages().contains(says), "{words:?}: {answer:?}");
    }
    env.run_expecting(6, &["review", "send", "Look again"]);
    let told = std::fs::read_to_string(env.tool_path("starts.json")).unwrap();
    assert!(
        told.contains("Three?") && !told.contains("Say why"),
        "{told}"
    );
    let none = env.run_here(&["review", "send"]);
    assert_eq!(none.exit_code(), Some(2), "{none:?}");
}

/// Changes three places of one file, and adds another.
const THREE_PLACES_SCRIPT: &str = "#!/bin/sh
sed -i '1s/.*/FIRST/; 3s/.*/THIRD/; $s/.*/LAST/' src/a.txt
echo new > new.txt
";

#[test]
fn hunks_are_picked_one_by_one_and_the_accepted_ones_land() {
    let env = ScriptedAgentEnv::with_script(THREE_PLACES_SCRIPT);
    let goal = ["run", "--agent", "scribe", "Write words"];
    let mut terminal = env
        .repo
        .program
        .run(goal)
        .with_directory(env.repo.shop_path())
        .start_on_terminal();
    terminal.wait_for_text("[p]ick").wait_for_text("ater?");
    terminal.type_line("p");
    // The whole file is new; then the three places of the other one.
    terminal
        .wait_for_text("(1/4) Land this hunk")
        .type_line("?");
    terminal.wait_for_text("accept this hunk and all later ones in the file");
    terminal.wait_for_text("(1/4)").type_line("n");
    terminal
        .wait_for_text("+FIRST")
        .wait_for_text("(2/4)")
        .type_line("y");
    terminal.wait_for_text("(3/4)").type_line("k");
    terminal
        .wait_for_text("accepted so far")
        .wait_for_text("(2/4)")
        .type_line("j");
    terminal.wait_for_text("(3/4)").type_line("c");
    terminal.wait_for_text("Comment: ").type_line("Why here?");
    terminal.wait_for_text("(3/4)").type_line("d");
    terminal
        .wait_for_text("1 of 4 hunks accepted.")
        .type_line("a");
    let (status, seen) = terminal.wait_for_end();
    assert_eq!(status.code(), Some(0), "{seen}");
    assert!(seen.contains("The rest is now plan"), "{seen}");
    let landed = env.repo.read_file("src/a.txt");
    assert!(landed.starts_with("FIRST\n"), "{landed}");
    assert!(
        !landed.contains("THIRD") && !landed.contains("LAST"),
        "{landed}"
    );
    assert!(!env.repo.shop_path().join("new.txt").exists());
}

#[test]
fn choices_survive_an_interrupted_picker_and_apply_continues_with_them() {
    let env = ScriptedAgentEnv::with_script(THREE_PLACES_SCRIPT);
    let (plan, _) = env.start_plan(6);
    let pick = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let run = env.repo.program.run(words);
        run.with_directory(env.repo.shop_path())
            .with_variable("NO_COLOR", "1")
            .start_on_terminal()
    };
    let mut terminal = pick(&["review", &plan, "--pick"]);
    terminal.wait_for_text("(1/4)").type_line("n");
    terminal.wait_for_text("(2/4)");
    terminal.send_interrupt();
    let (_, bytes) = terminal.wait_for_raw_end();
    assert!(!bytes.contains('\u{1b}'), "{}", bytes);
    let view = env.run_expecting(0, &["review", &plan]);
    assert_eq!(view["hunks"]["rejected"], 1);
    let mut terminal = pick(&["review", &plan, "--pick"]);
    // It starts at the first hunk without a choice.
    terminal.wait_for_text("(2/4)");
    terminal.close_and_wait();
    let mut terminal = pick(&["apply", &plan, "--pick", "--rest", "drop"]);
    terminal.wait_for_text("(2/4)").type_line("a");
    terminal
        .wait_for_text("Land 3 of 4 hunks on main")
        .wait_for_text("[y/N]")
        .type_line("n");
    let (status, seen) = terminal.wait_for_end();
    assert_eq!(status.code(), Some(6), "{seen}");
    let mut terminal = pick(&["apply", &plan, "--pick", "--rest", "drop", "--yes"]);
    terminal.wait_for_text("(1/4)").type_line("q");
    let (status, seen) = terminal.wait_for_end();
    assert_eq!(status.code(), Some(0), "{seen}");
    assert!(env.repo.read_file("src/a.txt").ends_with("LAST\n"));
    assert!(!env.repo.shop_path().join("new.txt").exists());
}

/// A picked part that cannot land leaves the whole result one named command away.
#[test]
fn whole_result_is_brought_back_after_its_picked_part_did_not_land() {
    let env = ScriptedAgentEnv::with_script(THREE_PLACES_SCRIPT);
    let (plan, _) = env.start_plan(6);
    let hunks = |plan: &str| {
        let view = env.run_expecting(0, &["diff", plan, "--hunks"]);
        let files = view["files"].as_array().unwrap().clone();
        let hunks = files
            .iter()
            .flat_map(|file| file["hunks"].as_array().unwrap());
        hunks
            .map(|hunk| hunk["short"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let all = hunks(&plan);
    assert_eq!(all.len(), 4);
    let nothing = env.run_expecting(0, &["drop", &plan, "--restore"]);
    assert_eq!(nothing["change"], Value::Null);
    // Another commit changed the same line.
    let before = env.repo.read_file("src/a.txt");
    let theirs = before.replacen(before.lines().next().unwrap(), "THEIRS", 1);
    env.repo.write_file("src/a.txt", &theirs);
    env.repo.commit_all("theirs");
    let refused = env.run_here(&["apply", &plan, "--yes", "--hunk", &all[1]]);
    assert_eq!(refused.exit_code(), Some(4), "{refused:?}");
    assert!(
        refused.messages().contains("drop") && refused.messages().contains("--restore"),
        "{refused:?}"
    );
    assert_eq!(hunks(&plan), [all[1].clone()]);
    env.run_expecting(0, &["drop", &plan, "--restore"]);
    assert_eq!(hunks(&plan), all);
    let shown = env.run_expecting(0, &["status", &plan]);
    assert_eq!(
        (&shown["phase"], &shown["state"]),
        (&json!("execute"), &json!("complete"))
    );
    // Nothing landed.
    assert_eq!(env.repo.read_file("src/a.txt"), theirs);
    env.repo.run_git(&["reset", "-q", "--hard", "HEAD~1"]);
    // Another part can be picked, and everything else is its rest.
    let landed = env.run_expecting(0, &["apply", &plan, "--yes", "--hunk", &all[0]]);
    assert_eq!(env.repo.read_file("new.txt"), "new\n");
    assert_eq!(env.repo.read_file("src/a.txt"), before);
    let rest = landed["rest"].as_str().unwrap();
    assert_eq!(hunks(rest).len(), 3);
    env.run_expecting(0, &["apply", rest, "--yes"]);
    assert!(env.repo.read_file("src/a.txt").starts_with("FIRST\n"));
}
