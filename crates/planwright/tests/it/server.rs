//! The HTTP API over loopback: a real server process on a real store.

use std::net::SocketAddr;
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{HttpClient, SentEvent, TestProcess};

use crate::daily::{SCRIBE_SCRIPT, ScriptedAgentEnv, wait_for};
use crate::many_workers::send_signal;

/// A server of a test's home, killed when dropped.
pub struct RunningTestServer {
    pub process: TestProcess,
    pub address: SocketAddr,
}

impl RunningTestServer {
    /// Starts a server on a free port.
    pub fn start(env: &ScriptedAgentEnv, words: &[&str]) -> Self {
        Self::start_at(env, "127.0.0.1:0", words)
    }

    pub fn start_at(env: &ScriptedAgentEnv, address: &str, words: &[&str]) -> Self {
        let words = [&["--format", "json", "serve", "--listen", address], words].concat();
        let process = env.repo.program.run(words).start();
        let running = env.repo.program.home().join("server/running");
        let registration = process.process_id().to_string();
        let find = || find_registration(&running, &registration);
        wait_for("the server registers", || find().is_some());
        Self {
            process,
            address: find().unwrap(),
        }
    }

    pub fn client(&self) -> HttpClient {
        HttpClient::new(self.address)
    }

    /// A client with a session, started as the browser does it.
    pub fn sign_in(&self, env: &ScriptedAgentEnv) -> HttpClient {
        let mut client = self.client();
        let started = client.post("/v1/sessions", &json!({ "code": new_code(env) }));
        client.session = Some(started.ok()["secret"].as_str().unwrap().to_owned());
        client
    }

    /// Kills the server without a warning.
    pub fn kill(self) -> SocketAddr {
        self.process.kill();
        self.address
    }
}

fn find_registration(running: &Path, process: &str) -> Option<SocketAddr> {
    std::fs::read_dir(running)
        .ok()?
        .flatten()
        .find_map(|entry| {
            let text = std::fs::read_to_string(entry.path()).ok()?;
            let (address, owner) = text.split_once(' ')?;
            (owner == process && entry.path().extension().is_none())
                .then(|| address.parse().ok())?
        })
}

/// A one-time code for the running server.
pub fn new_code(env: &ScriptedAgentEnv) -> String {
    let opened = env.run_expecting(0, &["open", "--print"]);
    let link = opened["link"].as_str().unwrap();
    link.split_once("#code=").unwrap().1.to_owned()
}

fn new_env() -> ScriptedAgentEnv {
    ScriptedAgentEnv::with_script(SCRIBE_SCRIPT)
}

#[test]
fn server_refuses_foreign_hosts_pages_and_forms() {
    let env = new_env();
    let server = RunningTestServer::start(&env, &[]);
    let client = server.sign_in(&env);
    let plan = env.start_plan(6).0;
    let path = format!("/v1/plans/{plan}");
    let cancel = format!("{path}/cancel");
    client.get(&path).ok();
    let port = server.address.port();
    for host in [
        "evil.example",
        "127.0.0.1",
        "127.0.0.1:1",
        &format!("evil.example:{port}"),
        &format!("127.0.0.1:{port}.evil.example"),
        "",
    ] {
        for target in [&*path, "/", "/healthz", "/openapi.json", "/nowhere"] {
            let answer = client.request("GET", target, &[("host", host)], "");
            assert_eq!(answer.problem(421), "foreign_host", "{host} {target}");
        }
    }
    let no_host = client.send_bytes(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes());
    assert_eq!(no_host.problem(421), "foreign_host");
    let two_hosts = format!("host: 127.0.0.1:{port}\r\nhost: evil.example");
    let two_hosts = client.send_bytes(
        format!("GET {path} HTTP/1.1\r\n{two_hosts}\r\nconnection: close\r\n\r\n").as_bytes(),
    );
    assert_ne!(two_hosts.status, 200, "{two_hosts:?}");
    let localhost = format!("localhost:{port}");
    client
        .request("GET", &path, &[("host", &localhost)], "")
        .ok();

    let refuse = |headers: &[(&str, &str)], body: &str, status: u16, kind: &str| {
        let answer = client.request("POST", &cancel, headers, body);
        assert_eq!(answer.problem(status), kind, "{headers:?}");
    };
    refuse(&[("content-type", "text/plain")], "{}", 415, "not_json");
    refuse(&[], "{}", 415, "not_json");
    let form = [("content-type", "application/x-www-form-urlencoded")];
    refuse(&form, "reason=x", 415, "not_json");
    let json = ("content-type", "application/json");
    refuse(
        &[json, ("origin", "http://evil.example")],
        "{}",
        403,
        "foreign_page",
    );
    refuse(&[json, ("origin", "null")], "{}", 403, "foreign_page");
    // A page on another port of this machine.
    refuse(
        &[json, ("origin", "http://127.0.0.1:3000")],
        "{}",
        403,
        "foreign_page",
    );
    refuse(
        &[json, ("sec-fetch-site", "cross-site")],
        "{}",
        403,
        "foreign_page",
    );
    refuse(
        &[json, ("sec-fetch-site", "same-site")],
        "{}",
        403,
        "foreign_page",
    );
    assert_eq!(client.get(&path).ok()["state"], "complete");

    // No header invites other origins, and none sets a cookie.
    let preflight = [
        ("origin", "http://evil.example"),
        ("access-control-request-method", "POST"),
    ];
    let answer = client.request("OPTIONS", &cancel, &preflight, "");
    for answer in [answer, client.get(&path), client.get("/healthz")] {
        assert_eq!(answer.header("access-control-allow-origin"), None);
        assert_eq!(answer.header("set-cookie"), None);
        let policy = answer.header("content-security-policy").unwrap();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'"),
            "{policy}"
        );
    }
}

#[test]
fn every_route_but_the_public_ones_needs_a_session() {
    let env = new_env();
    let server = RunningTestServer::start(&env, &[]);
    let stranger = server.client();
    let plan = env.start_plan(6).0;
    let document = stranger.get("/openapi.json").ok();
    assert_eq!(document["openapi"], "3.1.0");
    let public = ["/healthz", "/readyz", "/metrics"];
    let mut checked = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        let target = path.replace("{id}", &plan);
        for method in methods.as_object().unwrap().keys() {
            if public.contains(&&**path) || (path == "/v1/sessions" && method == "post") {
                continue;
            }
            let json = [("content-type", "application/json")];
            let body = if method == "get" { "" } else { "{}" };
            let method = method.to_uppercase();
            for session in [None, Some("0123456789abcdef.0".to_owned())] {
                let client = HttpClient {
                    session,
                    ..stranger.clone()
                };
                let answer = client.request(&method, &target, &json, body);
                assert_eq!(answer.problem(401), "no_session", "{method} {target}");
            }
            checked += 1;
        }
    }
    assert!(checked > 8, "{checked}");
    assert_eq!(
        env.run_expecting(0, &["status", &plan])["state"],
        "complete"
    );
}

#[test]
fn code_works_once_and_an_ended_session_no_longer() {
    let env = new_env();
    let server = RunningTestServer::start(&env, &[]);
    let code = json!({ "code": new_code(&env) });
    let answers: Vec<_> = std::thread::scope(|scope| {
        let tries: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| server.client().post("/v1/sessions", &code).status))
            .collect();
        tries.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(
        answers.iter().filter(|status| **status == 200).count(),
        1,
        "{answers:?}"
    );
    assert_eq!(
        server.client().post("/v1/sessions", &code).problem(401),
        "bad_code"
    );
    let (one, other) = (server.sign_in(&env), server.sign_in(&env));
    let sessions = one.get("/v1/sessions").ok();
    let current = sessions["sessions"].as_array().unwrap().iter();
    let current: Vec<&Value> = current.filter(|it| it["current"] == true).collect();
    assert_eq!(current.len(), 1, "{sessions}");
    let path = format!(
        "/v1/sessions/{}",
        current[0]["session_id"].as_str().unwrap()
    );
    let json = [("content-type", "application/json")];
    assert_eq!(other.request("DELETE", &path, &json, "").status, 204);
    assert_eq!(one.get("/v1/sessions").problem(401), "no_session");
    other.get("/v1/sessions").ok();
    // The files of sessions and codes are private and the secret is nowhere in the home.
    let secret = other.session.clone().unwrap();
    let secret = secret.split_once('.').unwrap().1;
    let mut searched = 0;
    for entry in walk_files(&env.repo.program.home().join("server")) {
        let text = std::fs::read(&entry).unwrap();
        assert!(
            !String::from_utf8_lossy(&text).contains(secret),
            "{entry:?}"
        );
        searched += 1;
    }
    assert!(searched > 1);
}

fn walk_files(directory: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(walk_files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

#[test]
fn session_survives_a_killed_server() {
    let env = new_env();
    let server = RunningTestServer::start(&env, &[]);
    let client = server.sign_in(&env);
    let address = server.kill();
    let server = RunningTestServer::start_at(&env, &address.to_string(), &[]);
    client.get("/v1/sessions").ok();
    // The same secret is worth nothing on another port: another program could have read it there.
    let other = RunningTestServer::start(&env, &[]);
    let moved = HttpClient {
        address: other.address,
        ..client
    };
    assert_eq!(moved.get("/v1/sessions").problem(401), "no_session");
    drop(server);
}

#[test]
fn of_two_sessions_that_decide_at_once_one_wins() {
    let env = new_env();
    let server = RunningTestServer::start(&env, &[]);
    let clients = [server.sign_in(&env), server.sign_in(&env)];
    let plan = env.start_plan(6).0;
    let path = format!("/v1/plans/{plan}");
    let seen = clients[0].get(&path);
    let version = seen.header("etag").unwrap().to_owned();
    let answers: Vec<_> = std::thread::scope(|scope| {
        let tries = clients.iter().enumerate().map(|(number, client)| {
            let (path, version) = (&path, &version);
            scope.spawn(move || {
                let text = json!({ "text": format!("from {number}") });
                client.post_with(&format!("{path}/revise"), &[("if-match", version)], &text)
            })
        });
        let tries: Vec<_> = tries.collect();
        tries.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|it| it.status == 200);
    assert_eq!((won.len(), lost.len()), (1, 1), "{answers:?}");
    assert_eq!(lost[0].problem(412), "version_mismatch");
    let problem = lost[0].json();
    let now = won[0].json()["version"].clone();
    assert_eq!(problem["version"], now, "{problem}");
    let changes = clients[0].get(problem["changes"].as_str().unwrap()).ok();
    let kinds = changes["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["type"]);
    assert!(kinds.into_iter().any(|kind| kind == "revised"), "{changes}");
}

#[test]
fn repeated_request_with_a_key_changes_nothing() {
    let env = new_env();
    let server = RunningTestServer::start(&env, &[]);
    let client = server.sign_in(&env);
    let plan = env.start_plan(6).0;
    let path = format!("/v1/plans/{plan}/revise");
    let key = [("idempotency-key", "once")];
    let text = json!({ "text": "again" });
    let first = client.post_with(&path, &key, &text).ok();
    assert_eq!(first["receipt"]["repeated"], false);
    let second = client.post_with(&path, &key, &text).ok();
    assert_eq!(second["receipt"]["repeated"], true);
    assert_eq!(second["version"], first["version"]);
    let other = client.post_with(&path, &key, &json!({ "text": "else" }));
    assert_eq!(other.problem(409), "key_reused");
}

#[test]
fn bad_requests_get_a_typed_problem() {
    let env = new_env();
    let server = RunningTestServer::start(&env, &[]);
    let client = server.sign_in(&env);
    let plan = env.start_plan(6).0;
    let at = |path: &str| client.get(path);
    assert_eq!(at("/v1/nothing").problem(404), "no_such_route");
    assert_eq!(at("/v1/plans/zzzzzzzz").problem(404), "no_such_plan");
    assert_eq!(at("/v1/plans/!!").problem(422), "not_a_handle");
    assert_eq!(
        at("/v1/plans/..%2f..%2fetc%2fpasswd").problem(422),
        "not_a_handle"
    );
    assert_eq!(
        at("/assets/..%2f..%2fserver/log").problem(404),
        "no_such_route"
    );
    let revise = format!("/v1/plans/{plan}/revise");
    assert_eq!(client.get(&revise).problem(405), "method_not_allowed");
    let post = |headers: &[(&str, &str)], body: Value| client.post_with(&revise, headers, &body);
    assert_eq!(post(&[], json!({ "text": 1 })).problem(400), "bad_body");
    // A text may be empty only if comments are sent.
    assert_eq!(post(&[], json!({})).problem(422), "bad_text");
    assert_eq!(
        post(&[], json!({ "text": "x", "txet": "y" })).problem(400),
        "bad_body"
    );
    assert_eq!(
        post(&[], json!({ "text": "x", "drop": ["../x"] })).problem(400),
        "bad_body"
    );
    assert_eq!(
        post(&[("if-match", "seven")], json!({ "text": "x" })).problem(400),
        "bad_if_match"
    );
    let long = "k".repeat(300);
    assert_eq!(
        post(&[("idempotency-key", &long)], json!({ "text": "x" })).problem(400),
        "bad_key"
    );
    let huge = json!({ "text": "x".repeat(2_000_000) });
    assert_eq!(post(&[], huge).problem(413), "body_too_large");
    let body_on_read = client.request("GET", "/v1/sessions", &[], "{}");
    assert_eq!(body_on_read.problem(400), "unexpected_body");
    assert_eq!(
        client.get(&format!("/v1/plans/{plan}")).ok()["state"],
        "complete"
    );
}

#[test]
fn events_continue_across_a_killed_server_without_loss_or_repetition() {
    let env = new_env();
    let mut server = RunningTestServer::start(&env, &[]);
    let client = server.sign_in(&env);
    let mut reader = client.follow_events("/v1/events", None);
    let hello = reader.next_event().unwrap();
    assert_eq!(hello.kind, "hello");
    let mut last_id = hello.id.clone();
    let mut seen: Vec<SentEvent> = Vec::new();
    for round in 0..3 {
        // One plan while the stream is open, one while no server runs.
        let plan = env.start_plan(6).0;
        while seen.last().is_none_or(|event| {
            event.data["plan_id"] != *plan || event.data["type"] != "execute_completed"
        }) {
            let event = reader.next_event().expect("the stream goes on");
            assert_eq!(event.kind, "plan", "{event:?}");
            last_id.clone_from(&event.id);
            seen.push(event);
        }
        let address = server.kill();
        env.start_plan(6);
        server = RunningTestServer::start_at(&env, &address.to_string(), &[]);
        reader = client.follow_events("/v1/events", Some(&last_id));
        let greeting = reader.next_event().unwrap();
        assert_eq!(
            (greeting.kind.as_str(), &greeting.id),
            ("hello", &last_id),
            "round {round}"
        );
    }
    // Everything that is stored, once and in order.
    let mut whole = client.follow_events("/v1/events", Some(&hello.id));
    assert_eq!(whole.next_event().unwrap().kind, "hello");
    let mut missed = seen.len();
    let stored: Vec<SentEvent> = std::iter::from_fn(|| {
        missed = missed.checked_sub(1)?;
        whole.next_event()
    })
    .collect();
    assert_eq!(seen, stored);
}

#[test]
fn event_id_that_does_not_fit_this_store_is_answered_with_reset() {
    let env = new_env();
    let server = RunningTestServer::start(&env, &[]);
    let client = server.sign_in(&env);
    env.start_plan(6);
    let mut reader = client.follow_events("/v1/events?after=0.0-0", None);
    assert_eq!(reader.next_event().unwrap().kind, "hello");
    let event = reader.next_event().unwrap();
    let (cursor, _) = event.id.split_once('-').unwrap();
    for id in [
        &format!("{cursor}-000000000000"),
        "0.999999-7f1a0e75413c",
        "0.0-7f1a0e75413c",
        "nonsense",
        "18446744073709551615.18446744073709551615-7f1a0e75413c",
    ] {
        let mut reader = client.follow_events("/v1/events", Some(id));
        assert_eq!(reader.next_event().unwrap().kind, "reset", "{id}");
    }
}

#[test]
fn stopped_server_ends_its_streams_and_leaves_no_registration() {
    let env = new_env();
    let server = RunningTestServer::start(&env, &["--work", "1"]);
    let client = server.sign_in(&env);
    let mut reader = client.follow_events("/v1/events", None);
    assert_eq!(reader.next_event().unwrap().kind, "hello");
    send_signal(&server.process, Signal::TERM);
    assert_eq!(reader.next_event(), None);
    let said = server.process.finish();
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    let running = env.run_expecting(0, &["open", "--stop"]);
    assert_eq!(running["stopped"], false);
}

#[test]
fn open_starts_one_server_in_the_background_and_stops_it() {
    let env = new_env();
    let first = env.run_expecting(0, &["open", "--print"]);
    let second = env.run_expecting(0, &["open", "--print"]);
    assert_eq!(first["address"], second["address"]);
    assert_ne!(first["link"], second["link"]);
    let plan = env.run_expecting(0, &["run", "--detach", "--agent", "scribe", "Write a line"]);
    let plan = plan["plan_id"].as_str().unwrap();
    // Its workers do what is due.
    env.run_expecting(0, &["wait", plan, "--until", "needs-me"]);
    assert_eq!(env.run_expecting(0, &["open", "--stop"])["stopped"], true);
    assert_eq!(env.run_expecting(0, &["open", "--stop"])["stopped"], false);
}

#[test]
fn idle_server_ends_and_agents_cannot_start_one() {
    let env = new_env();
    let server = RunningTestServer::start(&env, &["--idle-timeout", "1"]);
    let said = server.process.finish();
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    let from_agent = env.repo.program.run(["open", "--print"]);
    let from_agent = from_agent.with_variable("PLANWRIGHT_RUN_KEY", "x").finish();
    assert_eq!(from_agent.exit_code(), Some(6), "{from_agent:?}");
    for address in ["0.0.0.0:0", "192.0.2.1:0"] {
        let said = env.run_here(&["serve", "--listen", address]);
        assert_eq!(said.exit_code(), Some(2), "{said:?}");
    }
}

#[test]
fn plan_is_created_reviewed_landed_and_undone_over_http() {
    let env = new_env();
    let server = RunningTestServer::start(&env, &["--work", "1"]);
    let client = server.sign_in(&env);
    let goal = json!({ "goal": "Write a line", "actor": "scribe", "projects": ["shop"] });
    let created = client.post("/v1/plans", &goal).ok();
    let plan = created["plan_id"].as_str().unwrap().to_owned();
    let path = |plan: &str| format!("/v1/plans/{plan}");
    let wait_until = |plan: &str, standing: &str| {
        let has_standing = || client.get(&path(plan)).ok()["standing"] == standing;
        wait_for(standing, has_standing);
    };
    wait_until(&plan, "needs review");
    let review = client.get(&format!("/fragments/plans/{plan}/review"));
    assert_eq!(review.status, 200, "{review:?}");
    assert!(review.body.contains("Land on main"), "{}", review.body);
    assert!(review.body.contains("src/a.txt"), "{}", review.body);

    let text = json!({ "text": "Once more" });
    client.post(&format!("{}/revise", path(&plan)), &text).ok();
    let starts_twice = || env.read_starts().len() == 2;
    wait_for("the agent works again", starts_twice);
    wait_until(&plan, "needs review");
    let landed = client.post(&format!("{}/apply", path(&plan)), &json!({}));
    landed.ok();
    wait_until(&plan, "landed");
    let file = env.repo.shop_path().join("src/a.txt");
    let content = || std::fs::read_to_string(&file).unwrap();
    assert!(content().contains("Write a line"));

    let undo = client
        .post(&format!("{}/undo", path(&plan)), &json!({}))
        .ok();
    let undo = undo["undo_plan_id"].as_str().unwrap().to_owned();
    client
        .post(&format!("{}/apply", path(&undo)), &json!({}))
        .ok();
    wait_until(&undo, "landed");
    assert!(!content().contains("Write a line"));
}

#[test]
fn chosen_hunks_land_over_http_and_the_rest_becomes_a_plan() {
    let script = "#!/bin/sh\necho one > src/new.txt\necho two > src/other.txt\n";
    let env = ScriptedAgentEnv::with_script(script);
    let server = RunningTestServer::start(&env, &["--work", "1"]);
    let client = server.sign_in(&env);
    let plan = env.start_plan(6).0;
    let path = format!("/v1/plans/{plan}");
    let listed = client.get("/v1/plans?needs_me=true&limit=1").ok();
    assert_eq!(listed["plans"][0]["plan_id"], plan, "{listed}");
    let overview = client.get("/v1/overview").ok();
    assert_eq!(overview["needs_me"][0]["plan_id"], plan, "{overview}");
    let steps = client.get(&format!("{path}/next-steps")).ok();
    assert_eq!(steps["next_steps"][0]["step"], "apply", "{steps}");

    let diff = client.get(&format!("{path}/diff")).ok();
    let files = diff["files"].as_array().unwrap();
    assert_eq!(files.len(), 2, "{diff}");
    let first = &files[0]["hunks"][0]["id"];
    let shown = &diff["pickable"];
    let pick = |hunks: Value, shown: &Value| {
        let body = json!({ "shown": shown, "hunks": hunks, "mode": "take_keep_rest" });
        client.post(&format!("{path}/pick"), &body)
    };
    let everything = json!([first, files[1]["hunks"][0]["id"]]);
    assert_eq!(pick(everything, shown).problem(409), "nothing_to_pick");
    let picked = pick(json!([first]), shown).ok();
    assert_eq!(picked["standing"], "needs review", "{picked}");
    // The page that another browser still shows is outdated now.
    assert_eq!(pick(json!([first]), shown).problem(409), "result_changed");

    client.post(&format!("{path}/apply"), &json!({})).ok();
    wait_for("it lands", || {
        client.get(&path).ok()["standing"] == "landed"
    });
    let shop = env.repo.shop_path().join("src");
    assert!(shop.join("new.txt").exists());
    assert!(!shop.join("other.txt").exists());
    let rest = client.get("/v1/plans?needs_me=true").ok();
    let rest = rest["plans"][0]["plan_id"].as_str().unwrap().to_owned();
    let diff = client.get(&format!("/v1/plans/{rest}/diff")).ok();
    assert_eq!(diff["files"][0]["path"], "src/other.txt", "{diff}");

    let bad = client.get("/v1/plans?phase=nope");
    assert_eq!(bad.problem(400), "bad_query");
    let bad = client.get(&format!("{path}/diff?range=seven"));
    assert_eq!(bad.problem(400), "bad_range");
}

#[test]
fn requests_are_logged_without_what_they_carry() {
    let env = new_env();
    let server = RunningTestServer::start(&env, &[]);
    let client = server.sign_in(&env);
    let plan = env.start_plan(6).0;
    let path = format!("/v1/plans/{plan}");
    let read = client.get(&format!("{path}/events?after=1"));
    let id = read.header("x-request-id").unwrap().to_owned();
    client
        .post(&format!("{path}/revise"), &json!({ "text": "privateword" }))
        .ok();
    client.get("/v1/plans/privatehandle").problem(422);
    client.get("/nowhere/at/privateplace").problem(404);
    send_signal(&server.process, Signal::TERM);
    let said = server.process.finish();
    let log = &said.stderr;
    let lines = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    let read = format!("request={id} method=GET route=/v1/plans/{{id}}/events status=200 ms=");
    assert_eq!(lines(&read), 1, "{log}");
    assert_eq!(
        lines("method=POST route=/v1/plans/{id}/revise status=200"),
        1
    );
    assert_eq!(lines("method=GET route=none status=404"), 1, "{log}");
    let secret = client.session.clone().unwrap();
    for kept in [&*secret, &*plan, "private", "after=1"] {
        assert!(!log.contains(kept), "{kept}: {log}");
    }
}

/// Works until the file `go` exists.
const PATIENT_SCRIPT: &str = "#!/bin/sh
echo more >> src/a.txt
echo ready >> \"$STARTS\"
while [ ! -e \"$(dirname \"$STARTS\")/go\" ]; do sleep 0.1; done
";

/// Each look has its own place to write what it finds.
#[test]
fn many_clients_look_at_a_working_plan_at_once() {
    let env = ScriptedAgentEnv::with_script(PATIENT_SCRIPT);
    let server = RunningTestServer::start(&env, &["--work", "1"]);
    let client = server.sign_in(&env);
    let data = env.run_expecting(0, &["run", "--detach", "--agent", "scribe", "Write a line"]);
    let plan = data["plan_id"].as_str().unwrap();
    wait_for("the agent works", || !env.read_starts().is_empty());
    let targets = ["diff", "review"].map(|what| format!("/v1/plans/{plan}/{what}"));
    std::thread::scope(|scope| {
        for target in targets.iter().cycle().take(6) {
            let client = &client;
            scope.spawn(move || {
                for _ in 0..5 {
                    let seen = client.get(target).ok();
                    assert_eq!(seen["files"][0]["path"], "src/a.txt", "{seen}");
                }
            });
        }
    });
    std::fs::write(env.tool_path("go"), "").unwrap();
    wait_for("the agent ends", || {
        client.get(&format!("/v1/plans/{plan}")).ok()["standing"] == "needs review"
    });
}

/// A store that is gone is not an empty one: nobody must believe that their plans were deleted.
#[test]
fn removed_store_is_answered_with_503_until_it_is_back() {
    let env = new_env();
    let server = RunningTestServer::start(&env, &[]);
    let client = server.sign_in(&env);
    let plan = env.start_plan(6).0;
    let path = format!("/v1/plans/{plan}");
    client.get(&path).ok();
    let home = env.repo.program.home();
    let move_store = |from: &str, to: &str| {
        for end in ["", "-wal", "-shm"] {
            let (from, to) = (format!("{from}{end}"), format!("{to}{end}"));
            let _ = std::fs::rename(home.join(from), home.join(to));
        }
    };
    move_store("planwright.db", "away.db");
    for target in [&*path, "/v1/plans", "/v1/overview", "/fragments/board"] {
        let answer = client.get(target);
        assert_eq!(answer.status, 503, "{target}: {answer:?}");
        assert!(answer.header("retry-after").is_some(), "{target}");
    }
    let cancel = client.post(&format!("{path}/cancel"), &json!({}));
    assert_eq!(cancel.status, 503, "{cancel:?}");
    assert!(!home.join("planwright.db").exists(), "no new store is made");
    move_store("away.db", "planwright.db");
    assert_eq!(client.get(&path).ok()["standing"], "needs review");
    let plans = client.get("/v1/plans").ok();
    assert_eq!(plans["plans"].as_array().unwrap().len(), 1, "{plans}");
}

/// A person who saw another result than the one that would land has not approved it.
#[test]
fn result_lands_only_if_it_is_the_one_that_was_shown() {
    let env = new_env();
    let server = RunningTestServer::start(&env, &["--work", "1"]);
    let client = server.sign_in(&env);
    let plan = env.start_plan(6).0;
    let path = format!("/v1/plans/{plan}");
    let pickable = || client.get(&format!("{path}/diff")).ok()["pickable"].clone();
    let seen = pickable();
    env.run_expecting(0, &["revise", &plan, "Say more", "--detach"]);
    wait_for("the plan has another result", || {
        let now = pickable();
        now.is_string() && now != seen
    });
    let apply = |shown: &Value| client.post(&format!("{path}/apply"), &json!({ "shown": shown }));
    assert_eq!(apply(&seen).problem(409), "result_changed");
    assert_eq!(client.get(&path).ok()["standing"], "needs review");
    apply(&pickable()).ok();
    wait_for("it lands", || {
        client.get(&path).ok()["standing"] == "landed"
    });
}

#[test]
fn page_shows_text_of_agents_as_text_and_only_to_sessions() {
    let script = "#!/bin/sh
printf 'a\\033[31m<script>alert(1)</script>\\n' > 'src/<img src=x>.txt'
echo '<script>alert(2)</script>'
";
    let env = ScriptedAgentEnv::with_script(script);
    let server = RunningTestServer::start(&env, &[]);
    let client = server.sign_in(&env);
    let goal = "Write <script>alert(3)</script> somewhere";
    let plan = env.run_expecting(6, &["run", "--agent", "scribe", goal]);
    let plan = plan["plan_id"].as_str().unwrap();
    let of_plan = ["review", "activity", "why", "preview"];
    let of_plan = of_plan.map(|tab| format!("/fragments/plans/{plan}/{tab}"));
    let others = ["/fragments/board", "/fragments/new", "/fragments/about"].map(str::to_owned);
    for path in of_plan.iter().chain(&others) {
        assert_eq!(
            server.client().get(path).problem(401),
            "no_session",
            "{path}"
        );
        let page = client.get(path);
        assert_eq!(page.status, 200, "{path}: {page:?}");
        for markup in ["<script", "<img", "\u{1b}"] {
            assert!(!page.body.contains(markup), "{path}: {}", page.body);
        }
    }
    let review = client.get(&of_plan[0]).body;
    assert!(
        review.contains("a\u{27e8}U+001B\u{27e9}[31m&#60;script&#62;alert(1)"),
        "{review}"
    );
    // The shell is public, the same for every address, and has nothing inline.
    let shell = server.client().get(&format!("/{plan}/review"));
    assert_eq!(shell.status, 200);
    assert_eq!(shell.body, server.client().get("/").body);
    assert!(
        !shell.body.contains(plan) && !shell.body.contains("style="),
        "{}",
        shell.body
    );
    for tag in shell.body.split("<script").skip(1) {
        assert!(tag.contains("src=\"/assets/"), "{tag}");
    }
}
