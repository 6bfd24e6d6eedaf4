//! The drivers for Planwright itself and for the two baselines, the hand-written loop and `pgbench`. They take the same
//! flags and print the same line as the drivers under `bench/peers`, so that every system is measured the same way, in
//! its own process.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use lifecycle::{Lifecycle, LifecycleError};
use plan::{Phase, Span};
use serde_json::json;
use store::{Cursor, PostgresOptions, PostgresStore, SqliteOptions, SqliteStore, StoreMaintenance};

use crate::workload::{StepwiseWorkflow, bench_call, make_request, run_batched_workflow};
use crate::{handwritten_loop, postgres};

/// Transitions per transaction in the hand-written loop, when it stands in for many callers.
const TRANSITIONS_PER_GROUP: usize = 100;
const CLAIM_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Default)]
struct DriverOptions {
    seconds: u64,
    concurrency: usize,
    warmup: usize,
    idle: usize,
    postgres: Option<String>,
    directory: PathBuf,
}

pub fn run_driver(name: &str, flags: &[&str]) -> Result<(), String> {
    let options = DriverOptions::parse_flags(flags)?;
    let sqlite = || Ok(options.open_sqlite());
    let postgres = || options.open_postgres();
    match name {
        "planwright-sqlite" => drive_planwright(&options, &sqlite, run_batched),
        "planwright-sqlite-steps" => drive_planwright(&options, &sqlite, run_stepwise),
        "planwright-postgres" => drive_planwright(&options, &postgres, run_batched),
        "planwright-postgres-steps" => drive_planwright(&options, &postgres, run_stepwise),
        "sqlite-by-hand" => drive_handwritten_loop(&options),
        "pgbench" => drive_pgbench(&options),
        _ => Err(format!("unknown driver `{name}`")),
    }
}

impl DriverOptions {
    fn parse_flags(flags: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut flags = flags.iter();
        while let Some(flag) = flags.next() {
            let value = flags.next().ok_or(format!("{flag} needs a value"))?;
            let number: Result<usize, _> =
                value.parse().map_err(|_| format!("{flag} needs a number"));
            match *flag {
                "--seconds" => options.seconds = u64::try_from(number?).unwrap_or_default(),
                "--concurrency" => options.concurrency = number?,
                "--warmup" => options.warmup = number?,
                "--idle" => options.idle = number?,
                "--postgres" => options.postgres = Some((*value).to_owned()),
                "--directory" => options.directory = value.into(),
                _ => return Err(format!("unknown flag {flag}")),
            }
        }
        Ok(options)
    }

    fn duration(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    fn open_sqlite(&self) -> Lifecycle {
        let path = self.directory.join("planwright.db");
        Lifecycle::open(SqliteStore::new(path, SqliteOptions::default()))
    }

    fn postgres_url(&self) -> Result<&str, String> {
        self.postgres
            .as_deref()
            .ok_or("--postgres is missing".to_owned())
    }

    fn open_postgres(&self) -> Result<Lifecycle, String> {
        let store = PostgresStore::new(self.postgres_url()?, PostgresOptions::default());
        Ok(Lifecycle::open(store.map_err(|error| error.to_string())?))
    }
}

fn drive_planwright(
    options: &DriverOptions,
    open: &dyn Fn() -> Result<Lifecycle, String>,
    run_workflow: fn(&Lifecycle) -> Result<(), String>,
) -> Result<(), String> {
    let lifecycle = open()?;
    let is_warmup = |number| number < options.warmup;
    run_callers(options.concurrency, is_warmup, || run_workflow(&lifecycle))?;
    if options.idle > 0 {
        let same_process = measure_idle(options.idle, &lifecycle, &lifecycle)?;
        // A second store at the same location is notified of commits only as another process would be.
        let cross_process = measure_idle(options.idle, &open()?, &lifecycle)?;
        println!(
            "{}",
            json!({ "idle_ms": same_process, "idle_across_ms": cross_process })
        );
        return Ok(());
    }
    let stopwatch = Instant::now();
    let has_time_left = |_| stopwatch.elapsed() < options.duration();
    let latencies = run_callers(options.concurrency, has_time_left, || {
        run_workflow(&lifecycle)
    })?;
    print_throughput(&latencies, stopwatch.elapsed());
    Ok(())
}

fn run_batched(lifecycle: &Lifecycle) -> Result<(), String> {
    match run_batched_workflow(lifecycle) {
        Ok(true) => Ok(()),
        Ok(false) => Err("a workflow stopped before its plan landed".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn run_stepwise(lifecycle: &Lifecycle) -> Result<(), String> {
    StepwiseWorkflow::create_plan(lifecycle)
        .and_then(StepwiseWorkflow::run_remaining_steps)
        .map_err(|error| error.to_string())
}

/// Runs workflows from `callers` threads until `should_start` refuses the next one. Returns the latency of each.
fn run_callers(
    callers: usize,
    should_start: impl Fn(usize) -> bool + Sync,
    run_workflow: impl Fn() -> Result<(), String> + Sync,
) -> Result<Vec<Duration>, String> {
    let next_number = AtomicUsize::new(0);
    let run_caller = || {
        let mut latencies = Vec::new();
        while should_start(next_number.fetch_add(1, Ordering::Relaxed)) {
            let stopwatch = Instant::now();
            run_workflow()?;
            latencies.push(stopwatch.elapsed());
        }
        Ok(latencies)
    };
    if callers == 1 {
        return run_caller();
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..callers).map(|_| scope.spawn(run_caller)).collect();
        let mut latencies = Vec::new();
        for thread in threads {
            latencies.extend(thread.join().map_err(|_| "a caller panicked")??);
        }
        Ok(latencies)
    })
}

/// Creates `count` plans one by one. Returns the milliseconds until a waiting worker has claimed each.
fn measure_idle(
    count: usize,
    requester: &Lifecycle,
    worker: &Lifecycle,
) -> Result<Vec<f64>, String> {
    let after = worker
        .store()
        .read_latest_cursor()
        .map_err(|error| error.to_string())?;
    let (claim_sender, claim_times) = mpsc::channel();
    std::thread::scope(|scope| {
        let worker_thread =
            scope.spawn(move || wait_and_claim(count, worker, after, &claim_sender));
        let mut waits = Vec::new();
        for number in 0..count {
            // As in the other drivers: long enough to go idle, and irregular, so that it never falls into step with a
            // poll interval.
            let jitter = u64::try_from(number * 37 % 101).unwrap_or_default();
            std::thread::sleep(Duration::from_millis(50 + jitter));
            let requested = Instant::now();
            requester
                .use_action(make_request(), &bench_call())
                .map_err(describe_error)?;
            let Ok(claimed) = claim_times.recv_timeout(CLAIM_TIMEOUT) else {
                return Err(format!(
                    "the worker did not claim a plan within {} seconds",
                    CLAIM_TIMEOUT.as_secs()
                ));
            };
            waits.push(Instant::duration_since(&claimed, requested).as_secs_f64() * 1e3);
        }
        worker_thread.join().map_err(|_| "the worker panicked")??;
        Ok(waits)
    })
}

fn wait_and_claim(
    count: usize,
    worker: &Lifecycle,
    after: Cursor,
    claim_sender: &mpsc::Sender<Instant>,
) -> Result<(), String> {
    let mut events = worker.events(after);
    let mut claimed = 0;
    while claimed < count {
        let lease = Span::from_seconds(3600);
        let claim = worker
            .claims()
            .claim_next(Phase::Strategize, "bench", lease, &bench_call());
        if let Some(claim) = claim.map_err(describe_error)? {
            // Fails only if the requester gave up, which reports its own error.
            let _ = claim_sender.send(Instant::now());
            claim
                .complete_strategize(Vec::new())
                .map_err(describe_error)?;
            claimed += 1;
            continue;
        }
        // Nothing to claim: skip the events so far, then wait for the next.
        while events.next_ready().map_err(describe_error)?.is_some() {}
        events
            .next_within(Duration::from_secs(1))
            .map_err(describe_error)?;
    }
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "an argument of map_err")]
fn describe_error(error: LifecycleError) -> String {
    error.to_string()
}

fn drive_handwritten_loop(options: &DriverOptions) -> Result<(), String> {
    let workflow = handwritten_loop::record_workflow();
    let group_size = if options.concurrency == 1 {
        1
    } else {
        TRANSITIONS_PER_GROUP
    };
    let path = options.directory.join("hand.db");
    let (latencies, elapsed) =
        handwritten_loop::run_workflows(&path, &workflow, options.duration(), group_size);
    print_throughput(&latencies, elapsed);
    Ok(())
}

fn drive_pgbench(options: &DriverOptions) -> Result<(), String> {
    let url = options.postgres_url()?;
    let store = PostgresStore::new(url, PostgresOptions::default());
    let store = store.map_err(|error| error.to_string())?;
    store.migrate_schema().map_err(|error| error.to_string())?;
    let script = options.directory.join("workflow.sql");
    let workflow = handwritten_loop::record_workflow();
    std::fs::write(&script, postgres::workflow_script(&workflow)).unwrap();
    let log = options.directory.join("latencies");
    let output = Command::new(postgres::program_path("pgbench"))
        .env("PGOPTIONS", "-c search_path=planwright")
        .args(["--no-vacuum", "--protocol=prepared", "--log"])
        .arg(format!("--log-prefix={}", log.display()))
        .arg(format!("--jobs={}", options.concurrency.min(2)))
        .arg(format!("--client={}", options.concurrency))
        .arg(format!("--time={}", options.seconds))
        .arg(format!("--file={}", script.display()))
        .arg(url)
        .output()
        .map_err(|error| format!("could not run pgbench: {error}"))?;
    let summary = String::from_utf8_lossy(&output.stdout);
    let rate = postgres::parse_script_rate(&summary).filter(|_| output.status.success());
    let Some(rate) = rate else {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    };
    let latencies = read_pgbench_latencies(&options.directory)?;
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let seconds = latencies.len() as f64 / rate;
    print_throughput(&latencies, Duration::from_secs_f64(seconds));
    Ok(())
}

/// `pgbench` writes one log file per thread. The third field of a line is the latency in microseconds.
fn read_pgbench_latencies(directory: &Path) -> Result<Vec<Duration>, String> {
    let files = std::fs::read_dir(directory).map_err(|error| error.to_string())?;
    let mut latencies = Vec::new();
    for file in files.flatten() {
        if !file.file_name().to_string_lossy().starts_with("latencies.") {
            continue;
        }
        let text = std::fs::read_to_string(file.path()).map_err(|error| error.to_string())?;
        let fields = text.lines().filter_map(|line| line.split(' ').nth(2));
        latencies.extend(fields.filter_map(|field| field.parse().ok().map(Duration::from_micros)));
    }
    Ok(latencies)
}

fn print_throughput(latencies: &[Duration], elapsed: Duration) {
    let milliseconds: Vec<f64> = latencies
        .iter()
        .map(|latency| latency.as_secs_f64() * 1e3)
        .collect();
    let line = json!({
        "workflows": latencies.len(),
        "seconds": elapsed.as_secs_f64(),
        "latencies_ms": milliseconds,
    });
    println!("{line}");
}
