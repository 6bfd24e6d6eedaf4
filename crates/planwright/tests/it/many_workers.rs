//! Many workers on one store, on one host and on two: each phase is begun once, and whoever lost its plan
//! hands in nothing.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lifecycle::{Call, Lifecycle, UseRequest};
use plan::{Caller, PlanActors, PlanId, Profile};
use rustix::process::{Pid, Signal, kill_process};
use store::{SqliteOptions, SqliteStore};
use testkit::{PostgresDatabase, TestProcess, TestProgram};

use crate::shop_repository::ShopRepository;

/// A directory with a script as an actor `bot`, in which it may write.
struct BotTools(tempfile::TempDir);

impl BotTools {
    fn with_script(repo: &ShopRepository, script: &str) -> Self {
        let tools = Self(tempfile::TempDir::with_prefix("planwright-tools-").unwrap());
        let (bot, definition) = (tools.tool_path("bot"), tools.tool_path("bot.yaml"));
        testkit::write_program(&bot, script);
        let directory = tools.0.path().display();
        let text = format!(
            "name: bot\nkind: command\ncommand: [{}]\nset_env: {{TOOLS: {directory}}}\nwritable: [{directory}]\n",
            bot.display()
        );
        std::fs::write(&definition, text).unwrap();
        repo.run_ok(&["agent", "add", definition.to_str().unwrap()]);
        tools
    }

    fn tool_path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn read_lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.tool_path(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_there() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn send_signal(running: &TestProcess, signal: Signal) {
    let number = i32::try_from(running.process_id()).unwrap();
    kill_process(Pid::from_raw(number).unwrap(), signal).unwrap();
}

fn start_detached(repo: &ShopRepository, words: &[&str]) -> String {
    let words = [&["run", "--detach", "--agent", "bot"], words].concat();
    let data = repo.run_ok(&words);
    data["plan_id"].as_str().unwrap().to_owned()
}

/// As many plans as these in all, like the first.
fn copy_plans(repo: &ShopRepository, first: &str, count: usize) -> Vec<PlanId> {
    let path = repo.program.home().join("planwright.db");
    let lifecycle = Lifecycle::open(SqliteStore::new(&path, SqliteOptions::default()));
    let first: PlanId = first.parse().unwrap();
    let model = lifecycle.get_plan(first).unwrap().plan;
    let bot = model.actors().execution.clone();
    let mut plans = vec![first];
    while plans.len() < count {
        let request = UseRequest {
            goal: Some(model.goal().to_string()),
            definitions: vec![model.actor_definition(&bot).unwrap().clone()],
            fallback_actors: Some(PlanActors::for_both_phases(bot.clone())),
            profile: Some(Profile::Auto),
            ..UseRequest::default()
        };
        let call = Call::by(Caller::Person("ada".to_owned()));
        plans.push(lifecycle.use_action(request, &call).unwrap().plan.id());
    }
    plans
}

#[test]
fn a_few_workers_start_each_of_a_few_plans_once() {
    each_is_started_once(3, 6);
}

#[test]
fn many_workers_start_each_of_many_plans_once() {
    each_is_started_once(20, 500);
}

fn each_is_started_once(workers: usize, plans: usize) {
    let repo = ShopRepository::new();
    let script = "#!/bin/sh\necho \"$PLANWRIGHT_PLAN\" >> \"$TOOLS/starts\"\necho done\n";
    let tools = BotTools::with_script(&repo, script);
    let first = start_detached(&repo, &["--no-project", "--profile", "auto", "Look around"]);
    let plans = copy_plans(&repo, &first, plans);
    let workers: Vec<TestProcess> = (0..workers)
        .map(|_| {
            repo.program
                .run(["--format", "json", "work", "--drain"])
                .start()
        })
        .collect();
    let mut taken = 0;
    for worker in workers {
        let said = worker.finish();
        assert_eq!(said.exit_code(), Some(0), "{said:?}");
        let data = said.data();
        assert_eq!(data["troubles"], 0, "{data}");
        assert_eq!(data["reclaimed"], 0, "{data}");
        taken += data["taken"].as_u64().unwrap();
    }
    assert!(taken >= plans.len() as u64, "{taken}");
    let mut starts = tools.read_lines("starts");
    starts.sort();
    let mut expected: Vec<String> = plans.iter().map(ToString::to_string).collect();
    expected.sort();
    assert_eq!(starts, expected);
    let path = repo.program.home().join("planwright.db");
    let lifecycle = Lifecycle::open(SqliteStore::new(&path, SqliteOptions::default()));
    for plan in plans {
        let row = lifecycle.get_plan(plan).unwrap();
        assert_eq!(row.plan.stage().to_string(), "apply/applied");
    }
}

#[test]
fn a_worker_that_slept_past_its_lease_hands_in_nothing() {
    let repo = ShopRepository::new();
    let tools = BotTools::with_script(
        &repo,
        "#!/bin/sh
echo \"$PLANWRIGHT_ATTEMPT\" >> \"$TOOLS/starts\"
if [ \"$PLANWRIGHT_ATTEMPT\" = 1 ]; then
  while [ ! -e \"$TOOLS/go\" ]; do sleep 0.05; done
  echo first >> src/a.txt
  echo first > \"$TOOLS/first\"
else
  echo second >> src/a.txt
fi
",
    );
    let plan = start_detached(&repo, &["--project", "shop", "Write a line"]);
    let words = ["work", "--lease-seconds", "1"];
    let sleeper = repo.program.run(words).start();
    wait_for("the first attempt", || {
        tools.read_lines("starts").len() == 1
    });
    send_signal(&sleeper, Signal::STOP);
    let successor = repo.program.run(words).start();
    wait_for("the second attempt", || {
        repo.plan_state(&plan) == "execute/complete"
    });
    // What the sleeper started goes on in its own sandbox.
    std::fs::write(tools.tool_path("go"), "").unwrap();
    wait_for("the first to end", || !tools.read_lines("first").is_empty());
    let sandboxes = list_sandboxes(&repo, &plan);
    assert_eq!(sandboxes.len(), 2, "{sandboxes:?}");
    let last_line = |sandbox: &Path| {
        let text = std::fs::read_to_string(sandbox.join("src/a.txt")).unwrap();
        text.lines().last().unwrap().to_owned()
    };
    let lines: Vec<String> = sandboxes.iter().map(|path| last_line(path)).collect();
    assert_eq!(lines, ["first", "second"]);
    send_signal(&sleeper, Signal::CONT);
    std::thread::sleep(Duration::from_millis(500));
    for worker in [sleeper, successor] {
        send_signal(&worker, Signal::TERM);
        let said = worker.finish();
        assert_eq!(said.exit_code(), Some(0), "{said:?}");
    }
    assert_eq!(repo.plan_state(&plan), "execute/complete");
    let events = repo.run_ok(&["log", &plan]).to_string();
    assert_eq!(
        events.matches("\"execute_completed\"").count(),
        1,
        "{events}"
    );
    assert!(sandboxes[0].join("src/a.txt").exists(), "it is kept");
    repo.run_ok(&["apply", &plan, "--yes"]);
    let text = repo.read_file("src/a.txt");
    assert!(text.ends_with("six\nsecond\n"), "{text}");
    assert_eq!(tools.read_lines("starts"), ["1", "2"]);
}

/// Where the files of a plan's sandboxes are, oldest first.
pub fn list_sandboxes(repo: &ShopRepository, plan: &str) -> Vec<PathBuf> {
    let directory = repo.program.home().join("sandboxes").join(plan);
    let mut epochs: Vec<u64> = std::fs::read_dir(&directory)
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
        .collect();
    epochs.sort_unstable();
    let within = |epoch: &u64| {
        let made = std::fs::read_dir(directory.join(epoch.to_string())).unwrap();
        let mut made = made.map(|entry| entry.unwrap().path());
        made.find(|path| path.is_dir()).unwrap()
    };
    epochs.iter().map(within).collect()
}

#[test]
fn plans_wait_for_the_host_that_has_their_repository() {
    let database = PostgresDatabase::new();
    let store = database.url();
    let mut program = TestProgram::new(env!("CARGO_BIN_EXE_planwright"));
    program.set_variable("PLANWRIGHT_STORE", &store);
    let here = ShopRepository::with_program(program);
    let tools = BotTools::with_script(
        &here,
        "#!/bin/sh\necho \"$PLANWRIGHT_PLAN\" >> \"$TOOLS/starts\"\necho line >> src/a.txt\n",
    );
    let mut elsewhere = TestProgram::new(env!("CARGO_BIN_EXE_planwright"));
    elsewhere.set_variable("PLANWRIGHT_STORE", &store);
    let plan = start_detached(
        &here,
        &["--project", "shop", "--profile", "auto", "Write a line"],
    );

    let before = here.read_file("src/a.txt");
    let said = elsewhere
        .run(["--format", "json", "work", "--drain"])
        .finish();
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    assert_eq!(said.data()["taken"], 0, "{said:?}");
    for (words, says) in [
        (&["why", &plan][..], "waiting for host"),
        (&["status", &plan], "for host"),
        // It is not for a worker here, and nobody is told to start one.
        (&[], "waits for host"),
    ] {
        let said = elsewhere.run(words.to_vec()).finish();
        assert!(said.stdout.contains(says), "{said:?}");
        assert!(!said.stdout.contains("planwright work"), "{said:?}");
    }
    assert_eq!(here.plan_state(&plan), "strategize/queued");
    assert!(tools.read_lines("starts").is_empty());
    assert!(!elsewhere.home().join("sandboxes").exists());

    let said = here.run(&["work", "--drain"]);
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    assert_eq!(here.plan_state(&plan), "apply/applied");
    assert_eq!(tools.read_lines("starts"), [plan]);
    assert_eq!(here.read_file("src/a.txt"), format!("{before}line\n"));
    here.assert_tidy();
}
