//! Budgets, as people meet them: a stand-in for an agent that tells what it uses in the stream of Claude
//! Code, halted and gone on with; one budget for several plans and several workers.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::{PostgresDatabase, TestProcess, TestProgram};

use crate::shop_repository::ShopRepository;

/// An agent: writes a line per call and says what all of them cost so far. As many calls as `calls` says,
/// a dollar each.
const PAID_AGENT: &str = r#"#!/bin/sh
calls=$(cat "$TOOLS/calls")
echo '{"type":"system","subtype":"init","session_id":"s1"}'
i=0
while [ $i -lt "$calls" ]; do
  i=$((i + 1))
  echo "call $i of attempt $PLANWRIGHT_ATTEMPT" >> notes.txt
  echo "$PLANWRIGHT_PLAN" >> "$TOOLS/paid"
  echo "{\"type\":\"assistant\",\"total_cost_usd\":$i,\"message\":{\"id\":\"m$i\",\"content\":[{\"type\":\"text\",\"text\":\"call $i\"}],\"usage\":{\"input_tokens\":90,\"output_tokens\":10}}}"
  sleep 0.4
done
echo "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"done\",\"total_cost_usd\":$i,\"usage\":{\"input_tokens\":$((90 * i)),\"output_tokens\":$((10 * i))}}"
"#;

/// How long is waited for something that has to happen.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

struct PaidAgentTools(tempfile::TempDir);

impl PaidAgentTools {
    fn new(repo: &ShopRepository, calls: u32) -> Self {
        let tools = Self(tempfile::TempDir::with_prefix("planwright-tools-").unwrap());
        testkit::write_program(&tools.tool_path("agent"), PAID_AGENT);
        tools.set_calls(calls);
        let directory = tools.0.path().display();
        let text = format!(
            "name: agent\nkind: command\ncommand: [{directory}/agent]\noutput: claude-json\n\
             set_env: {{TOOLS: {directory}}}\nwritable: [{directory}]\n"
        );
        std::fs::write(tools.tool_path("agent.yaml"), text).unwrap();
        repo.run_ok(&[
            "agent",
            "add",
            tools.tool_path("agent.yaml").to_str().unwrap(),
        ]);
        tools
    }

    fn set_calls(&self, calls: u32) {
        std::fs::write(self.tool_path("calls"), calls.to_string()).unwrap();
    }

    fn tool_path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn paid_calls(&self) -> usize {
        let text = std::fs::read_to_string(self.tool_path("paid")).unwrap_or_default();
        text.lines().count()
    }
}

fn run_program(repo: &ShopRepository, words: &[&str]) -> testkit::TestRunOutput {
    let words = [&["--format", "json", "run", "--agent", "agent"], words].concat();
    repo.program
        .run(words)
        .with_directory(repo.shop_path())
        .finish()
}

fn start_detached(repo: &ShopRepository, words: &[&str]) -> String {
    let said = run_program(
        repo,
        &[&["--detach", "--no-project", "--profile", "auto"], words].concat(),
    );
    said.data()["plan_id"].as_str().unwrap().to_owned()
}

/// What the agent wrote in the sandbox of a plan.
fn read_notes(repo: &ShopRepository, plan: &str) -> String {
    let path = repo.program.run(["path", plan]).finish().stdout;
    std::fs::read_to_string(format!("{}/notes.txt", path.trim())).unwrap()
}

fn wait_until_paid(tools: &PaidAgentTools) {
    let began = Instant::now();
    while tools.paid_calls() == 0 {
        assert!(began.elapsed() < WAIT_TIMEOUT, "it does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn cost_in_dollars(view: &Value) -> u64 {
    view["used"]["cost_micros"].as_u64().unwrap() / 1_000_000
}

#[test]
fn a_plan_is_halted_at_its_limit_and_goes_on_with_more() {
    let repo = ShopRepository::new();
    let tools = PaidAgentTools::new(&repo, 50);
    let said = run_program(&repo, &["--max-cost", "5", "Write notes"]);
    assert_eq!(said.exit_code(), Some(7), "{said:?}");
    let view = said.data();
    let plan = view["plan_id"].as_str().unwrap().to_owned();
    assert_eq!(view["state"], "errored", "{view}");
    assert_eq!(view["error"]["category"], "budget", "{view}");
    assert_eq!(view["limits"]["cost_micros"], 5_000_000, "{view}");
    let spent = cost_in_dollars(&view);
    assert!((5..=6).contains(&spent), "{view}");
    assert!(
        said.stdout.contains("nearing a limit: $4.00 of $5.00"),
        "{said:?}"
    );
    let hint = format!("--max-cost {}.00", spent + 5);
    assert!(said.messages().contains(&hint), "{}", said.messages());

    // What it made is there, and what was paid for is charged.
    let notes = read_notes(&repo, &plan);
    assert_eq!(notes.lines().count() as u64, spent, "{notes}");
    assert_eq!(tools.paid_calls() as u64, spent);

    let status = repo.program.run(["status", &plan]).finish().stdout;
    assert!(
        status.contains(&format!("${spent}.00 of $5.00")),
        "{status}"
    );
    assert!(status.contains("tokens"), "{status}");
    let listed = repo
        .program
        .run(["list", "--all", "--cost"])
        .finish()
        .stdout;
    assert!(
        listed.contains("COST") && listed.contains(&format!("${spent}.00 of $5.00")),
        "{listed}"
    );

    repo.run_bad(4, &["retry", &plan, "--detach"], "leaves nothing");
    repo.run_bad(
        4,
        &["retry", &plan, "--detach", "--max-cost", "2"],
        "$2.00 leaves nothing",
    );
    tools.set_calls(2);
    repo.run_ok(&["retry", &plan, "--detach", "--max-cost", "20"]);
    repo.run_ok(&["work", "--drain"]);
    assert_eq!(repo.plan_state(&plan), "execute/complete");
    let view = repo.run_ok(&["status", &plan]);
    assert_eq!(cost_in_dollars(&view), spent + 2, "{view}");
    let notes = read_notes(&repo, &plan);
    assert_eq!(notes.lines().count() as u64, spent + 2, "{notes}");
}

#[test]
fn tokens_and_time_are_limited_too() {
    let repo = ShopRepository::new();
    let _tools = PaidAgentTools::new(&repo, 50);
    for (flag, value, says) in [
        ("--max-tokens", "250", "of 250 tokens for this plan"),
        ("--max-time", "1s", "of 1s for this plan"),
    ] {
        let said = run_program(&repo, &["--no-project", flag, value, "Write notes"]);
        assert_eq!(said.exit_code(), Some(7), "{said:?}");
        let error = &said.data()["error"];
        assert_eq!(error["category"], "budget", "{error}");
        assert!(error["message"].as_str().unwrap().contains(says), "{error}");
        assert!(said.messages().contains(flag), "{}", said.messages());
    }
}

#[test]
fn limits_come_from_flags_the_repository_and_the_user_in_this_order() {
    let repo = ShopRepository::new();
    let _tools = PaidAgentTools::new(&repo, 1);
    repo.run_ok(&["config", "set", "limits.cost", "9"]);
    repo.run_ok(&["config", "set", "limits.tokens", "9000"]);
    repo.run_bad(
        2,
        &["config", "set", "limits.cost", "lots"],
        "not an amount of money",
    );
    repo.write_file("planwright.yaml", "limits:\n  cost: 3.50\n  time: 2h\n");
    let said = run_program(&repo, &["--detach", "--max-time", "1h", "Write notes"]);
    let limits = &said.data()["limits"];
    assert_eq!(limits["cost_micros"], 3_500_000, "{limits}");
    assert_eq!(limits["tokens"], 9000, "{limits}");
    assert_eq!(limits["time_seconds"], 3600, "{limits}");
    assert_eq!(limits["attempts"], 3, "{limits}");
    run_program(&repo, &["--detach", "Write notes"]);
    let status = repo
        .program
        .run(["status", "@"])
        .with_directory(repo.shop_path())
        .finish();
    let says = "3 attempts, 1h each, $3.50 in total, 9000 tokens in total, 2h in total";
    assert!(status.stdout.contains(says), "{status:?}");
}

#[test]
fn one_budget_is_shared_by_plans_and_raised_for_them() {
    let repo = ShopRepository::new();
    let tools = PaidAgentTools::new(&repo, 3);
    repo.run_ok(&["config", "set", "budget.cost", "4"]);
    let plans = [
        start_detached(&repo, &["Plan one"]),
        start_detached(&repo, &["Plan two"]),
        start_detached(&repo, &["Plan three"]),
    ];
    repo.run_ok(&["work", "--drain", "--concurrency", "3"]);
    let states = plans.each_ref().map(|plan| repo.plan_state(plan));
    assert_eq!(
        states
            .iter()
            .filter(|state| *state == "apply/applied")
            .count(),
        1,
        "{states:?}"
    );
    let halted: Vec<&String> = plans
        .iter()
        .filter(|plan| repo.plan_state(plan) == "execute/errored")
        .collect();
    assert_eq!(halted.len(), 2, "{states:?}");
    // Three for the first, one of the second's until it was halted, perhaps one more on its way out.
    assert!(
        (4..=5).contains(&tools.paid_calls()),
        "{}",
        tools.paid_calls()
    );
    let status = repo.program.run(["status", halted[0]]).finish();
    assert!(status.stdout.contains("all plans"), "{status:?}");
    assert!(
        status.stderr.contains("planwright config set budget.cost"),
        "{status:?}"
    );

    repo.run_ok(&["config", "set", "budget.cost", "50"]);
    for plan in halted {
        repo.run_ok(&["retry", plan, "--detach"]);
    }
    repo.run_ok(&["work", "--drain", "--concurrency", "3"]);
    for plan in &plans {
        assert_eq!(repo.plan_state(plan), "apply/applied");
    }
}

#[test]
fn two_processes_spend_one_budget_and_no_more() {
    let database = PostgresDatabase::new();
    let mut program = TestProgram::new(env!("CARGO_BIN_EXE_planwright"));
    program.set_variable("PLANWRIGHT_STORE", database.url());
    program.set_variable("PLANWRIGHT_BUDGET_COST", "6");
    let repo = ShopRepository::with_program(program);
    let tools = PaidAgentTools::new(&repo, 1);
    let plans: Vec<String> = (0..16)
        .map(|number| start_detached(&repo, &["--max-cost", "1.50", &format!("Plan {number}")]))
        .collect();
    let workers: Vec<TestProcess> = (0..2)
        .map(|_| {
            let words = ["--format", "json", "work", "--drain", "--concurrency", "4"];
            repo.program.run(words).start()
        })
        .collect();
    for worker in workers {
        let said = worker.finish();
        assert_eq!(said.exit_code(), Some(0), "{said:?}");
        assert_eq!(said.data()["troubles"], 0, "{said:?}");
    }
    let view = |plan: &String| repo.run_ok(&["status", plan]);
    let spent: u64 = plans.iter().map(|plan| cost_in_dollars(&view(plan))).sum();
    assert_eq!(
        spent,
        tools.paid_calls() as u64,
        "charged once what was paid once"
    );
    // A dollar a call; none was begun with nothing left.
    assert!((6..=7).contains(&spent), "{spent}");
    let done = plans
        .iter()
        .filter(|plan| view(plan)["state"] == "applied")
        .count();
    assert!(done >= 5, "{done}");
    for plan in &plans {
        let view = view(plan);
        let halted = view["error"]["category"] == "budget";
        assert!(halted || view["state"] == "applied", "{view}");
        assert_eq!(view["used"]["reserved_cost_micros"], 0, "{view}");
    }
}

#[test]
fn the_reservation_of_a_killed_worker_is_charged_in_full_and_reported() {
    let repo = ShopRepository::new();
    let tools = PaidAgentTools::new(&repo, 1000);
    let plan = start_detached(&repo, &["--max-cost", "2000", "Take long"]);
    let worker = repo.program.run(["work"]).start();
    wait_until_paid(&tools);
    worker.kill();
    repo.run_ok(&["work", "--drain"]);
    let view = repo.run_ok(&["status", &plan]);
    assert_eq!(view["error"]["category"], "budget", "{view}");
    assert_eq!(cost_in_dollars(&view), 2000, "{view}");
    assert_eq!(
        view["used"]["forfeited_cost_micros"], 2_000_000_000_u64,
        "{view}"
    );
    let status = repo.program.run(["status", &plan]).finish().stdout;
    assert!(status.contains("charged in full"), "{status}");
}

#[test]
fn why_says_that_the_budget_is_waited_for() {
    let repo = ShopRepository::new();
    let tools = PaidAgentTools::new(&repo, 1000);
    repo.run_ok(&["config", "set", "budget.cost", "4000"]);
    start_detached(&repo, &["Take it all"]);
    let worker = repo.program.run(["work", "--concurrency", "2"]).start();
    wait_until_paid(&tools);
    let waiting = start_detached(&repo, &["Wait for some"]);
    let why = || repo.program.run(["why", &waiting]).finish().stdout;
    let says = "waiting for budget: $0.00 spent and $4000.00 reserved";
    let began = Instant::now();
    // Its strategy is its goal, and takes nothing.
    while !why().contains(says) {
        assert!(began.elapsed() < WAIT_TIMEOUT, "{}", why());
    }
    assert_eq!(repo.plan_state(&waiting), "execute/queued");
    worker.kill();
}

/// An agent that counts by conversation, as Codex does: each run tells what all runs of its thread used. Every run uses
/// 100 tokens when it begins, and is told to hang by the file `hang`.
const TOKEN_COUNTING_AGENT: &str = r#"#!/bin/sh
echo '{"type":"thread.started","thread_id":"t1"}'
echo run >> "$TOOLS/thread"
echo "$PLANWRIGHT_PLAN" >> "$TOOLS/paid"
while [ -e "$TOOLS/hang" ]; do sleep 0.05; done
wc -l < "$TOOLS/thread" >> notes.txt
total=$(( $(wc -l < "$TOOLS/thread") * 100 ))
echo "{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":$total,\"output_tokens\":0}}"
"#;

/// Guards against charging a killed run twice: once in full when its worker is gone, once as a part of what the next
/// run of the same thread tells.
#[test]
fn a_killed_run_of_a_thread_is_charged_once() {
    let repo = ShopRepository::new();
    let tools = PaidAgentTools::new(&repo, 0);
    testkit::write_program(&tools.tool_path("codex"), TOKEN_COUNTING_AGENT);
    let directory = tools.0.path().display();
    let text = format!(
        "name: agent\nkind: command\ncommand: [{directory}/codex]\noutput: codex-json\n\
         resume: {{command: [{directory}/codex, resume, '{{session}}']}}\n\
         set_env: {{TOOLS: {directory}}}\nwritable: [{directory}]\n"
    );
    std::fs::write(tools.tool_path("agent.yaml"), text).unwrap();
    repo.run_ok(&[
        "agent",
        "add",
        tools.tool_path("agent.yaml").to_str().unwrap(),
    ]);
    let said = run_program(&repo, &["--max-tokens", "1000", "Write notes"]);
    assert_eq!(said.exit_code(), Some(6), "{said:?}");
    let plan = said.data()["plan_id"].as_str().unwrap().to_owned();
    let used = |view: &Value| view["used"]["tokens"].as_u64();
    assert_eq!(used(&said.data()), Some(100), "{said:?}");

    std::fs::write(tools.tool_path("hang"), "").unwrap();
    repo.run_ok(&["revise", &plan, "Write more", "--detach"]);
    let worker = repo.program.run(["work"]).start();
    let began = Instant::now();
    while tools.paid_calls() < 2 {
        assert!(began.elapsed() < WAIT_TIMEOUT, "it does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    worker.kill();
    std::fs::remove_file(tools.tool_path("hang")).unwrap();
    repo.run_ok(&["work", "--drain"]);
    let view = repo.run_ok(&["status", &plan]);
    assert_eq!(used(&view), Some(1000), "charged in full: {view}");

    repo.run_ok(&["retry", &plan, "--detach", "--max-tokens", "3000"]);
    repo.run_ok(&["work", "--drain"]);
    let view = repo.run_ok(&["status", &plan]);
    assert_eq!(view["state"], "complete", "{view}");
    assert_eq!(used(&view), Some(300), "three runs of 100: {view}");
}
