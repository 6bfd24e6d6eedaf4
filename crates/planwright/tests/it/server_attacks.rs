//! What hostile pages, programs, agents and texts do to the server and its page.
//!
//! `server.rs` has the checks of single requests; here, real browsers and agents try.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::TestBrowser;

use crate::browser::{check_errors, open_page};
use crate::daily::{SCRIBE_SCRIPT, ScriptedAgentEnv};
use crate::server::{RunningTestServer, new_code};

/// A web server of somebody else on this machine, with one page.
struct ForeignPage {
    address: SocketAddr,
    stopped: Arc<AtomicBool>,
}

impl ForeignPage {
    fn serve(html: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopped);
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let Ok((mut stream, _)) = listener.accept() else {
                    std::thread::sleep(Duration::from_millis(5));
                    continue;
                };
                let _ = stream.set_nonblocking(false);
                let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
                let _ = stream.read(&mut [0; 16 * 1024]);
                let length = html.len();
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n";
                let _ = write!(stream, "{head}content-length: {length}\r\n\r\n{html}");
            }
        });
        Self { address, stopped }
    }
}

impl Drop for ForeignPage {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// Tries everything that a page can do to another origin, and writes down what came of it.
const ATTACK_SCRIPT: &str = r#"
window.outcome = {};
const server = "SERVER", plan = "PLAN";
const goal = JSON.stringify({ goal: "Started by a foreign page", actor: "scribe", projects: ["shop"] });
const attempt = async (name, act) => {
  const late = new Promise((resolve) => setTimeout(() => resolve("nothing"), 4000));
  window.outcome[name] = await Promise.race([act().catch(() => "refused"), late]);
};
const read = async (answer) => {
  const text = await (await answer).text();
  return text === "" ? "nothing" : `read ${text.slice(0, 80)}`;
};
const element = (tag, set) => new Promise((resolve) => {
  const one = Object.assign(document.createElement(tag), set);
  one.onload = () => resolve("loaded");
  one.onerror = () => resolve("refused");
  document.body.append(one);
});
const form = (encoding) => new Promise((resolve) => {
  const one = document.createElement("form");
  Object.assign(one, { action: `${server}/v1/plans/${plan}/cancel`, method: "POST", enctype: encoding, target: "sink" });
  const field = Object.assign(document.createElement("input"), { name: '{"reason":"', value: '"}' });
  one.append(field);
  document.body.append(one);
  one.submit();
  setTimeout(() => resolve("nothing"), 500);
});
addEventListener("load", async () => {
  await Promise.all([
    attempt("fetch", () => read(fetch(`${server}/v1/plans`))),
    attempt("fetch no-cors", () => read(fetch(`${server}/v1/plans`, { mode: "no-cors", credentials: "include" }))),
    attempt("fetch health", () => read(fetch(`${server}/healthz`))),
    attempt("fetch shell", () => read(fetch(`${server}/`, { mode: "no-cors" }))),
    attempt("post json", () => read(fetch(`${server}/v1/plans`, { method: "POST", body: goal, headers: { "Content-Type": "application/json" } }))),
    attempt("post text", () => read(fetch(`${server}/v1/plans`, { method: "POST", body: goal, mode: "no-cors" }))),
    attempt("post cancel", () => read(fetch(`${server}/v1/plans/${plan}/cancel`, { method: "POST", body: "{}", mode: "no-cors" }))),
    attempt("guessed session", () => read(fetch(`${server}/v1/plans`, { headers: { "Planwright-Session": "0123456789abcdef.0" } }))),
    attempt("beacon", async () => { navigator.sendBeacon(`${server}/v1/plans`, goal); return "nothing"; }),
    attempt("img", () => element("img", { src: `${server}/v1/plans` })),
    attempt("icon", () => element("img", { src: `${server}/assets/icon.svg` })),
    attempt("script", () => element("script", { src: `${server}/assets/app.js`, type: "module" })),
    attempt("classic script", () => element("script", { src: `${server}/assets/theme.js` })),
    attempt("style", () => element("link", { href: `${server}/assets/app.css`, rel: "stylesheet" })),
    attempt("form text", () => form("text/plain")),
    attempt("form", () => form("application/x-www-form-urlencoded")),
    attempt("form multipart", () => form("multipart/form-data")),
    attempt("events", () => new Promise((resolve) => {
      const events = new EventSource(`${server}/v1/events`);
      events.onopen = () => resolve("opened");
      events.onerror = () => { events.close(); resolve("refused"); };
    })),
    attempt("socket", () => new Promise((resolve) => {
      const socket = new WebSocket(`${server.replace("http", "ws")}/v1/events`);
      socket.onopen = () => resolve("opened");
      socket.onerror = () => resolve("refused");
    })),
    attempt("frame", () => new Promise((resolve) => {
      const frame = Object.assign(document.createElement("iframe"), { src: `${server}/${plan}` });
      frame.onload = () => {
        try { resolve(frame.contentDocument?.body?.innerText ? "read" : "refused"); } catch { resolve("refused"); }
      };
      document.body.append(frame);
    })),
    attempt("opened window", async () => {
      const opened = window.open(`${server}/`);
      await new Promise((resolve) => setTimeout(resolve, 1500));
      try { return opened && opened.document && opened.document.body ? `read ${opened.location.href}` : "refused"; } catch { return "refused"; }
    }),
  ]);
  document.title = "done";
});
"#;

#[test]
fn page_on_another_port_reads_nothing_and_starts_nothing() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let server = RunningTestServer::start(&env, &["--work", "1"]);
    let (plan, _) = env.start_plan(6);
    // The person is signed in, in the same browser.
    let browser = open_page(&server, &env, "/");
    for name in ["127.0.0.1", "localhost"] {
        let script = ATTACK_SCRIPT
            .replace(
                "SERVER",
                &format!("http://{name}:{}", server.address.port()),
            )
            .replace("PLAN", &plan);
        let html = format!(
            "<!doctype html><title>waiting</title><body><iframe name=sink></iframe><script>{script}</script>"
        );
        let foreign = ForeignPage::serve(html);
        browser.open(&format!("http://{}/", foreign.address));
        browser.wait_for("the attacks end", "return document.title === 'done'");
        let outcome = browser.run_script("return window.outcome");
        for (attempt, result) in outcome.as_object().unwrap() {
            let gained = result != "refused" && result != "nothing";
            assert!(!gained, "{attempt} from {name}: {result}");
        }
        assert!(outcome.as_object().unwrap().len() > 18, "{outcome}");
    }
    // Nothing was started, cancelled or followed.
    let client = server.sign_in(&env);
    let plans = client.get("/v1/plans").ok();
    assert_eq!(plans["plans"].as_array().unwrap().len(), 1, "{plans}");
    assert_eq!(plans["plans"][0]["standing"], "needs review", "{plans}");
    assert_eq!(env.read_starts().len(), 1);
}

/// A name that first leads to the attacker's server and then here is not a name of this server.
#[test]
fn rebound_name_gets_nothing_in_a_browser() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let server = RunningTestServer::start(&env, &[]);
    let rebound = ["--host-resolver-rules=MAP evil.example 127.0.0.1".to_owned()];
    let browser = TestBrowser::start_with(800, 600, &rebound);
    let port = server.address.port();
    browser.open(&format!("http://evil.example:{port}/"));
    browser.wait_for_text("body", "does not answer under this name");
    let code = new_code(&env);
    let answer = browser.run_async_script(&format!(
        "const done = arguments[arguments.length - 1];
         fetch('/v1/sessions', {{ method: 'POST', body: JSON.stringify({{ code: '{code}' }}), \
           headers: {{ 'Content-Type': 'application/json' }} }}).then(async (answer) => done([answer.status, await answer.text()]));"
    ));
    assert_eq!(answer[0], 421, "{answer}");
    assert!(
        answer[1].as_str().unwrap().contains("foreign_host"),
        "{answer}"
    );
    // The code was not spent.
    let started = server
        .client()
        .post("/v1/sessions", &json!({ "code": code }));
    started.ok();
}

#[test]
fn secret_of_a_session_is_in_no_url_and_no_log() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let (plan, _) = env.start_plan(6);
    // The background server writes a log into the home.
    let opened = env.run_expecting(0, &["open", "--print"]);
    let link = opened["link"].as_str().unwrap();
    let browser = TestBrowser::start(1280, 900);
    browser.open(link);
    browser.wait_for_text("#connection", "live");
    let secret = browser.run_script("return localStorage.getItem('planwright-session')");
    let secret = secret.as_str().unwrap();
    let code = link.split_once("#code=").unwrap().1;
    let base = link.split_once("/enter").unwrap().0;
    for tab in ["review", "activity", "why"] {
        browser.open(&format!("{base}/{}/{tab}", plan.to_lowercase()));
        browser.wait_for_text(".plan-head", "Write a line");
        let addresses = browser.run_script(
            "return [location.href, document.referrer, document.cookie, \
             ...performance.getEntries().map((entry) => entry.name)].join(' ')",
        );
        let addresses = addresses.as_str().unwrap();
        assert!(
            !addresses.contains(secret) && !addresses.contains(code),
            "{addresses}"
        );
    }
    check_errors(&browser);
    env.run_expecting(0, &["open", "--stop"]);
    let secret = secret.split_once('.').unwrap().1;
    let log = std::fs::read(env.repo.program.home().join("server/log")).unwrap();
    let log = String::from_utf8_lossy(&log);
    assert!(!log.contains(secret) && !log.contains(code), "{log}");
}

#[test]
fn no_path_leads_out_of_the_embedded_files() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let server = RunningTestServer::start(&env, &[]);
    let client = server.sign_in(&env);
    let shell = client.get("/").body;
    let marker = env.repo.program.home().join("server/marker");
    std::fs::write(&marker, "out of reach").unwrap();
    for path in [
        "/assets/../server/marker",
        "/assets/..%2f..%2fserver%2fmarker",
        "/assets/%2e%2e/%2e%2e/etc/passwd",
        "/assets/....//....//etc/passwd",
        "/assets/..\\..\\etc\\passwd",
        "/assets//etc/passwd",
        "//etc/passwd",
        "/assets/app.js/../../../etc/passwd",
        "/assets/app.js%00.css",
        "/assets/%c0%ae%c0%ae/etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/v1/plans/..%2f..%2f..%2fetc%2fpasswd",
        "/v1/plans/../../etc/passwd",
        "/v1/plans/%00",
        "/v1/plans/%ff%fe",
        "/v1/plans/*/diff",
        "/v1/plans/%27%20OR%201=1--",
        "/fragments/plans/..%2f..%2fetc/review",
        "/fragments/plans/%3Cscript%3E/preview",
        "/v1/sessions/..%2f..%2fmarker",
    ] {
        let answer = client.get(path);
        let is_refused = (400..500).contains(&answer.status);
        // Unknown addresses of pages show the shell, which holds no data.
        let is_shell = answer.status == 200 && answer.body == shell;
        assert!(is_refused || is_shell, "{path}: {answer:?}");
        let leaks = ["root:", "out of reach"];
        let leaked = leaks.iter().any(|text| answer.body.contains(text));
        assert!(!leaked, "{path}: {answer:?}");
    }
    let json = [("content-type", "application/json")];
    let removal = client.request("DELETE", "/v1/sessions/..%2fmarker", &json, "");
    assert_eq!(removal.problem(404), "no_such_session");
    assert!(marker.is_file());
}

/// Markup, terminal escapes and tricks with directions, wherever an agent can write.
const HOSTILE_SCRIPT: &str = "#!/bin/sh
printf 'one <script>window.attacked=1</script> \\033[31mred\\033[0m \\342\\200\\256evil <img src=x onerror=window.attacked=1>\\n'
mkdir -p 'src/<img src=x onerror=window.attacked=2>'
printf '<svg onload=window.attacked=3>\\033]0;title\\007 \\342\\200\\256\\n' > 'src/<img src=x onerror=window.attacked=2>/\"quoted\" & odd.txt'
printf '{\"report\": \"done <iframe srcdoc=x></iframe> \\\\u001b[2J\"}' > /dev/null
echo '</td></table><script>window.attacked=4</script>' >> src/a.txt
";

#[test]
fn hostile_text_is_only_text_on_every_page() {
    let env = ScriptedAgentEnv::with_script(HOSTILE_SCRIPT);
    let goal = "Write <img src=x onerror=window.attacked=5> & \u{1b}[31m\u{202e}now\nand <script>window.attacked=6</script>";
    // Evidence of a rule is text of the agent, too.
    let check = "cat src/a.txt; printf '\\033[2J<script>window.attacked=7</script>'; exit 1";
    env.run_expecting(
        0,
        &["rule", "add", "shown", "--command", check, "--at", "result"],
    );
    let said = env.run_here(&["run", "--agent", "scribe", "--profile", "review", goal]);
    let plan = said.data()["plan_id"].as_str().unwrap().to_lowercase();
    let server = RunningTestServer::start(&env, &[]);
    let browser = open_page(&server, &env, "/");
    let pages = [
        ("/".to_owned(), ".row", "write"),
        (format!("/{plan}/review"), ".diffs", "src/<img src=x"),
        (
            format!("/{plan}/activity"),
            "#transcript",
            "one <script>window.attacked=1</script> red",
        ),
        (format!("/{plan}/why"), "main", "<script>window.attacked=7"),
        ("/new".to_owned(), "main", "goal"),
        ("/about".to_owned(), "main", "shown"),
    ];
    for (path, selector, text) in pages {
        browser.open(&format!("http://{}{path}", server.address));
        browser.wait_for_text(selector, text);
        if path == "/" {
            browser.wait_for_text(".preview", "src/<img");
        }
        let found = browser.run_script(
            "return [window.attacked ?? null, \
             document.querySelectorAll('main :is(script, img, svg:not(.icon), iframe, object, style, link, meta)').length, \
             /[\\u0000-\\u0008\\u000b-\\u001f\\u202a-\\u202e]/.test(document.body.textContent), document.title]",
        );
        assert_eq!(found[0], Value::Null, "{path}: {found}");
        assert_eq!(found[1], 0, "{path}: {found}");
        assert_eq!(found[2], false, "{path}: {found}");
        // The policy refused nothing, because there was nothing to refuse.
        check_errors(&browser);
    }
}

/// Tries to use the server from inside a run, with everything that an agent can find.
const CALLING_SCRIPT: &str = "#!/bin/bash
echo x >> src/a.txt
call() {
  exec 3<>\"/dev/tcp/127.0.0.1/$SERVER_PORT\" || { echo \"$1 unreachable\"; return; }
  printf '%s %s HTTP/1.1\\r\\nhost: 127.0.0.1:%s\\r\\nconnection: close\\r\\ncontent-type: application/json\\r\\nplanwright-session: %s\\r\\ncontent-length: 2\\r\\n\\r\\n{}' \\
    \"$1\" \"$2\" \"$SERVER_PORT\" \"$3\" >&3
  read -r line <&3
  exec 3>&-
  echo \"$1 $2 ${line%$'\\r'}\"
}
{
  call POST \"/v1/plans/$PLANWRIGHT_PLAN/apply\" ''
  call POST \"/v1/plans/$PLANWRIGHT_PLAN/approve\" \"$PLANWRIGHT_RUN_KEY\"
  call DELETE /v1/sessions/0123456789abcdef ''
  for file in \"$OUR_HOME\"/server/sessions/*; do
    call POST \"/v1/plans/$PLANWRIGHT_PLAN/apply\" \"$(basename \"$file\").$(cat \"$file\" 2>/dev/null | grep -o 'secret_hash\":\"[0-9a-f]*' | cut -d'\"' -f3)\"
  done
} >> \"$STARTS\" 2>&1
exit 0
";

#[test]
fn agent_that_calls_the_server_gets_nothing() {
    for isolation in ["off", "where_possible"] {
        let env = ScriptedAgentEnv::with_script(CALLING_SCRIPT);
        let server = RunningTestServer::start(&env, &[]);
        // A session exists; its file holds no secret.
        let _person = server.sign_in(&env);
        let starts = env.tool_path("starts");
        let extra = format!(
            "isolation: {isolation}\nset_env:\n  STARTS: {}\n  OUR_HOME: {}\n  SERVER_PORT: \"{}\"\nwritable: [{}]\n",
            starts.display(),
            env.repo.program.home().display(),
            server.address.port(),
            starts.parent().unwrap().display(),
        );
        env.define_actor("scribe", &extra);
        let (plan, data) = env.start_plan(6);
        let told = env.read_starts();
        assert!(told.len() >= 3, "{isolation}: {told:?}");
        for line in &told {
            let is_refused =
                line.contains(" 401 ") || line.contains("unreachable") || line.contains("refused");
            assert!(is_refused, "{isolation}: {line}");
        }
        assert_eq!(data["state"], "complete", "{isolation}");
        let after = env.run_expecting(0, &["status", &plan]);
        assert_eq!(after["standing"], "needs review", "{isolation}: {after}");
        assert_eq!(after["version"], data["version"], "{isolation}: {after}");
    }
}
