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
        log.matches("sent it back to execute with 2 comments: Please look")
            .count(),
        1,
        "{log}"
    );
    assert!(log.contains("\n    new.txt:1 zero?\n"), "{log}");

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
