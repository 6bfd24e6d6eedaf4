//! The daily loop through the program: an agent works, a person looks, sends it back or lands it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::TestRunOutput;

use crate::shop_repository::ShopRepository;

/// Writes a line into a file of the repository, and remembers every start outside of it.
pub const SCRIBE_SCRIPT: &str = "#!/bin/sh
echo \"$PLANWRIGHT_PHASE $PLANWRIGHT_PLAN $PLANWRIGHT_ATTEMPT\" >> \"$STARTS\"
echo \"looking around\"
echo \"$PLANWRIGHT_GOAL\" >> src/a.txt
";

/// A yard with an actor of its own: a script.
pub struct ScriptedAgentEnv {
    pub repo: ShopRepository,
    tools: tempfile::TempDir,
}

impl ScriptedAgentEnv {
    pub fn with_script(script: &str) -> Self {
        let made = Self {
            repo: ShopRepository::new(),
            tools: tempfile::TempDir::with_prefix("planwright-tools-").unwrap(),
        };
        made.write_tool("scribe", script);
        let extra = format!(
            "set_env:\n  STARTS: {0}/starts\nwritable: [{0}]\nenv: [API_SECRET]\n",
            made.tools.path().display()
        );
        made.define_actor("scribe", &extra);
        made
    }

    pub fn write_tool(&self, name: &str, script: &str) {
        testkit::write_program(&self.tools.path().join(name), script);
    }

    pub fn define_actor(&self, name: &str, extra: &str) {
        let tool = self.tools.path().join(name);
        let file = self.tools.path().join(format!("{name}.yaml"));
        let text = format!(
            "name: {name}\nkind: command\ncommand: [{}]\n{extra}",
            tool.display()
        );
        std::fs::write(&file, text).unwrap();
        self.repo.run_ok(&["agent", "add", file.to_str().unwrap()]);
    }

    /// Commits a set-up command of the repository.
    fn commit_set_up(&self, command: &str) {
        let text = format!("sandbox:\n  setup: |-\n    {command}\n");
        self.repo.write_file("planwright.yaml", &text);
        self.repo.commit_all("with a set-up");
    }

    /// Runs the program in the repository.
    pub fn run_here(&self, words: &[&str]) -> TestRunOutput {
        let words = [&["--format", "json"], words].concat();
        self.repo
            .program
            .run(words)
            .with_directory(self.repo.shop_path())
            .finish()
    }

    /// The same as a person sees it.
    pub fn run_as_person(&self, words: &[&str]) -> TestRunOutput {
        self.repo
            .program
            .run(words.to_vec())
            .with_directory(self.repo.shop_path())
            .finish()
    }

    /// Runs it; it must end like this.
    #[track_caller]
    pub fn run_expecting(&self, code: i32, words: &[&str]) -> Value {
        let said = self.run_here(words);
        assert_eq!(said.exit_code(), Some(code), "{words:?}: {said:?}");
        parse_last_line(&said)["data"].clone()
    }

    #[track_caller]
    pub fn start_plan(&self, code: i32) -> (String, Value) {
        let data = self.run_expecting(code, &["run", "--agent", "scribe", "Write a line"]);
        (data["plan_id"].as_str().unwrap().to_owned(), data)
    }

    pub fn read_starts(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.tools.path().join("starts")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn read_transcript(&self, plan: &str) -> String {
        self.run_expecting(0, &["log", plan, "--transcript"])
            .to_string()
    }

    pub fn tool_path(&self, name: &str) -> PathBuf {
        self.tools.path().join(name)
    }
}

/// The envelope comes last, after lines about how it goes.
fn parse_last_line(said: &TestRunOutput) -> Value {
    said.envelope()
}

pub fn describe_state(data: &Value) -> String {
    let word = |key: &str| data[key].as_str().unwrap().to_owned();
    format!("{}/{}", word("phase"), word("state"))
}

pub fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_there() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_script_works_a_person_lands_it_and_takes_it_back() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let before = env.repo.read_file("src/a.txt");
    let (plan, data) = env.start_plan(6);
    assert_eq!(describe_state(&data), "execute/complete");
    assert_eq!(
        env.repo.read_file("src/a.txt"),
        before,
        "only its copy changed"
    );
    assert_eq!(env.read_starts(), [format!("execute {plan} 1")]);
    assert!(env.read_transcript(&plan).contains("looking around"));
    env.run_expecting(0, &["apply", &plan, "--yes"]);
    assert_eq!(
        env.repo.read_file("src/a.txt"),
        format!("{before}Write a line\n")
    );
    env.run_expecting(0, &["undo", &plan, "--yes"]);
    assert_eq!(env.repo.read_file("src/a.txt"), before);
    env.repo.assert_tidy();
}

#[test]
fn several_who_take_a_plan_back_at_once_make_one_plan() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let before = env.repo.read_file("src/a.txt");
    let (plan, _) = env.start_plan(6);
    env.run_expecting(0, &["apply", &plan, "--yes"]);
    let undos = || {
        let listed = env.run_expecting(0, &["list", "--all"]);
        let listed = listed["plans"].as_array().unwrap().clone();
        let undoes = |one: &&Value| one["goal"] == "Undo: Write a line";
        listed.iter().filter(undoes).cloned().collect::<Vec<_>>()
    };
    let undo = || env.repo.program.run(["undo", &plan, "--yes"]).start();
    let running: Vec<_> = (0..6).map(|_| undo()).collect();
    let said: Vec<TestRunOutput> = running
        .into_iter()
        .map(testkit::TestProcess::finish)
        .collect();
    for one in &said {
        let code = one.exit_code().unwrap();
        // Whoever is not first takes part, or is told who does it.
        assert!(code == 0 || code == 4, "{one:?}");
    }
    assert!(said.iter().any(|one| one.exit_code() == Some(0)));
    assert_eq!(undos().len(), 1, "{said:?}");
    assert_eq!(env.repo.read_file("src/a.txt"), before);
    // Asked again, it is taken back already.
    env.run_expecting(0, &["undo", &plan, "--yes"]);
    let version = env.run_expecting(0, &["status", &plan])["version"].to_string();
    env.run_expecting(0, &["undo", &plan, "--yes", "--if-version", &version]);
    env.run_expecting(4, &["undo", &plan, "--yes", "--if-version", "1"]);
    let [only] = undos().try_into().unwrap();
    // What was taken back and brought in again can be taken back again.
    env.run_expecting(0, &["undo", only["plan_id"].as_str().unwrap(), "--yes"]);
    assert_ne!(env.repo.read_file("src/a.txt"), before);
    env.run_expecting(0, &["undo", &plan, "--yes"]);
    assert_eq!(env.repo.read_file("src/a.txt"), before);
    assert_eq!(undos().len(), 2);
}

#[test]
fn a_revised_plan_continues_in_its_sandbox_with_the_feedback() {
    let env = ScriptedAgentEnv::with_script(
        "#!/bin/sh
if grep -q 'in capitals' \"$PLANWRIGHT_ASSIGNMENT\"; then
  echo SHOUTED >> src/a.txt
else
  echo spoken >> src/a.txt
fi
",
    );
    let (plan, _) = env.start_plan(6);
    let said = env.run_as_person(&["revise", &plan, "say it in capitals"]);
    assert_eq!(said.exit_code(), Some(6), "{said:?}");
    env.run_expecting(0, &["apply", &plan, "--yes"]);
    let text = env.repo.read_file("src/a.txt");
    assert!(text.ends_with("spoken\nSHOUTED\n"), "{text}");
}

#[test]
fn success_needs_evidence() {
    let env = ScriptedAgentEnv::with_script("#!/bin/sh\necho all done\n");
    let (plan, data) = env.start_plan(7);
    assert_eq!(describe_state(&data), "execute/errored");
    let says = data["error"]["message"].as_str().unwrap();
    assert!(says.contains("changed nothing"), "{says}");
    assert!(env.read_transcript(&plan).contains("all done"));
}

#[test]
fn failures_end_in_a_state_that_says_so() {
    for (script, category, says) in [
        (
            "#!/bin/sh\necho broken >&2\nexit 3\n",
            "actor",
            "exit code 3",
        ),
        (
            "#!/bin/sh\necho x >> src/a.txt\necho nonsense > \"$PLANWRIGHT_REPORT\"\n",
            "actor",
            "report",
        ),
        ("#!/no/such/shell\n", "resource", "/no/such/shell"),
    ] {
        let env = ScriptedAgentEnv::with_script(script);
        let (_, data) = env.start_plan(7);
        assert_eq!(describe_state(&data), "execute/errored", "{script}");
        assert_eq!(data["error"]["category"], category, "{script}: {data}");
        let message = data["error"]["message"].as_str().unwrap();
        assert!(
            message.contains(says) || category == "resource",
            "{script}: {message}"
        );
    }
}

#[test]
fn an_agent_that_hangs_is_ended_at_its_deadline() {
    let env = ScriptedAgentEnv::with_script("#!/bin/sh\nsleep 1000\n");
    let words = [
        "run",
        "--agent",
        "scribe",
        "--timeout",
        "1s",
        "--attempts",
        "1",
        "Hang around",
    ];
    let began = Instant::now();
    let data = env.run_expecting(7, &words);
    assert_eq!(describe_state(&data), "execute/errored");
    assert_eq!(data["error"]["category"], "timeout");
    assert!(began.elapsed() < Duration::from_secs(20));
}

/// The system kills the supervising process for want of memory, and what the agent started has a session of its own.
/// The run notices, ends what is left, and tries again.
#[test]
fn a_killed_supervisor_keeps_nobody_waiting() {
    let env = ScriptedAgentEnv::with_script(
        "#!/bin/sh
echo \"$PLANWRIGHT_ATTEMPT\" >> \"$STARTS\"
if [ ! -e \"$STARTS.deep\" ]; then
  setsid sh -c 'echo $$ > \"$STARTS.deep\"; exec sleep 1000' &
  while [ ! -s \"$STARTS.deep\" ]; do sleep 0.05; done
  kill -KILL $PPID
  sleep 1000
fi
echo whole >> src/a.txt
",
    );
    // Unconfined, so that it may kill the one that is above it.
    let tool = env.tool_path("scribe");
    let text = format!(
        "name: scribe\nkind: command\ncommand: [{}]\nisolation: off\nset_env: {{STARTS: {}}}\n",
        tool.display(),
        env.tool_path("starts").display()
    );
    std::fs::write(env.tool_path("scribe.yaml"), text).unwrap();
    let file = env.tool_path("scribe.yaml");
    env.repo.run_ok(&["agent", "add", file.to_str().unwrap()]);
    let words = [
        "run",
        "--agent",
        "scribe",
        "--timeout",
        "60s",
        "Write a line",
    ];
    let words = [&["--format", "json"], &words[..]].concat();
    let run = env
        .repo
        .program
        .run(words)
        .with_directory(env.repo.shop_path())
        .start();
    wait_for("the run goes on", || env.read_starts().len() >= 2);
    let said = run.finish();
    assert_eq!(said.exit_code(), Some(6), "{said:?}");
    let deep = std::fs::read_to_string(env.tool_path("starts.deep")).unwrap();
    assert!(!Path::new("/proc").join(deep.trim()).exists());
}

#[test]
fn an_agent_asks_and_goes_on_with_the_answer() {
    let env = ScriptedAgentEnv::with_script(
        "#!/bin/sh
if grep -q 'the left one' \"$PLANWRIGHT_ASSIGNMENT\"; then
  echo left >> src/a.txt
else
  echo '{\"outcome\": \"ask\", \"question\": \"Which one?\", \"timeout\": \"2h\"}' > \"$PLANWRIGHT_REPORT\"
fi
",
    );
    let (plan, data) = env.start_plan(6);
    assert_eq!(describe_state(&data), "execute/awaiting_input");
    assert_ne!(data["question"]["deadline"], Value::Null, "{data}");
    let said = env.run_as_person(&["answer", &plan, "the left one"]);
    assert_eq!(said.exit_code(), Some(6), "{said:?}");
    assert_eq!(env.repo.plan_state(&plan), "execute/complete");
}

#[test]
fn secrets_that_are_passed_through_are_not_told() {
    let mut env = ScriptedAgentEnv::with_script(
        "#!/bin/sh\necho \"key $API_SECRET\"\necho \"$API_SECRET\" >&2\nexit 1\n",
    );
    env.repo
        .program
        .set_variable("API_SECRET", "hunter2hunter2");
    let (plan, data) = env.start_plan(7);
    let told = format!(
        "{data}{}{}",
        env.read_transcript(&plan),
        env.run_expecting(0, &["log", &plan])
    );
    assert!(!told.contains("hunter2"), "{told}");
    assert!(told.contains("[API_SECRET]"), "{told}");
    for entry in list_files(env.repo.program.home()) {
        let text = std::fs::read(&entry).unwrap_or_default();
        let found = text.windows(7).any(|window| window == b"hunter2");
        assert!(!found, "{}", entry.display());
    }
}

fn list_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            files.extend(list_files(&path));
        } else {
            files.push(path);
        }
    }
    files
}

#[test]
fn a_confined_agent_reaches_neither_store_nor_repository() {
    let env = ScriptedAgentEnv::with_script(
        "#!/bin/sh
cat \"$TOUCH_HOME/planwright.db\" > stolen 2>/dev/null && echo stolen
echo spoilt > \"$TOUCH_SHOP/README.md\" 2>/dev/null && echo spoilt
echo fine >> src/a.txt
exit 0
",
    );
    let extra = format!(
        "set_env:\n  TOUCH_HOME: {}\n  TOUCH_SHOP: {}\nisolation: required\n",
        env.repo.program.home().display(),
        env.repo.shop_path().display()
    );
    env.define_actor("scribe", &extra);
    let (plan, data) = env.start_plan(6);
    assert_eq!(describe_state(&data), "execute/complete");
    let told = env.read_transcript(&plan);
    assert!(
        !told.contains("spoilt") && !told.contains("stolen\""),
        "{told}"
    );
    assert_eq!(env.repo.read_file("README.md"), "# Shop\n");
    assert!(told.contains("confined (Landlock)"), "{told}");
}

#[test]
fn cancelling_ends_a_running_agent_and_all_it_started() {
    let env = ScriptedAgentEnv::with_script(
        "#!/bin/sh
(setsid sh -c 'echo $$ > \"$STARTS.deep\"; exec sleep 1000') &
echo $$ > \"$STARTS\"
sleep 1000
",
    );
    let run = env
        .repo
        .program
        .run(["run", "--agent", "scribe", "Sleep well"]);
    let running = run.with_directory(env.repo.shop_path()).start();
    let deep = env.tool_path("starts.deep");
    wait_for("the agent starts", || {
        std::fs::read_to_string(&deep).is_ok_and(|text| text.ends_with('\n'))
    });
    let plan = env.run_expecting(0, &["list"])["plans"][0]["plan_id"]
        .as_str()
        .unwrap()
        .to_owned();
    env.run_expecting(0, &["cancel", &plan]);
    let said = running.finish();
    assert_eq!(said.exit_code(), Some(7), "{said:?}");
    for file in ["starts", "starts.deep"] {
        let number = std::fs::read_to_string(env.tool_path(file)).unwrap();
        assert!(!Path::new("/proc").join(number.trim()).exists(), "{file}");
    }
}

#[test]
fn workers_take_what_is_left_to_them_once_each() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let plans: Vec<String> = (0..6)
        .map(|number| {
            let goal = format!("Write line {number}");
            let data = env.run_expecting(0, &["run", "--agent", "scribe", "--detach", &goal]);
            data["plan_id"].as_str().unwrap().to_owned()
        })
        .collect();
    let workers: Vec<_> = (0..3)
        .map(|_| {
            env.repo
                .program
                .run(["work", "--drain", "--concurrency", "2"])
                .start()
        })
        .collect();
    for worker in workers {
        let said = worker.finish();
        assert_eq!(said.exit_code(), Some(0), "{said:?}");
    }
    let mut starts = env.read_starts();
    starts.sort();
    let mut expected: Vec<String> = plans
        .iter()
        .map(|plan| format!("execute {plan} 1"))
        .collect();
    expected.sort();
    assert_eq!(starts, expected);
    for plan in &plans {
        assert_eq!(env.repo.plan_state(plan), "execute/complete");
    }
}

#[test]
fn a_killed_worker_costs_nothing() {
    let env = ScriptedAgentEnv::with_script(
        "#!/bin/sh
echo \"$PLANWRIGHT_ATTEMPT\" >> \"$STARTS\"
if [ \"$PLANWRIGHT_ATTEMPT\" = 1 ]; then echo $$ > \"$STARTS.first\"; sleep 1000; fi
echo done >> src/a.txt
",
    );
    let data = env.run_expecting(0, &["run", "--agent", "scribe", "--detach", "Survive this"]);
    let plan = data["plan_id"].as_str().unwrap();
    let doomed = env.repo.program.run(["work"]).start();
    let first = env.tool_path("starts.first");
    wait_for("the first attempt", || {
        std::fs::read_to_string(&first).is_ok_and(|text| text.ends_with('\n'))
    });
    doomed.kill();
    let said = env.repo.program.run(["work", "--drain"]).finish();
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    assert_eq!(env.read_starts(), ["1", "2"]);
    assert_eq!(env.repo.plan_state(plan), "execute/complete");
    let number = std::fs::read_to_string(first).unwrap();
    assert!(!Path::new("/proc").join(number.trim()).exists());
}

#[test]
fn profiles_stop_where_the_table_says() {
    for (profile, code, expected) in [
        ("manual", 6, "strategize/complete"),
        ("supervised", 6, "strategize/complete"),
        ("review", 6, "execute/complete"),
        ("auto", 0, "apply/applied"),
    ] {
        let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
        let words = [
            "run",
            "--agent",
            "scribe",
            "--profile",
            profile,
            "Write a line",
        ];
        let data = env.run_expecting(code, &words);
        assert_eq!(describe_state(&data), expected, "{profile}");
        let plan = data["plan_id"].as_str().unwrap();
        if profile == "manual" || profile == "supervised" {
            let worked = env.repo.program.run(["work", "--drain"]).finish();
            assert_eq!(worked.exit_code(), Some(0));
            assert_eq!(env.repo.plan_state(plan), expected, "nothing unasked");
            let data = env.run_expecting(6, &["run", plan]);
            assert_eq!(describe_state(&data), "execute/complete");
        }
    }
}

#[test]
fn a_person_can_be_the_actor() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let file = env.tool_path("me.yaml");
    std::fs::write(&file, "name: me\nkind: human\n").unwrap();
    env.repo.run_ok(&["agent", "add", file.to_str().unwrap()]);
    let data = env.run_expecting(6, &["run", "--agent", "me", "Do it yourself"]);
    assert_eq!(describe_state(&data), "execute/awaiting_input");
    let plan = data["plan_id"].as_str().unwrap();
    let path = env.run_expecting(0, &["path", plan])["sandboxes"][0]["path"]
        .as_str()
        .unwrap()
        .to_owned();
    std::fs::write(Path::new(&path).join("mine.txt"), "by hand\n").unwrap();
    let said = env.run_as_person(&["answer", plan, "done"]);
    assert_eq!(said.exit_code(), Some(6), "{said:?}");
    assert_eq!(env.repo.plan_state(plan), "execute/complete");
    env.run_expecting(0, &["apply", plan, "--yes"]);
    assert_eq!(env.repo.read_file("mine.txt"), "by hand\n");
}

#[test]
fn init_shows_what_it_writes_and_asks_first() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    env.repo.write_file("Makefile", "test:\n\ttrue\n");
    let data = env.run_expecting(6, &["init"]);
    assert_eq!(data["detected"]["test"], "make test");
    assert!(!env.repo.shop_path().join("planwright.yaml").exists());
    let data = env.run_expecting(0, &["init", "--yes"]);
    assert_eq!(data["written"], true);
    let first = env.repo.read_file("planwright.yaml");
    let data = env.run_expecting(0, &["init", "--yes"]);
    assert_eq!(data["written"], false);
    assert_eq!(env.repo.read_file("planwright.yaml"), first);
}

#[test]
fn a_repository_says_who_works_on_it_and_how() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let tool = env.tool_path("scribe");
    let text = format!(
        "actor: inhouse\nprofile: auto\nlimits:\n  attempts: 1\n  timeout: 20s\nactors:\n  \
         - name: inhouse\n    kind: command\n    command: [{}]\n    set_env:\n      STARTS: starts.txt\n",
        tool.display()
    );
    env.repo.write_file("planwright.yaml", &text);
    env.repo.commit_all("say how");
    let data = env.run_expecting(0, &["run", "Write a line"]);
    assert_eq!(describe_state(&data), "apply/applied");
    assert_eq!(env.repo.read_file("starts.txt").lines().count(), 1);
}

/// Whoever clones a repository has not chosen what is in it.
#[test]
fn a_repository_takes_no_liberties_and_no_names() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let define = |name: &str, more: &str| {
        let text =
            format!("actors:\n  - name: {name}\n    kind: command\n    command: [sh]\n{more}");
        env.repo.write_file("planwright.yaml", &text);
    };
    for (name, more, says) in [
        ("theirs", "    isolation: off\n", "isolation"),
        ("theirs", "    env: [API_SECRET]\n", "env"),
        ("theirs", "    writable: [/]\n", "writable"),
        ("theirs", "    readable: [/]\n", "readable"),
        ("claude", "", "built-in agent"),
    ] {
        define(name, more);
        let said = env.run_here(&["run", "--agent", "theirs", "Write a line"]);
        assert_eq!(said.exit_code(), Some(1), "{more}: {said:?}");
        assert!(said.messages().contains(says), "{more}: {said:?}");
    }
    // A name that the person defined stays theirs.
    define("scribe", "");
    env.start_plan(6);
    assert_eq!(env.read_starts().len(), 1);
}

#[test]
fn runs_that_cannot_work_are_refused_before_anything_is_stored() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    for (code, words, says) in [
        (
            3,
            &["run", "--agent", "nobody", "Do it all"][..],
            "Unknown agent `nobody`",
        ),
        (
            3,
            &["run", "--agent", "claude", "Do it all"],
            "not installed",
        ),
        (
            2,
            &["run", "--profile", "bold", "Do it all"],
            "not a profile",
        ),
        (3, &["run", "zzzz"], "--goal"),
        (
            2,
            &["run", "--timeout", "soon", "Do it all"],
            "not a duration",
        ),
        (2, &["run"], "No goal"),
    ] {
        let said = env.run_here(words);
        assert_eq!(said.exit_code(), Some(code), "{words:?}: {said:?}");
        assert!(format!("{said:?}").contains(says), "{words:?}: {said:?}");
    }
    assert_eq!(
        env.run_expecting(0, &["list", "--all"])["plans"]
            .as_array()
            .unwrap()
            .len(),
        0
    );
    let outside = tempfile::tempdir().unwrap();
    let run = env
        .repo
        .program
        .run(["run", "--agent", "scribe", "Do it all"]);
    let said = run.with_directory(outside.path()).finish();
    assert_eq!(said.exit_code(), Some(4), "{said:?}");
    assert!(said.stderr.contains("--no-project"), "{said:?}");
}

#[test]
fn a_script_in_the_home_directory_can_be_an_actor_as_it_is() {
    let mut env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let home = env.tools.path().to_str().unwrap().to_owned();
    env.repo.program.set_variable("HOME", home);
    env.write_tool("plain", "#!/bin/sh\necho plain >> src/a.txt\n");
    env.define_actor("plain", "isolation: required\n");
    let data = env.run_expecting(6, &["run", "--agent", "plain", "Write a line"]);
    assert_eq!(describe_state(&data), "execute/complete");
    let file = env.tool_path("after.yaml");
    let script = env.tool_path("plain");
    let text = format!(
        "name: after\nkind: command\ncommand: [sh, {}]\n",
        script.display()
    );
    std::fs::write(&file, text).unwrap();
    env.repo.run_ok(&["agent", "add", file.to_str().unwrap()]);
    env.run_expecting(6, &["run", "--agent", "after", "Write a line"]);
}

#[test]
fn a_person_is_told_by_a_command_of_their_own() {
    let mut env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let heard = env.tool_path("heard");
    let command = format!(
        "echo \"$PLANWRIGHT_WHAT $PLANWRIGHT_GOAL\" >> {}",
        heard.display()
    );
    env.repo
        .run_ok(&["config", "set", "notify.command", &command]);
    env.start_plan(6);
    wait_for("the command is run", || heard.exists());
    wait_for("it is done", || {
        std::fs::read_to_string(&heard).is_ok_and(|text| text == "needs-you Write a line\n")
    });
    env.repo
        .program
        .set_variable("PLANWRIGHT_NOTIFY_COMMAND", "exit 1");
    env.start_plan(6);
}

/// The conversation of an agent is gone on with, by the name it gave it.
#[test]
fn an_agents_own_conversation_is_resumed() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    env.write_tool(
        "claude",
        "#!/bin/sh
echo \"$@\" >> \"$0.calls\"
cat > /dev/null
echo '{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"talk-7\"}'
echo words >> src/a.txt
echo '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"Wrote words.\",\"session_id\":\"talk-7\",\"total_cost_usd\":0.05,\"usage\":{\"input_tokens\":10,\"output_tokens\":5}}'
",
    );
    let path = format!(
        "{}:/usr/bin:/bin:/usr/local/bin",
        env.tools.path().display()
    );
    let run = |words: &[&str]| {
        let words = [&["--format", "json"], words].concat();
        let run = env
            .repo
            .program
            .run(words)
            .with_directory(env.repo.shop_path());
        run.with_variable("PATH", &path).finish()
    };
    let shown = run(&["agent", "show", "claude"]);
    let file = env.tool_path("claude.yaml");
    let text = shown.data()["actor"].to_string();
    assert!(text.contains("stream-json"), "{text}");
    // As the preset, and allowed to write down how it was called.
    let people = env.repo.program.run(["agent", "show", "claude"]).finish();
    let text = people.stdout.replace(
        "writable:\n",
        &format!("writable:\n  - {}\n", env.tools.path().display()),
    );
    let text = text.replace("ExitPlanMode", "ExitPlanMode,WebFetch");
    std::fs::write(&file, text).unwrap();
    env.repo.run_ok(&["agent", "add", file.to_str().unwrap()]);
    let said = run(&["run", "--agent", "claude", "Write words"]);
    assert_eq!(said.exit_code(), Some(6), "{said:?}");
    let plan = said.data()["plan_id"].as_str().unwrap().to_owned();
    assert!(
        said.stdout.contains("\"cost_micros\":50000"),
        "{}",
        said.stdout
    );
    let revised = env.repo.program.run(["revise", &plan, "more words"]);
    let said = revised
        .with_directory(env.repo.shop_path())
        .with_variable("PATH", &path)
        .finish();
    assert_eq!(said.exit_code(), Some(6), "{said:?}");
    let calls = std::fs::read_to_string(env.tool_path("claude.calls")).unwrap();
    let calls: Vec<&str> = calls.lines().collect();
    // A way of one's own to make a strategy is used without being asked for.
    assert_eq!(calls.len(), 3, "{calls:?}");
    assert!(calls[0].contains("--permission-mode plan") && !calls[0].contains("talk-7"));
    for call in &calls[1..] {
        assert!(call.contains("--resume talk-7"), "{calls:?}");
    }
    let status = env.repo.program.run(["status", &plan]).finish();
    assert!(status.stdout.contains("$0.05"), "{}", status.stdout);
}

/// What is typed in one repository must not land in another.
#[test]
fn the_newest_plan_is_one_of_this_repository() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    env.start_plan(6);
    let other = PathBuf::from(env.repo.clone_repository("other"));
    let said = env
        .repo
        .program
        .run(["status", "@"])
        .with_directory(&other)
        .finish();
    assert_eq!(said.exit_code(), Some(3), "{said:?}");
    // Another branch is another project, and still the same repository.
    env.repo.run_git(&["switch", "-q", "-c", "feature"]);
    let (newest, _) = env.start_plan(6);
    assert_eq!(env.run_expecting(0, &["status", "@"])["plan_id"], newest);
}

#[test]
fn a_landing_that_cannot_be_is_shown_with_its_reason() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    env.repo.run_git(&["switch", "-q", "-c", "feature"]);
    let (plan, _) = env.start_plan(6);
    env.repo.run_git(&["switch", "-q", "main"]);
    env.repo.run_git(&["branch", "-q", "-D", "feature"]);
    let said = env.run_here(&["apply", &plan, "--yes"]);
    assert_eq!(said.exit_code(), Some(3), "{said:?}");
    // Nobody can say what the rules there are, so that nothing moved.
    assert_eq!(env.repo.plan_state(&plan), "execute/complete");
    let needs = env.run_expecting(0, &[]);
    assert_eq!(needs["needs_me"][0]["plan_id"], plan.as_str());
    env.repo.run_git(&["branch", "feature"]);
    env.run_expecting(0, &["apply", &plan, "--yes"]);
}

/// The set-up command is the user's, with the user's rights: it does not run what an agent wrote.
#[test]
#[allow(clippy::disallowed_methods, reason = "somebody is in the sandbox")]
fn set_up_runs_nothing_that_an_agent_wrote() {
    let env = ScriptedAgentEnv::with_script(
        "#!/bin/sh\necho \"touch $STARTS.escaped\" > setup.sh\necho more >> src/a.txt\n",
    );
    env.repo.write_file("setup.sh", "exit 0\n");
    env.commit_set_up("sh setup.sh");
    let (plan, _) = env.start_plan(6);
    let path = env.run_expecting(0, &["path", &plan])["sandboxes"][0]["path"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut inside = std::process::Command::new("sleep")
        .arg("60")
        .current_dir(path)
        .spawn()
        .unwrap();
    let said = env.run_as_person(&["revise", &plan, "again"]);
    inside.kill().unwrap();
    inside.wait().unwrap();
    assert_eq!(said.exit_code(), Some(6), "{said:?}");
    assert!(!env.tool_path("starts.escaped").exists());
}

/// Aider ends well whatever happened, and would have something to show for it: a line in `.gitignore` for what
/// it keeps for itself.
#[test]
fn an_agents_own_notes_are_no_result() {
    let env = ScriptedAgentEnv::with_script(
        "#!/bin/sh
        echo notes > .aider.chat.history.md
        git check-ignore -q .aider.chat.history.md || echo '.aider*' >> .gitignore
        echo 'litellm.AuthenticationError: invalid key'\n",
    );
    let data = env.run_expecting(7, &["run", "--agent", "scribe", "Write a line"]);
    assert_eq!(describe_state(&data), "execute/errored");
    assert_eq!(
        data["error"]["message"],
        "the agent reported success but changed nothing; its last message: \
         litellm.AuthenticationError: invalid key"
    );
}

/// Nothing done is not told as if something was.
#[test]
fn a_revision_that_changed_nothing_is_told_to_be_one() {
    let env = ScriptedAgentEnv::with_script("#!/bin/sh\necho more > src/new.txt\n");
    let said = env.run_as_person(&["run", "--agent", "scribe", "Write a line"]);
    assert_eq!(said.exit_code(), Some(6), "{said:?}");
    let note = "The result is the same as before it was sent back.";
    assert!(!said.stdout.contains(note), "{said:?}");
    let said = env.run_as_person(&["revise", "@", "Not like this"]);
    assert_eq!(said.exit_code(), Some(6), "{said:?}");
    assert!(said.stdout.contains(note), "{said:?}");
    env.run_expecting(0, &["apply", "@", "--yes"]);
}

/// It may take minutes, and whoever waits sees what for; once.
#[test]
fn a_set_up_is_told_of_while_it_runs() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    env.commit_set_up("echo fetching everything");
    let said = env.run_as_person(&["run", "--agent", "scribe", "Write a line"]);
    assert_eq!(said.exit_code(), Some(6), "{said:?}");
    // With the time that has passed in between.
    let told = said.stderr.lines().any(|line| {
        line.contains("setting up · ") && line.ends_with(" · echo fetching everything")
    });
    assert!(told, "{said:?}");
    let said = env.run_as_person(&["revise", "@", "again"]);
    assert!(!said.stderr.contains("setting up"), "{said:?}");

    // A worker tells it in its log, and a program is told as it is of everything else.
    env.run_expecting(
        0,
        &["run", "--agent", "scribe", "--detach", "Write another"],
    );
    let said = env.run_as_person(&["work", "--drain"]);
    let told = "  setting up · echo fetching everything  Write another\n";
    assert!(said.stderr.contains(told), "{said:?}");
    let said = env.run_here(&["run", "--agent", "scribe", "Write a third"]);
    let told = said
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let told = told.filter(|line: &Value| line["progress"]["doing"] == "setting up");
    assert_eq!(told.count(), 1, "{said:?}");
}

#[test]
fn a_set_up_that_fails_halts_the_plan_and_says_how_to_go_on() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let ready = env.tool_path("ready");
    env.commit_set_up(&format!(
        "test -e {} || {{ echo no such package; exit 3; }}",
        ready.display()
    ));
    let said = env.run_here(&["run", "--agent", "scribe", "Write a line"]);
    assert_eq!(said.exit_code(), Some(7), "{said:?}");
    let data = parse_last_line(&said)["data"].clone();
    assert_eq!(describe_state(&data), "execute/errored");
    assert_eq!(data["error"]["category"], "resource", "{data}");
    let message = data["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("ended with exit code 3\nno such package"),
        "{message}"
    );
    let plan = data["plan_id"].as_str().unwrap();
    let handle = plan[plan.len() - 4..].to_lowercase();
    let messages = said.messages();
    assert!(
        messages.contains(&format!("planwright retry {handle}")),
        "{messages}"
    );
    assert!(
        !messages.contains("--transcript"),
        "nobody said anything: {messages}"
    );
    assert!(env.read_starts().is_empty());
    std::fs::write(&ready, "").unwrap();
    let said = env.run_as_person(&["retry", plan]);
    assert_eq!(said.exit_code(), Some(6), "{said:?}");
    assert_eq!(env.read_starts().len(), 1);
}

/// A set-up that goes on for ever, and what it started that left its group and its session.
struct LongSetUp {
    env: ScriptedAgentEnv,
    running: testkit::TestProcess,
}

impl LongSetUp {
    fn start() -> Self {
        let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
        let tools = env.tools.path().display().to_string();
        env.run_expecting(0, &["config", "set", "sandbox.writable", &tools]);
        env.commit_set_up(&format!(
            "setsid sh -c 'echo $$ > {tools}/escaped; exec sleep 1000' & \
             echo $$ > {tools}/setup; sleep 1000"
        ));
        let run = env
            .repo
            .program
            .run(["run", "--agent", "scribe", "Write a line"]);
        let running = run.with_directory(env.repo.shop_path()).start();
        let is_written =
            |name| std::fs::read(env.tool_path(name)).is_ok_and(|text| !text.is_empty());
        wait_for("it is being set up", || {
            is_written("escaped") && is_written("setup")
        });
        Self { env, running }
    }

    fn send_signal(&self, signal: rustix::process::Signal) {
        let number = i32::try_from(self.running.process_id()).unwrap();
        let number = rustix::process::Pid::from_raw(number).unwrap();
        rustix::process::kill_process(number, signal).unwrap();
    }

    /// How it ended, once nothing of the set-up is left.
    fn finish(self) -> (ScriptedAgentEnv, TestRunOutput) {
        let began = Instant::now();
        let said = self.running.finish();
        assert!(began.elapsed() < Duration::from_secs(20), "{said:?}");
        for name in ["escaped", "setup"] {
            let process = std::fs::read_to_string(self.env.tool_path(name)).unwrap();
            let stat = format!("/proc/{}/stat", process.trim());
            wait_for(&format!("{name} ends"), || {
                std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "))
            });
        }
        (self.env, said)
    }
}

#[test]
fn processes_of_a_set_up_end_with_a_killed_run() {
    let set_up = LongSetUp::start();
    set_up.send_signal(rustix::process::Signal::KILL);
    let (_, said) = set_up.finish();
    assert!(said.was_killed());
}

#[test]
fn a_set_up_ends_when_its_run_is_interrupted_and_the_plan_waits() {
    let set_up = LongSetUp::start();
    set_up.send_signal(rustix::process::Signal::INT);
    let (env, said) = set_up.finish();
    assert_eq!(said.exit_code(), Some(130), "{said:?}");
    assert_eq!(
        describe_state(&env.run_expecting(0, &["status", "@"])),
        "execute/queued"
    );
}

#[test]
fn a_set_up_ends_when_its_plan_is_cancelled() {
    let set_up = LongSetUp::start();
    set_up.env.run_expecting(0, &["cancel", "@"]);
    let (env, said) = set_up.finish();
    assert_eq!(said.exit_code(), Some(7), "{said:?}");
    assert_eq!(
        describe_state(&env.run_expecting(0, &["status", "@"])),
        "execute/cancelled"
    );
}

#[test]
fn a_result_is_not_sent_back_to_a_repository_that_is_gone() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let (plan, _) = env.start_plan(6);
    let elsewhere = env.tool_path("elsewhere");
    std::fs::rename(env.repo.shop_path(), &elsewhere).unwrap();
    let said = env.repo.run_bad(4, &["revise", &plan, "again"], "is gone");
    let messages = said.messages();
    let relink = "planwright project relink shop shop --git PATH";
    assert!(messages.contains(relink), "{messages}");
    assert_eq!(env.repo.plan_state(&plan), "execute/complete");
    let relink = relink.replace("PATH", elsewhere.to_str().unwrap());
    let words: Vec<&str> = relink.split(' ').skip(1).collect();
    env.repo.run_ok(&words);
    env.repo.run_ok(&["revise", &plan, "--detach", "again"]);
}

/// Whatever an agent says when the objects it borrows are gone: it is not to blame.
#[test]
fn a_repository_that_goes_missing_while_an_agent_works_is_named() {
    for ending in ["exit 1", "echo more >> src/a.txt"] {
        let env = ScriptedAgentEnv::with_script(&format!(
            "#!/bin/sh\necho begun > \"$STARTS\"\nwhile ! [ -e \"$STARTS.go\" ]; do sleep 0.05; done\n{ending}\n"
        ));
        let run = [
            "--format",
            "json",
            "run",
            "--agent",
            "scribe",
            "Write a line",
        ];
        let running = env
            .repo
            .program
            .run(run)
            .with_directory(env.repo.shop_path())
            .start();
        wait_for("the agent starts", || !env.read_starts().is_empty());
        std::fs::rename(env.repo.shop_path(), env.tool_path("elsewhere")).unwrap();
        std::fs::write(env.tool_path("starts.go"), "").unwrap();
        let said = running.finish();
        assert_eq!(said.exit_code(), Some(7), "{said:?}");
        let error = parse_last_line(&said)["data"]["error"].clone();
        assert_eq!(error["category"], "resource", "{error}");
        let message = error["message"].as_str().unwrap();
        let place = env.repo.shop_path();
        assert!(message.starts_with(place.to_str().unwrap()), "{message}");
        assert!(
            said.messages()
                .contains("planwright project relink shop shop")
        );
    }
}

/// What a person changes while an agent works would be handed in as the agent's.
#[test]
fn a_sandbox_in_use_cannot_be_entered() {
    let env = ScriptedAgentEnv::with_script("#!/bin/sh\necho $$ > \"$STARTS\"\nsleep 1000\n");
    let run = env
        .repo
        .program
        .run(["run", "--agent", "scribe", "Take your time"]);
    let running = run.with_directory(env.repo.shop_path()).start();
    wait_for("the agent starts", || !env.read_starts().is_empty());
    let said = env.run_as_person(&["shell", "@"]);
    assert_eq!(said.exit_code(), Some(4), "{said:?}");
    assert!(
        said.stderr.contains("is working in the sandbox"),
        "{said:?}"
    );
    env.run_expecting(0, &["cancel", "@"]);
    running.finish();
}

/// The repository's own action, as it stands now, on the repository one is in.
#[test]
fn a_repository_defines_actions_that_plans_freeze() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let define = |line: &str| {
        let text = format!(
            "actions:\n  - name: greet\n    description: {line}\n    actor: scribe\n    \
             arguments:\n      - name: whom\n        type: string\n        required: true\n    \
             invariants:\n      - name: calm\n        expr: plan.attempt <= 3\n"
        );
        env.repo.write_file("planwright.yaml", &text);
    };
    define("Greet somebody");
    let listed = env.run_expecting(0, &["action", "list"]);
    assert_eq!(listed["actions"][0]["name"], "greet");
    let file = listed["actions"][0]["file"].as_str().unwrap().to_owned();
    assert!(file.ends_with("shop/planwright.yaml"), "{file}");
    assert_eq!(listed["actions"][1]["file"], Value::Null);
    let shown = env.run_as_person(&["action", "show", "greet"]);
    assert!(shown.stdout.contains("defined in"), "{shown:?}");

    let first = env.run_expecting(0, &["use", "greet", "--arg", "whom=Ada"]);
    assert_eq!(first["goal"], "Greet somebody");
    assert_eq!(first["resources"][0]["project"], "shop", "{first}");
    let again = env.run_expecting(0, &["use", "greet", "shop", "--arg", "whom=Bob"]);
    assert_eq!(again["action"], first["action"]);
    define("Greet everybody");
    let second = env.run_expecting(0, &["use", "greet", "--arg", "whom=Bob"]);
    assert_ne!(second["action"], first["action"]);
    // The first plan still has what it was made of.
    let kept = env.run_expecting(0, &["action", "show", first["action"].as_str().unwrap()]);
    assert_eq!(kept["description"], "Greet somebody");
    let rules = [
        "rule",
        "list",
        "--effective",
        first["plan_id"].as_str().unwrap(),
    ];
    assert_eq!(env.run_expecting(0, &rules)["rules"][0]["name"], "calm");
    let listed = env.run_expecting(0, &["action", "list"]);
    assert_eq!(listed["actions"].as_array().unwrap().len(), 2, "{listed}");
    let said = env.run_here(&["use", "geret", "--arg", "whom=Bob"]);
    assert_eq!(said.exit_code(), Some(3), "{said:?}");
    assert!(said.messages().contains("did you mean `greet`"), "{said:?}");
}

/// What a person calls by a name stays theirs, until they give it up.
#[test]
fn a_kept_action_goes_before_a_repositorys() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    env.repo.write_file(
        "planwright.yaml",
        "actions:\n  - name: tidy\n    description: Tidy it my way\n    actor: scribe\n",
    );
    let listed = env.run_expecting(0, &["action", "list"]);
    assert_eq!(listed["actions"][0]["state"], "shadowed");
    let said = env.run_here(&["use", "tidy", "shop"]);
    assert_eq!(said.data()["goal"], "Tidy the shop", "{said:?}");
    assert!(
        said.messages().contains("planwright action archive tidy"),
        "{said:?}"
    );
    env.run_expecting(0, &["action", "archive", "tidy"]);
    let made = env.run_expecting(0, &["use", "tidy", "shop"]);
    assert_eq!(made["goal"], "Tidy it my way");
}

#[test]
fn errors_in_a_repositorys_action_name_its_file() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    for (text, says) in [
        ("  - name: one\n", "needs the key `description`"),
        (
            "  - name: one\n    description: A\n  - name: one\n    description: B\n",
            "defined twice",
        ),
        (
            "  - name: one\n    description: A\n    invariants: [{name: bad, expr: 1 +}]\n",
            "planwright.yaml: ",
        ),
    ] {
        env.repo
            .write_file("planwright.yaml", &format!("actions:\n{text}"));
        let said = env.run_here(&["use", "one", "shop"]);
        assert_eq!(said.exit_code(), Some(1), "{text}: {said:?}");
        assert!(said.messages().contains(says), "{text}: {said:?}");
    }
}

/// People are pointed to what they type every day, scripts to plumbing.
#[test]
fn refusals_hint_at_what_the_caller_may_do_instead() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let waiting = env.run_expecting(0, &["run", "--agent", "scribe", "--detach", "Write a line"]);
    let plan = waiting["plan_id"].as_str().unwrap();
    let said = env.run_as_person(&["apply", plan]);
    assert_eq!(said.exit_code(), Some(4), "{said:?}");
    let told = &said.stderr;
    assert!(told.contains("Apply is not possible"), "{told}");
    assert!(told.contains("try: planwright run "), "{told}");
    assert!(told.contains("try: planwright cancel "), "{told}");
    assert!(
        !told.contains("plumbing") && !told.contains("pprove"),
        "{told}"
    );
    let said = env.run_as_person(&["plumbing", "apply-plan", plan]);
    assert!(
        said.stdout.contains("apply-plan is not possible"),
        "{said:?}"
    );
    assert!(
        said.stdout.contains("now: start-strategize, cancel"),
        "{said:?}"
    );
    // `why` speaks to people, too.
    let said = env.run_as_person(&["why", plan]);
    assert!(said.stderr.contains("planwright run "), "{said:?}");
    assert!(!said.stderr.contains("plumbing"), "{said:?}");
}

#[test]
fn a_detached_head_is_told_what_helps() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    env.repo.run_git(&["switch", "-q", "--detach"]);
    let said = env.run_as_person(&["run", "--agent", "scribe", "Write a line"]);
    assert_eq!(said.exit_code(), Some(4), "{said:?}");
    assert!(said.stderr.contains("switch BRANCH"), "{said:?}");
    assert!(
        said.stderr.contains("project create NAME --git"),
        "{said:?}"
    );
}

/// The very first command in a repository already works as the repository wants it.
#[test]
fn a_repositorys_action_is_used_from_a_home_that_knows_nothing() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    env.repo.write_file(
        "planwright.yaml",
        "actor: inhouse\nlimits: {attempts: 7}\nactors:\n  - name: inhouse\n    kind: command\n    \
         command: [sh, ./tool]\nactions:\n  - name: greet\n    description: Greet them\n",
    );
    let fresh = testkit::TestProgram::new(env!("CARGO_BIN_EXE_planwright"));
    let here = |words: &[&str]| {
        fresh
            .run(words.to_vec())
            .with_directory(env.repo.shop_path())
            .finish()
    };
    let used = here(&["use", "greet"]);
    assert_eq!(used.exit_code(), Some(0), "{used:?}");
    assert!(used.stderr.contains("planwright run "), "{used:?}");
    let shown = here(&["status", "@"]).stdout;
    assert!(
        shown.contains("7 attempts") && shown.contains("inhouse"),
        "{shown}"
    );
}
