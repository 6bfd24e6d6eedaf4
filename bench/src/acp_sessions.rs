//! Agents that speak the Agent Client Protocol: how soon a prompt arrives after its plan is committed, compared with
//! holding the same conversation directly; how soon patterns answer a permission request; what 200 sessions cost their
//! worker. And how soon `planwright mcp` answers its first call.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lifecycle::{Call, Lifecycle, UseRequest};
use plan::actor::{AcpCommand, ActorKind};
use plan::permission::ToolPolicy;
use plan::{ActorDefinition, Caller, PlanActors, PlanId, Profile, QualifiedName};
use serde_json::{Value, json};
use store::{SqliteOptions, SqliteStore};

use crate::statistics::{median, print_header, print_row};
use crate::workers::{WorkerProcess, elapsed_ms, monotonic_nanos, own_program};

const START_ROUNDS: usize = 40;
const SESSIONS: usize = 200;
const MCP_ROUNDS: usize = 20;
const TIMEOUT: Duration = Duration::from_secs(300);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The environment variable with the directory that an agent writes its times to.
const TIMES_DIR_VAR: &str = "BENCH_TIMES";

/// Agents wait for this file in the directory before they end their turn.
const GO_FILE: &str = "go";

pub fn measure_acp_sessions() {
    print_header();
    let directory = tempfile::tempdir_in(".").unwrap();
    let root = directory.path().canonicalize().unwrap();
    AcpBench::create(&root.join("latency")).measure_latencies();
    AcpBench::create(&root.join("sessions")).measure_sessions();
    AcpBench::create(&root.join("mcp")).measure_first_mcp_call();
}

/// The benchmark's agent. On a prompt it notes the time, asks for a permission and notes how long the answer took.
pub fn run_acp_agent() {
    let started = monotonic_nanos();
    let times = PathBuf::from(std::env::var(TIMES_DIR_VAR).unwrap());
    let mut lines = BufReader::new(std::io::stdin()).lines();
    while let Some(Ok(line)) = lines.next() {
        let message: Value = serde_json::from_str(&line).unwrap();
        let result = match message["method"].as_str() {
            Some("initialize") => json!({"protocolVersion": 1}),
            Some("session/new") => json!({"sessionId": "s"}),
            Some("session/prompt") => {
                let prompted = monotonic_nanos();
                let asked = monotonic_nanos();
                write_line(&json!({
                    "jsonrpc": "2.0",
                    "id": 1,
                    "method": "session/request_permission",
                    "params": {
                        "sessionId": "s",
                        "toolCall": {"toolCallId": "c", "kind": "execute", "rawInput": {"command": "make"}},
                        "options": [{"optionId": "y", "kind": "allow_once"}, {"optionId": "n", "kind": "reject_once"}],
                    },
                }));
                let answer = lines.next().unwrap().unwrap();
                let answered = monotonic_nanos();
                assert!(answer.contains("\"y\""), "{answer}");
                let name = format!("{}", std::process::id());
                let text = format!("{started} {prompted} {}", answered - asked);
                std::fs::write(times.join(format!("{name}.new")), text).unwrap();
                std::fs::rename(times.join(format!("{name}.new")), times.join(name)).unwrap();
                while !times.join(GO_FILE).exists() {
                    std::thread::sleep(POLL_INTERVAL);
                }
                json!({"stopReason": "end_turn"})
            }
            _ => continue,
        };
        write_line(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
    }
}

fn write_line(message: &Value) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{message}").unwrap();
    output.flush().unwrap();
}

/// A Planwright home with a store, where this program is an agent that speaks the protocol.
struct AcpBench {
    home: PathBuf,
    times: PathBuf,
    store_url: String,
    lifecycle: Lifecycle,
}

/// What an agent measured.
struct AgentTimes {
    /// Its first instruction.
    started: u64,
    prompted: u64,
    /// Until its request was answered.
    permission_nanos: u64,
}

impl AcpBench {
    fn create(root: &Path) -> Self {
        let (home, times) = (root.join("home"), root.join("times"));
        std::fs::create_dir_all(&home).unwrap();
        std::fs::create_dir_all(&times).unwrap();
        let path = home.join("planwright.db");
        Self {
            store_url: format!("sqlite:{}", path.display()),
            lifecycle: Lifecycle::open(SqliteStore::new(&path, SqliteOptions::default())),
            home,
            times,
        }
    }

    fn start_worker(&self, sessions: usize) -> WorkerProcess {
        let child = Command::new(own_program().with_file_name("planwright"))
            .args(["--store", &self.store_url, "work", "--concurrency"])
            .arg(sessions.to_string())
            .env("PLANWRIGHT_HOME", &self.home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        WorkerProcess(child.unwrap())
    }

    /// Creates a plan. Returns its id and the time of the commit.
    fn create_plan(&self) -> (PlanId, u64) {
        let bot: QualifiedName = "bot".parse().unwrap();
        let times = self.times.display().to_string();
        let agent = AcpCommand {
            command: vec![own_program().display().to_string(), "acp-agent".to_owned()],
            set_env: BTreeMap::from([(TIMES_DIR_VAR.to_owned(), times.clone())]),
            writable: vec![times],
            tools: ToolPolicy {
                allow: vec!["execute(make)".parse().unwrap()],
                ..ToolPolicy::default()
            },
            ..AcpCommand::default()
        };
        let request = UseRequest {
            goal: Some("Run make".to_owned()),
            definitions: vec![ActorDefinition {
                name: bot.clone(),
                description: None,
                kind: ActorKind::Acp(Box::new(agent)),
            }],
            fallback_actors: Some(PlanActors::for_both_phases(bot)),
            profile: Some(Profile::Auto),
            ..UseRequest::default()
        };
        let call = Call::by(Caller::Person("bench".to_owned()));
        let plan_id = self.lifecycle.use_action(request, &call).unwrap().plan.id();
        (plan_id, monotonic_nanos())
    }

    fn wait_for_end(&self, plan_id: PlanId) {
        let began = Instant::now();
        loop {
            let row = self.lifecycle.get_plan(plan_id).unwrap();
            let stage = row.plan.stage();
            if stage.ending().is_some() {
                return;
            }
            assert!(stage.failure().is_none(), "{:?}", stage.failure());
            assert!(began.elapsed() < TIMEOUT, "{stage}");
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// The times that agents wrote. Removes them.
    fn take_times(&self) -> Vec<AgentTimes> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.times).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.bytes().all(|byte| byte.is_ascii_digit()) {
                let text = std::fs::read_to_string(&path).unwrap();
                let mut numbers = text.split(' ').map(|number| number.parse().unwrap());
                let mut next = || numbers.next().unwrap();
                found.push(AgentTimes {
                    started: next(),
                    prompted: next(),
                    permission_nanos: next(),
                });
                std::fs::remove_file(path).unwrap();
            }
        }
        found
    }

    fn measure_latencies(&self) {
        std::fs::write(self.times.join(GO_FILE), "").unwrap();
        let _worker = self.start_worker(1);
        let (mut by_worker, mut direct, mut permissions) = (Vec::new(), Vec::new(), Vec::new());
        let (mut handshakes, mut direct_handshakes) = (Vec::new(), Vec::new());
        for round in 0..=START_ROUNDS {
            let started = monotonic_nanos();
            self.hold_conversation();
            let directly = self.take_times().remove(0);
            let (plan_id, committed) = self.create_plan();
            self.wait_for_end(plan_id);
            let times = self.take_times().remove(0);
            // The first round includes the worker's own start.
            if round > 0 {
                direct.push(elapsed_ms(started, directly.prompted));
                by_worker.push(elapsed_ms(committed, times.prompted));
                direct_handshakes.push(elapsed_ms(directly.started, directly.prompted));
                handshakes.push(elapsed_ms(times.started, times.prompted));
                permissions.push(elapsed_ms(0, times.permission_nanos));
            }
            // Let the worker go idle before the next round.
            std::thread::sleep(Duration::from_millis(50));
        }
        let (by_worker, direct) = (median(by_worker), median(direct));
        print_row(
            "ACP, commit to `session/prompt`, minus holding the conversation directly",
            &format!(
                "**{:.1} ms**: {by_worker:.1} ms, {direct:.1} ms",
                by_worker - direct
            ),
            "≤ 10 ms",
        );
        print_row(
            "of which after the agent's first instruction: the handshake, directly",
            &format!(
                "{:.1} ms, {:.1} ms",
                median(handshakes),
                median(direct_handshakes)
            ),
            "",
        );
        print_row(
            "ACP, a permission request answered by patterns",
            &format!("**{:.2} ms**", median(permissions)),
            "≤ 1 ms",
        );
    }

    /// Starts the agent and talks to it without Planwright.
    fn hold_conversation(&self) {
        let mut agent = Command::new(own_program())
            .arg("acp-agent")
            .env(TIMES_DIR_VAR, &self.times)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut talk = LineTalk::of(&mut agent);
        talk.ask(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}));
        talk.ask(&json!({"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {}}));
        talk.ask(&json!({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": {}}));
        let outcome = json!({"outcome": {"outcome": "selected", "optionId": "y"}});
        talk.ask(&json!({"jsonrpc": "2.0", "id": 1, "result": outcome}));
        drop(talk);
        assert!(agent.wait().unwrap().success());
    }

    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn measure_sessions(&self) {
        let worker = self.start_worker(SESSIONS);
        std::thread::sleep(Duration::from_secs(1));
        let idle = (worker.thread_count(), worker.resident_mb());
        let plans: Vec<PlanId> = (0..SESSIONS).map(|_| self.create_plan().0).collect();
        let began = Instant::now();
        let mut prompted = 0;
        while prompted < SESSIONS {
            prompted += self.take_times().len();
            assert!(began.elapsed() < TIMEOUT, "{prompted} sessions");
            std::thread::sleep(POLL_INTERVAL);
        }
        let busy = (worker.thread_count(), worker.resident_mb());
        std::fs::write(self.times.join(GO_FILE), "").unwrap();
        for plan_id in plans {
            self.wait_for_end(plan_id);
        }
        let sessions = SESSIONS as f64;
        print_row(
            &format!("ACP, {SESSIONS} sessions at once in one worker: threads and memory for each"),
            &format!(
                "**{:.1}**, **{:.2} MB**",
                (busy.0 - idle.0) / sessions,
                (busy.1 - idle.1) / sessions
            ),
            "≤ 2, ≤ 1 MB",
        );
    }

    fn measure_first_mcp_call(&self) {
        self.create_plan();
        let mut times = Vec::new();
        for _ in 0..MCP_ROUNDS {
            let started = monotonic_nanos();
            let mut server = Command::new(own_program().with_file_name("planwright"))
                .args(["--store", &self.store_url, "mcp"])
                .env("PLANWRIGHT_HOME", &self.home)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let mut talk = LineTalk::of(&mut server);
            let client = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
            talk.ask(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}));
            let call = json!({"name": "plan_list", "arguments": {}});
            let answer = talk
                .ask(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}));
            times.push(elapsed_ms(started, monotonic_nanos()));
            assert!(answer.contains("structuredContent"), "{answer}");
            drop(talk);
            server.wait().unwrap();
        }
        print_row(
            "`planwright mcp`, start to the answer of the first call",
            &format!("**{:.1} ms**", median(times)),
            "≤ 50 ms",
        );
    }
}

/// The pipes to a child process.
struct LineTalk {
    input: std::process::ChildStdin,
    output: BufReader<std::process::ChildStdout>,
}

impl LineTalk {
    fn of(child: &mut Child) -> Self {
        Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
        }
    }

    /// Sends a message and returns the next line.
    fn ask(&mut self, message: &Value) -> String {
        writeln!(self.input, "{message}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }
}
