//! The page in several browsers and tabs, on small screens, by keyboard, and for everybody.

use std::path::Path;

use serde_json::{Value, json};
use testkit::TestBrowser;

use crate::browser::{ENTER, check_errors, open_page};
use crate::daily::{SCRIBE_SCRIPT, ScriptedAgentEnv, wait_for};
use crate::server::RunningTestServer;

const CONTROL: char = '\u{e009}';
const TABS: usize = 20;

#[test]
fn of_two_browsers_that_decide_at_once_one_wins_and_the_other_keeps_its_draft() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let server = RunningTestServer::start(&env, &[]);
    let (plan, _) = env.start_plan(6);
    let path = format!("/{}", plan.to_lowercase());
    let browsers = [0, 1].map(|_| open_page(&server, &env, &path));
    for (number, browser) in browsers.iter().enumerate() {
        browser.type_into("#feedback", &format!("Feedback {number}"));
    }
    std::thread::scope(|scope| {
        for browser in &browsers {
            scope.spawn(|| browser.click("#send-back button"));
        }
    });
    let has_draft = |browser: &TestBrowser| {
        browser
            .run_script("return Object.keys(localStorage).some((key) => key.endsWith(':feedback'))")
            == json!(true)
    };
    let is_settled = |browser: &TestBrowser| {
        browser.run_script(
            "return document.querySelector('#send-back .problem') !== null \
             || document.querySelector('.plan-head .state').innerText.includes('waiting')",
        ) == json!(true)
    };
    wait_for("both are answered", || browsers.iter().all(is_settled));
    let losers: Vec<usize> = (0..2)
        .filter(|number| has_draft(&browsers[*number]))
        .collect();
    assert_eq!(losers.len(), 1, "{losers:?}");
    let (loser, winner) = (losers[0], 1 - losers[0]);
    browsers[winner].wait_for_text(".plan-head .state", "waiting");
    // The other one is told, keeps what it typed, and can look at what happened.
    let lost = &browsers[loser];
    lost.wait_for_text("#send-back .problem", "changed since you looked at it");
    let typed = lost.run_script("return document.querySelector('#feedback').value");
    assert_eq!(typed, json!(format!("Feedback {loser}")));
    lost.click("#send-back .problem button");
    lost.wait_for_text(".plan-head .state", "waiting");
    assert!(has_draft(lost), "the draft is still there");
    let events = env
        .run_expecting(0, &["log", &plan, "--events"])
        .to_string();
    assert_eq!(events.matches("\"revised\"").count(), 1, "{events}");
    for browser in &browsers {
        check_errors(browser);
    }
}

fn count_streams(server: &RunningTestServer) -> String {
    let metrics = server.client().get("/metrics").body;
    let line = metrics
        .lines()
        .find(|line| line.starts_with("planwright_event_streams "));
    line.unwrap().to_owned()
}

/// Browsers open six connections to a server. A stream per tab would freeze the seventh.
#[test]
fn twenty_tabs_stay_live_with_one_stream() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let server = RunningTestServer::start(&env, &[]);
    env.start_plan(6);
    let browser = open_page(&server, &env, "/");
    let first = browser.current_tab();
    let board = format!("http://{}/", server.address);
    let others: Vec<String> = (1..TABS).map(|_| browser.open_tab(&board)).collect();
    let check_all = |tabs: &[String], rows: usize| {
        let rows = format!("return document.querySelectorAll('.row').length === {rows}");
        for tab in tabs {
            browser.go_to_tab(tab);
            browser.wait_for("the tab shows every plan", &rows);
            browser.wait_for_text("#connection", "live");
        }
    };
    check_all(&others, 1);
    env.start_plan(6);
    check_all(&others, 2);
    check_all(std::slice::from_ref(&first), 2);
    assert_eq!(count_streams(&server), "planwright_event_streams 1");
    // The tab that reads the stream goes away; another one takes over where it was.
    browser.close_tab();
    env.start_plan(6);
    check_all(&others, 3);
    wait_for("one stream is left", || {
        count_streams(&server) == "planwright_event_streams 1"
    });
}

#[test]
fn back_button_returns_to_where_one_was() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let server = RunningTestServer::start(&env, &[]);
    env.start_plan(6);
    let browser = open_page(&server, &env, "/");
    browser.click(".row");
    browser.wait_for_text(".file header", "src/a.txt");
    browser.click(".tabs a[href$='/activity']");
    browser.wait_for_text("#transcript", "looking around");
    browser.go_back();
    browser.wait_for_text(".file header", "src/a.txt");
    browser.go_back();
    browser.wait_for(
        "the board",
        "return document.querySelector('.row') !== null && location.pathname === '/'",
    );
    browser.run_script("history.forward()");
    browser.wait_for_text(".file header", "src/a.txt");
    check_errors(&browser);
}

#[test]
fn keyboard_is_enough_from_a_new_plan_to_its_landing() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    env.run_expecting(0, &["config", "set", "actor", "scribe"]);
    let server = RunningTestServer::start(&env, &["--work", "1"]);
    env.start_plan(6);
    let browser = open_page(&server, &env, "/");
    browser.wait_for_text(".row", "Write a line");
    browser.press("+");
    browser.wait_for(
        "the goal has the focus",
        "return document.activeElement?.id === 'goal'",
    );
    browser.press("Say hello");
    browser.press_with(CONTROL, '\u{e007}');
    browser.wait_for_text("h1", "Say hello");
    browser.wait_for_text(".plan-head .state", "needs review");
    browser.press("b");
    browser.wait_for(
        "the board",
        "return document.querySelectorAll('.row').length === 2",
    );
    browser.press("j");
    browser.press("k");
    browser.press(ENTER);
    browser.wait_for_text("h1", "Say hello");
    browser.wait_for_text(".file header", "src/a.txt");
    // The focus is visible wherever it is.
    browser.press("l");
    let outline =
        browser.run_script("return getComputedStyle(document.activeElement).outlineStyle");
    assert_eq!(outline, "solid");
    browser.press(ENTER);
    browser.wait_for_text(".plan-head .state", "landed");
    assert!(env.repo.read_file("src/a.txt").ends_with("Say hello\n"));
    check_errors(&browser);
}

/// Works until the file `go` exists.
const PATIENT_SCRIPT: &str = "#!/bin/sh
echo working
while [ ! -e \"$(dirname \"$STARTS\")/go\" ]; do sleep 0.1; done
echo x >> src/a.txt
";

#[test]
fn nothing_moves_for_people_who_asked_for_less_motion() {
    let env = ScriptedAgentEnv::with_script(PATIENT_SCRIPT);
    let server = RunningTestServer::start(&env, &["--work", "1"]);
    env.run_expecting(0, &["run", "--detach", "--agent", "scribe", "Write a line"]);
    let browser = open_page(&server, &env, "/");
    browser.wait_for_text(".row .state", "working");
    let animations = "return document.getAnimations().length";
    browser.set_preference("prefers-reduced-motion", "no-preference");
    assert_ne!(browser.run_script(animations), json!(0));
    browser.set_preference("prefers-reduced-motion", "reduce");
    assert_eq!(browser.run_script(animations), json!(0));
    std::fs::write(env.tool_path("go"), "").unwrap();
    browser.wait_for_text(".row .state", "needs review");
    assert_eq!(browser.run_script(animations), json!(0));
    check_errors(&browser);
}

/// Goals, names and lines that break careless layouts.
const UGLY_SCRIPT: &str = "#!/bin/sh
mkdir -p 'src/a very long directory name without any end that goes on and on/and on'
head -c 10000 /dev/zero | tr '\\0' 'x' > 'src/a very long directory name without any end that goes on and on/and on/\u{1f600}.txt'
printf '\u{5e9}\u{5dc}\u{5d5}\u{5dd} \u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}\\n' > src/rtl.txt
head -c 500 /dev/zero | tr '\\0' 'y'
";

fn make_ugly_plan(env: &ScriptedAgentEnv) -> String {
    let goal = format!(
        "\u{1f600}\u{5e9}\u{5dc}\u{5d5}\u{5dd} {}",
        "averylongword".repeat(38)
    );
    let data = env.run_expecting(6, &["run", "--agent", "scribe", &goal]);
    data["plan_id"].as_str().unwrap().to_lowercase()
}

#[test]
fn page_fits_a_phone_and_lands_a_plan_on_it() {
    let env = ScriptedAgentEnv::with_script(UGLY_SCRIPT);
    let plan = make_ugly_plan(&env);
    let server = RunningTestServer::start(&env, &["--work", "1"]);
    let browser = open_page(&server, &env, "/");
    browser.set_screen(390, 844);
    let pages = [
        ("/".to_owned(), ".row"),
        (format!("/{plan}/review"), ".file"),
        (format!("/{plan}/activity"), "#transcript"),
        (format!("/{plan}/why"), ".card"),
        ("/new".to_owned(), "#goal"),
        ("/about".to_owned(), "table"),
    ];
    for (path, selector) in &pages {
        browser.open(&format!("http://{}{path}", server.address));
        let is_there = format!("return document.querySelector('{selector}') !== null");
        browser.wait_for(selector, &is_there);
        let found = browser.run_script(
            "const small = [...document.querySelectorAll('button, .button, .row')]
               .filter((one) => one.offsetParent !== null && !one.closest('.diff') && one.getBoundingClientRect().height < 40)
               .map((one) => one.outerHTML.slice(0, 80));
             return [document.scrollingElement.scrollWidth, small]",
        );
        assert!(found[0].as_u64().unwrap() <= 390, "{path}: {found}");
        assert_eq!(found[1], json!([]), "{path}");
    }
    browser.open(&format!("http://{}/{plan}", server.address));
    browser.click("#land button");
    browser.wait_for_text(".plan-head .state", "landed");
    check_errors(&browser);
}

/// The rules of axe-core, which `cargo xtask test` installs below the target directory.
fn read_axe() -> String {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let file = target.join("axe-core/package/axe.min.js");
    std::fs::read_to_string(&file).unwrap_or_else(|error| {
        panic!(
            "{} cannot be read ({error}). Run the tests with `cargo xtask test`, which installs axe-core; it needs npm",
            file.display()
        )
    })
}

#[test]
fn axe_finds_nothing_on_any_page_in_both_colour_schemes() {
    let axe = read_axe();
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    env.run_expecting(
        0,
        &[
            "rule",
            "add",
            "tests",
            "--command",
            "exit 1",
            "--at",
            "apply",
        ],
    );
    let (plan, _) = env.start_plan(6);
    let blocked = env.run_here(&["apply", &plan, "--yes"]);
    assert_eq!(blocked.exit_code(), Some(5), "{blocked:?}");
    let (other, _) = env.start_plan(6);
    let server = RunningTestServer::start(&env, &[]);
    let browser = open_page(&server, &env, "/");
    let (plan, other) = (plan.to_lowercase(), other.to_lowercase());
    let pages = [
        ("/".to_owned(), ".preview .facts"),
        (format!("/{other}/review"), ".file"),
        (format!("/{plan}/activity"), "#transcript"),
        (format!("/{plan}/why"), ".card"),
        ("/new".to_owned(), "#goal"),
        ("/about".to_owned(), "table"),
    ];
    for scheme in ["light", "dark"] {
        browser.set_preference("prefers-color-scheme", scheme);
        for (path, selector) in &pages {
            browser.open(&format!("http://{}{path}", server.address));
            let is_there = format!("return document.querySelector('{selector}') !== null");
            browser.wait_for(selector, &is_there);
            if path == "/" {
                browser.press(" ");
                browser.wait_for_text("#bulk-count", "1 plan selected");
            }
            browser.run_script(&axe);
            let violations = browser.run_async_script(
                "const done = arguments[arguments.length - 1];
                 axe.run().then((found) => done(found.violations.map((one) =>
                   [one.id, one.help, one.nodes.map((node) => node.target.join(' ') + ': ' + node.failureSummary)])))
                   .catch((error) => done(String(error)));",
            );
            assert_eq!(violations, Value::Array(Vec::new()), "{scheme} {path}");
        }
    }
    check_errors(&browser);
}
