//! What grows with the number of plans: nothing should.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lifecycle::Lifecycle;
use plan::{Phase, PlanId, Span};
use store::{PlanFilter, SqliteOptions, SqliteStore};

use crate::rounds::{median, ratio, report};
use crate::work::{call, request};

const SMALL: usize = 1_000;
const MIDDLE: usize = 100_000;
const LARGE: usize = 1_000_000;
const ROUNDS: usize = 5;
const SAMPLES: usize = 500;

pub fn measure() {
    let directory = tempfile::tempdir_in(".").unwrap();
    let open = |path: &Path| Lifecycle::open(SqliteStore::new(path, SqliteOptions::default()));
    let small = open(&directory.path().join("small.db"));
    let small_plans = grow(&small, SMALL);
    costs((&small, &small_plans), (&small, &small_plans));
    let small_memory = resident_megabytes();
    let large_path = directory.path().join("large.db");
    let large = open(&large_path);
    let mut large_plans = grow(&large, MIDDLE);
    report(
        "`planwright status` / minimal program, 100,000 plans",
        &ratio(&status(&large_path, &large_plans)),
        "≤ 2",
    );
    large_plans.extend(grow(&large, LARGE - MIDDLE));
    costs((&large, &large_plans), (&large, &large_plans));
    let memory = format!("{small_memory:.0} MB → {:.0} MB", resident_megabytes());
    let rounds: Vec<[f64; 3]> = (0..ROUNDS)
        .map(|_| costs((&small, &small_plans), (&large, &large_plans)))
        .collect();
    for (index, what) in ["claim", "status", "list page"].iter().enumerate() {
        let growth: Vec<f64> = rounds.iter().map(|round| round[index]).collect();
        let what = format!("{what}, 1,000,000 plans / 1,000 plans");
        report(&what, &ratio(&growth), "≤ 1.5");
    }
    report("memory, 1,000 → 1,000,000 plans", &memory, "flat");
}

/// Makes `count` more plans and keeps the ids of some of them, from everywhere between the oldest and the
/// newest: of all, and they would be what the memory is measured on.
fn grow(lifecycle: &Lifecycle, count: usize) -> Vec<PlanId> {
    const PORTION: usize = 10_000;
    let step = (count / 1_000).max(1);
    let mut some = Vec::new();
    let mut made = 0;
    while made < count {
        let portion = create(lifecycle, (count - made).min(PORTION));
        made += portion.len();
        some.extend(portion.into_iter().step_by(step));
    }
    some
}

fn create(lifecycle: &Lifecycle, count: usize) -> Vec<PlanId> {
    const THREADS: usize = 64;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|worker| {
                let share = count / THREADS + usize::from(worker < count % THREADS);
                scope.spawn(move || {
                    (0..share)
                        .map(|_| lifecycle.use_action(request(), &call()).unwrap().plan.id)
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap())
            .collect()
    })
}

/// How many times dearer a claim, a status and a list page are in the second store than in the first.
fn costs(first: (&Lifecycle, &[PlanId]), second: (&Lifecycle, &[PlanId])) -> [f64; 3] {
    let growth = |cost: fn(&Lifecycle, PlanId) -> Duration| {
        // By turns: whatever else the machine does then falls on both.
        let (one, other) = (0..SAMPLES)
            .map(|index| {
                let one = cost(first.0, first.1[index * first.1.len() / SAMPLES]);
                let other = cost(second.0, second.1[index * second.1.len() / SAMPLES]);
                (one, other)
            })
            .unzip();
        micros(other) / micros(one)
    };
    [growth(claim), growth(read), growth(page)]
}

fn claim(lifecycle: &Lifecycle, _: PlanId) -> Duration {
    let stopwatch = Instant::now();
    let claim = lifecycle.claim(Phase::Strategize, "bench", Span::from_seconds(60), &call());
    let elapsed = stopwatch.elapsed();
    claim.unwrap().unwrap().release().unwrap();
    elapsed
}

fn read(lifecycle: &Lifecycle, plan: PlanId) -> Duration {
    timed(|| drop(lifecycle.get_plan(plan).unwrap()))
}

fn page(lifecycle: &Lifecycle, plan: PlanId) -> Duration {
    let filter = PlanFilter::default();
    timed(|| drop(lifecycle.list_plans(&filter, Some(plan), 20).unwrap()))
}

fn status(path: &Path, plans: &[PlanId]) -> Vec<f64> {
    let own = std::env::current_exe().unwrap();
    let minimal = own.with_file_name("minimal");
    let program = own.with_file_name("planwright");
    let store = format!("sqlite:{}", path.display());
    let mut ratios = Vec::new();
    for round in 0..ROUNDS {
        let (mut ours, mut least) = (Vec::new(), Vec::new());
        for index in 0..40 {
            let id = plans[(round * 40 + index) * 271 % plans.len()].to_string();
            ours.push(run(
                Command::new(&program).args(["--store", &store, "status", &id])
            ));
            least.push(run(
                Command::new(&minimal).args([path.to_str().unwrap(), &id])
            ));
        }
        ratios.push(micros(ours) / micros(least));
    }
    ratios
}

fn run(command: &mut Command) -> Duration {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    timed(|| assert!(command.status().unwrap().success()))
}

fn timed(work: impl FnOnce()) -> Duration {
    let stopwatch = Instant::now();
    work();
    stopwatch.elapsed()
}

fn micros(durations: Vec<Duration>) -> f64 {
    median(
        durations
            .into_iter()
            .map(|duration| duration.as_secs_f64() * 1e6)
            .collect(),
    )
}

/// This process's resident memory.
fn resident_megabytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap_or("0 kB");
    line.trim()
        .trim_end_matches(" kB")
        .trim()
        .parse::<f64>()
        .unwrap_or(0.0)
        / 1024.0
}
