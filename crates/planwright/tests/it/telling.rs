//! People who look elsewhere are told; people who work by hand are not forgotten when their terminal goes.

use rustix::process::{Pid, Signal, kill_process};

use crate::daily::{Loop, SCRIBE, state, wait_for};
use crate::fleet::signal;

fn heard(day: &Loop) -> Vec<String> {
    let text = std::fs::read_to_string(day.file("heard")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// A day with a command that writes down what it is told.
fn listening(script: &str) -> Loop {
    let day = Loop::with(script);
    let heard = day.file("heard");
    let command = format!("echo \"$PLANWRIGHT_WHAT\" >> {}", heard.display());
    day.yard.ok(&["config", "set", "notify.command", &command]);
    day
}

#[track_caller]
fn check_heard(day: &Loop, expected: &[&str]) {
    wait_for("it is told", || heard(day).len() >= expected.len());
    assert_eq!(heard(day), expected);
}

#[test]
fn a_person_is_told_what_needs_them_what_failed_and_what_landed() {
    let day = listening(SCRIBE);
    let (plan, _) = day.begun(6);
    check_heard(&day, &["needs-you"]);
    day.ends(0, &["apply", &plan, "--yes"]);
    check_heard(&day, &["needs-you", "landed"]);
    // What had been done before is no news.
    day.ends(4, &["apply", &plan, "--yes"]);
    day.ends(0, &["undo", &plan, "--yes"]);
    check_heard(&day, &["needs-you", "landed", "landed"]);
    day.write_tool("scribe", "#!/bin/sh\nexit 3\n");
    day.begun(7);
    check_heard(&day, &["needs-you", "landed", "landed", "failed"]);
}

/// Nobody drives such a plan any more who could tell of it.
#[test]
fn a_person_is_told_of_a_plan_that_was_lost_once_too_often() {
    let day = listening(SCRIBE);
    let words = ["run", "--detach", "--actor", "scribe", "--attempts", "1"];
    let made = day.ends(0, &[&words[..], &["Write a line"]].concat());
    let plan = made["plan_id"].as_str().unwrap();
    day.yard
        .ok(&["plumbing", "start-strategize", plan, "--owner", "me"]);
    day.yard
        .ok(&["plumbing", "complete-strategize", plan, "--epoch", "1"]);
    day.yard.ok(&["plumbing", "execute-plan", plan]);
    let claim = ["plumbing", "start-execute", plan, "--owner", "me"];
    day.yard
        .ok(&[&claim[..], &["--lease-seconds", "1"]].concat());
    wait_for("the lease is over and a worker sees it", || {
        day.ends(0, &["work", "--drain"]);
        state(&day.ends(0, &["status", plan])) == "execute/errored"
    });
    check_heard(&day, &["failed"]);
    assert!(day.starts().is_empty());
}

#[test]
fn a_failed_plan_is_not_waited_for_to_land() {
    let day = Loop::with("#!/bin/sh\nexit 3\n");
    let (plan, _) = day.begun(7);
    day.ends(7, &["wait", &plan, "--until", "landed"]);
    day.ends(0, &["wait", &plan]);
}

/// They are signed in while they work: nobody waits for the end of a lease.
#[test]
fn a_plan_whose_person_lost_their_terminal_is_taken_over_at_once() {
    let day = Loop::with(SCRIBE);
    let (plan, _) = day.begun(6);
    let inside = day.file("inside");
    let script = format!(
        "#!/bin/sh\necho $$ > {}\nexec sleep 300\n",
        inside.display()
    );
    day.write_tool("sleepy", &script);
    let words = ["revise", &plan, "by hand", "--by-hand"];
    let run = day.yard.program.run(words).within(day.yard.shop());
    let visit = run.set("SHELL", day.file("sleepy")).start();
    wait_for("they are inside", || {
        std::fs::read_to_string(&inside).is_ok_and(|text| text.ends_with('\n'))
    });
    assert_eq!(
        state(&day.ends(0, &["status", &plan])),
        "execute/processing"
    );
    signal(&visit, Signal::KILL);
    // Their shell goes with the terminal.
    let shell = std::fs::read_to_string(&inside).unwrap();
    let shell: i32 = shell.trim().parse().unwrap();
    kill_process(Pid::from_raw(shell).unwrap(), Signal::KILL).unwrap();
    visit.finish();
    let tally = day.ends(0, &["work", "--drain"]);
    assert_eq!(tally["reclaimed"], 1);
    assert_eq!(state(&day.ends(0, &["status", &plan])), "execute/complete");
    assert_eq!(day.starts().len(), 2);
}
