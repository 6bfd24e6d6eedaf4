//! Workers: how soon an actor begins after its plan was committed, next to starting the same program
//! directly; what a plan costs the engine; and what a worker that waits costs.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lifecycle::{Call, Lifecycle, UseRequest};
use plan::actor::{ActorKind, CommandLine};
use plan::{ActorDefinition, Caller, PlanActors, PlanId, Profile, QualifiedName};
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use store::{PostgresOptions, PostgresStore, SqliteOptions, SqliteStore};

use crate::rounds::{median, report};

/// Starts of which the median is taken.
const STARTS: usize = 40;
const PLANS: usize = 1000;
const WORKERS: usize = 8;
const IDLE: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(600);

/// The kernel tells times in hundredths of a second.
const TICK_MS: f64 = 10.0;

/// Names the file an actor writes its first moment to.
const STAMP: &str = "BENCH_STAMP";

pub fn measure() {
    println!("| what | figure | target |");
    println!("| --- | --- | --- |");
    let directory = tempfile::tempdir_in(".").unwrap();
    let root = directory.path().canonicalize().unwrap();
    let sqlite = Ground::on_sqlite(&root.join("sqlite"));
    sqlite.idle("SQLite");
    sqlite.starts("SQLite", 20.0);
    sqlite.many("SQLite", PLANS);
    match std::env::var("PLANWRIGHT_TEST_POSTGRES") {
        Err(_) => eprintln!("without a server PostgreSQL is left out"),
        Ok(url) => {
            let postgres = Ground::on_postgres(&root.join("postgres"), &url);
            postgres.idle("PostgreSQL");
            postgres.starts("PostgreSQL", 5.0);
        }
    }
}

/// What an actor does: it says when its first instruction was.
pub fn stamp() {
    let moment = nanoseconds();
    let path = std::env::var(STAMP).unwrap();
    let mut file = std::fs::OpenOptions::new();
    let mut file = file.create(true).append(true).open(path).unwrap();
    file.write_all(format!("{moment}\n").as_bytes()).unwrap();
}

/// A home, a store, and this program as an actor.
struct Ground {
    home: PathBuf,
    stamps: PathBuf,
    store: String,
    lifecycle: Lifecycle,
}

impl Ground {
    fn on_sqlite(root: &Path) -> Self {
        let (home, stamps) = places(root);
        let path = home.join("planwright.db");
        Self {
            store: format!("sqlite:{}", path.display()),
            lifecycle: Lifecycle::open(SqliteStore::new(&path, SqliteOptions::default())),
            home,
            stamps,
        }
    }

    fn on_postgres(root: &Path, url: &str) -> Self {
        let (home, stamps) = places(root);
        let store = PostgresStore::new(url, PostgresOptions::default()).unwrap();
        Self {
            store: url.to_owned(),
            lifecycle: Lifecycle::open(store),
            home,
            stamps,
        }
    }

    fn worker(&self) -> Worker {
        let program = own().with_file_name("planwright");
        let child = Command::new(program)
            .args(["--store", &self.store, "work"])
            .env("PLANWRIGHT_HOME", &self.home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Worker(child.unwrap())
    }

    /// A plan of this program that has nothing to do, and when it was committed.
    fn queue(&self) -> (PlanId, u64) {
        let bot: QualifiedName = "bot".parse().unwrap();
        let line = CommandLine {
            command: vec![own().display().to_string(), "stamp".to_owned()],
            set_env: BTreeMap::from([(STAMP.to_owned(), self.stamps.display().to_string())]),
            writable: vec![self.stamps.parent().unwrap().display().to_string()],
            ..CommandLine::default()
        };
        let request = UseRequest {
            goal: Some("Say when".to_owned()),
            definitions: vec![ActorDefinition {
                name: bot.clone(),
                description: None,
                kind: ActorKind::Command(Box::new(line)),
            }],
            fallback_actors: Some(PlanActors::for_both_phases(bot)),
            profile: Some(Profile::Auto),
            ..UseRequest::default()
        };
        let call = Call::by(Caller::Person("bench".to_owned()));
        let plan = self.lifecycle.use_action(request, &call).unwrap().plan.id;
        (plan, nanoseconds())
    }

    fn finish(&self, plan: PlanId) {
        let began = Instant::now();
        loop {
            let stage = self.lifecycle.get_plan(plan).unwrap().plan.stage;
            if stage.ending().is_some() {
                return;
            }
            assert!(stage.failure().is_none(), "{stage}");
            assert!(began.elapsed() < PATIENCE, "{stage}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn stamps(&self) -> Vec<u64> {
        let text = std::fs::read_to_string(&self.stamps).unwrap_or_default();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }

    fn starts(&self, store: &str, target: f64) {
        let _worker = self.worker();
        let (mut ours, mut direct) = (Vec::new(), Vec::new());
        for round in 0..=STARTS {
            let before = nanoseconds();
            let status = Command::new(own())
                .arg("stamp")
                .env(STAMP, &self.stamps)
                .status();
            assert!(status.unwrap().success());
            let directly = since(before, *self.stamps().last().unwrap());
            let (plan, committed) = self.queue();
            self.finish(plan);
            // The first one waits for the worker to be there.
            if round > 0 {
                direct.push(directly);
                ours.push(since(committed, *self.stamps().last().unwrap()));
            }
            // It is asleep when the next one comes.
            std::thread::sleep(Duration::from_millis(50));
        }
        let (ours, direct) = (median(ours), median(direct));
        let over = ours - direct;
        report(
            &format!(
                "{store}, from the commit to the actor's first instruction, over starting it directly"
            ),
            &format!("**{over:.1} ms**: {ours:.1} ms, {direct:.1} ms"),
            &format!("≤ {target:.0} ms"),
        );
    }

    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn many(&self, store: &str, plans: usize) {
        let began = Instant::now();
        let plans: Vec<PlanId> = (0..plans).map(|_| self.queue().0).collect();
        eprintln!("{} plans made in {:?}", plans.len(), began.elapsed());
        let began = Instant::now();
        let workers: Vec<Worker> = (0..WORKERS).map(|_| self.worker()).collect();
        for plan in &plans {
            self.finish(*plan);
        }
        let took = began.elapsed().as_secs_f64();
        let (mut own, mut started) = (0.0, 0.0);
        for worker in &workers {
            let (of_its_own, of_children) = worker.processor_ms();
            own += of_its_own;
            started += of_children;
        }
        let count = plans.len() as f64;
        report(
            &format!(
                "{store}, {count:.0} plans, {WORKERS} workers: processor time of the engine for a plan"
            ),
            &format!(
                "**{:.1} ms**; what it starts: {:.1} ms; {:.0} plans/s",
                own / count,
                started / count,
                count / took
            ),
            "≤ 10 ms",
        );
    }

    fn idle(&self, store: &str) {
        let worker = self.worker();
        std::thread::sleep(Duration::from_secs(1));
        let before = worker.processor_ms().0;
        std::thread::sleep(IDLE);
        let used = worker.processor_ms().0 - before;
        let share = used / (IDLE.as_secs_f64() * 1e3) * 100.0;
        report(
            &format!("{store}, a worker that waits: share of a core, memory"),
            &format!("**{share:.1} %**, **{:.0} MB**", worker.resident_mb()),
            "< 1 %, < 40 MB",
        );
    }
}

/// A worker; ended when dropped.
struct Worker(Child);

impl Worker {
    /// Processor time of its own, and of what it started and saw the end of.
    fn processor_ms(&self) -> (f64, f64) {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .collect();
        let ticks = |at: usize| fields[at].parse::<f64>().unwrap() * TICK_MS;
        (ticks(11) + ticks(12), ticks(13) + ticks(14))
    }

    fn resident_mb(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .unwrap();
        let kilobytes: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kilobytes / 1024.0
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let process = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        let _gone_already = kill_process(process.unwrap(), Signal::TERM);
        let _reaped = self.0.wait();
    }
}

fn places(root: &Path) -> (PathBuf, PathBuf) {
    let (home, beside) = (root.join("home"), root.join("beside"));
    std::fs::create_dir_all(&home).unwrap();
    std::fs::create_dir_all(&beside).unwrap();
    (home, beside.join("stamps"))
}

fn own() -> PathBuf {
    std::env::current_exe().unwrap()
}

fn nanoseconds() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
}

/// Milliseconds between two moments.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn since(before: u64, after: u64) -> f64 {
    after.saturating_sub(before) as f64 / 1e6
}
