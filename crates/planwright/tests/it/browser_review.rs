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
echo \"run $(($(grep -c run src/a.txt) + 1))\" >> src/a.txt
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

#[test]
fn keys_visit_every_hunk_in_order() {
    let env = ScriptedAgentEnv::with_script(
        "#!/bin/sh\nfor n in 1 2 3 4 5 6; do echo $n > src/f$n.txt; done\n",
    );
    let (_server, browser, _) = start_review(&env);
    let visited = "return document.activeElement.closest('.file')?.dataset.path ?? ''";
    for (key, path) in [
        ("n", "src/f1.txt"),
        ("n", "src/f2.txt"),
        ("n", "src/f3.txt"),
        ("p", "src/f2.txt"),
        ("p", "src/f1.txt"),
        ("p", "src/f1.txt"),
        ("n", "src/f2.txt"),
    ] {
        browser.press(key);
        assert_eq!(browser.run_script(visited), json!(path), "{key}");
    }
    check_errors(&browser);
}

/// Creates long files.
const FAR_HUNKS_SCRIPT: &str = "#!/bin/sh
for name in one three; do seq 1 900 > src/$name.txt; done
seq 1 3000 > src/two.txt
";

#[test]
fn links_and_addresses_lead_to_results_files_and_lines() {
    let env = ScriptedAgentEnv::with_script(FAR_HUNKS_SCRIPT);
    let (server, browser, plan) = start_review(&env);
    let plan = plan.to_lowercase();
    let is_at = |selector: &str| {
        format!(
            "const top = document.querySelector(\"{selector}\")?.getBoundingClientRect().top ?? -1;
             return top >= 40 && top < innerHeight - 100;"
        )
    };
    browser.click(".file-list a[title='src/two.txt']");
    browser.wait_for("the file", &is_at("[data-path='src/two.txt']"));
    let address = format!("http://{}/{plan}/r1", server.address);
    browser.open(&format!("{address}#src/two.txt:1500"));
    browser.wait_for(
        "the line",
        &is_at("[data-path='src/two.txt'] tr[data-line='1500']"),
    );
    browser.wait_for_text(".review", "Showing r1");
    browser.open(&format!("{address}?again#src/two.txt"));
    browser.wait_for("the file again", &is_at("[data-path='src/two.txt']"));
    let nothing = server.client().get(&format!("/{plan}/nothing"));
    assert_eq!(nothing.status, 404);
    check_errors(&browser);
}
