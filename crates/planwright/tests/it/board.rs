//! The board in a real browser: what plans do now, several at once, and rows that stay where they are.

use serde_json::{Value, json};
use testkit::TestBrowser;

use crate::browser::{ENTER, check_errors, open_page};
use crate::daily::{SCRIBE_SCRIPT, ScriptedAgentEnv, wait_for};
use crate::server::RunningTestServer;

/// Says what it does, and works until the file `go` exists.
const PATIENT_SCRIPT: &str = "#!/bin/sh
echo 'reading <b>the</b> docs'
while [ ! -e \"$(dirname \"$STARTS\")/go\" ]; do sleep 0.1; done
printf 'one\\ntwo\\n' >> src/a.txt
";

fn cell(handle_index: usize, name: &str) -> String {
    format!("return document.querySelectorAll('.row .{name}')[{handle_index}].innerText")
}

fn start_many(env: &ScriptedAgentEnv, count: usize) -> Vec<String> {
    (0..count).map(|_| env.start_plan(6).0).collect()
}

fn state_of(env: &ScriptedAgentEnv, plan: &str) -> Value {
    env.run_expecting(0, &["status", plan])["standing"].clone()
}

#[test]
fn board_shows_what_a_working_plan_does_and_then_how_large_its_result_is() {
    let env = ScriptedAgentEnv::with_script(PATIENT_SCRIPT);
    let server = RunningTestServer::start(&env, &["--work", "1"]);
    env.run_expecting(0, &["run", "--detach", "--agent", "scribe", "Write a line"]);
    let browser = open_page(&server, &env, "/");
    browser.wait_for_text(".row .state", "working");
    browser.wait_for_text(".row .note", "says reading <b>the</b> docs");
    let elapsed = browser.run_script(&cell(0, "age"));
    assert!(elapsed.as_str().unwrap().contains(':'), "{elapsed}");
    // The clock goes on without an event.
    browser.wait_for(
        "the clock moves",
        &format!(
            "return document.querySelector('.row .age').innerText !== {elapsed} \
             && document.querySelector('.row .state').innerText === 'working'"
        ),
    );
    std::fs::write(env.tool_path("go"), "").unwrap();
    browser.wait_for_text(".row .state", "needs review");
    browser.wait_for_text(".row .lines", "+2 \u{2212}0");
    browser.wait_for_text(".preview .files", "src/a.txt");
    browser.wait_for_text(".preview .files", "+2 \u{2212}0");
    check_errors(&browser);
}

#[test]
fn several_plans_are_cancelled_after_one_question_and_each_says_what_came_of_it() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let server = RunningTestServer::start(&env, &[]);
    let plans = start_many(&env, 3);
    let browser = open_page(&server, &env, "/");
    browser.wait_for(
        "three rows",
        "return document.querySelectorAll('.row').length === 3",
    );
    // Newest first: the two newest are selected.
    browser.press(" j ");
    browser.wait_for_text("#bulk-count", "2 plans selected");
    browser.wait_for_text("#bulk-cancel", "Cancel 2");
    let retry_is_off = "return document.querySelector('#bulk-retry').disabled";
    assert_eq!(browser.run_script(retry_is_off), json!(true));
    browser.click("#bulk-cancel");
    browser.wait_for_text("#bulk-question", "Cancel these 2 plans?");
    // Somebody else decides about one of them while the question is open.
    env.run_expecting(0, &["revise", &plans[1], "More", "--detach"]);
    browser.click("#bulk-yes");
    browser.wait_for_text("#bulk-report", "cancelled");
    browser.wait_for_text("#bulk-report", "changed since you saw it");
    assert_eq!(state_of(&env, &plans[2]), "cancelled");
    assert_eq!(state_of(&env, &plans[1]), "waiting");
    assert_eq!(state_of(&env, &plans[0]), "needs review");
    // The one that is left stays selected, now as it is.
    browser.wait_for_text("#bulk-count", "1 plan selected");
    browser.wait_for_text("#bulk-cancel", "Cancel 1");
    browser.click("#bulk-cancel");
    browser.wait_for_text("#bulk-question", "Cancel this plan?");
    browser.press(ENTER);
    wait_for("the second is cancelled", || {
        state_of(&env, &plans[1]) == "cancelled"
    });
    check_errors(&browser);
}

fn shown_plans(browser: &TestBrowser) -> Value {
    browser.run_script(
        "return [...document.querySelectorAll('.item')].map((item) => item.dataset.item)",
    )
}

#[test]
fn rows_keep_their_place_while_somebody_looks_at_them() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let server = RunningTestServer::start(&env, &[]);
    let plans = start_many(&env, 2);
    let browser = open_page(&server, &env, "/");
    let both = json!([plans[1], plans[0]]);
    browser.wait_for(
        "two rows",
        "return document.querySelectorAll('.row').length === 2",
    );
    browser.press("j");
    let third = env.start_plan(6).0;
    env.run_expecting(0, &["cancel", &plans[1]]);
    browser.wait_for_text("#board-news", "1 new plan: show");
    // What changed is marked, in its place.
    browser.wait_for_text(".item.changed .state", "cancelled");
    assert_eq!(shown_plans(&browser), both);
    // Left: the board is in order.
    browser.run_script("document.activeElement.blur()");
    let in_order = json!([third, plans[0], plans[1]]).to_string();
    browser.wait_for(
        "the rows are in order",
        &format!(
            "return JSON.stringify([...document.querySelectorAll('.item')].map((item) => item.dataset.item)) \
             === {}",
            json!(in_order)
        ),
    );
    check_errors(&browser);
}

#[test]
fn empty_board_takes_the_first_goal() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let server = RunningTestServer::start(&env, &["--work", "1"]);
    let browser = open_page(&server, &env, "/");
    browser.wait_for_text("main", "no plans yet");
    let chosen = "return [document.querySelector('#actor').value, document.querySelector('#projects').value]";
    browser.wait_for(
        "agent and repository are chosen",
        "return document.querySelector('#projects').value === 'shop' \
         && document.querySelector('#actor').value !== ''",
    );
    let examples = "return document.querySelectorAll('[data-example]').length";
    assert_eq!(
        browser.run_script(examples),
        json!(3),
        "{}",
        browser.run_script(chosen)
    );
    browser.click("[data-example]");
    browser.run_script("document.querySelector('#actor').value = 'scribe'");
    browser.click("#new-plan button[type=submit]");
    browser.wait_for_text("h1", "Find the flaky test and fix it");
    browser.wait_for_text(".plan-head .state", "needs review");
    check_errors(&browser);
}

/// What a person sees does not jump when numbers and previews arrive.
#[test]
fn board_does_not_shift_while_it_loads() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let server = RunningTestServer::start(&env, &[]);
    start_many(&env, 3);
    let browser = open_page(&server, &env, "/");
    browser.run_script(
        "window.shifts = 0; new PerformanceObserver((list) => {
           for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifts += entry.value;
         }).observe({ type: 'layout-shift', buffered: true });",
    );
    browser.wait_for_text(".row .lines", "+1 \u{2212}0");
    browser.wait_for_text(".preview", "src/a.txt");
    env.run_expecting(0, &["revise", "@", "More", "--detach"]);
    browser.wait_for_text("[data-group='Waiting'] .state", "waiting");
    let shifts = browser.run_script("return window.shifts");
    assert!(shifts.as_f64().unwrap() < 0.1, "{shifts}");
    check_errors(&browser);
}
