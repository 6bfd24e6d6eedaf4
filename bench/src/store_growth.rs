//! The cost of a claim, a status and a list page with 1,000,000 plans, divided by the cost with 1,000. It should stay
//! flat.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lifecycle::Lifecycle;
use plan::{Phase, PlanId, Span};
use store::{PlanFilter, SqliteOptions, SqliteStore};

use crate::statistics::{format_ratios, median, print_row};
use crate::workload::{bench_call, make_request};

const SMALL_STORE_PLANS: usize = 1_000;
const MEDIUM_STORE_PLANS: usize = 100_000;
const LARGE_STORE_PLANS: usize = 1_000_000;
const ROUNDS: usize = 5;
const SAMPLES_PER_ROUND: usize = 500;
const STATUS_RUNS_PER_ROUND: usize = 40;

/// A store, and the ids of some of its plans.
type SampledStore<'a> = (&'a Lifecycle, &'a [PlanId]);

pub fn measure_growth() {
    let directory = tempfile::tempdir_in(".").unwrap();
    let open = |path: &Path| Lifecycle::open(SqliteStore::new(path, SqliteOptions::default()));
    let small = open(&directory.path().join("small.db"));
    let small_plans = create_plans(&small, SMALL_STORE_PLANS);
    // Fills the caches, so that the memory of both stores is measured after the same work.
    cost_ratios((&small, &small_plans), (&small, &small_plans));
    let small_memory = resident_megabytes();
    let large_path = directory.path().join("large.db");
    let large = open(&large_path);
    let mut large_plans = create_plans(&large, MEDIUM_STORE_PLANS);
    print_row(
        "`planwright status` / minimal program, 100,000 plans",
        &format_ratios(&status_ratios(&large_path, &large_plans)),
        "≤ 2",
    );
    large_plans.extend(create_plans(&large, LARGE_STORE_PLANS - MEDIUM_STORE_PLANS));
    cost_ratios((&large, &large_plans), (&large, &large_plans));
    let memory = format!("{small_memory:.0} MB → {:.0} MB", resident_megabytes());
    let rounds: Vec<[f64; 3]> = (0..ROUNDS)
        .map(|_| cost_ratios((&small, &small_plans), (&large, &large_plans)))
        .collect();
    for (index, operation) in ["claim", "status", "list page"].iter().enumerate() {
        let ratios: Vec<f64> = rounds.iter().map(|round| round[index]).collect();
        // `peers` parses this row.
        let what = format!("{operation}, 1,000,000 plans / 1,000 plans");
        print_row(&what, &format_ratios(&ratios), "≤ 1.5");
    }
    print_row("memory, 1,000 → 1,000,000 plans", &memory, "flat");
}

/// Creates `count` plans. Returns the ids of a thousand of them, spread evenly by age: a list of all ids would show up
/// in the memory that is measured.
fn create_plans(lifecycle: &Lifecycle, count: usize) -> Vec<PlanId> {
    const BATCH_SIZE: usize = 10_000;
    let step = (count / 1_000).max(1);
    let mut sampled = Vec::new();
    let mut created = 0;
    while created < count {
        let batch = create_plan_batch(lifecycle, (count - created).min(BATCH_SIZE));
        created += batch.len();
        sampled.extend(batch.into_iter().step_by(step));
    }
    sampled
}

fn create_plan_batch(lifecycle: &Lifecycle, count: usize) -> Vec<PlanId> {
    const THREADS: usize = 64;
    let create_plan = || {
        let created = lifecycle.use_action(make_request(), &bench_call());
        created.unwrap().plan.id()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|index| {
                let share = count / THREADS + usize::from(index < count % THREADS);
                scope.spawn(move || (0..share).map(|_| create_plan()).collect::<Vec<_>>())
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    })
}

/// The cost of a claim, a status and a list page in the second store, divided by the cost in the first.
fn cost_ratios(first: SampledStore<'_>, second: SampledStore<'_>) -> [f64; 3] {
    let ratio = |time_operation: fn(&Lifecycle, PlanId) -> Duration| {
        let time_sample = |(lifecycle, plan_ids): SampledStore<'_>, index: usize| {
            time_operation(
                lifecycle,
                plan_ids[index * plan_ids.len() / SAMPLES_PER_ROUND],
            )
        };
        // The stores alternate, so that other load on the machine affects both.
        let (first, second) = (0..SAMPLES_PER_ROUND)
            .map(|index| (time_sample(first, index), time_sample(second, index)))
            .unzip();
        median_micros(second) / median_micros(first)
    };
    [ratio(time_claim), ratio(time_status), ratio(time_list_page)]
}

fn time_claim(lifecycle: &Lifecycle, _: PlanId) -> Duration {
    let stopwatch = Instant::now();
    let claim = lifecycle.claims().claim_next(
        Phase::Strategize,
        "bench",
        Span::from_seconds(60),
        &bench_call(),
    );
    let elapsed = stopwatch.elapsed();
    claim.unwrap().unwrap().release().unwrap();
    elapsed
}

fn time_status(lifecycle: &Lifecycle, plan_id: PlanId) -> Duration {
    measure_time(|| drop(lifecycle.get_plan(plan_id).unwrap()))
}

fn time_list_page(lifecycle: &Lifecycle, plan_id: PlanId) -> Duration {
    let filter = PlanFilter::default();
    measure_time(|| drop(lifecycle.list_plans(&filter, Some(plan_id), 20).unwrap()))
}

/// For each round, the time of `planwright status` divided by that of `minimal_status`.
fn status_ratios(path: &Path, plan_ids: &[PlanId]) -> Vec<f64> {
    let own_program = std::env::current_exe().unwrap();
    let minimal = own_program.with_file_name("minimal_status");
    let planwright = own_program.with_file_name("planwright");
    let store = format!("sqlite:{}", path.display());
    let mut ratios = Vec::new();
    for round in 0..ROUNDS {
        let (mut planwright_times, mut minimal_times) = (Vec::new(), Vec::new());
        for index in 0..STATUS_RUNS_PER_ROUND {
            // A prime stride visits plans of all ages.
            let sample = (round * STATUS_RUNS_PER_ROUND + index) * 271 % plan_ids.len();
            let plan_id = plan_ids[sample].to_string();
            planwright_times.push(time_command(
                Command::new(&planwright).args(["--store", &store, "status", &plan_id]),
            ));
            minimal_times.push(time_command(
                Command::new(&minimal).args([path.to_str().unwrap(), &plan_id]),
            ));
        }
        ratios.push(median_micros(planwright_times) / median_micros(minimal_times));
    }
    ratios
}

fn time_command(command: &mut Command) -> Duration {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    measure_time(|| assert!(command.status().unwrap().success()))
}

fn measure_time(work: impl FnOnce()) -> Duration {
    let stopwatch = Instant::now();
    work();
    stopwatch.elapsed()
}

fn median_micros(durations: Vec<Duration>) -> f64 {
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
