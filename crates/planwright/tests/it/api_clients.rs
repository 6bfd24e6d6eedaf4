//! The clients that docs/api.md shows: curl, and a Python program that follows events.

#![allow(
    clippy::disallowed_methods,
    reason = "clients are programs of their own, found by the search path of the tests"
)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

use crate::daily::{SCRIBE_SCRIPT, ScriptedAgentEnv};
use crate::server::RunningTestServer;

const API_PAGE: &str = include_str!("../../../../docs/api.md");

/// The block of code after a mark.
fn find_code_after(mark: &str) -> &'static str {
    let (_, after) = API_PAGE.split_once(mark).unwrap();
    let (_, block) = after.split_once("```").unwrap();
    let (_, code) = block.split_once('\n').unwrap();
    code.split_once("```").unwrap().0
}

#[test]
fn curl_signs_in_reads_and_changes_as_the_page_says() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let _server = RunningTestServer::start(&env, &[]);
    let plan = env.start_plan(6).0;
    let script = format!(
        "set -eu\n{}\necho\n{}",
        find_code_after("<!-- sign in"),
        find_code_after("<!-- change")
    );
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_planwright"));
    let path = std::env::var("PATH").unwrap();
    let output = Command::new("/bin/sh")
        .args(["-c", &script])
        .current_dir(env.repo.program.home())
        .env("PLANWRIGHT_HOME", env.repo.program.home())
        .env(
            "PATH",
            format!("{}:{path}", program.parent().unwrap().display()),
        )
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let answers: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers[0]["plan_id"], *plan, "{text}");
    assert_eq!(answers[1]["standing"], "waiting", "{text}");
    assert_eq!(answers[1]["receipt"]["repeated"], false, "{text}");
    // The link and the changes, and nothing else.
    assert_eq!(answers.len(), 2, "{text}");
}

/// The program of the page, while it runs.
struct EventFollower {
    process: Child,
    events: Receiver<Value>,
}

impl EventFollower {
    fn start(url: &str, secret: &str) -> Self {
        let mut process = Command::new("python3")
            .args(["-c", find_code_after("<!-- follow")])
            .env("URL", url)
            .env("SECRET", secret)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (sender, events) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = sender.send(serde_json::from_str(&line).unwrap());
            }
        });
        Self { process, events }
    }

    /// Generous: the machine may be busy.
    fn next_event(&self) -> Value {
        let timeout = Duration::from_secs(120);
        self.events.recv_timeout(timeout).expect("another event")
    }
}

impl Drop for EventFollower {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn python_client_sees_every_event_once_across_server_kills() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let mut server = RunningTestServer::start(&env, &[]);
    let client = server.sign_in(&env);
    let secret = client.session.clone().unwrap();
    let follower = EventFollower::start(&format!("http://{}", server.address), &secret);
    // A stream without an id begins with what happens next, so something happens until it is there.
    let mut seen = Vec::new();
    while seen.is_empty() {
        env.start_plan(6);
        seen.extend(follower.events.recv_timeout(Duration::from_secs(2)));
    }
    let mut plans = Vec::new();
    for _ in 0..3 {
        plans.push(env.start_plan(6).0);
        let address = server.kill();
        plans.push(env.start_plan(6).0);
        server = RunningTestServer::start_at(&env, &address.to_string(), &[]);
    }
    let last = plans.last().unwrap();
    while seen.last().is_none_or(|event: &Value| {
        event["plan_id"] != **last || event["type"] != "execute_completed"
    }) {
        seen.push(follower.next_event());
    }
    for plan in &plans {
        let versions: Vec<u64> = seen
            .iter()
            .filter(|event| event["plan_id"] == **plan)
            .map(|event| event["version"].as_u64().unwrap())
            .collect();
        let events = client.get(&format!("/v1/plans/{plan}/events?limit=500"));
        let count = events.ok()["events"].as_array().unwrap().len() as u64;
        let expected: Vec<u64> = (1..=count).collect();
        assert_eq!(versions, expected, "{plan}");
    }
}
