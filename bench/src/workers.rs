//! Workers: how soon an agent starts after its plan is committed, compared with starting the same program directly; the
//! engine's CPU time per plan; and the cost of an idle worker.

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

use crate::statistics::{median, print_header, print_row};

const START_ROUNDS: usize = 40;
const PLANS: usize = 1000;
const WORKERS: usize = 8;
const IDLE_DURATION: Duration = Duration::from_secs(10);
const PLAN_TIMEOUT: Duration = Duration::from_secs(600);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The unit of the CPU times in `/proc/PID/stat`.
const CLOCK_TICK_MS: f64 = 10.0;

/// The environment variable with the path of the file that an agent writes its start time to.
const STAMP_FILE_VAR: &str = "BENCH_STAMP";

pub fn measure_workers() {
    print_header();
    let directory = tempfile::tempdir_in(".").unwrap();
    let root = directory.path().canonicalize().unwrap();
    let sqlite = WorkerBench::with_sqlite(&root.join("sqlite"));
    sqlite.measure_idle_worker();
    sqlite.measure_start_latency(20.0);
    sqlite.measure_cpu_per_plan();
    match std::env::var("PLANWRIGHT_TEST_POSTGRES") {
        Err(_) => eprintln!("skipping PostgreSQL: PLANWRIGHT_TEST_POSTGRES is not set"),
        Ok(url) => {
            let postgres = WorkerBench::with_postgres(&root.join("postgres"), &url);
            postgres.measure_idle_worker();
            postgres.measure_start_latency(5.0);
        }
    }
}

/// The benchmark's agent: appends its start time to a file.
pub fn write_start_stamp() {
    let start = monotonic_nanos();
    let path = std::env::var(STAMP_FILE_VAR).unwrap();
    let mut file = std::fs::OpenOptions::new();
    let mut file = file.create(true).append(true).open(path).unwrap();
    file.write_all(format!("{start}\n").as_bytes()).unwrap();
}

/// A Planwright home with a store, where this program is the agent.
struct WorkerBench {
    label: &'static str,
    home: PathBuf,
    stamp_file: PathBuf,
    store_url: String,
    lifecycle: Lifecycle,
}

impl WorkerBench {
    fn with_sqlite(root: &Path) -> Self {
        let (home, stamp_file) = create_directories(root);
        let path = home.join("planwright.db");
        Self {
            label: "SQLite",
            store_url: format!("sqlite:{}", path.display()),
            lifecycle: Lifecycle::open(SqliteStore::new(&path, SqliteOptions::default())),
            home,
            stamp_file,
        }
    }

    fn with_postgres(root: &Path, url: &str) -> Self {
        let (home, stamp_file) = create_directories(root);
        let store = PostgresStore::new(url, PostgresOptions::default()).unwrap();
        Self {
            label: "PostgreSQL",
            store_url: url.to_owned(),
            lifecycle: Lifecycle::open(store),
            home,
            stamp_file,
        }
    }

    fn start_worker(&self) -> WorkerProcess {
        let program = own_program().with_file_name("planwright");
        let child = Command::new(program)
            .args(["--store", &self.store_url, "work"])
            .env("PLANWRIGHT_HOME", &self.home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        WorkerProcess(child.unwrap())
    }

    /// Creates a plan for this program as the agent. Returns the plan's id and the time of the commit.
    fn create_plan(&self) -> (PlanId, u64) {
        let bot: QualifiedName = "bot".parse().unwrap();
        let stamp_file = self.stamp_file.display().to_string();
        let command_line = CommandLine {
            command: vec![own_program().display().to_string(), "stamp".to_owned()],
            set_env: BTreeMap::from([(STAMP_FILE_VAR.to_owned(), stamp_file)]),
            writable: vec![self.stamp_file.parent().unwrap().display().to_string()],
            ..CommandLine::default()
        };
        let request = UseRequest {
            goal: Some("Write a start stamp".to_owned()),
            definitions: vec![ActorDefinition {
                name: bot.clone(),
                description: None,
                kind: ActorKind::Command(Box::new(command_line)),
            }],
            fallback_actors: Some(PlanActors::for_both_phases(bot)),
            profile: Some(Profile::Auto),
            ..UseRequest::default()
        };
        let call = Call::by(Caller::Person("bench".to_owned()));
        let plan_id = self.lifecycle.use_action(request, &call).unwrap().plan.id();
        (plan_id, monotonic_nanos())
    }

    fn wait_for_end(&self, plan_id: PlanId) {
        let stopwatch = Instant::now();
        loop {
            let row = self.lifecycle.get_plan(plan_id).unwrap();
            let stage = row.plan.stage();
            if stage.ending().is_some() {
                return;
            }
            assert!(stage.failure().is_none(), "{stage}");
            assert!(stopwatch.elapsed() < PLAN_TIMEOUT, "{stage}");
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn read_last_stamp(&self) -> u64 {
        let text = std::fs::read_to_string(&self.stamp_file).unwrap();
        text.lines().last().unwrap().parse().unwrap()
    }

    fn measure_start_latency(&self, target_ms: f64) {
        let _worker = self.start_worker();
        let (mut worker_times, mut direct_times) = (Vec::new(), Vec::new());
        for round in 0..=START_ROUNDS {
            let before = monotonic_nanos();
            let status = Command::new(own_program())
                .arg("stamp")
                .env(STAMP_FILE_VAR, &self.stamp_file)
                .status();
            assert!(status.unwrap().success());
            let direct = elapsed_ms(before, self.read_last_stamp());
            let (plan_id, committed) = self.create_plan();
            self.wait_for_end(plan_id);
            // The first round includes the worker's own start.
            if round > 0 {
                direct_times.push(direct);
                worker_times.push(elapsed_ms(committed, self.read_last_stamp()));
            }
            // Let the worker go idle before the next round.
            std::thread::sleep(Duration::from_millis(50));
        }
        let (worker, direct) = (median(worker_times), median(direct_times));
        let overhead = worker - direct;
        print_row(
            &format!(
                "{}, commit to the agent's first instruction, minus starting it directly",
                self.label
            ),
            &format!("**{overhead:.1} ms**: {worker:.1} ms, {direct:.1} ms"),
            &format!("≤ {target_ms:.0} ms"),
        );
    }

    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn measure_cpu_per_plan(&self) {
        let stopwatch = Instant::now();
        let plan_ids: Vec<PlanId> = (0..PLANS).map(|_| self.create_plan().0).collect();
        eprintln!("created {PLANS} plans in {:?}", stopwatch.elapsed());
        let stopwatch = Instant::now();
        let workers: Vec<WorkerProcess> = (0..WORKERS).map(|_| self.start_worker()).collect();
        for plan_id in &plan_ids {
            self.wait_for_end(*plan_id);
        }
        let seconds = stopwatch.elapsed().as_secs_f64();
        let (mut engine_ms, mut children_ms) = (0.0, 0.0);
        for worker in &workers {
            let (own, children) = worker.cpu_times_ms();
            engine_ms += own;
            children_ms += children;
        }
        let count = PLANS as f64;
        print_row(
            &format!(
                "{}, {PLANS} plans, {WORKERS} workers: CPU time of the engine per plan",
                self.label
            ),
            &format!(
                "**{:.1} ms**; its children: {:.1} ms; {:.0} plans/s",
                engine_ms / count,
                children_ms / count,
                count / seconds
            ),
            "≤ 10 ms",
        );
    }

    fn measure_idle_worker(&self) {
        let worker = self.start_worker();
        std::thread::sleep(Duration::from_secs(1));
        let before = worker.cpu_times_ms().0;
        std::thread::sleep(IDLE_DURATION);
        let used_ms = worker.cpu_times_ms().0 - before;
        let percent = used_ms / (IDLE_DURATION.as_secs_f64() * 1e3) * 100.0;
        print_row(
            &format!("{}, idle worker: share of a core, memory", self.label),
            &format!("**{percent:.1} %**, **{:.0} MB**", worker.resident_mb()),
            "< 1 %, < 40 MB",
        );
    }
}

/// A `planwright work` process. Dropping it stops the process.
pub struct WorkerProcess(pub Child);

impl WorkerProcess {
    /// The CPU time of the process itself, and of the children it has waited for.
    fn cpu_times_ms(&self) -> (f64, f64) {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        // The second field is the program's name in brackets and may contain spaces.
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .collect();
        let ticks = |index: usize| fields[index].parse::<f64>().unwrap() * CLOCK_TICK_MS;
        (ticks(11) + ticks(12), ticks(13) + ticks(14))
    }

    pub fn thread_count(&self) -> f64 {
        self.read_status("Threads:")
    }

    pub fn resident_mb(&self) -> f64 {
        self.read_status("VmRSS:") / 1024.0
    }

    /// The number in a line of the process's status.
    fn read_status(&self, name: &str) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        let _already_ended = kill_process(pid.unwrap(), Signal::TERM);
        let _status = self.0.wait();
    }
}

/// Creates Planwright's home, and a directory outside of it for the stamp file, which the agent may write to.
fn create_directories(root: &Path) -> (PathBuf, PathBuf) {
    let (home, beside) = (root.join("home"), root.join("beside"));
    std::fs::create_dir_all(&home).unwrap();
    std::fs::create_dir_all(&beside).unwrap();
    (home, beside.join("stamps"))
}

pub fn own_program() -> PathBuf {
    std::env::current_exe().unwrap()
}

/// The system's monotonic clock. An `Instant` cannot be passed to another process.
pub fn monotonic_nanos() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
pub fn elapsed_ms(before: u64, after: u64) -> f64 {
    after.saturating_sub(before) as f64 / 1e6
}
