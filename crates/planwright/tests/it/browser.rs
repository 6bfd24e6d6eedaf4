//! The page in a real browser.

use testkit::TestBrowser;

use crate::daily::{SCRIBE_SCRIPT, ScriptedAgentEnv, wait_for};
use crate::server::{RunningTestServer, new_code};

pub const ENTER: &str = "\u{e007}";

/// Opens a page of the server in a signed-in browser.
pub fn open_page(server: &RunningTestServer, env: &ScriptedAgentEnv, path: &str) -> TestBrowser {
    let browser = TestBrowser::start(1280, 900);
    let code = new_code(env);
    browser.open(&format!(
        "http://{}/enter#code={code}&to={path}",
        server.address
    ));
    browser.wait_for_text("#connection", "live");
    browser
}

/// Fails if a script threw or the security policy refused something. A dead server is no such error.
#[track_caller]
pub fn check_errors(browser: &TestBrowser) {
    let errors = browser.read_errors();
    let unexpected: Vec<_> = errors
        .iter()
        .filter(|error| !error.contains("Failed to load resource") && !error.contains("net::ERR"))
        .collect();
    assert!(unexpected.is_empty(), "{unexpected:?}");
}

#[test]
fn person_starts_a_plan_sends_it_back_lands_it_and_undoes_it() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let server = RunningTestServer::start(&env, &["--work", "1"]);
    let browser = open_page(&server, &env, "/");
    browser.wait_for_text("main", "no plans yet");
    browser.click("nav a[href='/new']");
    browser.wait_for_text("h1", "New plan");
    browser.type_into("#goal", "Write a line <b>bold</b>");
    // What was typed survives a reload.
    browser.reload();
    browser.wait_for(
        "the draft is back",
        "return document.querySelector('#goal')?.value === 'Write a line <b>bold</b>'",
    );
    browser.run_script("document.querySelector('#actor').value = 'scribe'");
    browser.click("#new-plan button[type=submit]");

    // The page follows the agent without being asked.
    browser.wait_for_text(".plan-head .state", "needs review");
    browser.wait_for_text("h1", "Write a line <b>bold</b>");
    browser.click(".tabs a[href$='/review']");
    browser.wait_for_text(".file header", "src/a.txt");
    browser.click("tr.added .comment-on");
    browser.type_into("tr.mine textarea", "Say more");
    browser.click("tr.mine .comment button");
    browser.wait_for_text("#comments", "src/a.txt:7");
    browser.wait_for_text("#comments", "Say more");
    browser.reload();
    browser.wait_for_text("#comments", "src/a.txt:7");
    browser.wait_for_text("#comments", "Say more");
    browser.click("#send-back button");
    wait_for("the agent works again", || env.read_starts().len() == 2);
    browser.wait_for_text("#comment-count", "0");
    browser.wait_for_text(".plan-head .state", "needs review");

    browser.click("#land button");
    browser.wait_for_text(".plan-head .state", "landed");
    let file = env.repo.shop_path().join("src/a.txt");
    let has_line = || std::fs::read_to_string(&file).unwrap().contains("bold");
    assert!(has_line());
    browser.click("#undo button");
    browser.wait_for_text("h1", "Undo");
    browser.click("#land button");
    browser.wait_for_text(".plan-head .state", "landed");
    assert!(!has_line());
    check_errors(&browser);
}

#[test]
fn keyboard_is_enough_to_find_and_land_a_plan() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let server = RunningTestServer::start(&env, &["--work", "1"]);
    env.start_plan(6);
    let (plan, _) = env.start_plan(6);
    let browser = open_page(&server, &env, "/");
    browser.wait_for(
        "two rows",
        "return document.querySelectorAll('.row').length === 2",
    );
    browser.press("jkj");
    browser.wait_for(
        "the second row is current",
        "return document.querySelectorAll('.row')[1].getAttribute('aria-current') === 'true'",
    );
    browser.press("k");
    browser.wait_for(
        "the first row has the focus",
        "return document.activeElement === document.querySelectorAll('.row')[0]",
    );
    browser.press(ENTER);
    browser.wait_for_text(".file header", "src/a.txt");
    browser.press("l");
    browser.press(ENTER);
    browser.wait_for_text(".plan-head .state", "landed");
    assert_eq!(
        env.run_expecting(0, &["status", &plan])["standing"],
        "landed"
    );
    check_errors(&browser);
}

#[test]
fn page_survives_a_killed_server_and_says_that_a_decision_came_too_late() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let server = RunningTestServer::start(&env, &[]);
    let (plan, _) = env.start_plan(6);
    let browser = open_page(&server, &env, &format!("/{}", plan.to_lowercase()));
    browser.wait_for_text(".file header", "src/a.txt");
    browser.type_into("#feedback", "Make it longer");
    let address = server.kill();
    browser.wait_for_text("#connection", "offline");
    browser.wait_for(
        "buttons are off",
        "return document.querySelector('#land button').disabled",
    );
    // Somebody else decides while the page cannot see it.
    env.run_expecting(0, &["revise", &plan, "Other feedback", "--detach"]);
    let _server = RunningTestServer::start_at(&env, &address.to_string(), &[]);
    browser.wait_for_text("#connection", "live");
    browser.wait_for_text(".plan-head .state", "waiting");
    let kept = browser.run_script("return localStorage.getItem(Object.keys(localStorage).find((key) => key.endsWith(':feedback')))");
    assert_eq!(kept, "\"Make it longer\"");
    check_errors(&browser);
}

/// What a person leaves out does not land, and is a plan of its own afterwards.
#[test]
fn only_the_chosen_hunks_land_from_the_page() {
    let script = "#!/bin/sh\necho one > src/new.txt\necho two > src/other.txt\n";
    let env = ScriptedAgentEnv::with_script(script);
    let server = RunningTestServer::start(&env, &["--work", "1"]);
    let (plan, _) = env.start_plan(6);
    let browser = open_page(&server, &env, &format!("/{}", plan.to_lowercase()));
    browser.wait_for_text("#land button", "Land on main");
    browser.run_script("document.querySelectorAll('.hunk-choice')[1].click()");
    browser.wait_for_text(
        "#land button",
        "Land 1 of 2 hunks on main; the rest becomes a plan",
    );
    // The choice survives a reload.
    browser.run_script("location.reload()");
    browser.wait_for_text(
        "#land button",
        "Land 1 of 2 hunks on main; the rest becomes a plan",
    );
    browser.wait_for_text(".footer .command", "--hunk");
    browser.press("l");
    browser.press(ENTER);
    browser.wait_for_text(".plan-head .state", "landed");
    let shop = env.repo.shop_path().join("src");
    assert!(shop.join("new.txt").exists());
    assert!(!shop.join("other.txt").exists());
    let rest = env.run_expecting(0, &["list", "--needs-me"]);
    assert_eq!(rest["plans"][0]["goal"], "Rest of: Write a line", "{rest}");
    check_errors(&browser);
}
