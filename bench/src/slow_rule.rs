//! Many processes that need the verdict of the same slow rule: how often its command runs, and how long all of them
//! take compared with one.
//!
//! The command is confined and cannot keep a count. It prints a time stamp and fails, so that no plan lands and every
//! process reports the output of the run it relied on. The number of different outputs is the number of runs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::statistics::{format_ratios, median, print_row};

const PROCESSES: usize = 20;
const ROUNDS: usize = 5;

/// The exit code of `apply` if a rule is not met.
const RULE_NOT_MET_EXIT_CODE: i32 = 5;

pub fn measure_slow_rule() {
    let directory = tempfile::tempdir_in(".").unwrap();
    let bench = SlowRuleBench::create(&directory.path().canonicalize().unwrap());
    let plan_id = bench.create_executed_plan();
    let (mut single_times, mut parallel_times) = (Vec::new(), Vec::new());
    let mut max_runs = 0;
    for round in 0..ROUNDS {
        let single = bench.time_applies(&plan_id, &format!("alone-{round}"), 1);
        single_times.push(single.seconds);
        let parallel = bench.time_applies(&plan_id, &format!("together-{round}"), PROCESSES);
        parallel_times.push(parallel.seconds);
        max_runs = max_runs.max(parallel.command_runs);
    }
    let ratios: Vec<f64> = parallel_times
        .iter()
        .zip(&single_times)
        .map(|(parallel, single)| parallel / single)
        .collect();
    print_row(
        &format!("{PROCESSES} processes need the same rule, a 1 s command: most runs per round"),
        &format!("**{max_runs}**"),
        "1",
    );
    let (parallel, single) = (median(parallel_times), median(single_times));
    print_row(
        &format!("{PROCESSES} processes that need the same rule / one process"),
        &format!(
            "{}: {parallel:.1} s / {single:.1} s",
            format_ratios(&ratios)
        ),
        "",
    );
}

/// A Planwright home and a repository registered as a project.
struct SlowRuleBench {
    root: PathBuf,
}

struct ApplyTimes {
    seconds: f64,
    /// How often the rule's command ran.
    command_runs: usize,
}

impl SlowRuleBench {
    fn create(root: &Path) -> Self {
        let bench = Self {
            root: root.to_owned(),
        };
        let (repository, action) = (root.join("shop"), root.join("tidy.yaml"));
        std::fs::create_dir_all(&repository).unwrap();
        std::fs::write(repository.join("README.md"), "# Shop\n").unwrap();
        for arguments in [
            &["init", "-q", "-b", "main", "."][..],
            &["add", "-A"],
            &["commit", "-q", "-m", "start"],
        ] {
            let mut git = Command::new("git");
            for role in ["AUTHOR", "COMMITTER"] {
                git.env(format!("GIT_{role}_NAME"), "bench")
                    .env(format!("GIT_{role}_EMAIL"), "bench");
            }
            let status = git.args(arguments).current_dir(&repository).status();
            assert!(status.unwrap().success());
        }
        std::fs::write(
            &action,
            "name: tidy\ndescription: Tidy the shop\nactor: bot\n",
        )
        .unwrap();
        bench.run_planwright(&["action", "create", "--config", action.to_str().unwrap()]);
        bench.run_planwright(&[
            "project",
            "create",
            "shop",
            "--git",
            repository.to_str().unwrap(),
        ]);
        bench
    }

    fn planwright_command(&self, arguments: &[&str]) -> Command {
        let own_program = std::env::current_exe().unwrap();
        let mut command = Command::new(own_program.with_file_name("planwright"));
        command
            .args(["--format", "json"])
            .args(arguments)
            .env("PLANWRIGHT_HOME", self.root.join("home"))
            .current_dir(self.root.join("shop"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs a command that must succeed. Returns its data.
    fn run_planwright(&self, arguments: &[&str]) -> Value {
        let output = self.planwright_command(arguments).output().unwrap();
        parse_data(&output, 0)
    }

    /// Creates a plan that changed a file and whose execute phase is complete.
    fn create_executed_plan(&self) -> String {
        let created = self.run_planwright(&["use", "tidy", "shop"]);
        let plan_id = created["plan_id"].as_str().unwrap();
        let run_plumbing = |verb: &str, flags: &[&str]| {
            self.run_planwright(&[&["plumbing", verb, plan_id][..], flags].concat())
        };
        run_plumbing("start-strategize", &["--owner", "bot"]);
        run_plumbing("complete-strategize", &["--epoch", "1"]);
        run_plumbing("execute-plan", &[]);
        let claim = run_plumbing("start-execute", &["--owner", "bot"]);
        let sandbox = Path::new(claim["sandboxes"][0]["path"].as_str().unwrap());
        std::fs::write(sandbox.join("NOTES.md"), "Noted.\n").unwrap();
        run_plumbing("complete-execute", &["--epoch", "2"]);
        plan_id.to_owned()
    }

    /// Adds a rule that has no verdict yet, and applies the plan from `processes` processes at once.
    fn time_applies(&self, plan_id: &str, rule: &str, processes: usize) -> ApplyTimes {
        let rule_command = format!("sleep 1; echo \"{rule} $(date +%s%N)\" >&2; exit 1");
        self.run_planwright(&[
            "invariant",
            "add",
            rule,
            "--command",
            &rule_command,
            "--at",
            "apply",
        ]);
        let stopwatch = Instant::now();
        let children: Vec<_> = (0..processes)
            .map(|_| {
                let mut apply = self.planwright_command(&["apply", plan_id, "--yes"]);
                apply.spawn().unwrap()
            })
            .collect();
        let outputs: Vec<_> = children
            .into_iter()
            .map(|child| child.wait_with_output().unwrap())
            .collect();
        let seconds = stopwatch.elapsed().as_secs_f64();
        let evidence: BTreeSet<String> = outputs
            .iter()
            .map(|output| {
                let data = parse_data(output, RULE_NOT_MET_EXIT_CODE);
                data["failed"][0]["evidence"].as_str().unwrap().to_owned()
            })
            .collect();
        self.run_planwright(&["invariant", "remove", rule]);
        ApplyTimes {
            seconds,
            command_runs: evidence.len(),
        }
    }
}

fn parse_data(output: &Output, expected_code: i32) -> Value {
    assert_eq!(output.status.code(), Some(expected_code), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let envelope: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    envelope["data"].clone()
}
