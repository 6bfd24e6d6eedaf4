//! The `land` trial: clients drive the real program on one real repository. Their processes are killed at any time, and a
//! person commits meanwhile. Afterwards the branch must contain every landed plan once, no other plan, and all commits of
//! the person.
//!
//! Each plan writes one file of its own, so the expected contents of the branch need no merge. Some plans also commit a
//! file that git ignores, which must land, or write below a submodule, which must be refused.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::trial::{Trial, TrialProgress};
use crate::trial_env::{TrialActorSpec, TrialEnv, path_as_str};

pub struct LandingTrialSettings {
    /// The database is always SQLite.
    pub trial: Trial,
    /// The bug to plant.
    #[cfg(feature = "broken")]
    pub bug: Option<LandingBug>,
}

/// A bug that the harness simulates by changing the repository or an answer. Compiled for tests only.
#[cfg(feature = "broken")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LandingBug {
    /// A change lands twice
    DoubleApply,
    /// A landed change is lost
    LostWork,
    /// Ignored files are dropped although they were committed
    LostIgnored,
    /// The caller gets the holder of the plan instead of the outcome
    ToldHeld,
}

/// Counts and verdict of the trial.
#[derive(Debug, Default)]
pub struct LandingTrialOutcome {
    /// Plans that landed, including undo plans.
    pub landed: usize,
    /// Plans that were undone.
    pub undone: usize,
    /// Processes killed.
    pub kills: u64,
    /// Commits by the person.
    pub commits: u64,
    pub violations: Vec<String>,
    /// What did not happen often enough for the trial to count.
    pub missing: Vec<String>,
}

/// The file that the person edits.
const PERSON_FILE: &str = "person.txt";

/// A directory that git ignores.
const IGNORED_DIR: &str = "build";

const SUBMODULE_DIR: &str = "lib";

/// Whether a plan commits an ignored file. Derived from its id, so that the check knows it, too.
fn commits_ignored_file(plan_id: &str) -> bool {
    plan_id.bytes().last().is_some_and(|last| last % 2 == 0)
}

/// How long the person retries while a landing holds the lock of the index.
const INDEX_LOCK_TIMEOUT: Duration = Duration::from_secs(120);

/// Runs the trial.
pub fn run(settings: &LandingTrialSettings) -> anyhow::Result<LandingTrialOutcome> {
    let trial = &settings.trial;
    let landing = LandingTrial::create(trial)?;
    let deadline = Instant::now() + trial.duration;
    let failed = AtomicBool::new(false);
    let is_over =
        || Instant::now() >= deadline || trial.is_interrupted() || failed.load(Ordering::Relaxed);
    let fail = |_: &anyhow::Error| failed.store(true, Ordering::Relaxed);
    let person_commits = AtomicU64::new(0);
    std::thread::scope(|scope| -> anyhow::Result<()> {
        let mut threads = Vec::new();
        for number in 0..trial.processes {
            let (landing, is_over, fail) = (&landing, &is_over, &fail);
            let random = trial.random_for_client(number);
            let client = move || run_plans(landing, settings, random, is_over).inspect_err(fail);
            threads.push(scope.spawn(client));
        }
        let (landing, is_over, fail, person_commits) = (&landing, &is_over, &fail, &person_commits);
        let person = move || commit_as_person(landing, person_commits, is_over).inspect_err(fail);
        threads.push(scope.spawn(person));
        let workers = move || restart_workers(landing, is_over).inspect_err(fail);
        threads.push(scope.spawn(workers));
        let mut progress = TrialProgress::start_now(trial);
        while !threads.iter().all(ScopedJoinHandle::is_finished) {
            std::thread::sleep(Duration::from_millis(50));
            let [kills, commits] =
                [&landing.kills, person_commits].map(|count| count.load(Ordering::Relaxed));
            progress.print_if_due(|| {
                format!("{kills} processes killed, {commits} commits by a person")
            });
        }
        for thread in threads {
            thread
                .join()
                .map_err(|_| anyhow::anyhow!("a client panicked"))??;
        }
        Ok(())
    })?;
    trial.require_uninterrupted()?;
    landing.finish_landings()?;
    landing.check_outcome(trial, person_commits.load(Ordering::Relaxed))
}

/// The state of a running trial.
struct LandingTrial {
    env: TrialEnv,
    kills: AtomicU64,
    /// Answers that contradict the plan's state.
    wrong_answers: Mutex<Vec<String>>,
}

impl LandingTrial {
    fn create(trial: &Trial) -> anyhow::Result<Self> {
        let actor = TrialActorSpec {
            subcommand: "actor",
            output_format: "text",
            runs_strategize: false,
            program_env: Vec::new(),
        };
        let env = TrialEnv::create(trial, actor)?;
        std::fs::write(env.repository.join(PERSON_FILE), "")?;
        std::fs::write(
            env.repository.join(".gitignore"),
            format!("{IGNORED_DIR}/\n"),
        )?;
        std::fs::create_dir(env.repository.join(SUBMODULE_DIR))?;
        env.run_git(&["add", "-A"])?;
        // The submodule's repository does not exist; any commit id will do.
        let tip = env.run_git(&["rev-parse", "HEAD"])?;
        let link = format!("160000,{tip},{SUBMODULE_DIR}");
        env.run_git(&["update-index", "--add", "--cacheinfo", &link])?;
        env.run_git(&["commit", "-q", "-m", "begin"])?;
        let action = trial.directory.join("make.yaml");
        std::fs::write(
            &action,
            // No actor has this name. So workers only land plans, and the clients do the rest.
            "name: make\ndescription: Make a file\nactor: hand\n",
        )?;
        env.run_checked(&["action", "create", "--config", path_as_str(&action)?])?;
        let kills = AtomicU64::new(0);
        let wrong_answers = Mutex::default();
        Ok(Self {
            env,
            kills,
            wrong_answers,
        })
    }

    /// Runs the program and kills it after a random time.
    fn run_and_kill(&self, arguments: &[&str], random: &mut fastrand::Rng) -> anyhow::Result<()> {
        let killed = self.env.run_and_kill(arguments, random)?;
        self.kills.fetch_add(u64::from(killed), Ordering::Relaxed);
        Ok(())
    }

    /// Records a violation if the answer to a landing contradicts the state of the plan.
    fn check_answer(
        &self,
        arguments: &[&str],
        (code, envelope): &(Option<i32>, Value),
    ) -> anyhow::Result<()> {
        let data = &envelope["data"];
        let problem = match (code, data["kind"].as_str()) {
            (Some(4), Some(kind @ ("held" | "lease_runs" | "fenced"))) => {
                format!("{arguments:?} did not report the outcome: {kind}")
            }
            (Some(0), _) => {
                let plan_id = data["plan_id"]
                    .as_str()
                    .context("the answer names no plan")?;
                let state = self.env.run_checked(&["plumbing", "show", plan_id])?["state"].take();
                if state == "applied" {
                    return Ok(());
                }
                format!("{arguments:?} reported a landing, but the plan is {state}")
            }
            _ => return Ok(()),
        };
        let mut all = self
            .wrong_answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.push(problem);
        Ok(())
    }

    /// Finishes the landings of killed processes.
    fn finish_landings(&self) -> anyhow::Result<()> {
        self.env.run_checked(&["doctor", "--fix"])?;
        Ok(())
    }

    fn check_outcome(
        &self,
        trial: &Trial,
        person_commits: u64,
    ) -> anyhow::Result<LandingTrialOutcome> {
        let mut outcome = LandingTrialOutcome {
            kills: self.kills.load(Ordering::Relaxed),
            commits: person_commits,
            ..LandingTrialOutcome::default()
        };
        let wrong_answers = self
            .wrong_answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        outcome.violations.extend(wrong_answers.iter().cloned());
        let mut report = |problem: String| outcome.violations.push(problem);
        let mut landed: BTreeMap<String, Value> = BTreeMap::new();
        let mut after = None::<String>;
        loop {
            let mut arguments = vec!["list", "--all", "--limit", "500"];
            arguments.extend(
                after
                    .as_deref()
                    .map(|after| ["--after", after])
                    .iter()
                    .flatten(),
            );
            let page = self.env.run_checked(&arguments)?;
            for plan in page["plans"].as_array().into_iter().flatten() {
                let id = plan["plan_id"].as_str().unwrap_or_default();
                let view = self.env.run_checked(&["plumbing", "show", id])?;
                if view["prepared"] == true {
                    report(format!("{id} is still prepared to land"));
                }
                if view["state"] == "applied" {
                    landed.insert(id.to_owned(), view);
                }
            }
            after = page["next"].as_str().map(str::to_owned);
            if after.is_none() {
                break;
            }
        }
        let initial_files = ["README.md", ".gitignore", PERSON_FILE, SUBMODULE_DIR];
        let mut expected: BTreeSet<String> = initial_files.map(str::to_owned).into();
        let undone: BTreeSet<&str> = landed
            .values()
            .filter(|view| view["origin"]["kind"] == "undo_of")
            .filter_map(|view| view["origin"]["plan_id"].as_str())
            .collect();
        for (id, view) in &landed {
            if view["origin"]["kind"] == "use" && !undone.contains(id.as_str()) {
                expected.insert(format!("made/{id}.txt"));
                if commits_ignored_file(id) {
                    expected.insert(format!("{IGNORED_DIR}/{id}.o"));
                }
            }
        }
        let actual = self
            .env
            .run_git(&["ls-tree", "-r", "--name-only", "main"])?;
        let actual: BTreeSet<String> = actual.lines().map(str::to_owned).collect();
        for path in expected.symmetric_difference(&actual) {
            let problem = if actual.contains(path) {
                "should not be"
            } else {
                "is not"
            };
            report(format!("{path} {problem} on the branch"));
        }
        let lines = std::fs::read_to_string(self.env.repository.join(PERSON_FILE))?
            .lines()
            .count() as u64;
        if lines != person_commits {
            report(format!(
                "the person committed {person_commits} lines, but the file has {lines}"
            ));
        }
        let plans = landed.keys().map(String::as_str).collect();
        outcome
            .violations
            .extend(self.env.find_repository_problems(&plans)?);
        outcome.landed = landed.len();
        outcome.undone = undone.len();
        let kills = usize::try_from(outcome.kills)?;
        let commits = usize::try_from(outcome.commits)?;
        for (count, minimum, name) in [
            (outcome.landed, 3 + trial.scale_per_minute(10), "landings"),
            (outcome.undone, 3 + trial.scale_per_minute(3), "undos"),
            (kills, 3 + trial.scale_per_minute(10), "kills"),
            (
                commits,
                1 + trial.scale_per_minute(3),
                "commits by a person",
            ),
        ] {
            if count < minimum {
                let missing = format!("{count} {name}, expected at least {minimum}");
                outcome.missing.push(missing);
            }
        }
        Ok(outcome)
    }
}

/// Creates, executes, lands and sometimes undoes plans until the trial is over. Kills the program at random.
fn run_plans(
    landing: &LandingTrial,
    settings: &LandingTrialSettings,
    mut random: fastrand::Rng,
    is_over: &(impl Fn() -> bool + Sync),
) -> anyhow::Result<()> {
    while !is_over() {
        let created = landing.env.run_checked(&["use", "make", "shop"])?;
        let plan_id = created["plan_id"]
            .as_str()
            .context("the answer names no plan")?
            .to_owned();
        if !execute_plan(landing, settings, &plan_id, &mut random)? {
            continue;
        }
        let arguments = ["apply", plan_id.as_str(), "--yes"];
        while random.u8(..100) < 60 {
            landing.run_and_kill(&arguments, &mut random)?;
        }
        land_plan(landing, settings, &arguments, is_over)?;
        plant_branch_bug(landing, settings, &mut random)?;
        if random.u8(..100) < 40 {
            undo_plan(landing, settings, &plan_id, &mut random, is_over)?;
        }
    }
    Ok(())
}

/// Executes a plan. Returns `false` if it got no sandbox because a killed attempt is still in the way.
fn execute_plan(
    landing: &LandingTrial,
    settings: &LandingTrialSettings,
    plan_id: &str,
    random: &mut fastrand::Rng,
) -> anyhow::Result<bool> {
    landing
        .env
        .run_checked(&["plumbing", "start-strategize", plan_id, "--owner", "bot"])?;
    landing
        .env
        .run_checked(&["plumbing", "complete-strategize", plan_id, "--epoch", "1"])?;
    // A worker may have been faster.
    match landing
        .env
        .run_program(&["plumbing", "execute-plan", plan_id])?
    {
        (Some(0), _) => {}
        (Some(4), envelope) if envelope["data"]["kind"] == "wrong_state" => {}
        (code, envelope) => bail!("{plan_id} did not enter execute: {code:?}, {envelope}"),
    }
    let claim =
        landing
            .env
            .run_checked(&["plumbing", "start-execute", plan_id, "--owner", "bot"])?;
    let Some(sandbox) = claim["sandboxes"][0]["path"].as_str() else {
        return Ok(false);
    };
    let sandbox = Path::new(sandbox);
    let made_dir = sandbox.join("made");
    std::fs::create_dir_all(&made_dir)?;
    std::fs::write(
        made_dir.join(format!("{plan_id}.txt")),
        format!("by {plan_id}\n"),
    )?;
    if commits_ignored_file(plan_id) {
        let file = format!("{IGNORED_DIR}/{plan_id}.o");
        std::fs::create_dir_all(sandbox.join(IGNORED_DIR))?;
        std::fs::write(sandbox.join(&file), format!("by {plan_id}\n"))?;
        landing
            .env
            .run_git_in(sandbox, &["add", "--force", &file])?;
        let identity = ["-c", "user.name=bot", "-c", "user.email=bot@example.org"];
        let commit = ["commit", "-q", "-m", "Build"];
        landing
            .env
            .run_git_in(sandbox, &[&identity[..], &commit].concat())?;
        plant_lost_commit(landing, settings, sandbox)?;
    }
    let complete = ["plumbing", "complete-execute", plan_id, "--epoch", "2"];
    if random.u8(..100) < 20 {
        let below = sandbox.join(SUBMODULE_DIR).join("new.txt");
        std::fs::create_dir_all(sandbox.join(SUBMODULE_DIR))?;
        std::fs::write(&below, "would be lost\n")?;
        if landing.env.run_program(&complete)?.0 == Some(0) {
            bail!("{plan_id}: a file below a submodule was dropped without an error");
        }
        std::fs::remove_file(&below)?;
    }
    landing.env.run_checked(&complete)?;
    Ok(true)
}

/// Runs a landing until it succeeds; the person's git may hold a lock for a moment. If a worker lands the plan first, the
/// answer must report the worker's outcome.
fn land_plan(
    landing: &LandingTrial,
    settings: &LandingTrialSettings,
    arguments: &[&str],
    is_over: &(impl Fn() -> bool + Sync),
) -> anyhow::Result<()> {
    let mut last_envelope = Value::Null;
    for _ in 0..200 {
        let answer = plant_held_answer(settings, landing.env.run_program(arguments)?);
        landing.check_answer(arguments, &answer)?;
        match answer {
            (Some(0), _) => return Ok(()),
            // A killed attempt had landed it.
            (Some(4), envelope) if envelope["data"]["kind"] == "final" => return Ok(()),
            (Some(1 | 4), envelope) => {
                last_envelope = envelope;
                std::thread::sleep(Duration::from_millis(50));
            }
            (code, envelope) => bail!("{arguments:?} ended with {code:?}: {envelope}"),
        }
        if is_over() {
            return Ok(());
        }
    }
    bail!("{arguments:?} never succeeded: {last_envelope}")
}

fn undo_plan(
    landing: &LandingTrial,
    settings: &LandingTrialSettings,
    plan_id: &str,
    random: &mut fastrand::Rng,
    is_over: &(impl Fn() -> bool + Sync),
) -> anyhow::Result<()> {
    // With a key, so that repeating a killed undo does not create a second plan.
    let key = format!("undo-{plan_id}");
    let arguments = ["undo", plan_id, "--yes", "--idempotency-key", &key];
    if random.bool() {
        landing.run_and_kill(&arguments, random)?;
    }
    land_plan(landing, settings, &arguments, is_over)
}

/// Runs one worker after another. They land queued plans and are killed after a while.
fn restart_workers(
    landing: &LandingTrial,
    is_over: &(impl Fn() -> bool + Sync),
) -> anyhow::Result<()> {
    const WORKER_LIFETIME: Duration = Duration::from_millis(1_500);
    while !is_over() {
        let mut worker = landing.env.worker_command(2).spawn()?;
        let deadline = Instant::now() + WORKER_LIFETIME;
        while Instant::now() < deadline && !is_over() && worker.try_wait()?.is_none() {
            std::thread::sleep(Duration::from_millis(20));
        }
        worker.kill()?;
        worker.wait()?;
    }
    Ok(())
}

/// Commits one line after another. The person's git and the landings compete for the lock of the index.
fn commit_as_person(
    landing: &LandingTrial,
    commits: &AtomicU64,
    is_over: &(impl Fn() -> bool + Sync),
) -> anyhow::Result<()> {
    let file = landing.env.repository.join(PERSON_FILE);
    while !is_over() {
        let number = commits.load(Ordering::Relaxed) + 1;
        let text: String = (1..=number).map(|line| format!("{line}\n")).collect();
        std::fs::write(&file, text)?;
        let deadline = Instant::now() + INDEX_LOCK_TIMEOUT;
        while let Err(error) =
            landing
                .env
                .run_git(&["commit", "-q", "-m", "person", "--only", PERSON_FILE])
        {
            if !error.to_string().contains("lock") || Instant::now() > deadline {
                return Err(error);
            }
            if is_over() {
                // The last killed process left a lock. Other landings may still be running.
                landing.env.run_program(&["doctor", "--fix"])?;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        commits.store(number, Ordering::Relaxed);
        // A person who commits faster than a merge takes would block every landing.
        std::thread::sleep(Duration::from_millis(1_500));
    }
    Ok(())
}

#[cfg(feature = "broken")]
fn plant_branch_bug(
    landing: &LandingTrial,
    settings: &LandingTrialSettings,
    random: &mut fastrand::Rng,
) -> anyhow::Result<()> {
    let Some(bug) = settings.bug.filter(|_| random.u8(..100) < 50) else {
        return Ok(());
    };
    // If the person's git is faster, the bug strikes another time.
    let tip = landing.env.run_git(&["rev-parse", "main"])?;
    let _ = match bug {
        LandingBug::DoubleApply => {
            landing
                .env
                .run_git(&["rev-parse", "main^{tree}"])
                .and_then(|tree| {
                    let message = landing.env.run_git(&[
                        "log",
                        "-1",
                        "--grep=Planwright-Plan",
                        "--format=%B",
                        "main",
                    ])?;
                    let duplicate =
                        landing
                            .env
                            .run_git(&["commit-tree", &tree, "-p", &tip, "-m", &message])?;
                    landing
                        .env
                        .run_git(&["update-ref", "refs/heads/main", &duplicate, &tip])
                })
        }
        // These strike while the plan executes and when its landing is answered.
        LandingBug::LostIgnored | LandingBug::ToldHeld => Ok(String::new()),
        LandingBug::LostWork => landing
            .env
            .run_git(&["rev-parse", "main^{tree}"])
            .and_then(|_| {
                let landed = landing.env.run_git(&[
                    "log",
                    "-1",
                    "--grep=Planwright-Plan",
                    "--format=%H",
                    "main",
                ])?;
                if landed != tip {
                    return Ok(String::new());
                }
                landing
                    .env
                    .run_git(&["update-ref", "refs/heads/main", "main~1", &tip])
            }),
    };
    Ok(())
}

/// Planted bug: the agent's commits are ignored.
#[cfg(feature = "broken")]
fn plant_lost_commit(
    landing: &LandingTrial,
    settings: &LandingTrialSettings,
    sandbox: &Path,
) -> anyhow::Result<()> {
    if settings.bug == Some(LandingBug::LostIgnored) {
        landing
            .env
            .run_git_in(sandbox, &["reset", "-q", "HEAD~1"])?;
    }
    Ok(())
}

#[cfg(not(feature = "broken"))]
fn plant_lost_commit(
    _landing: &LandingTrial,
    _settings: &LandingTrialSettings,
    _sandbox: &Path,
) -> anyhow::Result<()> {
    Ok(())
}

#[cfg(not(feature = "broken"))]
fn plant_branch_bug(
    _landing: &LandingTrial,
    _settings: &LandingTrialSettings,
    _random: &mut fastrand::Rng,
) -> anyhow::Result<()> {
    Ok(())
}

/// Planted bug: the answer names the holder instead of the outcome.
#[cfg(feature = "broken")]
fn plant_held_answer(
    settings: &LandingTrialSettings,
    answer: (Option<i32>, Value),
) -> (Option<i32>, Value) {
    match settings.bug {
        Some(LandingBug::ToldHeld) if fastrand::bool() => {
            (Some(4), serde_json::json!({"data": {"kind": "held"}}))
        }
        _ => answer,
    }
}

#[cfg(not(feature = "broken"))]
fn plant_held_answer(
    _settings: &LandingTrialSettings,
    answer: (Option<i32>, Value),
) -> (Option<i32>, Value) {
    answer
}
