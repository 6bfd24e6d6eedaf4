//! Waiting for a plan that somebody else works on: following it, waiting for it, and being told what happens
//! to it.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::{Running, Terminal};

use crate::daily::{Loop, SCRIBE, state, wait_for};

/// An agent that works until it is let go, and fails if it is told to.
const PATIENT: &str = "#!/bin/sh
echo \"$PLANWRIGHT_ATTEMPT\" >> \"$STARTS\"
while [ ! -e \"$STARTS.go\" ]; do sleep 0.05; done
if [ -e \"$STARTS.fail\" ]; then echo 'out of ideas' >&2; exit 3; fi
echo more >> src/a.txt
";

/// A plan that a process of its own drives, and whose agent has begun.
struct Busy {
    day: Loop,
    plan: String,
    driving: Running,
}

impl Busy {
    fn new() -> Self {
        let day = Loop::with(PATIENT);
        let words = ["run", "--actor", "scribe", "Take your time"];
        let driving = day.yard.program.run(words).within(day.yard.shop()).start();
        wait_for("the agent starts", || !day.starts().is_empty());
        let plan = day.ends(0, &["status", "@"])["plan_id"].clone();
        let plan = plan.as_str().unwrap().to_owned();
        Self { day, plan, driving }
    }

    fn types(&self, words: &[&str]) -> Terminal {
        let run = self.day.yard.program.run(words.to_vec());
        let run = run.within(self.day.yard.shop()).set("TERM", "xterm");
        run.at_a_terminal()
    }

    /// Somebody who follows the plan, and was told that others work on it.
    fn followed(&self) -> Terminal {
        let mut follower = self.types(&["run", &self.plan]);
        follower.shows("somebody else works on it");
        follower
    }

    fn let_go(&self) {
        std::fs::write(self.day.file("starts.go"), "").unwrap();
    }
}

#[test]
fn whoever_follows_a_plan_comes_to_the_same_end_and_works_on_nothing() {
    let busy = Busy::new();
    let mut follower = busy.followed();
    busy.let_go();
    let said = busy.driving.finish();
    assert_eq!(said.code(), Some(6), "{said:?}");
    follower.shows("ater?").types("l");
    let (status, seen) = follower.ends();
    assert_eq!(status.code(), Some(6), "{seen}");
    assert!(seen.contains("1 file changed"), "{seen}");
    assert!(seen.contains("needs review"), "{seen}");
    assert_eq!(busy.day.starts(), ["1"]);
    assert_eq!(busy.day.yard.state_of(&busy.plan), "execute/complete");
}

#[test]
fn whoever_follows_a_plan_is_told_that_it_failed() {
    let busy = Busy::new();
    let follower = busy.followed();
    std::fs::write(busy.day.file("starts.fail"), "").unwrap();
    busy.let_go();
    let said = busy.driving.finish();
    assert_eq!(said.code(), Some(7), "{said:?}");
    let (status, seen) = follower.ends();
    assert_eq!(status.code(), Some(7), "{seen}");
    assert!(seen.contains("out of ideas"), "{seen}");
    assert_eq!(busy.day.starts(), ["1"]);
    assert_eq!(busy.day.yard.state_of(&busy.plan), "execute/errored");
}

#[test]
fn whoever_follows_a_plan_goes_on_with_it_when_its_worker_dies() {
    let busy = Busy::new();
    let mut follower = busy.followed();
    assert!(busy.driving.kill().was_killed());
    follower.shows("working (scribe)");
    std::fs::write(busy.day.file("starts.go"), "").unwrap();
    follower.shows("ater?").types("l");
    let (status, seen) = follower.ends();
    assert_eq!(status.code(), Some(6), "{seen}");
    assert_eq!(busy.day.starts(), ["1", "2"]);
    assert_eq!(busy.day.yard.state_of(&busy.plan), "execute/complete");
}

/// Has this process come as far as to open the store?
fn looks_at_the_store(running: &Running) -> bool {
    let descriptors = format!("/proc/{}/fd", running.number());
    let Ok(entries) = std::fs::read_dir(descriptors) else {
        return false;
    };
    let is_store = |path: &Path| path.file_name().is_some_and(|name| name == "planwright.db");
    let mut opened = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    opened.any(|path| is_store(&path))
}

fn waiting(day: &Loop, words: &[&str]) -> Running {
    let words = [&["--format", "json", "wait"], words].concat();
    let waiting = day.yard.program.run(words).start();
    wait_for("it waits", || looks_at_the_store(&waiting));
    waiting
}

#[test]
fn waiting_ends_when_another_process_is_done() {
    let busy = Busy::new();
    let waits = waiting(&busy.day, &[&busy.plan]);
    busy.let_go();
    let said = waits.finish();
    assert_eq!(said.code(), Some(0), "{said:?}");
    // Whoever came back too early would have seen it at work.
    let found = said.data()["plans"][0].clone();
    assert_eq!(state(&found), "execute/complete", "{said:?}");
    assert_eq!(found["standing"], "needs review");
    assert!(said.messages().contains("planwright apply "), "{said:?}");
    assert_eq!(busy.driving.finish().code(), Some(6));
}

#[test]
fn several_plans_are_waited_for_until_the_last_is_there() {
    let day = Loop::with(SCRIBE);
    let (done, _) = day.begun(6);
    let data = day.ends(
        0,
        &["run", "--actor", "scribe", "--detach", "Write another"],
    );
    let open = data["plan_id"].as_str().unwrap().to_owned();
    let waits = waiting(&day, &[&done, &open, "--until", "landed"]);
    day.ends(0, &["apply", &done, "--yes"]);
    day.ends(0, &["work", "--drain"]);
    day.ends(0, &["apply", &open, "--yes"]);
    let said = waits.finish();
    assert_eq!(said.code(), Some(0), "{said:?}");
    for found in said.data()["plans"].as_array().unwrap() {
        assert_eq!(state(found), "apply/applied", "{said:?}");
    }
}

#[test]
fn waiting_ends_at_its_time_and_says_where_the_plan_stands() {
    let day = Loop::with(SCRIBE);
    let data = day.ends(0, &["run", "--actor", "scribe", "--detach", "Write a line"]);
    let plan = data["plan_id"].as_str().unwrap();
    let began = Instant::now();
    let said = day.here(&["wait", plan, "--timeout", "1s"]);
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert_eq!(said.code(), Some(8), "{said:?}");
    assert_eq!(state(&said.data()["plans"][0]), "strategize/queued");
    let said = day.seen(&["wait", plan, "--timeout", "1s", "--until", "final"]);
    assert_eq!(said.code(), Some(8), "{said:?}");
    assert!(said.stdout.contains("waiting  Write a line"), "{said:?}");
    // Handed in, it needs a person; it is not over.
    day.ends(0, &["work", "--drain"]);
    day.ends(0, &["wait", plan, "--timeout", "1s"]);
    day.ends(8, &["wait", plan, "--timeout", "1s", "--until", "final"]);
}

#[test]
fn waiting_for_a_landing_ends_when_the_plan_is_cancelled() {
    let day = Loop::with(SCRIBE);
    let (plan, _) = day.begun(6);
    let waits = waiting(&day, &[&plan, "--until", "landed"]);
    day.ends(0, &["cancel", &plan]);
    let said = waits.finish();
    assert_eq!(said.code(), Some(7), "{said:?}");
    assert_eq!(state(&said.data()["plans"][0]), "execute/cancelled");
    assert_eq!(said.data()["plans"][0]["standing"], "cancelled");
}

#[test]
fn waiting_for_the_end_is_not_over_when_a_person_is_needed() {
    let day = Loop::with(SCRIBE);
    let (plan, _) = day.begun(6);
    let waits = waiting(&day, &[&plan, "--until", "final"]);
    day.ends(0, &["approve", &plan]);
    day.ends(0, &["cancel", &plan]);
    let said = waits.finish();
    assert_eq!(state(&said.data()["plans"][0]), "execute/cancelled");
}

#[test]
fn what_happens_to_a_plan_is_told_as_it_happens_until_it_ends() {
    let busy = Busy::new();
    let mut follower = busy.types(&["log", &busy.plan, "--follow"]);
    follower.shows(" made the plan: ").shows(" began to work");
    busy.let_go();
    follower.shows(" handed in the result");
    assert_eq!(busy.driving.finish().code(), Some(6));
    busy.day.ends(0, &["apply", &busy.plan, "--yes"]);
    follower.shows(" landed it as one commit: ");
    let (status, seen) = follower.ends();
    assert_eq!(status.code(), Some(0), "{seen}");
    let story = busy.day.seen(&["log", &busy.plan]).stdout;
    assert_eq!(seen.trim(), story.trim());
}

#[test]
fn a_program_that_follows_a_plan_is_told_every_event_once() {
    let day = Loop::with(SCRIBE);
    let data = day.ends(0, &["run", "--actor", "scribe", "--detach", "Write a line"]);
    let plan = data["plan_id"].as_str().unwrap();
    let words = ["--format", "json", "log", plan, "--follow"];
    let following = day.yard.program.run(words).start();
    wait_for("it follows", || looks_at_the_store(&following));
    day.ends(0, &["work", "--drain"]);
    day.ends(0, &["cancel", plan]);
    let said = following.finish();
    assert_eq!(said.code(), Some(0), "{said:?}");
    let lines: Vec<Value> = said
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (_, told) = lines.split_last().unwrap();
    let events = day.ends(0, &["log", plan])["events"].clone();
    assert_eq!(told, events.as_array().unwrap().as_slice());
    assert_eq!(told.last().unwrap()["type"], "cancelled");
    assert_eq!(said.data()["events"], told.len());
    // What has ended is told at once.
    let again = day.here(&["log", plan, "--follow"]);
    assert_eq!(again.code(), Some(0), "{again:?}");
    assert_eq!(again.stdout.lines().count(), lines.len());
}
