//! Reading a plan in a real browser: both layouts, more context, what is new, and the agent at work.

use serde_json::json;
use testkit::TestBrowser;

use crate::browser::{check_errors, open_page};
use crate::daily::{ScriptedAgentEnv, wait_for};
use crate::server::RunningTestServer;

/// Changes one line in the middle of a long file, differently each time, and a file that stays the same.
const MIDDLE_SCRIPT: &str = "#!/bin/sh
cat \"$PLANWRIGHT_ASSIGNMENT\" >> \"$STARTS\"
echo run >> \"$STARTS.runs\"
runs=$(wc -l < \"$STARTS.runs\")
seq 1 100 | sed \"s/^50$/fn fifty() { return \\\"run $runs\\\"; }/\" > src/long.rs
echo same > src/same.txt
";

/// A repository with the long file, a plan that changed it, and its page.
fn start_review() -> (ScriptedAgentEnv, RunningTestServer, TestBrowser, String) {
    let env = ScriptedAgentEnv::with_script(MIDDLE_SCRIPT);
    let lines: Vec<String> = (1..=100).map(|line| format!("{line}\n")).collect();
    env.repo.write_file("src/long.rs", &lines.concat());
    env.repo.commit_all("Add a long file");
    let server = RunningTestServer::start(&env, &["--work", "1"]);
    let (plan, _) = env.start_plan(6);
    let plan = plan.to_lowercase();
    let browser = open_page(&server, &env, &format!("/{plan}"));
    browser.wait_for_text(".diffs", "src/long.rs");
    (env, server, browser, plan)
}

const CODE: &str = "[data-path='src/long.rs'] .code";

#[test]
fn hidden_lines_are_shown_on_demand() {
    let (_env, _server, browser, _) = start_review();
    let numbers = "return [...document.querySelectorAll(\"[data-path='src/long.rs'] [data-line]\")]
        .map((line) => Number(line.dataset.line))";
    let shown = json!([47, 48, 49, 50, 50, 51, 52, 53]);
    assert_eq!(browser.run_script(numbers), shown);
    browser.wait_for_text(".show-context", "46 lines");
    browser.click(".show-context");
    browser.wait_for_text(".show-context", "26 lines");
    let first = format!("{}[0]", numbers.trim_start_matches("return "));
    assert_eq!(browser.run_script(&format!("return {first}")), json!(27));
    browser.click(".tail .show-context");
    browser.wait_for(
        "the lines below",
        &format!(
            "return {}.at(-1) === 73",
            numbers.trim_start_matches("return ")
        ),
    );
    // At the end of the file, there is nothing more to ask for.
    browser.click(".tail .show-context");
    browser.wait_for(
        "more lines below",
        &format!(
            "return {}.at(-1) === 93",
            numbers.trim_start_matches("return ")
        ),
    );
    browser.click(".tail .show-context");
    browser.wait_for(
        "the last line",
        &format!(
            "return {}.at(-1) === 100 && document.querySelector('.tail .show-context') === null",
            numbers.trim_start_matches("return ")
        ),
    );
    check_errors(&browser);
}

#[test]
fn both_versions_stand_side_by_side_with_colours_and_marks() {
    let (_env, _server, browser, _) = start_review();
    browser.wait_for_text(&format!("{CODE} i.k"), "fn");
    browser.press("s");
    browser.wait_for(
        "both versions are in one row",
        "const row = document.querySelector(\"[data-path='src/long.rs'] tr.changed-first\");
         return row?.querySelector('.code.removed')?.textContent === '50'
           && row.querySelector('.code.added').textContent.startsWith('fn fifty')",
    );
    // The choice survives a reload, and everything else works the same.
    browser.reload();
    browser.wait_for_text(".split .diffs", "src/long.rs");
    browser.press("nc");
    browser.type_into("tr.mine textarea", "Beside it");
    browser.click("tr.mine .comment button");
    browser.wait_for_text("#comments", "src/long.rs:50");
    browser.click(".hunk-choice");
    browser.wait_for_text("#land button[type=submit]", "Land 1 of 2 hunks");
    browser.click(".show-context");
    browser.wait_for_text(".show-context", "26 lines");
    browser.press("s");
    browser.wait_for(
        "one below the other",
        "return document.querySelector('.review:not(.split) tr.added') !== null",
    );
    browser.wait_for_text("tr.mine", "Beside it");
    check_errors(&browser);
}

#[test]
fn comment_covers_several_lines_and_quotes_them() {
    let script =
        "#!/bin/sh\ncat \"$PLANWRIGHT_ASSIGNMENT\" >> \"$STARTS\"\nseq 1 9 > src/list.txt\n";
    let env = ScriptedAgentEnv::with_script(script);
    let server = RunningTestServer::start(&env, &["--work", "1"]);
    let (plan, _) = env.start_plan(6);
    let browser = open_page(&server, &env, &format!("/{}", plan.to_lowercase()));
    browser.wait_for_text(".diffs", "src/list.txt");
    browser.click("tr[data-line='4'] .comment-on");
    browser.type_into("tr.mine textarea", "Join these");
    browser.run_script(
        "document.querySelector(\"tr[data-line='6'] .comment-on\")
           .dispatchEvent(new MouseEvent('click', { bubbles: true, shiftKey: true }))",
    );
    browser.wait_for_text("tr.mine .about", "to 6");
    browser.click("tr.mine .comment:has(textarea) .actions button");
    browser.wait_for_text("#comments", "src/list.txt:4-6");
    browser.wait_for_text("tr.mine", "lines 4 to 6");
    browser.click("#go-send-back");
    let told = || env.read_starts().join("\n").replace(' ', "");
    wait_for("the agent reads the comment and all its lines", || {
        let told = told();
        let parts = [
            "\"first_line\":4",
            "\"last_line\":6",
            "4\\n5\\n6",
            "Jointhese",
        ];
        parts.iter().all(|part| told.contains(part))
    });
    check_errors(&browser);
}

#[test]
fn after_a_revision_the_page_shows_what_is_new_since_somebody_looked() {
    let (_env, server, browser, plan) = start_review();
    browser.click("[data-path='src/long.rs'] tr.added .comment-on");
    browser.type_into("tr.mine textarea", "Say it differently");
    browser.click("tr.mine .comment:has(textarea) button");
    browser.wait_for_text("#comments", "Say it differently");
    browser.click("#send-back button");
    browser.wait_for_text(".diffs", "run 2");
    browser.wait_for_text("#since-you-looked", "r2 is new since you looked at r1");
    browser.wait_for_text("#since-you-looked", "1 of 2 parts are new");
    // The comment stands beside the change that answers it; what did not change is folded.
    browser.wait_for_text("tr.sent", "Say it differently");
    let folded =
        "return [...document.querySelectorAll('.file.folded')].map((file) => file.dataset.path)";
    assert_eq!(browser.run_script(folded), json!(["src/same.txt"]));
    browser.click("#since-you-looked a");
    browser.wait_for_text("#shown-results", "what changed since r1");
    assert_eq!(
        browser.run_script("return location.pathname.split('/')[2]"),
        json!("r1..r2")
    );
    browser.wait_for_text(".diffs", "run 1");
    // Who said so has seen it.
    browser.open(&format!("http://{}/{plan}", server.address));
    browser.click("#seen-news");
    browser.wait_for(
        "nothing is new",
        "return document.querySelector('.file') !== null && document.querySelector('#since-you-looked') === null",
    );
    check_errors(&browser);
}

/// The server keeps what a person noted, not the browser.
#[test]
fn notes_of_a_review_are_there_in_another_browser() {
    let (env, server, browser, plan) = start_review();
    browser.click("[data-path='src/same.txt'] .viewed-mark");
    browser.wait_for_text("#viewed-count", "1 of 2 viewed");
    browser.click("[data-path='src/long.rs'] .hunk-choice");
    browser.wait_for_text("#land button[type=submit]", "Land 1 of 2 hunks on main");
    browser.click("[data-path='src/long.rs'] tr.added .comment-on");
    browser.type_into("tr.mine textarea", "Kept by the server");
    browser.click("tr.mine .comment:has(textarea) .actions button");
    browser.wait_for_text("tr.mine p", "Kept by the server");
    let other = open_page(&server, &env, &format!("/{plan}"));
    other.wait_for_text("#viewed-count", "1 of 2 viewed");
    other.wait_for_text("#land button[type=submit]", "Land 1 of 2 hunks on main");
    other.wait_for_text("tr.mine", "Kept by the server");
    other.click("tr.mine .actions button:last-child");
    other.wait_for_text("#comment-count", "0");
    browser.reload();
    browser.wait_for_text("#viewed-count", "1 of 2 viewed");
    browser.wait_for_text("#comment-count", "0");
    check_errors(&browser);
    check_errors(&other);
}

/// Rewrites the first line. Remembers what it was told.
const FIRST_LINE_SCRIPT: &str = "#!/bin/sh
cat \"$PLANWRIGHT_ASSIGNMENT\" >> \"$STARTS\"
sed -i '1s/.*/from the agent/' src/a.txt
";

#[test]
fn conflict_goes_back_to_the_agent_from_the_page() {
    let env = ScriptedAgentEnv::with_script(FIRST_LINE_SCRIPT);
    let server = RunningTestServer::start(&env, &["--work", "1"]);
    let (plan, _) = env.start_plan(6);
    env.repo.write_file("src/a.txt", "from somebody else\n");
    env.repo.commit_all("Rewrite it");
    let browser = open_page(&server, &env, &format!("/{}", plan.to_lowercase()));
    browser.click("#land button[type=submit]");
    browser.wait_for_text(".plan-head .state", "conflict");
    browser.click("#send-conflict button");
    let told = || env.read_starts().join("\n");
    wait_for("the agent is told about the conflict", || {
        told().contains("changed the same lines since you began: src/a.txt")
    });
    check_errors(&browser);
}

/// Says something whenever it is told to.
const TALKING_SCRIPT: &str = "#!/bin/sh
here=\"$(dirname \"$STARTS\")\"
echo first words
while [ ! -e \"$here/second\" ]; do sleep 0.1; done
echo second words
while [ ! -e \"$here/end\" ]; do sleep 0.1; done
echo x >> src/a.txt
";

#[test]
fn activity_holds_still_while_somebody_reads() {
    let env = ScriptedAgentEnv::with_script(TALKING_SCRIPT);
    let server = RunningTestServer::start(&env, &["--work", "1"]);
    let data = env.run_expecting(0, &["run", "--detach", "--agent", "scribe", "Write a line"]);
    let plan = data["plan_id"].as_str().unwrap().to_lowercase();
    let browser = open_page(&server, &env, &format!("/{plan}/activity"));
    browser.wait_for_text("#transcript", "first words");
    browser.click("#pause");
    std::fs::write(env.tool_path("second"), "").unwrap();
    // The server has the words; the page does not show them.
    let client = server.sign_in(&env);
    let fragment = format!("/fragments/plans/{plan}/activity");
    wait_for("the server shows the words", || {
        client.get(&fragment).body.contains("second words")
    });
    let shown = "return document.querySelector('#transcript').innerText";
    let text = browser.run_script(shown);
    assert!(!text.as_str().unwrap().contains("second words"), "{text}");
    browser.click("#follow");
    browser.wait_for_text("#transcript", "second words");
    std::fs::write(env.tool_path("end"), "").unwrap();
    browser.wait_for_text(".timeline", "Submitted r1");
    browser.wait_for_text(".timeline", "Began to work");
    check_errors(&browser);
}

#[test]
fn plan_starts_with_limits_and_lands_on_a_branch() {
    let env = ScriptedAgentEnv::with_script(crate::daily::SCRIBE_SCRIPT);
    let server = RunningTestServer::start(&env, &["--work", "1"]);
    let browser = open_page(&server, &env, "/new");
    browser.wait_for_text("h1", "New plan");
    browser.type_into("#goal", "Write a line");
    browser.run_script("document.querySelector('#actor').value = 'scribe'");
    browser.click("#limits summary");
    browser.type_into("#limit-cost", "many");
    browser.click("#new-plan button[type=submit]");
    browser.wait_for_text("#new-plan .problem", "not an amount of money");
    browser.run_script("document.querySelector('#limit-cost').value = ''");
    browser.type_into("#limit-cost", "2.50");
    browser.type_into("#limit-tokens", "500k");
    browser.type_into("#limit-time", "30m");
    browser.click("#new-plan button[type=submit]");
    browser.wait_for_text(".plan-head .state", "needs review");
    let plan = browser.run_script("return document.querySelector('.plan-head').dataset.handle");
    let plan = plan.as_str().unwrap();
    let limits = env.run_expecting(0, &["status", plan])["limits"].clone();
    assert_eq!(limits["tokens"], json!(500_000), "{limits}");
    assert_eq!(limits["time_seconds"], json!(1800), "{limits}");
    assert_eq!(limits["cost_micros"], json!(2_500_000), "{limits}");
    browser.open(&format!("http://{}/{plan}", server.address));
    browser.click("details.menu summary");
    browser.type_into("#land-branch", "review/line");
    browser.wait_for_text("#land button[type=submit]", "Land on review/line");
    browser.click("#land button[type=submit]");
    browser.wait_for_text(".plan-head .state", "landed");
    let branch = env.repo.run_git(&["show", "review/line:src/a.txt"]);
    assert!(branch.contains("Write a line"), "{branch}");
    assert!(!env.repo.read_file("src/a.txt").contains("Write a line"));
    check_errors(&browser);
}
