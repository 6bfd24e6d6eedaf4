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

pub fn measure() {
    let directory = tempfile::tempdir_in(".").unwrap();
    let path = directory.path().join("size.db");
    let lifecycle = Lifecycle::open(SqliteStore::new(&path, SqliteOptions::default()));
    let mut plans = Vec::new();
    grow(&lifecycle, &mut plans, SMALL);
    let small = costs(&lifecycle, &plans);
    let small_memory = resident_megabytes();
    grow(&lifecycle, &mut plans, MIDDLE);
    report(
        "`planwright status` / minimal program, 100,000 plans",
        &ratio(&status(&path, &plans)),
        "≤ 2",
    );
    let ids: Vec<PlanId> = plans.iter().step_by(997).copied().collect();
    let count = plans.len();
    drop(plans);
    let mut plans = ids;
    grow_from(&lifecycle, count, LARGE);
    let large = costs(&lifecycle, &plans);
    plans.clear();
    for (index, what) in ["claim", "status", "list page"].iter().enumerate() {
        let growth = large[index] / small[index];
        report(
            &format!("{what}, 1,000,000 plans / 1,000 plans"),
            &format!("**{growth:.2}**"),
            "≤ 1.5",
        );
    }
    let memory = format!("{small_memory:.0} MB → {:.0} MB", resident_megabytes());
    report("memory, 1,000 → 1,000,000 plans", &memory, "flat");
}

fn grow(lifecycle: &Lifecycle, plans: &mut Vec<PlanId>, to: usize) {
    let made = create(lifecycle, to - plans.len());
    plans.extend(made);
}

fn grow_from(lifecycle: &Lifecycle, from: usize, to: usize) {
    let mut made = from;
    while made < to {
        // In portions, so that the ids of a million plans are not what memory is measured on.
        let portion = (to - made).min(50_000);
        create(lifecycle, portion);
        made += portion;
    }
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

/// Microseconds of a claim (and its release), a status and a list page; medians.
fn costs(lifecycle: &Lifecycle, plans: &[PlanId]) -> [f64; 3] {
    let step = (plans.len() / 200).max(1);
    let some: Vec<PlanId> = plans.iter().step_by(step).copied().collect();
    let claims = some.iter().map(|_| {
        let stopwatch = Instant::now();
        let claim = lifecycle
            .claim(Phase::Strategize, "bench", Span::seconds(60), &call())
            .unwrap()
            .unwrap();
        let elapsed = stopwatch.elapsed();
        claim.release().unwrap();
        elapsed
    });
    let claims = micros(claims.collect());
    let reads = micros(
        some.iter()
            .map(|id| timed(|| drop(lifecycle.get_plan(*id).unwrap())))
            .collect(),
    );
    let pages = some.iter().map(|id| {
        let filter = PlanFilter::default();
        timed(|| drop(lifecycle.list_plans(&filter, Some(*id), 20).unwrap()))
    });
    [claims, reads, micros(pages.collect())]
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
