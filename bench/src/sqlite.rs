//! The SQLite store with one caller, many threads and many processes.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use lifecycle::Lifecycle;
use store::{SqliteOptions, SqliteStore};

use crate::handwritten_loop;
use crate::statistics::{format_ratios, median, print_row};
use crate::workload::{ClaimReleaseCycle, create_ready_plan};

const ROUNDS: usize = 5;
const SINGLE_CALLER_STEPS: usize = 3000;
const THREADS: usize = 64;
const STEPS_PER_THREAD: usize = 200;
const RACE_PROCESSES: usize = 8;
const STEPS_PER_RACE_PROCESS: usize = 600;
/// More processes than cores, to provoke lock timeouts.
const CONTENTION_PROCESSES: usize = 50;
const STEPS_PER_CONTENTION_PROCESS: usize = 40;

pub fn measure_store() {
    let rows = handwritten_loop::record_transitions(SINGLE_CALLER_STEPS);
    let (mut single, mut threaded, mut processes) = (vec![], vec![], vec![]);
    let mut fairness = Vec::new();
    let mut baseline_rates = Vec::new();
    let mut errors = 0;
    for _ in 0..ROUNDS {
        let directory = tempfile::tempdir_in(".").unwrap();
        let elapsed = handwritten_loop::time_transitions(directory.path(), &rows);
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let baseline = SINGLE_CALLER_STEPS as f64 / elapsed.as_secs_f64();
        baseline_rates.push(baseline);
        single.push(measure_single_caller(directory.path()) / baseline);
        threaded.push(measure_threads(directory.path()) / baseline);
        let race = race_processes(directory.path(), RACE_PROCESSES, STEPS_PER_RACE_PROCESS);
        processes.push(race.total_rate / baseline);
        fairness.push(race.slowest_to_mean);
        errors += race.errors;
    }
    let directory = tempfile::tempdir_in(".").unwrap();
    let contention = race_processes(
        directory.path(),
        CONTENTION_PROCESSES,
        STEPS_PER_CONTENTION_PROCESS,
    );
    let baseline = median(baseline_rates);
    print_row(
        "SQLite, hand-written loop (baseline)",
        &format!("{baseline:.0} transitions/s"),
        "",
    );
    print_row(
        "SQLite, one caller / baseline",
        &format_ratios(&single),
        "0.6",
    );
    print_row(
        &format!("SQLite, {THREADS} threads / baseline"),
        &format_ratios(&threaded),
        "3 (stretch 5)",
    );
    print_row(
        &format!("SQLite, {RACE_PROCESSES} processes in total / baseline"),
        &format_ratios(&processes),
        "0.5",
    );
    print_row(
        &format!("SQLite, {RACE_PROCESSES} processes, slowest / mean"),
        &format_ratios(&fairness),
        "0.5",
    );
    print_row(
        &format!("SQLite, errors with {RACE_PROCESSES} processes"),
        &errors.to_string(),
        "0",
    );
    print_row(
        &format!("SQLite, errors with {CONTENTION_PROCESSES} processes"),
        &contention.errors.to_string(),
        "0",
    );
}

/// One process of `race_processes`: prints `ready`, waits for a line, then prints the seconds taken and the number of
/// errors.
pub fn run_race_process(path: &str, plan_id: &str, steps: usize) {
    let lifecycle = Lifecycle::open(SqliteStore::new(Path::new(path), SqliteOptions::default()));
    let mut cycle = ClaimReleaseCycle::new(&lifecycle, plan_id.parse().unwrap());
    println!("ready");
    std::io::stdin()
        .lock()
        .read_line(&mut String::new())
        .unwrap();
    let stopwatch = Instant::now();
    let errors = (0..steps).filter(|_| cycle.run_step().is_err()).count();
    println!("{} {errors}", stopwatch.elapsed().as_secs_f64());
}

/// Transitions per second.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn measure_single_caller(directory: &Path) -> f64 {
    let store = SqliteStore::new(directory.join("one.db"), SqliteOptions::default());
    let lifecycle = Lifecycle::open(store);
    let mut cycle = ClaimReleaseCycle::new(&lifecycle, create_ready_plan(&lifecycle));
    let stopwatch = Instant::now();
    for _ in 0..SINGLE_CALLER_STEPS {
        cycle.run_step().unwrap();
    }
    SINGLE_CALLER_STEPS as f64 / stopwatch.elapsed().as_secs_f64()
}

/// Transitions per second.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn measure_threads(directory: &Path) -> f64 {
    let store = SqliteStore::new(directory.join("many.db"), SqliteOptions::default());
    let lifecycle = Lifecycle::open(store);
    let plan_ids: Vec<_> = (0..THREADS)
        .map(|_| create_ready_plan(&lifecycle))
        .collect();
    let stopwatch = Instant::now();
    std::thread::scope(|scope| {
        for plan_id in plan_ids {
            let lifecycle = &lifecycle;
            scope.spawn(move || {
                let mut cycle = ClaimReleaseCycle::new(lifecycle, plan_id);
                for _ in 0..STEPS_PER_THREAD {
                    cycle.run_step().unwrap();
                }
            });
        }
    });
    (THREADS * STEPS_PER_THREAD) as f64 / stopwatch.elapsed().as_secs_f64()
}

struct ProcessRaceResult {
    total_rate: f64,
    /// The slowest process's rate divided by the mean rate: 1 is perfectly fair.
    slowest_to_mean: f64,
    errors: usize,
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn race_processes(directory: &Path, processes: usize, steps: usize) -> ProcessRaceResult {
    let path = directory.join(format!("race-{processes}.db"));
    let lifecycle = Lifecycle::open(SqliteStore::new(&path, SqliteOptions::default()));
    let mut children: Vec<(Child, BufReader<ChildStdout>)> = Vec::new();
    for _ in 0..processes {
        let plan_id = create_ready_plan(&lifecycle);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "worker",
                path.to_str().unwrap(),
                &plan_id.to_string(),
                &steps.to_string(),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        // Wait for `ready`, so that starting the process is not measured.
        output.read_line(&mut String::new()).unwrap();
        children.push((child, output));
    }
    let stopwatch = Instant::now();
    for (child, _) in &mut children {
        writeln!(child.stdin.take().unwrap()).unwrap();
    }
    let mut rates = Vec::new();
    let mut errors = 0;
    for (mut child, mut output) in children {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let (seconds, failed) = line.trim().split_once(' ').unwrap();
        rates.push(steps as f64 / seconds.parse::<f64>().unwrap());
        errors += failed.parse::<usize>().unwrap();
        assert!(child.wait().unwrap().success());
    }
    let total_rate = (processes * steps) as f64 / stopwatch.elapsed().as_secs_f64();
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    ProcessRaceResult {
        total_rate,
        slowest_to_mean: slowest / mean,
        errors,
    }
}
