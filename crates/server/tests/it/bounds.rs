//! Slow, large and many requests.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use api::plan_config::PlanConfig;
use lifecycle::Lifecycle;
use plan::{Caller, PlanId, QualifiedName};
use planwright_server::{
    DescribeFailure, EngineFailure, FailureClass, FailureDescription, PlanServer, ReadPlanConfig,
    ServerConfig, ServerLimits, SessionStore, ShutdownSignal,
};
use store::{Clock, MemoryStore};
use testkit::HttpClient;

/// Describes every failure with its own text.
struct PlainFailures;

impl DescribeFailure for PlainFailures {
    fn describe(&self, failure: EngineFailure, _: &str, _: Option<PlanId>) -> FailureDescription {
        FailureDescription {
            class: FailureClass::NotFound,
            exit_code: 3,
            kind: "plain".to_owned(),
            message: failure.to_string(),
            hints: Vec::new(),
        }
    }
}

/// No settings and no agents.
struct NoConfig;

impl ReadPlanConfig for NoConfig {
    fn read_plan_config(
        &self,
        _: &Lifecycle,
        _: &[QualifiedName],
    ) -> Result<PlanConfig, FailureDescription> {
        Ok(PlanConfig::default())
    }
}

/// Runs `test` with a client that has a session, while a server runs.
fn with_server(limits: ServerLimits, test: impl FnOnce(&HttpClient)) {
    with_engine(Lifecycle::open(MemoryStore::new()), limits, test);
}

fn with_engine(lifecycle: Lifecycle, limits: ServerLimits, test: impl FnOnce(&HttpClient)) {
    let home = tempfile::tempdir().unwrap();
    let config = ServerConfig {
        lifecycle,
        caller: Caller::Person("ada".to_owned()),
        failures: Arc::new(PlainFailures),
        configs: Arc::new(NoConfig),
        directory: home.path().to_owned(),
        limits,
        idle_timeout: None,
    };
    let server = PlanServer::bind("127.0.0.1:0".parse::<SocketAddr>().unwrap()).unwrap();
    let sessions = SessionStore::new(home.path(), Clock::default());
    let mut client = HttpClient::new(server.address());
    let shutdown = ShutdownSignal::default();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| server.run(&config, &shutdown));
        let code = sessions.issue_code().unwrap();
        let body = serde_json::json!({ "code": code.as_str() });
        let started = client.post("/v1/sessions", &body).ok();
        client.session = Some(started["secret"].as_str().unwrap().to_owned());
        let stop_at_end = StopAtEnd(&shutdown);
        test(&client);
        drop(stop_at_end);
        running.join().unwrap().unwrap();
    });
}

/// Ends the server even if the test fails; otherwise its thread would never end.
struct StopAtEnd<'a>(&'a ShutdownSignal);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.request();
    }
}

#[test]
fn slow_headers_and_bodies_are_cut_off() {
    let limits = ServerLimits {
        header_timeout: Duration::from_millis(200),
        body_timeout: Duration::from_millis(200),
        ..ServerLimits::default()
    };
    with_server(limits, |client| {
        let mut stream = client.connect();
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: x")
            .unwrap();
        let mut rest = Vec::new();
        // Ends when the server closes the connection.
        stream.read_to_end(&mut rest).unwrap();
        assert!(!String::from_utf8_lossy(&rest).contains(" 200 "));

        let mut stream = client.connect();
        let head = format!(
            "POST /v1/sessions HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: 100\r\nconnection: close\r\n\r\n{{",
            client.address
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(" 408 "), "{answer}");
        assert!(answer.contains("slow_body"), "{answer}");
        client.get("/readyz").ok();
    });
}

/// A client that sends a byte now and then is as slow as one that sends nothing.
#[test]
fn trickling_headers_and_bodies_are_cut_off() {
    let limits = ServerLimits {
        header_timeout: Duration::from_millis(200),
        body_timeout: Duration::from_millis(200),
        ..ServerLimits::default()
    };
    with_server(limits, |client| {
        let head = format!(
            "POST /v1/sessions HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n",
            client.address
        );
        for start in ["GET /healthz HTTP/1.1\r\nx-slow: ", &head] {
            let mut stream = client.connect();
            stream.write_all(start.as_bytes()).unwrap();
            let began = Instant::now();
            // Fails once the server has closed the connection.
            while stream.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
                assert!(began.elapsed() < Duration::from_secs(60), "{start}");
            }
        }
        client.get("/readyz").ok();
    });
}

#[test]
fn too_many_or_too_large_headers_are_refused() {
    with_server(ServerLimits::default(), |client| {
        let many: Vec<_> = (0..100).map(|_| ("x-more", "y")).collect();
        assert_eq!(client.request("GET", "/healthz", &many, "").status, 431);
        let large = "y".repeat(100_000);
        let large = [("x-large", &*large)];
        let answer = client.request("GET", "/healthz", &large, "");
        assert_ne!(answer.status, 200, "{answer:?}");
        client.get("/healthz").ok();
    });
}

#[test]
fn connections_beyond_the_limit_wait_for_their_turn() {
    let limits = ServerLimits {
        max_connections: 2,
        header_timeout: Duration::from_millis(300),
        ..ServerLimits::default()
    };
    with_server(limits, |client| {
        let silent: Vec<_> = (0..4).map(|_| client.connect()).collect();
        // Served once the silent ones were cut off.
        client.get("/healthz").ok();
        drop(silent);
    });
}

#[test]
fn engine_calls_beyond_the_limit_are_answered_with_503() {
    let limits = ServerLimits {
        max_engine_calls: 0,
        engine_queue_timeout: Duration::from_millis(50),
        ..ServerLimits::default()
    };
    with_server(limits, |client| {
        let answer = client.get("/v1/plans/@");
        assert_eq!(answer.problem(503), "overloaded");
        assert_eq!(answer.header("retry-after"), Some("1"));
        // What needs no engine still answers.
        client.get("/healthz").ok();
    });
}

#[test]
fn change_that_takes_too_long_is_answered_with_the_key_to_repeat() {
    let limits = ServerLimits {
        engine_timeout: Duration::from_millis(50),
        ..ServerLimits::default()
    };
    // Every change needs an id, and gets none before `release`.
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let random = move || {
        let _ = wait.lock().unwrap().recv();
        0
    };
    let lifecycle = Lifecycle::open(MemoryStore::new()).with_ids(Clock::default(), random);
    with_engine(lifecycle, limits, move |client| {
        let path = "/v1/plans/01ARZ3NDEKTSV4RRFFQ69G5FAV/cancel";
        let key = [("idempotency-key", "mine")];
        let answer = client.post_with(path, &key, &serde_json::json!({}));
        assert_eq!(answer.problem(504), "unknown_outcome");
        assert_eq!(answer.json()["key"], "mine");
        assert_eq!(answer.json()["exit_code"], 9);
        drop(release);
    });
}

#[test]
fn idle_streams_show_signs_of_life_and_end_with_their_session() {
    let limits = ServerLimits {
        keep_alive_interval: Duration::from_millis(50),
        ..ServerLimits::default()
    };
    with_server(limits, |client| {
        let mut stream = client.connect();
        let session = client.session.as_deref().unwrap();
        write!(
            stream,
            "GET /v1/events HTTP/1.0\r\nhost: {}\r\nplanwright-session: {session}\r\n\r\n",
            client.address
        )
        .unwrap();
        let mut text = String::new();
        while text.matches(": keep-alive").count() < 2 {
            let mut bytes = [0; 1024];
            let count = stream.read(&mut bytes).unwrap();
            assert_ne!(count, 0, "{text}");
            text.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        let path = format!("/v1/sessions/{}", session.split_once('.').unwrap().0);
        let json = [("content-type", "application/json")];
        assert_eq!(client.request("DELETE", &path, &json, "").status, 204);
        // Returns when the server ends the stream.
        stream.read_to_string(&mut text).unwrap();
    });
}

/// Somebody without an agent learns how to get one, instead of starting plans that fail.
#[test]
fn empty_board_without_an_agent_says_how_to_install_one() {
    with_server(ServerLimits::default(), |client| {
        let board = client.get("/fragments/board");
        assert_eq!(board.status, 200, "{board:?}");
        assert!(board.body.contains("No plans yet"), "{}", board.body);
        assert!(
            board.body.contains("npm install --global"),
            "{}",
            board.body
        );
        assert!(board.body.contains("data-off disabled"), "{}", board.body);
        let working = client.get("/fragments/board/working");
        assert_eq!(working.status, 200, "{working:?}");
    });
}
