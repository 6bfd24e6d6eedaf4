//! People who look elsewhere are told; people who work by hand are not forgotten when their terminal goes.

use rustix::process::{Pid, Signal, kill_process};

use crate::daily::{SCRIBE_SCRIPT, ScriptedAgentEnv, describe_state, wait_for};
use crate::many_workers::send_signal;

fn read_heard(env: &ScriptedAgentEnv) -> Vec<String> {
    let text = std::fs::read_to_string(env.tool_path("heard")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// A day with a command that writes down what it is told.
fn listening_env(script: &str) -> ScriptedAgentEnv {
    let env = ScriptedAgentEnv::with_script(script);
    let heard = env.tool_path("heard");
    let command = format!("echo \"$PLANWRIGHT_WHAT\" >> {}", heard.display());
    env.repo
        .run_ok(&["config", "set", "notify.command", &command]);
    env
}

#[track_caller]
fn assert_heard(env: &ScriptedAgentEnv, expected: &[&str]) {
    wait_for("it is told", || read_heard(env).len() >= expected.len());
    assert_eq!(read_heard(env), expected);
}

#[test]
fn a_person_is_told_what_needs_them_what_failed_and_what_landed() {
    let env = listening_env(SCRIBE_SCRIPT);
    let (plan, _) = env.start_plan(6);
    assert_heard(&env, &["needs-you"]);
    env.run_expecting(0, &["apply", &plan, "--yes"]);
    assert_heard(&env, &["needs-you", "landed"]);
    // What had been done before is no news.
    env.run_expecting(4, &["apply", &plan, "--yes"]);
    env.run_expecting(0, &["undo", &plan, "--yes"]);
    assert_heard(&env, &["needs-you", "landed", "landed"]);
    env.write_tool("scribe", "#!/bin/sh\nexit 3\n");
    env.start_plan(7);
    assert_heard(&env, &["needs-you", "landed", "landed", "failed"]);
}

/// Nobody drives such a plan any more who could tell of it.
#[test]
fn a_person_is_told_of_a_plan_that_was_lost_once_too_often() {
    let env = listening_env(SCRIBE_SCRIPT);
    let words = ["run", "--detach", "--agent", "scribe", "--attempts", "1"];
    let made = env.run_expecting(0, &[&words[..], &["Write a line"]].concat());
    let plan = made["plan_id"].as_str().unwrap();
    env.repo
        .run_ok(&["plumbing", "start-strategize", plan, "--owner", "me"]);
    env.repo
        .run_ok(&["plumbing", "complete-strategize", plan, "--epoch", "1"]);
    env.repo.run_ok(&["plumbing", "execute-plan", plan]);
    let claim = ["plumbing", "start-execute", plan, "--owner", "me"];
    env.repo
        .run_ok(&[&claim[..], &["--lease-seconds", "1"]].concat());
    wait_for("the lease is over and a worker sees it", || {
        env.run_expecting(0, &["work", "--drain"]);
        describe_state(&env.run_expecting(0, &["status", plan])) == "execute/errored"
    });
    assert_heard(&env, &["failed"]);
    assert!(env.read_starts().is_empty());
}

#[test]
fn a_failed_plan_is_not_waited_for_to_land() {
    let env = ScriptedAgentEnv::with_script("#!/bin/sh\nexit 3\n");
    let (plan, _) = env.start_plan(7);
    env.run_expecting(7, &["wait", &plan, "--until", "landed"]);
    env.run_expecting(7, &["wait", &plan]);
}

/// They are signed in while they work: nobody waits for the end of a lease.
#[test]
fn a_plan_whose_person_lost_their_terminal_is_taken_over_at_once() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let (plan, _) = env.start_plan(6);
    let inside = env.tool_path("inside");
    let script = format!(
        "#!/bin/sh\necho $$ > {}\nexec sleep 300\n",
        inside.display()
    );
    env.write_tool("sleepy", &script);
    let words = ["revise", &plan, "by hand", "--by-hand"];
    let run = env
        .repo
        .program
        .run(words)
        .with_directory(env.repo.shop_path());
    let visit = run.with_variable("SHELL", env.tool_path("sleepy")).start();
    wait_for("they are inside", || {
        std::fs::read_to_string(&inside).is_ok_and(|text| text.ends_with('\n'))
    });
    assert_eq!(
        describe_state(&env.run_expecting(0, &["status", &plan])),
        "execute/processing"
    );
    send_signal(&visit, Signal::KILL);
    // Their shell goes with the terminal.
    let shell = std::fs::read_to_string(&inside).unwrap();
    let shell: i32 = shell.trim().parse().unwrap();
    kill_process(Pid::from_raw(shell).unwrap(), Signal::KILL).unwrap();
    visit.finish();
    let tally = env.run_expecting(0, &["work", "--drain"]);
    assert_eq!(tally["reclaimed"], 1);
    assert_eq!(
        describe_state(&env.run_expecting(0, &["status", &plan])),
        "execute/complete"
    );
    assert_eq!(env.read_starts().len(), 2);
}
