//! A git command that hangs ends with the request to stop, and with the process that started it.

use rustix::process::Signal;
use testkit::TestProcess;

use crate::daily::{SCRIBE_SCRIPT, ScriptedAgentEnv, wait_for};
use crate::many_workers::send_signal;

/// Hangs while it fills a sandbox, until `go` exists; otherwise it is git.
const HANGING_GIT: &str = "#!/bin/sh
PATH=${PATH#*:}
case \" $* \" in *' read-tree '*)
  if [ ! -e \"$0.go\" ]; then echo $$ > \"$0.process\"; exec sleep 1000; fi;;
esac
exec git \"$@\"
";

/// A worker whose git hangs, and the plan that it took.
struct StuckWorker {
    env: ScriptedAgentEnv,
    plan: String,
    worker: TestProcess,
    git: String,
}

impl StuckWorker {
    fn start() -> Self {
        let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
        env.write_tool("git", HANGING_GIT);
        let words = ["run", "--detach", "--agent", "scribe", "Write a line"];
        let data = env.run_expecting(0, &words);
        let plan = data["plan_id"].as_str().unwrap().to_owned();
        let tools = env.tool_path("git").parent().unwrap().to_owned();
        let path = format!("{}:{}", tools.display(), "/usr/local/bin:/usr/bin:/bin");
        let run = env.repo.program.run(["--format", "json", "work"]);
        let worker = run.with_variable("PATH", path).start();
        let read_git = || std::fs::read_to_string(env.tool_path("git.process"));
        wait_for("git hangs", || {
            read_git().is_ok_and(|text| text.ends_with('\n'))
        });
        let git = read_git().unwrap().trim().to_owned();
        Self {
            env,
            plan,
            worker,
            git,
        }
    }
}

fn is_running(process: &str) -> bool {
    read_stat(process).is_some_and(|(_, state, _)| state != "Z")
}

/// The name, the state and the parent of a process.
fn read_stat(process: &str) -> Option<(String, String, String)> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
    let mut fields = rest.split(' ').map(str::to_owned);
    Some((name.to_owned(), fields.next()?, fields.next()?))
}

/// Is there a shell that this process started? Its git became `sleep`.
fn has_guard(process: u32) -> bool {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.into_iter().any(|entry| {
        let stat = read_stat(&entry.file_name().to_string_lossy());
        stat.is_some_and(|(name, _, parent)| name == "sh" && parent == process.to_string())
    })
}

#[test]
fn a_worker_that_is_stopped_ends_its_git_and_gives_the_plan_back() {
    let stuck = StuckWorker::start();
    send_signal(&stuck.worker, Signal::TERM);
    let said = stuck.worker.finish();
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    let data = said.data();
    assert_eq!(data["interrupted"], true, "{data}");
    assert_eq!(data["troubles"], 0, "{data}");
    assert!(!is_running(&stuck.git));
    let (env, plan) = (stuck.env, stuck.plan);
    let status = env.run_expecting(0, &["status", &plan]);
    assert_eq!(status["lease"], serde_json::Value::Null, "{status}");
    assert!(env.repo.plan_state(&plan).ends_with("/queued"), "{status}");
    // Nothing half made is in the way.
    let data = env.run_expecting(0, &["work", "--drain"]);
    assert_eq!(data["troubles"], 0, "{data}");
    env.run_expecting(0, &["apply", &plan, "--yes"]);
}

#[test]
fn git_ends_with_a_worker_that_is_killed() {
    let stuck = StuckWorker::start();
    wait_for("git is guarded", || has_guard(stuck.worker.process_id()));
    assert!(is_running(&stuck.git));
    stuck.worker.kill();
    wait_for("git ends", || !is_running(&stuck.git));
    let data = stuck.env.run_expecting(0, &["work", "--drain"]);
    assert_eq!(data["troubles"], 0, "{data}");
    stuck.env.run_expecting(0, &["apply", &stuck.plan, "--yes"]);
}
