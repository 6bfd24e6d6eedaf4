//! The drivers of our own contenders. They take the flags and print the line of those under
//! `bench/peers`, so that all contenders are run and measured alike, each in a process of its own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use lifecycle::Lifecycle;
use plan::{Phase, Span};
use serde_json::json;
use store::{Cursor, PostgresOptions, PostgresStore, SqliteOptions, SqliteStore, StoreMaintenance};

use crate::work::{Life, call, live_in_a_row, request};
use crate::{hand, postgres};

/// Transitions in one transaction of the grouped hand-written loop.
const GROUP: usize = 100;

/// What a driver is asked for.
#[derive(Default)]
struct Options {
    seconds: u64,
    concurrency: usize,
    warmup: usize,
    idle: usize,
    postgres: Option<String>,
    directory: PathBuf,
}

/// Runs the driver of this name; why not, if it cannot.
pub fn run(what: &str, words: &[&str]) -> Result<(), String> {
    let options = Options::read(words)?;
    match what {
        "planwright-sqlite" => own(&options, &|| Ok(options.sqlite()), in_a_row),
        "planwright-sqlite-steps" => own(&options, &|| Ok(options.sqlite()), step_by_step),
        "planwright-postgres" => own(&options, &|| options.on_postgres(), in_a_row),
        "planwright-postgres-steps" => own(&options, &|| options.on_postgres(), step_by_step),
        "sqlite-by-hand" => by_hand(&options),
        "pgbench" => pgbench(&options),
        _ => Err(format!("there is no driver `{what}`")),
    }
}

impl Options {
    fn read(words: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(flag) = words.next() {
            let value = words.next().ok_or(format!("{flag} needs a value"))?;
            let number: Result<usize, _> =
                value.parse().map_err(|_| format!("{flag} needs a number"));
            match *flag {
                "--seconds" => options.seconds = u64::try_from(number?).unwrap_or_default(),
                "--concurrency" => options.concurrency = number?,
                "--warmup" => options.warmup = number?,
                "--idle" => options.idle = number?,
                "--postgres" => options.postgres = Some((*value).to_owned()),
                "--directory" => options.directory = value.into(),
                _ => return Err(format!("there is no flag {flag}")),
            }
        }
        Ok(options)
    }

    fn duration(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    fn sqlite(&self) -> Lifecycle {
        let path = self.directory.join("planwright.db");
        Lifecycle::open(SqliteStore::new(path, SqliteOptions::default()))
    }

    fn url(&self) -> Result<&str, String> {
        self.postgres
            .as_deref()
            .ok_or("--postgres is missing".to_owned())
    }

    fn on_postgres(&self) -> Result<Lifecycle, String> {
        let store = PostgresStore::new(self.url()?, PostgresOptions::default());
        Ok(Lifecycle::open(store.map_err(|error| error.to_string())?))
    }
}

fn own(
    options: &Options,
    open: &dyn Fn() -> Result<Lifecycle, String>,
    live: fn(&Lifecycle) -> Result<(), String>,
) -> Result<(), String> {
    let lifecycle = open()?;
    let warming = |number| number < options.warmup;
    crowd(options.concurrency, warming, || live(&lifecycle))?;
    if options.idle > 0 {
        let alone = idle(options.idle, &lifecycle, &lifecycle)?;
        // Another store at the same place hears of our commits only as another process would.
        let across = idle(options.idle, &open()?, &lifecycle)?;
        println!("{}", json!({ "idle_ms": alone, "idle_across_ms": across }));
        return Ok(());
    }
    let stopwatch = Instant::now();
    let measuring = |_| stopwatch.elapsed() < options.duration();
    let latencies = crowd(options.concurrency, measuring, || live(&lifecycle))?;
    report(&latencies, stopwatch.elapsed());
    Ok(())
}

fn in_a_row(lifecycle: &Lifecycle) -> Result<(), String> {
    match live_in_a_row(lifecycle) {
        Ok(true) => Ok(()),
        Ok(false) => Err("a life stopped half-way".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn step_by_step(lifecycle: &Lifecycle) -> Result<(), String> {
    Life::begin(lifecycle)
        .and_then(Life::live)
        .map_err(|error| error.to_string())
}

/// So many threads live lives as long as it goes on. How long each took.
fn crowd(
    callers: usize,
    goes_on: impl Fn(usize) -> bool + Sync,
    live: impl Fn() -> Result<(), String> + Sync,
) -> Result<Vec<Duration>, String> {
    let begun = AtomicUsize::new(0);
    let caller = || {
        let mut latencies = Vec::new();
        while goes_on(begun.fetch_add(1, Ordering::Relaxed)) {
            let stopwatch = Instant::now();
            live()?;
            latencies.push(stopwatch.elapsed());
        }
        Ok(latencies)
    };
    if callers == 1 {
        return caller();
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..callers).map(|_| scope.spawn(caller)).collect();
        let mut all = Vec::new();
        for thread in threads {
            all.extend(thread.join().map_err(|_| "a caller panicked")??);
        }
        Ok(all)
    })
}

/// How long it takes from asking for a plan until a waiting worker has claimed it.
fn idle(count: usize, asker: &Lifecycle, worker: &Lifecycle) -> Result<Vec<f64>, String> {
    let failed = |error: lifecycle::LifecycleError| error.to_string();
    let after = worker
        .store()
        .read_latest_cursor()
        .map_err(|error| error.to_string())?;
    let (started, starts) = mpsc::channel();
    std::thread::scope(|scope| {
        let working = scope.spawn(move || wait_and_claim(count, worker, after, &started));
        let mut waits = Vec::new();
        for number in 0..count {
            // As in the other drivers: long enough to be idle, and never in step with what polls.
            let odd = u64::try_from(number * 37 % 101).unwrap_or_default();
            std::thread::sleep(Duration::from_millis(50 + odd));
            let asked = Instant::now();
            asker.use_action(request(), &call()).map_err(failed)?;
            let Ok(start) = starts.recv_timeout(Duration::from_secs(10)) else {
                return Err("a plan was not started within ten seconds".to_owned());
            };
            waits.push(Instant::duration_since(&start, asked).as_secs_f64() * 1e3);
        }
        working.join().map_err(|_| "the worker panicked")??;
        Ok(waits)
    })
}

fn wait_and_claim(
    count: usize,
    worker: &Lifecycle,
    after: Cursor,
    started: &mpsc::Sender<Instant>,
) -> Result<(), String> {
    let failed = |error: lifecycle::LifecycleError| error.to_string();
    let mut events = worker.events(after);
    let mut claimed = 0;
    while claimed < count {
        let lease = Span::from_seconds(3600);
        let claim = worker.claim(Phase::Strategize, "bench", lease, &call());
        if let Some(claim) = claim.map_err(failed)? {
            // Nobody listens any more if the asker gave up; it says why.
            let _ = started.send(Instant::now());
            claim.complete_strategize(Vec::new()).map_err(failed)?;
            claimed += 1;
            continue;
        }
        while events.next_ready().map_err(failed)?.is_some() {}
        events.next_within(Duration::from_secs(1)).map_err(failed)?;
    }
    Ok(())
}

fn by_hand(options: &Options) -> Result<(), String> {
    let rows = hand::life_rows();
    let group = if options.concurrency == 1 { 1 } else { GROUP };
    let path = options.directory.join("hand.db");
    let (latencies, elapsed) = hand::run_lives(&path, &rows, options.duration(), group);
    report(&latencies, elapsed);
    Ok(())
}

fn pgbench(options: &Options) -> Result<(), String> {
    let store = PostgresStore::new(options.url()?, PostgresOptions::default());
    let store = store.map_err(|error| error.to_string())?;
    store.migrate_schema().map_err(|error| error.to_string())?;
    let script = options.directory.join("life.sql");
    std::fs::write(&script, postgres::life(&hand::life_rows())).unwrap();
    let log = options.directory.join("latencies");
    let output = Command::new(postgres::program("pgbench"))
        .env("PGOPTIONS", "-c search_path=planwright")
        .args(["--no-vacuum", "--protocol=prepared", "--log"])
        .arg(format!("--log-prefix={}", log.display()))
        .arg(format!("--jobs={}", options.concurrency.min(2)))
        .arg(format!("--client={}", options.concurrency))
        .arg(format!("--time={}", options.seconds))
        .arg(format!("--file={}", script.display()))
        .arg(options.url()?)
        .output()
        .map_err(|error| format!("pgbench could not be run: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let rate = postgres::scripts_per_second(&said).filter(|_| output.status.success());
    let Some(rate) = rate else {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    };
    let latencies = logged(&options.directory)?;
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let seconds = latencies.len() as f64 / rate;
    report(&latencies, Duration::from_secs_f64(seconds));
    Ok(())
}

/// `pgbench` writes a file per thread, in which a line's third word is the latency in microseconds.
fn logged(directory: &Path) -> Result<Vec<Duration>, String> {
    let files = std::fs::read_dir(directory).map_err(|error| error.to_string())?;
    let mut latencies = Vec::new();
    for file in files.flatten() {
        if !file.file_name().to_string_lossy().starts_with("latencies.") {
            continue;
        }
        let text = std::fs::read_to_string(file.path()).map_err(|error| error.to_string())?;
        let words = text.lines().filter_map(|line| line.split(' ').nth(2));
        latencies.extend(words.filter_map(|word| word.parse().ok().map(Duration::from_micros)));
    }
    Ok(latencies)
}

fn report(latencies: &[Duration], elapsed: Duration) {
    let milliseconds: Vec<f64> = latencies
        .iter()
        .map(|one| one.as_secs_f64() * 1e3)
        .collect();
    let line = json!({
        "lives": latencies.len(),
        "seconds": elapsed.as_secs_f64(),
        "latencies_ms": milliseconds,
    });
    println!("{line}");
}
