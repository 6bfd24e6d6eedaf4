//! What a worker takes and what it leaves, when it stops, and what it comes back to.

use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;
use testkit::{TestProcess, TestProgram};

use crate::daily::{SCRIBE_SCRIPT, ScriptedAgentEnv, describe_state, wait_for};
use crate::many_workers::send_signal;
use crate::shop_repository::ShopRepository;

/// A plan that is left to workers.
fn start_detached(env: &ScriptedAgentEnv, words: &[&str]) -> String {
    let words = [&["run", "--detach"], words].concat();
    let data = env.run_expecting(0, &words);
    assert_eq!(describe_state(&data), "strategize/queued");
    data["plan_id"].as_str().unwrap().to_owned()
}

/// How many plans a worker took that had nothing else to do; it went well.
fn drain_and_count(env: &ScriptedAgentEnv, words: &[&str]) -> u64 {
    let data = env.run_expecting(0, &[&["work"], words].concat());
    assert_eq!(data["troubles"], 0, "{data}");
    data["taken"].as_u64().unwrap()
}

/// A worker that goes on until it is stopped.
fn start_worker(env: &ScriptedAgentEnv) -> TestProcess {
    env.repo.program.run(["--format", "json", "work"]).start()
}

/// Stops a worker; what it tells of itself.
fn stop_worker(worker: TestProcess) -> Value {
    send_signal(&worker, Signal::TERM);
    let said = worker.finish();
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    let data = said.data();
    assert_eq!(data["interrupted"], true, "{data}");
    assert_eq!(data["troubles"], 0, "{data}");
    data
}

/// A plan of a project that is left to workers.
fn start_detached_in(env: &ScriptedAgentEnv, project: &str) -> String {
    let words = ["--agent", "scribe", "--project", project, "Write a line"];
    start_detached(env, &words)
}

/// A second project beside `shop`.
fn add_another_project(env: &ScriptedAgentEnv) {
    let other = env.repo.clone_repository("other");
    env.run_expecting(0, &["project", "create", "other", "--git", &other]);
}

#[test]
fn a_worker_for_a_project_leaves_the_others_alone() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    add_another_project(&env);
    let (shop, other) = (
        start_detached_in(&env, "shop"),
        start_detached_in(&env, "other"),
    );
    assert_eq!(drain_and_count(&env, &["--drain", "--project", "other"]), 1);
    assert_eq!(env.read_starts(), [format!("execute {other} 1")]);
    assert_eq!(env.repo.plan_state(&other), "execute/complete");
    assert_eq!(env.repo.plan_state(&shop), "strategize/queued");
    assert_eq!(drain_and_count(&env, &["--drain", "--project", "other"]), 0);
    assert_eq!(drain_and_count(&env, &["--drain", "--project", "shop"]), 1);
    assert_eq!(env.repo.plan_state(&shop), "execute/complete");
    let said = env.run_here(&["work", "--drain", "--project", "shpo"]);
    assert_eq!(said.exit_code(), Some(3), "{said:?}");
    assert!(said.messages().contains("shpo"), "{said:?}");
}

#[test]
fn a_worker_for_an_actor_leaves_the_others_alone() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    env.write_tool("painter", "#!/bin/sh\necho red >> src/b.txt\n");
    env.define_actor("painter", "");
    let scribe = start_detached(&env, &["--agent", "scribe", "Write a line"]);
    let painter = start_detached(&env, &["--agent", "painter", "Paint a wall"]);
    assert_eq!(drain_and_count(&env, &["--drain", "--agent", "painter"]), 1);
    assert_eq!(env.repo.plan_state(&painter), "execute/complete");
    assert_eq!(env.repo.plan_state(&scribe), "strategize/queued");
    assert!(env.read_starts().is_empty());
    assert_eq!(drain_and_count(&env, &["--drain", "--agent", "scribe"]), 1);
    assert_eq!(env.repo.plan_state(&scribe), "execute/complete");
}

#[test]
fn a_worker_that_takes_one_plan_takes_one() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let plans: Vec<String> = ["Write one", "Write two", "Write three"]
        .into_iter()
        .map(|goal| start_detached(&env, &["--agent", "scribe", goal]))
        .collect();
    let standing = || -> Vec<String> {
        let states = plans.iter().map(|plan| env.repo.plan_state(plan));
        states.collect()
    };
    // Whatever it could do at once.
    assert_eq!(drain_and_count(&env, &["--once", "--concurrency", "2"]), 1);
    let done = |states: Vec<String>| {
        let done = states.iter().filter(|state| *state == "execute/complete");
        done.count()
    };
    assert_eq!(done(standing()), 1);
    assert_eq!(env.read_starts().len(), 1);
    let said = env.run_as_person(&["work", "--once"]);
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    assert!(said.stdout.contains("Worked on 1 plan."), "{said:?}");
    assert_eq!(drain_and_count(&env, &["--once"]), 1);
    assert_eq!(done(standing()), 3);
    // Nothing is due, and nothing is waited for.
    assert_eq!(drain_and_count(&env, &["--once"]), 0);
}

#[test]
fn a_worker_that_is_stopped_gives_its_plan_back_and_leaves_no_process() {
    let env = ScriptedAgentEnv::with_script(
        "#!/bin/sh
echo \"$PLANWRIGHT_ATTEMPT\" >> \"$STARTS\"
if [ ! -e \"$STARTS.go\" ]; then
  echo half >> src/a.txt
  (setsid sh -c 'echo $$ > \"$STARTS.deep\"; exec sleep 1000') &
  echo $$ > \"$STARTS.agent\"
  sleep 1000
fi
echo whole >> src/a.txt
",
    );
    let plan = start_detached(&env, &["--agent", "scribe", "Write a line"]);
    let worker = start_worker(&env);
    let is_written = |name: &str| {
        std::fs::read_to_string(env.tool_path(name)).is_ok_and(|text| text.ends_with('\n'))
    };
    wait_for("the agent works", || {
        is_written("starts.deep") && is_written("starts.agent")
    });
    let before = env.run_expecting(0, &["status", &plan]);
    assert_eq!(describe_state(&before), "execute/processing");
    let number = worker.process_id();
    assert_eq!(stop_worker(worker)["taken"], 0);
    for name in ["starts.deep", "starts.agent"] {
        let process = std::fs::read_to_string(env.tool_path(name)).unwrap();
        assert!(!Path::new("/proc").join(process.trim()).exists(), "{name}");
    }
    assert!(!Path::new("/proc").join(number.to_string()).exists());
    let after = env.run_expecting(0, &["status", &plan]);
    assert_eq!(describe_state(&after), "execute/queued");
    assert_eq!(after["attempt"], before["attempt"]);
    assert_eq!(after["lease"], Value::Null);

    // Whoever comes next goes on at once: nothing is taken from anybody.
    std::fs::write(env.tool_path("starts.go"), "").unwrap();
    let data = env.run_expecting(0, &["work", "--drain"]);
    assert_eq!((&data["taken"], &data["reclaimed"]), (&1.into(), &0.into()));
    assert_eq!(env.repo.plan_state(&plan), "execute/complete");
    assert_eq!(env.read_starts(), ["1", "1"]);
    env.run_expecting(0, &["apply", &plan, "--yes"]);
    let text = env.repo.read_file("src/a.txt");
    assert!(text.ends_with("six\nhalf\nwhole\n"), "{text}");
}

/// Works until it is let go.
const WAITING_AGENT: &str = "#!/bin/sh
echo \"$PLANWRIGHT_ATTEMPT\" >> \"$STARTS\"
while [ ! -e \"$STARTS.go\" ]; do sleep 0.05; done
echo whole >> src/a.txt
";

/// A worker whose terminal is closed stops as one does that is asked to.
#[test]
fn a_worker_stops_when_its_terminal_is_closed() {
    let env = ScriptedAgentEnv::with_script(WAITING_AGENT);
    let plan = start_detached(&env, &["--agent", "scribe", "Write a line"]);
    let run = env.repo.program.run(["--format", "json", "work"]);
    let worker = run.with_default_hangup().start();
    wait_for("the agent works", || !env.read_starts().is_empty());
    send_signal(&worker, Signal::HUP);
    let said = worker.finish();
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    assert_eq!(said.data()["interrupted"], true, "{said:?}");
    assert_eq!(env.repo.plan_state(&plan), "execute/queued");
}

/// Whoever starts it with `nohup` wants it to outlive the terminal.
#[test]
fn a_worker_that_ignores_hangups_goes_on_without_its_terminal() {
    let env = ScriptedAgentEnv::with_script(WAITING_AGENT);
    let plan = start_detached(&env, &["--agent", "scribe", "Write a line"]);
    let run = env.repo.program.run(["--format", "json", "work", "--once"]);
    let worker = run.with_launcher(&["nohup"]).start();
    wait_for("the agent works", || !env.read_starts().is_empty());
    send_signal(&worker, Signal::HUP);
    std::fs::write(env.tool_path("starts.go"), "").unwrap();
    let said = worker.finish();
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    assert_eq!(said.data()["interrupted"], false, "{said:?}");
    assert_eq!(env.repo.plan_state(&plan), "execute/complete");
}

/// A process that was killed gave nothing back. Whoever looks sees that, with the command that goes on, and changes
/// nothing by looking.
#[test]
fn a_plan_whose_process_was_killed_is_shown_with_the_command_that_goes_on() {
    let env = ScriptedAgentEnv::with_script(WAITING_AGENT);
    let words = ["run", "--agent", "scribe", "Write a line"];
    let run = env
        .repo
        .program
        .run(words)
        .with_directory(env.repo.shop_path())
        .start();
    wait_for("the agent works", || !env.read_starts().is_empty());
    let working = env.run_expecting(0, &["list"])["plans"][0].clone();
    assert_eq!(working["standing"], "working", "{working}");
    assert_eq!(working["next"], Value::Null, "{working}");
    run.kill();

    let listed = env.run_expecting(0, &["list"])["plans"][0].clone();
    let (plan, handle) = (&listed["plan_id"], listed["handle"].as_str().unwrap());
    let goes_on = format!("planwright run {handle}");
    assert_eq!(listed["standing"], "interrupted", "{listed}");
    assert_eq!(listed["next"], goes_on, "{listed}");
    for (words, says) in [
        (&[][..], "its process has ended"),
        (&["status", "@"], "(process ended)"),
        (&["why", "@"], "its process has ended"),
    ] {
        let said = env.run_as_person(words);
        assert_eq!(said.exit_code(), Some(0), "{said:?}");
        let shown = format!("{}{}", said.stdout, said.stderr);
        assert!(shown.contains(&goes_on), "{words:?}: {shown}");
        assert!(shown.contains(says), "{words:?}: {shown}");
        assert!(!shown.contains("Nothing needs you"), "{words:?}: {shown}");
        assert!(!shown.contains("planwright wait"), "{words:?}: {shown}");
    }
    let seen = env.run_as_person(&["list"]).stdout;
    assert!(seen.contains("interrupted"), "{seen}");
    let data = env.run_expecting(0, &[]);
    assert_eq!(data["interrupted"][0]["plan_id"], *plan, "{data}");
    assert_eq!(data["interrupted"][0]["next"], goes_on, "{data}");
    let status = env.run_expecting(0, &["status", "@"]);
    assert_eq!(status["version"], listed["version"], "{status}");
    assert_eq!(describe_state(&status), "execute/processing");

    std::fs::write(env.tool_path("starts.go"), "").unwrap();
    env.run_expecting(6, &["run", handle]);
    assert_eq!(env.read_starts(), ["1", "2"]);
    let data = env.run_expecting(0, &[]);
    assert_eq!(data["interrupted"], serde_json::json!([]), "{data}");
}

#[test]
fn plans_of_a_paused_project_wait_until_it_is_resumed() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    add_another_project(&env);
    let (shop, other) = (
        start_detached_in(&env, "shop"),
        start_detached_in(&env, "other"),
    );
    env.run_expecting(0, &["project", "pause", "shop"]);
    assert_eq!(drain_and_count(&env, &["--drain"]), 1);
    assert_eq!(env.repo.plan_state(&other), "execute/complete");
    assert_eq!(env.repo.plan_state(&shop), "strategize/queued");
    assert_eq!(env.read_starts(), [format!("execute {other} 1")]);
    let said = env.run_as_person(&["why", &shop]);
    assert!(said.stdout.contains("paused"), "{said:?}");
    assert!(
        said.stderr.contains("planwright project resume shop"),
        "{said:?}"
    );

    // A worker that is there already comes back to it.
    let worker = start_worker(&env);
    let later = start_detached_in(&env, "other");
    wait_for("the worker is at work", || {
        env.repo.plan_state(&later) == "execute/complete"
    });
    assert_eq!(env.repo.plan_state(&shop), "strategize/queued");
    env.run_expecting(0, &["project", "resume", "shop"]);
    wait_for("the worker comes back to it", || {
        env.repo.plan_state(&shop) == "execute/complete"
    });
    stop_worker(worker);
    assert_eq!(env.read_starts().len(), 3);
}

#[test]
fn a_question_that_nobody_answered_in_time_is_given_up_by_whoever_comes_later() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let file = env.tool_path("me.yaml");
    std::fs::write(&file, "name: me\nkind: human\ntimeout: 4s\n").unwrap();
    env.run_expecting(0, &["agent", "add", file.to_str().unwrap()]);
    let asked = env.run_expecting(6, &["run", "--agent", "me", "Do it yourself"]);
    let plan = asked["plan_id"].as_str().unwrap();
    assert_ne!(asked["question"]["deadline"], Value::Null, "{asked}");
    // The time passes by itself; a worker finds out when it looks.
    wait_for("a worker finds it overdue", || {
        drain_and_count(&env, &["--drain"]);
        env.repo.plan_state(plan) == "execute/errored"
    });
    let data = env.run_expecting(0, &["status", plan]);
    assert_eq!(data["error"]["category"], "unanswered", "{data}");
    let message = data["error"]["message"].as_str().unwrap();
    assert!(message.contains("was not answered in time"), "{message}");
    let story = env.run_as_person(&["log", plan]).stdout;
    assert!(story.contains("got no answer in time"), "{story}");
    // Too late, and what helps is said.
    let said = env.run_here(&["answer", plan, "done"]);
    assert_eq!(said.exit_code(), Some(4), "{said:?}");
    assert!(said.messages().contains("planwright retry "), "{said:?}");
    let said = env.run_as_person(&["retry", plan]);
    assert_eq!(said.exit_code(), Some(6), "{said:?}");
    assert_eq!(env.repo.plan_state(plan), "execute/awaiting_input");
}

#[test]
fn a_worker_retries_transient_failures_until_the_plan_is_done() {
    let env = ScriptedAgentEnv::with_script(
        "#!/bin/sh
echo \"$PLANWRIGHT_ATTEMPT\" >> \"$STARTS\"
echo \"attempt $PLANWRIGHT_ATTEMPT\" >> src/a.txt
if [ \"$PLANWRIGHT_ATTEMPT\" = 1 ]; then
  echo '{\"outcome\": \"failed\", \"message\": \"too busy\", \"category\": \"transient\"}' > \"$PLANWRIGHT_REPORT\"
fi
",
    );
    let plan = start_detached(&env, &["--agent", "scribe", "Write a line"]);
    let worker = start_worker(&env);
    wait_for("the first attempt fails", || {
        let data = env.run_expecting(0, &["status", &plan]);
        data["attempt"] == 2 || data["retry_at"] != Value::Null
    });
    wait_for("the second attempt is done", || {
        env.repo.plan_state(&plan) == "execute/complete"
    });
    stop_worker(worker);
    assert_eq!(env.read_starts(), ["1", "2"]);
    assert_eq!(env.run_expecting(0, &["status", &plan])["attempt"], 2);
    let story = env.run_as_person(&["log", &plan]).stdout;
    assert!(story.contains("failed (transient): too busy"), "{story}");
    assert!(story.contains("scheduled a retry for"), "{story}");
}

/// The first repository may be registered after a worker or a server was started.
#[test]
fn a_worker_that_started_first_works_on_repositories_registered_later() {
    let program = TestProgram::new(env!("CARGO_BIN_EXE_planwright"));
    let worker = program.run(["--format", "json", "work"]).start();
    let present = program.home().join("present");
    wait_for("the worker is there", || {
        std::fs::read_dir(&present).is_ok_and(|files| files.count() > 0)
    });
    let repo = ShopRepository::with_program(program);
    let script = "name: scribe\nkind: command\ncommand: [sh, -c, \"echo more >> src/a.txt\"]\n";
    let script = repo.write_file_beside("scribe.yaml", script);
    repo.run_ok(&["agent", "add", &script]);
    let words = [
        "--format",
        "json",
        "run",
        "--detach",
        "--agent",
        "scribe",
        "Write a line",
    ];
    let run = repo.program.run(words).with_directory(repo.shop_path());
    let plan = run.finish().data()["plan_id"].as_str().unwrap().to_owned();
    wait_for("the worker is done", || {
        repo.plan_state(&plan) == "execute/complete"
    });
    stop_worker(worker);
}
