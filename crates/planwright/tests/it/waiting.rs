//! Waiting for a plan that somebody else works on: following it, waiting for it, and being told what happens
//! to it.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::{TestProcess, TestTerminal};

use crate::daily::{SCRIBE_SCRIPT, ScriptedAgentEnv, describe_state, wait_for};

/// An agent that works until it is let go, and fails if it is told to.
const PATIENT_AGENT: &str = "#!/bin/sh
echo \"$PLANWRIGHT_ATTEMPT\" >> \"$STARTS\"
while [ ! -e \"$STARTS.go\" ]; do sleep 0.05; done
if [ -e \"$STARTS.fail\" ]; then echo 'out of ideas' >&2; exit 3; fi
echo more >> src/a.txt
";

/// A plan that a process of its own drives, and whose agent has begun.
struct BusyPlan {
    env: ScriptedAgentEnv,
    plan: String,
    driving: TestProcess,
}

impl BusyPlan {
    fn new() -> Self {
        Self::with_script(PATIENT_AGENT)
    }

    fn with_script(script: &str) -> Self {
        let env = ScriptedAgentEnv::with_script(script);
        let words = ["run", "--agent", "scribe", "Take your time"];
        let driving = env
            .repo
            .program
            .run(words)
            .with_directory(env.repo.shop_path())
            .start();
        wait_for("the agent starts", || !env.read_starts().is_empty());
        let plan = env.run_expecting(0, &["status", "@"])["plan_id"].clone();
        let plan = plan.as_str().unwrap().to_owned();
        Self { env, plan, driving }
    }

    fn start_typing(&self, words: &[&str]) -> TestTerminal {
        let run = self.env.repo.program.run(words.to_vec());
        let run = run
            .with_directory(self.env.repo.shop_path())
            .with_variable("TERM", "xterm");
        run.start_on_terminal()
    }

    /// Somebody who follows the plan, and was told that others work on it.
    fn start_follower(&self) -> TestTerminal {
        let mut follower = self.start_typing(&["run", &self.plan]);
        follower.wait_for_text("another process is working on it");
        follower
    }

    fn release_agent(&self) {
        std::fs::write(self.env.tool_path("starts.go"), "").unwrap();
    }
}

#[test]
fn a_follower_ends_as_the_plan_does_and_starts_no_work() {
    let busy = BusyPlan::new();
    let mut follower = busy.start_follower();
    busy.release_agent();
    let said = busy.driving.finish();
    assert_eq!(said.exit_code(), Some(6), "{said:?}");
    follower.wait_for_text("ater?").type_line("l");
    let (status, seen) = follower.wait_for_end();
    assert_eq!(status.code(), Some(6), "{seen}");
    assert!(seen.contains("1 file "), "{seen}");
    assert!(seen.contains("needs review"), "{seen}");
    assert_eq!(busy.env.read_starts(), ["1"]);
    assert_eq!(busy.env.repo.plan_state(&busy.plan), "execute/complete");
}

/// `planwright` alone lists what runs, too, so that "nothing needs you" does not look like nothing happens.
#[test]
fn the_overview_lists_a_plan_while_it_runs() {
    let busy = BusyPlan::new();
    let overview = || busy.env.run_expecting(0, &[]);
    let running = overview()["running"].clone();
    assert_eq!(running[0]["plan_id"], *busy.plan, "{running}");
    assert_eq!(running[0]["standing"], "working", "{running}");
    busy.release_agent();
    busy.driving.finish();
    let ended = busy.env.run_expecting(0, &[]);
    assert_eq!(ended["running"], serde_json::json!([]), "{ended}");
    assert_eq!(ended["needs_me"][0]["plan_id"], *busy.plan, "{ended}");
}

#[test]
fn a_follower_reports_that_the_plan_failed() {
    let busy = BusyPlan::new();
    let follower = busy.start_follower();
    std::fs::write(busy.env.tool_path("starts.fail"), "").unwrap();
    busy.release_agent();
    let said = busy.driving.finish();
    assert_eq!(said.exit_code(), Some(7), "{said:?}");
    let (status, seen) = follower.wait_for_end();
    assert_eq!(status.code(), Some(7), "{seen}");
    assert!(seen.contains("out of ideas"), "{seen}");
    assert_eq!(busy.env.read_starts(), ["1"]);
    assert_eq!(busy.env.repo.plan_state(&busy.plan), "execute/errored");
}

#[test]
fn a_follower_continues_the_plan_when_its_worker_dies() {
    let busy = BusyPlan::new();
    let mut follower = busy.start_follower();
    assert!(busy.driving.kill().was_killed());
    follower.wait_for_text("working (scribe)");
    std::fs::write(busy.env.tool_path("starts.go"), "").unwrap();
    follower.wait_for_text("ater?").type_line("l");
    let (status, seen) = follower.wait_for_end();
    assert_eq!(status.code(), Some(6), "{seen}");
    assert_eq!(busy.env.read_starts(), ["1", "2"]);
    assert_eq!(busy.env.repo.plan_state(&busy.plan), "execute/complete");
}

/// Ctrl-C ends the following, and not the work that is followed.
#[test]
fn a_follower_can_detach_and_leave_the_plan_running() {
    let busy = BusyPlan::new();
    let follower = busy.start_follower();
    follower.send_interrupt();
    let (status, seen) = follower.wait_for_end();
    assert_eq!(status.code(), Some(130), "{seen}");
    assert!(seen.contains("Detached. The plan keeps running."), "{seen}");
    assert!(seen.contains("planwright run "), "{seen}");
    assert_eq!(busy.env.repo.plan_state(&busy.plan), "execute/processing");
    busy.release_agent();
    let said = busy.driving.finish();
    assert_eq!(said.exit_code(), Some(6), "{said:?}");
    assert_eq!(busy.env.read_starts(), ["1"]);
}

/// An agent that says what it does, before and after it is let go.
const TALKING_AGENT: &str = "#!/bin/sh
echo 'looking around'
echo \"$PLANWRIGHT_ATTEMPT\" >> \"$STARTS\"
while [ ! -e \"$STARTS.go\" ]; do sleep 0.05; done
echo 'all written'
echo more >> src/a.txt
";

/// Whoever comes later sees what the first terminal showed, and what it shows from then on.
#[test]
fn a_follower_shows_what_the_agent_says() {
    let busy = BusyPlan::with_script(TALKING_AGENT);
    let mut follower = busy.start_typing(&["run", &busy.plan]);
    follower.wait_for_text("looking around");
    busy.release_agent();
    follower.wait_for_text("ater?").type_line("l");
    let (status, seen) = follower.wait_for_end();
    assert_eq!(status.code(), Some(6), "{seen}");
    assert_eq!(busy.driving.finish().exit_code(), Some(6));
    assert_eq!(busy.env.read_starts(), ["1"]);
}

#[test]
fn a_transcript_is_followed_from_the_start_or_from_now() {
    let busy = BusyPlan::with_script(TALKING_AGENT);
    let mut from_start = busy.start_typing(&["log", &busy.plan, "--transcript", "--follow"]);
    from_start.wait_for_text("looking around");
    let from_now = ["log", &busy.plan, "--transcript", "--follow", "--from-now"];
    let from_now = busy.env.repo.program.run(from_now).start();
    wait_for("it follows", || has_opened_store(&from_now));
    let as_json = [
        "--format",
        "json",
        "log",
        &busy.plan,
        "--transcript",
        "--follow",
    ];
    let as_json = busy.env.repo.program.run(as_json).start();
    busy.release_agent();
    from_start.wait_for_text("all written");
    assert_eq!(busy.driving.finish().exit_code(), Some(6));
    // All of them end with the plan.
    busy.env.run_expecting(0, &["cancel", &busy.plan]);
    let (status, seen) = from_start.wait_for_end();
    assert_eq!(status.code(), Some(0), "{seen}");
    let said = from_now.finish();
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    assert!(said.stdout.contains("all written"), "{said:?}");
    assert!(!said.stdout.contains("looking around"), "{said:?}");
    let said = as_json.finish();
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    let lines = said.stdout.lines();
    let texts: Vec<String> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .filter_map(|line: Value| Some(line["text"].as_str()?.trim().to_owned()))
        .collect();
    assert_eq!(texts, ["looking around", "all written"], "{said:?}");
}

#[test]
fn an_interrupted_follower_says_that_the_plan_is_not_affected() {
    let busy = BusyPlan::with_script(TALKING_AGENT);
    for (words, shown) in [
        (&["--transcript", "--follow"][..], "looking around"),
        (&["--follow"], " started agent"),
    ] {
        let words = [&["log", busy.plan.as_str()], words].concat();
        let mut follower = busy.start_typing(&words);
        follower.wait_for_text(shown);
        follower.send_interrupt();
        let (status, seen) = follower.wait_for_end();
        assert_eq!(status.code(), Some(130), "{seen}");
        assert!(seen.contains("Detached."), "{seen}");
    }
    busy.release_agent();
    assert_eq!(busy.driving.finish().exit_code(), Some(6));
}

/// Has this process come as far as to open the store?
fn has_opened_store(running: &TestProcess) -> bool {
    let descriptors = format!("/proc/{}/fd", running.process_id());
    let Ok(entries) = std::fs::read_dir(descriptors) else {
        return false;
    };
    let is_store = |path: &Path| path.file_name().is_some_and(|name| name == "planwright.db");
    let mut opened = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    opened.any(|path| is_store(&path))
}

fn start_waiting(env: &ScriptedAgentEnv, words: &[&str]) -> TestProcess {
    let words = [&["--format", "json", "wait"], words].concat();
    let waiting = env.repo.program.run(words).start();
    wait_for("it waits", || has_opened_store(&waiting));
    waiting
}

#[test]
fn waiting_ends_when_another_process_is_done() {
    let busy = BusyPlan::new();
    let waits = start_waiting(&busy.env, &[&busy.plan]);
    busy.release_agent();
    let said = waits.finish();
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    // Whoever came back too early would have seen it at work.
    let found = said.data()["plans"][0].clone();
    assert_eq!(describe_state(&found), "execute/complete", "{said:?}");
    assert_eq!(found["standing"], "needs review");
    assert!(said.messages().contains("planwright apply "), "{said:?}");
    assert_eq!(busy.driving.finish().exit_code(), Some(6));
}

#[test]
fn several_plans_are_waited_for_until_the_last_is_there() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let (done, _) = env.start_plan(6);
    let data = env.run_expecting(
        0,
        &["run", "--agent", "scribe", "--detach", "Write another"],
    );
    let open = data["plan_id"].as_str().unwrap().to_owned();
    let waits = start_waiting(&env, &[&done, &open, "--until", "landed"]);
    env.run_expecting(0, &["apply", &done, "--yes"]);
    env.run_expecting(0, &["work", "--drain"]);
    env.run_expecting(0, &["apply", &open, "--yes"]);
    let said = waits.finish();
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    for found in said.data()["plans"].as_array().unwrap() {
        assert_eq!(describe_state(found), "apply/applied", "{said:?}");
    }
}

#[test]
fn waiting_ends_at_its_time_and_says_where_the_plan_stands() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let data = env.run_expecting(0, &["run", "--agent", "scribe", "--detach", "Write a line"]);
    let plan = data["plan_id"].as_str().unwrap();
    let began = Instant::now();
    let said = env.run_here(&["wait", plan, "--timeout", "1s"]);
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert_eq!(said.exit_code(), Some(8), "{said:?}");
    assert_eq!(
        describe_state(&said.data()["plans"][0]),
        "strategize/queued"
    );
    let said = env.run_as_person(&["wait", plan, "--timeout", "1s", "--until", "final"]);
    assert_eq!(said.exit_code(), Some(8), "{said:?}");
    assert!(said.stdout.contains("waiting  Write a line"), "{said:?}");
    // Handed in, it needs a person; it is not over.
    env.run_expecting(0, &["work", "--drain"]);
    env.run_expecting(0, &["wait", plan, "--timeout", "1s"]);
    env.run_expecting(8, &["wait", plan, "--timeout", "1s", "--until", "final"]);
}

#[test]
fn waiting_for_a_landing_ends_when_the_plan_is_cancelled() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let (plan, _) = env.start_plan(6);
    let waits = start_waiting(&env, &[&plan, "--until", "landed"]);
    env.run_expecting(0, &["cancel", &plan]);
    let said = waits.finish();
    assert_eq!(said.exit_code(), Some(7), "{said:?}");
    assert_eq!(
        describe_state(&said.data()["plans"][0]),
        "execute/cancelled"
    );
    assert_eq!(said.data()["plans"][0]["standing"], "cancelled");
}

#[test]
fn waiting_for_the_end_is_not_over_when_a_person_is_needed() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let (plan, _) = env.start_plan(6);
    let waits = start_waiting(&env, &[&plan, "--until", "final"]);
    env.run_expecting(0, &["approve", &plan]);
    env.run_expecting(0, &["cancel", &plan]);
    let said = waits.finish();
    assert_eq!(
        describe_state(&said.data()["plans"][0]),
        "execute/cancelled"
    );
}

#[test]
fn following_a_log_prints_each_event_until_the_plan_ends() {
    let busy = BusyPlan::new();
    let mut follower = busy.start_typing(&["log", &busy.plan, "--follow"]);
    follower
        .wait_for_text(" created the plan: ")
        .wait_for_text(" started agent scribe");
    busy.release_agent();
    follower.wait_for_text(" submitted the result");
    assert_eq!(busy.driving.finish().exit_code(), Some(6));
    busy.env.run_expecting(0, &["apply", &busy.plan, "--yes"]);
    follower.wait_for_text(" landed it as one commit: ");
    let (status, seen) = follower.wait_for_end();
    assert_eq!(status.code(), Some(0), "{seen}");
    let story = busy.env.run_as_person(&["log", &busy.plan]).stdout;
    assert_eq!(seen.trim(), story.trim());
}

#[test]
fn a_program_that_follows_a_plan_is_told_every_event_once() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let data = env.run_expecting(0, &["run", "--agent", "scribe", "--detach", "Write a line"]);
    let plan = data["plan_id"].as_str().unwrap();
    let words = ["--format", "json", "log", plan, "--follow"];
    let following = env.repo.program.run(words).start();
    wait_for("it follows", || has_opened_store(&following));
    env.run_expecting(0, &["work", "--drain"]);
    env.run_expecting(0, &["cancel", plan]);
    let said = following.finish();
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    let lines: Vec<Value> = said
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (_, told) = lines.split_last().unwrap();
    let events = env.run_expecting(0, &["log", plan])["events"].clone();
    assert_eq!(told, events.as_array().unwrap().as_slice());
    assert_eq!(told.last().unwrap()["type"], "cancelled");
    assert_eq!(said.data()["events"], told.len());
    // What has ended is told at once.
    let again = env.run_here(&["log", plan, "--follow"]);
    assert_eq!(again.exit_code(), Some(0), "{again:?}");
    assert_eq!(again.stdout.lines().count(), lines.len());
}
