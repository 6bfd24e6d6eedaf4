//! Landing under chaos: players drive the real program on one real repository, their processes are killed
//! at any moment, and a person works in the repository meanwhile. Afterwards the repository must hold
//! exactly what the plans say: every landed plan once, every other not at all, and all of the person's
//! work.
//!
//! Each plan writes one file of its own, so that what the branch should hold needs no merging to know. Some also commit a
//! file that git ignores, which has to land, or write below a submodule, which has to be refused.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::ground::{Cast, Ground, text};
use crate::trial::{Progress, Trial};

/// What a trial is played with.
pub struct Settings {
    /// As every trial. The database is a file.
    pub trial: Trial,
    /// A planted bug.
    #[cfg(feature = "broken")]
    pub bug: Option<Bug>,
}

/// Sorts of bug, each done to the repository as if the engine had done it. Compiled for tests only.
#[cfg(feature = "broken")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Bug {
    /// A change is brought in a second time.
    DoubleApply,
    /// What landed is lost again.
    LostWork,
    /// Files that git ignores are left out of what lands, although they were committed.
    LostIgnored,
    /// Whoever asks is told who lands the plan instead of what came of it.
    ToldHeld,
}

/// What came of a trial.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Plans that landed, undos among them.
    pub landed: usize,
    /// Plans that took another back.
    pub undone: usize,
    /// Processes that were killed.
    pub kills: u64,
    /// Commits of the person.
    pub commits: u64,
    /// What must never happen.
    pub violations: Vec<String>,
    /// What did not happen often enough for the trial to mean anything.
    pub missing: Vec<String>,
}

/// The file that a person works on.
const PERSONS: &str = "person.txt";

/// A directory that git ignores.
const IGNORED: &str = "build";

/// A submodule.
const SUBMODULE: &str = "lib";

/// Does this plan commit a file that git ignores? By its id, so that it is known afterwards.
fn commits_ignored(plan: &str) -> bool {
    plan.bytes().last().is_some_and(|last| last % 2 == 0)
}

/// How long others may be in a person's way.
const PATIENCE: Duration = Duration::from_secs(120);

/// Plays a trial.
pub fn run(settings: &Settings) -> anyhow::Result<Outcome> {
    let trial = &settings.trial;
    let yard = Yard::new(trial)?;
    let until = Instant::now() + trial.duration;
    let failed = AtomicBool::new(false);
    let over =
        || Instant::now() >= until || trial.is_interrupted() || failed.load(Ordering::Relaxed);
    let fail = |_: &anyhow::Error| failed.store(true, Ordering::Relaxed);
    let person = AtomicU64::new(0);
    std::thread::scope(|scope| -> anyhow::Result<()> {
        let mut threads = Vec::new();
        for number in 0..trial.processes {
            let (yard, over, fail) = (&yard, &over, &fail);
            let random = trial.choices_of(number);
            let player = move || play(yard, settings, random, over).inspect_err(fail);
            threads.push(scope.spawn(player));
        }
        let (yard, over, fail, person) = (&yard, &over, &fail, &person);
        let person_works = move || work_as_a_person(yard, person, over).inspect_err(fail);
        threads.push(scope.spawn(person_works));
        let workers = move || work_beside(yard, over).inspect_err(fail);
        threads.push(scope.spawn(workers));
        let mut progress = Progress::of(trial);
        while !threads.iter().all(ScopedJoinHandle::is_finished) {
            std::thread::sleep(Duration::from_millis(50));
            let [kills, commits] = [&yard.kills, person].map(|count| count.load(Ordering::Relaxed));
            progress.tell(|| format!("{kills} processes killed, {commits} commits by a person"));
        }
        for thread in threads {
            thread
                .join()
                .map_err(|_| anyhow::anyhow!("a player panicked"))??;
        }
        Ok(())
    })?;
    trial.require_uninterrupted()?;
    yard.finish()?;
    yard.check(trial, person.load(Ordering::Relaxed))
}

/// The ground of a trial, and what is done on it.
struct Yard {
    ground: Ground,
    kills: AtomicU64,
    /// Answers that were not what came of it.
    untrue: Mutex<Vec<String>>,
}

impl Yard {
    fn new(trial: &Trial) -> anyhow::Result<Self> {
        let cast = Cast {
            word: "actor",
            output: "text",
            strategizes: false,
            environment: Vec::new(),
        };
        let ground = Ground::prepare(trial, cast)?;
        std::fs::write(ground.shop.join(PERSONS), "")?;
        std::fs::write(ground.shop.join(".gitignore"), format!("{IGNORED}/\n"))?;
        std::fs::create_dir(ground.shop.join(SUBMODULE))?;
        ground.git(&["add", "-A"])?;
        // Nobody has its repository; its commit is only a name.
        let tip = ground.git(&["rev-parse", "HEAD"])?;
        let link = format!("160000,{tip},{SUBMODULE}");
        ground.git(&["update-index", "--add", "--cacheinfo", &link])?;
        ground.git(&["commit", "-q", "-m", "begin"])?;
        let action = trial.directory.join("make.yaml");
        std::fs::write(
            &action,
            // Nobody knows this actor: workers land what it made, and leave the rest to the players.
            "name: make\ndescription: Make a file\nactor: hand\n",
        )?;
        ground.must(&["action", "create", "--config", text(&action)?])?;
        let kills = AtomicU64::new(0);
        let untrue = Mutex::default();
        Ok(Self {
            ground,
            kills,
            untrue,
        })
    }

    /// Runs the program and kills it at some moment, if it takes that long.
    fn ask_and_kill(&self, words: &[&str], random: &mut fastrand::Rng) -> anyhow::Result<()> {
        let killed = self.ground.ask_and_kill(words, random)?;
        self.kills.fetch_add(u64::from(killed), Ordering::Relaxed);
        Ok(())
    }

    /// Is the answer to a landing what came of the plan?
    fn check_answer(
        &self,
        words: &[&str],
        (code, envelope): &(Option<i32>, Value),
    ) -> anyhow::Result<()> {
        let data = &envelope["data"];
        let untrue = match (code, data["kind"].as_str()) {
            (Some(4), Some(kind @ ("held" | "lease_runs" | "fenced"))) => {
                format!("{words:?} was not told what came of it: {kind}")
            }
            (Some(0), _) => {
                let plan = data["plan_id"].as_str().context("it names its plan")?;
                let state = self.ground.must(&["plumbing", "show", plan])?["state"].take();
                if state == "applied" {
                    return Ok(());
                }
                format!("{words:?} was told that it landed, and the plan is {state}")
            }
            _ => return Ok(()),
        };
        let mut all = self.untrue.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(untrue);
        Ok(())
    }

    /// Finishes what was killed: whoever comes next can.
    fn finish(&self) -> anyhow::Result<()> {
        self.ground.must(&["doctor", "--fix"])?;
        Ok(())
    }

    fn check(&self, trial: &Trial, person: u64) -> anyhow::Result<Outcome> {
        let mut outcome = Outcome {
            kills: self.kills.load(Ordering::Relaxed),
            commits: person,
            ..Outcome::default()
        };
        let untrue = self.untrue.lock().unwrap_or_else(PoisonError::into_inner);
        outcome.violations.extend(untrue.iter().cloned());
        let mut wrong = |what: String| outcome.violations.push(what);
        let mut landed: BTreeMap<String, Value> = BTreeMap::new();
        let mut after = None::<String>;
        loop {
            let mut words = vec!["list", "--all", "--limit", "500"];
            words.extend(
                after
                    .as_deref()
                    .map(|after| ["--after", after])
                    .iter()
                    .flatten(),
            );
            let page = self.ground.must(&words)?;
            for plan in page["plans"].as_array().into_iter().flatten() {
                let id = plan["plan_id"].as_str().unwrap_or_default();
                let view = self.ground.must(&["plumbing", "show", id])?;
                if view["prepared"] == true {
                    wrong(format!("{id} is still past the point of no return"));
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
        let from_the_start = ["README.md", ".gitignore", PERSONS, SUBMODULE];
        let mut expected: BTreeSet<String> = from_the_start.map(str::to_owned).into();
        let undone: BTreeSet<&str> = landed
            .values()
            .filter(|view| view["origin"]["kind"] == "undo_of")
            .filter_map(|view| view["origin"]["plan_id"].as_str())
            .collect();
        for (id, view) in &landed {
            if view["origin"]["kind"] == "use" && !undone.contains(id.as_str()) {
                expected.insert(format!("made/{id}.txt"));
                if commits_ignored(id) {
                    expected.insert(format!("{IGNORED}/{id}.o"));
                }
            }
        }
        let there = self.ground.git(&["ls-tree", "-r", "--name-only", "main"])?;
        let there: BTreeSet<String> = there.lines().map(str::to_owned).collect();
        for path in expected.symmetric_difference(&there) {
            let what = if there.contains(path) {
                "should not be"
            } else {
                "is not"
            };
            wrong(format!("{path} {what} in the branch"));
        }
        let lines = std::fs::read_to_string(self.ground.shop.join(PERSONS))?
            .lines()
            .count() as u64;
        if lines != person {
            wrong(format!(
                "the person committed {person} lines, {lines} are there"
            ));
        }
        let plans = landed.keys().map(String::as_str).collect();
        outcome.violations.extend(self.ground.problems(&plans)?);
        outcome.landed = landed.len();
        outcome.undone = undone.len();
        let kills = usize::try_from(outcome.kills)?;
        let commits = usize::try_from(outcome.commits)?;
        for (count, least, what) in [
            (outcome.landed, 3 + trial.at(10), "landings"),
            (outcome.undone, 3 + trial.at(3), "undos"),
            (kills, 3 + trial.at(10), "kills"),
            (commits, 1 + trial.at(3), "commits by a person"),
        ] {
            if count < least {
                let missing = format!("{count} {what} of at least {least}");
                outcome.missing.push(missing);
            }
        }
        Ok(outcome)
    }
}

/// Plan after plan: made, worked on, landed, sometimes taken back; any of it killed at any moment.
fn play(
    yard: &Yard,
    settings: &Settings,
    mut random: fastrand::Rng,
    over: &(impl Fn() -> bool + Sync),
) -> anyhow::Result<()> {
    while !over() {
        let made = yard.ground.must(&["use", "make", "shop"])?;
        let plan = made["plan_id"]
            .as_str()
            .context("a plan has an id")?
            .to_owned();
        if !work(yard, settings, &plan, &mut random)? {
            continue;
        }
        let words = ["apply", plan.as_str(), "--yes"];
        while random.u8(..100) < 60 {
            yard.ask_and_kill(&words, &mut random)?;
        }
        land(yard, settings, &words, over)?;
        plant(yard, settings, &mut random)?;
        if random.u8(..100) < 40 {
            undo(yard, settings, &plan, &mut random, over)?;
        }
    }
    Ok(())
}

/// `false` if somebody else, such as a killed try, is in the way for now.
fn work(
    yard: &Yard,
    settings: &Settings,
    plan: &str,
    random: &mut fastrand::Rng,
) -> anyhow::Result<bool> {
    yard.ground
        .must(&["plumbing", "start-strategize", plan, "--owner", "bot"])?;
    yard.ground
        .must(&["plumbing", "complete-strategize", plan, "--epoch", "1"])?;
    // A worker may be faster.
    match yard.ground.ask(&["plumbing", "execute-plan", plan])? {
        (Some(0), _) => {}
        (Some(4), envelope) if envelope["data"]["kind"] == "wrong_state" => {}
        (code, envelope) => bail!("{plan} did not go on: {code:?}, {envelope}"),
    }
    let claimed = yard
        .ground
        .must(&["plumbing", "start-execute", plan, "--owner", "bot"])?;
    let Some(sandbox) = claimed["sandboxes"][0]["path"].as_str() else {
        return Ok(false);
    };
    let sandbox = Path::new(sandbox);
    let made = sandbox.join("made");
    std::fs::create_dir_all(&made)?;
    std::fs::write(made.join(format!("{plan}.txt")), format!("by {plan}\n"))?;
    if commits_ignored(plan) {
        let file = format!("{IGNORED}/{plan}.o");
        std::fs::create_dir_all(sandbox.join(IGNORED))?;
        std::fs::write(sandbox.join(&file), format!("by {plan}\n"))?;
        yard.ground.git_in(sandbox, &["add", "--force", &file])?;
        let name = ["-c", "user.name=bot", "-c", "user.email=bot@example.org"];
        let commit = ["commit", "-q", "-m", "Build"];
        yard.ground
            .git_in(sandbox, &[&name[..], &commit].concat())?;
        forget_commit(yard, settings, sandbox)?;
    }
    let complete = ["plumbing", "complete-execute", plan, "--epoch", "2"];
    if random.u8(..100) < 20 {
        let below = sandbox.join(SUBMODULE).join("new.txt");
        std::fs::create_dir_all(sandbox.join(SUBMODULE))?;
        std::fs::write(&below, "would be lost\n")?;
        if yard.ground.ask(&complete)?.0 == Some(0) {
            bail!("{plan}: what was written below a submodule was dropped without a word");
        }
        std::fs::remove_file(&below)?;
    }
    yard.ground.must(&complete)?;
    Ok(true)
}

/// Lands until it is answered; a person's git may be in the way for a moment. Workers may be faster: then the answer
/// has to be what came of theirs.
fn land(
    yard: &Yard,
    settings: &Settings,
    words: &[&str],
    over: &(impl Fn() -> bool + Sync),
) -> anyhow::Result<()> {
    let mut last = Value::Null;
    for _ in 0..200 {
        let answered = mislead(settings, yard.ground.ask(words)?);
        yard.check_answer(words, &answered)?;
        match answered {
            (Some(0), _) => return Ok(()),
            // A killed try had landed it.
            (Some(4), envelope) if envelope["data"]["kind"] == "final" => return Ok(()),
            (Some(1 | 4), envelope) => {
                last = envelope;
                std::thread::sleep(Duration::from_millis(50));
            }
            (code, envelope) => bail!("{words:?} ended with {code:?}: {envelope}"),
        }
        if over() {
            return Ok(());
        }
    }
    bail!("{words:?} never ended: {last}")
}

fn undo(
    yard: &Yard,
    settings: &Settings,
    plan: &str,
    random: &mut fastrand::Rng,
    over: &(impl Fn() -> bool + Sync),
) -> anyhow::Result<()> {
    // Under a key, so that a killed one is not made twice.
    let key = format!("undo-{plan}");
    let words = ["undo", plan, "--yes", "--idempotency-key", &key];
    if random.bool() {
        yard.ask_and_kill(&words, random)?;
    }
    land(yard, settings, &words, over)
}

/// Workers land what waits to, one after the other killed and replaced.
fn work_beside(yard: &Yard, over: &(impl Fn() -> bool + Sync)) -> anyhow::Result<()> {
    const LIFE: Duration = Duration::from_millis(1_500);
    while !over() {
        let mut worker = yard.ground.worker(2).spawn()?;
        let until = Instant::now() + LIFE;
        while Instant::now() < until && !over() && worker.try_wait()?.is_none() {
            std::thread::sleep(Duration::from_millis(20));
        }
        worker.kill()?;
        worker.wait()?;
    }
    Ok(())
}

/// Commits a line after the other; their git and ours take turns at the index.
fn work_as_a_person(
    yard: &Yard,
    commits: &AtomicU64,
    over: &(impl Fn() -> bool + Sync),
) -> anyhow::Result<()> {
    let file = yard.ground.shop.join(PERSONS);
    while !over() {
        let number = commits.load(Ordering::Relaxed) + 1;
        let text: String = (1..=number).map(|line| format!("{line}\n")).collect();
        std::fs::write(&file, text)?;
        let patience = Instant::now() + PATIENCE;
        while let Err(error) = yard
            .ground
            .git(&["commit", "-q", "-m", "person", "--only", PERSONS])
        {
            if !error.to_string().contains("lock") || Instant::now() > patience {
                return Err(error);
            }
            if over() {
                // Whoever was killed last left a lock; others may still be landing.
                yard.ground.ask(&["doctor", "--fix"])?;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        commits.store(number, Ordering::Relaxed);
        // A person who commits faster than a change can be merged keeps everybody else out.
        std::thread::sleep(Duration::from_millis(1_500));
    }
    Ok(())
}

#[cfg(feature = "broken")]
fn plant(yard: &Yard, settings: &Settings, random: &mut fastrand::Rng) -> anyhow::Result<()> {
    let Some(bug) = settings.bug.filter(|_| random.u8(..100) < 50) else {
        return Ok(());
    };
    // The person's git may be faster; then the bug strikes another time.
    let tip = yard.ground.git(&["rev-parse", "main"])?;
    let _ = match bug {
        Bug::DoubleApply => yard
            .ground
            .git(&["rev-parse", "main^{tree}"])
            .and_then(|tree| {
                let message = yard.ground.git(&[
                    "log",
                    "-1",
                    "--grep=Planwright-Plan",
                    "--format=%B",
                    "main",
                ])?;
                let again = yard
                    .ground
                    .git(&["commit-tree", &tree, "-p", &tip, "-m", &message])?;
                yard.ground
                    .git(&["update-ref", "refs/heads/main", &again, &tip])
            }),
        // One strikes while the plan is worked on, the other when it is answered.
        Bug::LostIgnored | Bug::ToldHeld => Ok(String::new()),
        Bug::LostWork => yard
            .ground
            .git(&["rev-parse", "main^{tree}"])
            .and_then(|_| {
                let landed = yard.ground.git(&[
                    "log",
                    "-1",
                    "--grep=Planwright-Plan",
                    "--format=%H",
                    "main",
                ])?;
                if landed != tip {
                    return Ok(String::new());
                }
                yard.ground
                    .git(&["update-ref", "refs/heads/main", "main~1", &tip])
            }),
    };
    Ok(())
}

/// What an agent committed counts for nothing, as if nobody had looked at it.
#[cfg(feature = "broken")]
fn forget_commit(yard: &Yard, settings: &Settings, sandbox: &Path) -> anyhow::Result<()> {
    if settings.bug == Some(Bug::LostIgnored) {
        yard.ground.git_in(sandbox, &["reset", "-q", "HEAD~1"])?;
    }
    Ok(())
}

#[cfg(not(feature = "broken"))]
fn forget_commit(_yard: &Yard, _settings: &Settings, _sandbox: &Path) -> anyhow::Result<()> {
    Ok(())
}

#[cfg(not(feature = "broken"))]
fn plant(_yard: &Yard, _settings: &Settings, _random: &mut fastrand::Rng) -> anyhow::Result<()> {
    Ok(())
}

/// The answer of a program that does not wait for whoever is faster.
#[cfg(feature = "broken")]
fn mislead(settings: &Settings, answered: (Option<i32>, Value)) -> (Option<i32>, Value) {
    match settings.bug {
        Some(Bug::ToldHeld) if fastrand::bool() => {
            (Some(4), serde_json::json!({"data": {"kind": "held"}}))
        }
        _ => answered,
    }
}

#[cfg(not(feature = "broken"))]
fn mislead(_settings: &Settings, answered: (Option<i32>, Value)) -> (Option<i32>, Value) {
    answered
}
