//! The review in a real browser: what a person typed, chose and looks for stays and is found.

use serde_json::json;
use testkit::TestBrowser;

use crate::browser::{check_errors, open_page};
use crate::daily::{ScriptedAgentEnv, wait_for};
use crate::server::RunningTestServer;

/// Changes three files, one of them differently each time it is sent back. Remembers what it was told.
const TWO_ENDS_SCRIPT: &str = "#!/bin/sh
cat \"$PLANWRIGHT_ASSIGNMENT\" >> \"$STARTS\"
seq 1 20 > src/list.txt
echo first > src/new.txt
echo \"run $PLANWRIGHT_ATTEMPT\" >> src/a.txt
";

fn start_review(env: &ScriptedAgentEnv) -> (RunningTestServer, TestBrowser, String) {
    let server = RunningTestServer::start(env, &["--work", "1"]);
    let (plan, _) = env.start_plan(6);
    let browser = open_page(&server, env, &format!("/{}", plan.to_lowercase()));
    browser.wait_for_text(".diffs", "src/");
    (server, browser, plan)
}

fn wait_for_feedback(browser: &TestBrowser, text: &str) {
    browser.wait_for(
        text,
        &format!(
            "return document.querySelector('#feedback')?.value === {}",
            json!(text)
        ),
    );
}

fn comment_on(browser: &TestBrowser, path: &str, text: &str) {
    browser.click(&format!("[data-path='{path}'] tr.added .comment-on"));
    browser.type_into("tr.mine textarea", text);
    browser.click("tr.mine .comment:has(textarea) button");
    browser.wait_for_text("#comments", text);
}

#[test]
fn feedback_survives_a_reload_and_comments_do_not_replace_it() {
    let env = ScriptedAgentEnv::with_script(TWO_ENDS_SCRIPT);
    let (_server, browser, _) = start_review(&env);
    browser.type_into("#feedback", "Make it longer");
    browser.reload();
    wait_for_feedback(&browser, "Make it longer");
    comment_on(&browser, "src/new.txt", "Say more here");
    wait_for_feedback(&browser, "Make it longer");
    browser.type_into("#feedback", " and louder");
    comment_on(&browser, "src/a.txt", "And here");
    wait_for_feedback(&browser, "Make it longer and louder");
    browser.reload();
    wait_for_feedback(&browser, "Make it longer and louder");
    browser.wait_for_text("#comments", "And here");
    browser.click("#send-back button");
    let has = |text: &str| env.read_starts().iter().any(|line| line.contains(text));
    wait_for("the agent read everything", || {
        has("Make it longer and louder") && has("Say more here") && has("And here")
    });
    wait_for_feedback(&browser, "");
    browser.wait_for_text("#comment-count", "0");
    check_errors(&browser);
}

/// Creates 200 files.
const MANY_HUNKS_SCRIPT: &str = "#!/bin/sh
for number in $(seq 1 200); do echo \"new\" > \"src/new-$number.txt\"; done
";

#[test]
fn footer_stays_small_when_one_of_many_hunks_is_rejected() {
    let env = ScriptedAgentEnv::with_script(MANY_HUNKS_SCRIPT);
    let (_server, browser, _) = start_review(&env);
    browser.run_script("document.querySelectorAll('.hunk-choice')[1].click()");
    browser.wait_for_text("#land button", "Land 199 of 200 hunks");
    browser.wait_for_text(".footer .command", "more");
    let height = "return document.querySelector('.footer').getBoundingClientRect().height";
    let height = browser.run_script(height).as_f64().unwrap();
    assert!(height < 120.0, "{height}");
    check_errors(&browser);
}

/// A rejection says nothing about lines that came after it.
#[test]
fn hunks_that_replace_a_rejected_one_must_be_decided_before_landing() {
    let env = ScriptedAgentEnv::with_script(TWO_ENDS_SCRIPT);
    let (_server, browser, _) = start_review(&env);
    browser.click("[data-path='src/a.txt'] .hunk-choice");
    browser.wait_for_text("#land button", "Land 2 of 3 hunks on main");
    browser.type_into("#feedback", "Again");
    browser.click("#send-back button");
    wait_for("the agent worked again", || {
        let lines = env.read_starts();
        lines.iter().any(|line| line.contains("Again"))
    });
    browser.wait_for_text(".diffs", "run 2");
    browser.wait_for_text(
        ".footer",
        "1 hunk is new since you rejected part of its file: decide it",
    );
    browser.wait_for_text("[data-path='src/a.txt'] .choice", "Not decided");
    let is_off = "return document.querySelector('#land button').disabled";
    assert_eq!(browser.run_script(is_off), json!(true));
    // Not only until the page is loaded again.
    browser.reload();
    browser.wait_for_text(".footer", "decide it");
    assert_eq!(browser.run_script(is_off), json!(true));
    browser.click("[data-path='src/a.txt'] .reject-hunk");
    browser.wait_for_text("#land button", "Land 2 of 3 hunks on main");
    browser.click("#land button");
    browser.wait_for_text(".plan-head .state", "landed");
    assert!(!env.repo.read_file("src/a.txt").contains("run"));
    assert_eq!(env.repo.read_file("src/new.txt"), "first\n");
    check_errors(&browser);
}
