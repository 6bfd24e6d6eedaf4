//! SQLite: one caller, many threads, many processes.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use lifecycle::Lifecycle;
use store::{SqliteOptions, SqliteStore};

use crate::hand;
use crate::rounds::{ratio, report};
use crate::work::{Transitions, ready_plan};

const ROUNDS: usize = 5;
const STEPS: usize = 3000;
const THREADS: usize = 64;
const THREAD_STEPS: usize = 200;
const PROCESSES: usize = 8;
const PROCESS_STEPS: usize = 600;
const CROWD: usize = 50;
const CROWD_STEPS: usize = 40;

pub fn measure() {
    let rows = hand::rows(STEPS);
    let (mut one, mut many, mut processes, mut fairness) = (vec![], vec![], vec![], vec![]);
    let mut hand_rates = Vec::new();
    let mut errors = 0;
    for _ in 0..ROUNDS {
        let directory = tempfile::tempdir_in(".").unwrap();
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let by_hand = STEPS as f64 / hand::run(directory.path(), &rows).as_secs_f64();
        hand_rates.push(by_hand);
        one.push(one_caller(directory.path()) / by_hand);
        many.push(threads(directory.path()) / by_hand);
        let crowd = race(directory.path(), PROCESSES, PROCESS_STEPS);
        processes.push(crowd.rate / by_hand);
        fairness.push(crowd.slowest_to_mean);
        errors += crowd.errors;
    }
    let directory = tempfile::tempdir_in(".").unwrap();
    let crowd = race(directory.path(), CROWD, CROWD_STEPS);
    let hand = crate::rounds::median(hand_rates);
    report(
        "SQLite, hand-written loop (the measure)",
        &format!("{hand:.0} transitions/s"),
        "",
    );
    report("SQLite, one caller / hand", &ratio(&one), "0.6");
    report("SQLite, 64 threads / hand", &ratio(&many), "3 (stretch 5)");
    report(
        "SQLite, 8 processes in sum / hand",
        &ratio(&processes),
        "0.5",
    );
    report(
        "SQLite, 8 processes, slowest / mean",
        &ratio(&fairness),
        "0.5",
    );
    report("SQLite, errors of 8 processes", &errors.to_string(), "0");
    report(
        "SQLite, errors of 50 processes",
        &crowd.errors.to_string(),
        "0",
    );
}

/// A process of a race: says `ready`, waits for the start, says how long it took.
pub fn worker(path: &str, plan: &str, steps: usize) {
    let lifecycle = Lifecycle::open(SqliteStore::new(Path::new(path), SqliteOptions::default()));
    let mut transitions = Transitions::of(&lifecycle, plan.parse().unwrap());
    println!("ready");
    std::io::stdin()
        .lock()
        .read_line(&mut String::new())
        .unwrap();
    let stopwatch = Instant::now();
    let errors = (0..steps).filter(|_| transitions.step().is_err()).count();
    println!("{} {errors}", stopwatch.elapsed().as_secs_f64());
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn one_caller(directory: &Path) -> f64 {
    let store = SqliteStore::new(directory.join("one.db"), SqliteOptions::default());
    let lifecycle = Lifecycle::open(store);
    let mut transitions = Transitions::of(&lifecycle, ready_plan(&lifecycle));
    let stopwatch = Instant::now();
    for _ in 0..STEPS {
        transitions.step().unwrap();
    }
    STEPS as f64 / stopwatch.elapsed().as_secs_f64()
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn threads(directory: &Path) -> f64 {
    let store = SqliteStore::new(directory.join("many.db"), SqliteOptions::default());
    let lifecycle = Lifecycle::open(store);
    let plans: Vec<_> = (0..THREADS).map(|_| ready_plan(&lifecycle)).collect();
    let stopwatch = Instant::now();
    std::thread::scope(|scope| {
        for plan in plans {
            let lifecycle = &lifecycle;
            scope.spawn(move || {
                let mut transitions = Transitions::of(lifecycle, plan);
                for _ in 0..THREAD_STEPS {
                    transitions.step().unwrap();
                }
            });
        }
    });
    (THREADS * THREAD_STEPS) as f64 / stopwatch.elapsed().as_secs_f64()
}

struct Crowd {
    rate: f64,
    slowest_to_mean: f64,
    errors: usize,
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn race(directory: &Path, processes: usize, steps: usize) -> Crowd {
    let path = directory.join(format!("race-{processes}.db"));
    let lifecycle = Lifecycle::open(SqliteStore::new(&path, SqliteOptions::default()));
    let mut racers: Vec<(Child, BufReader<std::process::ChildStdout>)> = Vec::new();
    for _ in 0..processes {
        let plan = ready_plan(&lifecycle);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "worker",
                path.to_str().unwrap(),
                &plan.to_string(),
                &steps.to_string(),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut String::new()).unwrap();
        racers.push((child, output));
    }
    let stopwatch = Instant::now();
    for (child, _) in &mut racers {
        writeln!(child.stdin.take().unwrap()).unwrap();
    }
    let mut rates = Vec::new();
    let mut errors = 0;
    for (mut child, mut output) in racers {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let (seconds, failed) = line.trim().split_once(' ').unwrap();
        rates.push(steps as f64 / seconds.parse::<f64>().unwrap());
        errors += failed.parse::<usize>().unwrap();
        assert!(child.wait().unwrap().success());
    }
    let total = (processes * steps) as f64 / stopwatch.elapsed().as_secs_f64();
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    Crowd {
        rate: total,
        slowest_to_mean: slowest / mean,
        errors,
    }
}
