//! The program that `cargo xtask prove` runs. It also is each of the players it starts.

#![expect(
    clippy::print_stdout,
    reason = "a program of the workshop: what it prints is what it is for"
)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;
use planwright_prove::arena::{self, Database, Outcome};
use planwright_prove::simulation::{self, Stage};
use planwright_prove::trial::{Trial, say};
use planwright_prove::{check, client, gating, landing, working};

/// Look for a history that Planwright must never produce.
#[derive(Parser)]
#[command(name = "planwright-prove")]
enum Arguments {
    /// Try with many processes, then compare what they were told with what is stored.
    Run(Run),
    /// Land plans on a repository while processes are killed, then compare it with what landed.
    Land(Land),
    /// Have workers work on plans while they are killed and stopped, then look what became of everything.
    Work(Work),
    /// Change rules, spend and land under gates and budgets, then look whether any was passed.
    Gates(Gates),
    /// Play schedules in one process on virtual time, as many as fit.
    Simulate(Simulate),
    /// Be one of the players.
    #[command(hide = true)]
    Client(client::Arguments),
    /// Be the actor that the workers start.
    #[command(hide = true)]
    Actor,
    /// Be the actor that spends.
    #[command(hide = true)]
    Spender,
}

#[derive(clap::Args)]
struct Run {
    /// The database.
    #[arg(long, value_enum, default_value = "sqlite")]
    store: Database,
    #[command(flatten)]
    common: Common,
    /// Players think so many milliseconds between two calls, at most.
    #[arg(long, default_value_t = 40)]
    pace_ms: u64,
    /// Plant a bug.
    #[cfg(feature = "broken")]
    #[arg(long = "break", value_enum)]
    bug: Option<planwright_prove::broken::Bug>,
}

/// What every trial is told.
#[derive(clap::Args)]
struct Common {
    /// How many players, or workers.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=200))]
    processes: u32,
    /// For how long.
    #[arg(long, default_value_t = 1.0, value_parser = minutes)]
    minutes: f64,
    /// What all choices follow from; a new one if not said.
    #[arg(long)]
    seed: Option<u64>,
    /// The planwright program.
    #[arg(long)]
    program: PathBuf,
}

impl Common {
    /// Has a trial of this name played in a directory of its own, which is kept unless nothing is wrong.
    fn play(
        &self,
        name: &str,
        database: Database,
        play: impl FnOnce(Trial) -> anyhow::Result<Verdict>,
    ) -> anyhow::Result<ExitCode> {
        arena::require_program(&self.program)?;
        let directory = tempfile::Builder::new()
            .prefix("planwright-prove-")
            .tempdir_in(".")
            .context("could not make a directory for the trial")?;
        let trial = Trial {
            database,
            processes: self.processes,
            duration: Duration::from_secs_f64(self.minutes * 60.0),
            seed: self.seed.unwrap_or_else(|| fastrand::u64(..)),
            directory: directory.path().canonicalize()?,
            program: self.program.canonicalize()?,
            interrupted: interruption()?,
        };
        let (seed, interrupted) = (trial.seed, Arc::clone(&trial.interrupted));
        println!(
            "{name}, seed {seed}: {} processes on {:?} for {:?}",
            trial.processes, trial.database, trial.duration
        );
        let verdict = play(trial);
        let interrupted = interrupted.load(Ordering::Relaxed);
        let code = match verdict {
            Ok(Verdict::Wrong) => 1,
            // Whatever else it seems to be: what it started was interrupted, too. Said before anything is cleaned up,
            // which takes a while that whoever asked to stop may not wait.
            Ok(Verdict::Clean) | Err(_) if interrupted => {
                say("error: interrupted; nothing was proven");
                return Ok(ExitCode::from(2));
            }
            Ok(Verdict::Clean) => {
                println!("no violation");
                return Ok(ExitCode::SUCCESS);
            }
            Err(error) => {
                say(format_args!("error: {error:#}"));
                2
            }
        };
        println!("everything is kept in {}", directory.keep().display());
        Ok(ExitCode::from(code))
    }
}

/// What a trial comes to.
enum Verdict {
    /// Nothing is wrong, and enough happened.
    Clean,
    /// Something is, or too little happened; it was told.
    Wrong,
}

#[derive(clap::Args)]
struct Land {
    #[command(flatten)]
    common: Common,
    /// Plant a bug.
    #[cfg(feature = "broken")]
    #[arg(long = "break", value_enum)]
    bug: Option<planwright_prove::landing::Bug>,
}

#[derive(clap::Args)]
struct Work {
    /// The database.
    #[arg(long, value_enum, default_value = "sqlite")]
    store: Database,
    #[command(flatten)]
    common: Common,
    /// Plant a bug.
    #[cfg(feature = "broken")]
    #[arg(long = "break", value_enum)]
    bug: Option<planwright_prove::working::bug::Bug>,
}

#[derive(clap::Args)]
struct Gates {
    /// The database.
    #[arg(long, value_enum, default_value = "sqlite")]
    store: Database,
    #[command(flatten)]
    common: Common,
    /// Everybody uses the library, and nobody lands anything: more happens in less time.
    #[arg(long)]
    by_library: bool,
    /// Plant a bug.
    #[cfg(feature = "broken")]
    #[arg(long = "break", value_enum)]
    bug: Option<planwright_prove::gating::bug::Bug>,
}

#[derive(clap::Args)]
struct Simulate {
    /// For how long.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// The first seed; the others follow. A new one if not said.
    #[arg(long)]
    seed: Option<u64>,
    /// Plays only the first, and tells everything that happened.
    #[arg(long)]
    once: bool,
    /// Steps of a schedule.
    #[arg(long, default_value_t = 30)]
    steps: usize,
}

fn minutes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(minutes) if (0.01..=600.0).contains(&minutes) => Ok(minutes),
        Ok(_) | Err(_) => Err("between 0.01 and 600".to_owned()),
    }
}

fn main() -> ExitCode {
    let done = match Arguments::parse() {
        Arguments::Client(arguments) => client::run(&arguments).map(|()| ExitCode::SUCCESS),
        Arguments::Run(arguments) => run(&arguments),
        Arguments::Land(arguments) => land(&arguments),
        Arguments::Work(arguments) => work(&arguments),
        Arguments::Gates(arguments) => gates(&arguments),
        Arguments::Actor => working::actor::run(),
        Arguments::Spender => gating::spender::run(),
        Arguments::Simulate(arguments) => simulate(&arguments),
    };
    done.unwrap_or_else(|error| {
        say(format_args!("error: {error:#}"));
        ExitCode::from(2)
    })
}

/// The flag that ends a trial early: somebody asks to stop, or hangs up and did not say `nohup` before.
fn interruption() -> anyhow::Result<Arc<AtomicBool>> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if signal != SIGHUP || !is_ignored(signal) {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
        }
    }
    Ok(interrupted)
}

/// Was this process started with the signal ignored? Where the system does not tell, it was not.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let ignored = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

fn run(arguments: &Run) -> anyhow::Result<ExitCode> {
    arguments.common.play("calls", arguments.store, |trial| {
        let seed = trial.seed;
        let outcome = arena::run(&arena::Settings {
            trial,
            pace_ms: arguments.pace_ms,
            #[cfg(feature = "broken")]
            bug: arguments.bug,
        })?;
        Ok(report(&outcome, seed))
    })
}

fn land(arguments: &Land) -> anyhow::Result<ExitCode> {
    arguments.common.play("landing", Database::Sqlite, |trial| {
        let outcome = landing::run(&landing::Settings {
            trial,
            #[cfg(feature = "broken")]
            bug: arguments.bug,
        })?;
        println!(
            "{} plans landed, {} of them taken back, {} processes killed, {} commits by a person",
            outcome.landed, outcome.undone, outcome.kills, outcome.commits
        );
        Ok(judged(&outcome.violations, &outcome.missing))
    })
}

fn work(arguments: &Work) -> anyhow::Result<ExitCode> {
    arguments.common.play("work", arguments.store, |trial| {
        let outcome = working::run(&working::Settings {
            trial,
            #[cfg(feature = "broken")]
            bug: arguments.bug,
        })?;
        println!(
            "{} plans: {} applied, {} to review, {} failed; the actor started {} times, {} workers killed, {} \
             stopped past their lease, {} terminals closed, {} times a plan taken over",
            outcome.plans,
            outcome.applied,
            outcome.to_review,
            outcome.failed,
            outcome.starts,
            outcome.kills,
            outcome.stops,
            outcome.hangups,
            outcome.taken_over
        );
        Ok(judged(&outcome.violations, &outcome.missing))
    })
}

fn gates(arguments: &Gates) -> anyhow::Result<ExitCode> {
    arguments.common.play("gates", arguments.store, |trial| {
        let outcome = gating::run(&gating::Settings {
            trial,
            by_library: arguments.by_library,
            #[cfg(feature = "broken")]
            bug: arguments.bug,
        })?;
        println!("{}", outcome.tally);
        Ok(judged(&outcome.violations, &outcome.missing))
    })
}

/// Tells what is wrong with a trial.
fn judged(violations: &[String], missing: &[String]) -> Verdict {
    for violation in violations.iter().take(20) {
        println!("violation: {violation}");
    }
    for missing in missing {
        println!("too little happened: {missing}");
    }
    match violations.is_empty() && missing.is_empty() {
        true => Verdict::Clean,
        false => Verdict::Wrong,
    }
}

/// Plays schedule after schedule on every core, until the time is over or one goes wrong.
fn simulate(arguments: &Simulate) -> anyhow::Result<ExitCode> {
    let first = arguments.seed.unwrap_or_else(|| fastrand::u64(..));
    let start = Instant::now();
    let duration = Duration::from_secs(arguments.seconds);
    let next = AtomicU64::new(0);
    // Whoever plays waits now and then, for the thread that judges an expression.
    let threads = 2 * std::thread::available_parallelism().map_or(1, usize::from);
    let failure = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..if arguments.once { 1 } else { threads } {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let seed = first.wrapping_add(number);
                    if let Some(told) = schedule(seed, arguments.steps, arguments.once) {
                        next.fetch_add(u64::from(u32::MAX), Ordering::Relaxed);
                        *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(told);
                    }
                    let over = start.elapsed() > duration || arguments.once;
                    if over || next.load(Ordering::Relaxed) > u64::from(u32::MAX) {
                        return;
                    }
                }
            });
        }
    });
    if let Some(told) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        println!("{told}");
        return Ok(ExitCode::from(1));
    }
    let played = next.into_inner();
    #[expect(
        clippy::cast_precision_loss,
        reason = "a rate, shown without a fraction"
    )]
    let rate = played as f64 / start.elapsed().as_secs_f64();
    println!(
        "{played} schedules of {} steps from seed {first} on, {rate:.0} a second: no violation",
        arguments.steps
    );
    Ok(ExitCode::SUCCESS)
}

/// Plays one; what is wrong with it, if anything is.
fn schedule(seed: u64, steps: usize, tell_all: bool) -> Option<String> {
    let again =
        format!("again with: planwright-prove simulate --once --seed {seed} --steps {steps}");
    let played = match simulation::play(&Stage::in_memory(), seed, steps) {
        Ok(played) => played,
        Err(error) => return Some(format!("seed {seed}: {error}\n{again}")),
    };
    if tell_all {
        for made in played.history.calls.values() {
            let answer = made
                .answer()
                .map_or("killed".to_owned(), ToString::to_string);
            println!("{} {}: {answer}", made.call.id, made.call.operation);
        }
    }
    let first = played.violations.first()?;
    let told = check::tell(first, &played.history, &played.stored);
    Some(format!("seed {seed}: {told}\n{again}"))
}

/// How many violations are told; the first explains most.
const TOLD: usize = 3;

fn report(outcome: &Outcome, seed: u64) -> Verdict {
    println!("{}", outcome.tally);
    println!("  {}", outcome.deeds.told());
    println!(
        "  {} plans, {} events",
        outcome.stored.plans.len(),
        outcome
            .stored
            .plans
            .values()
            .map(|plan| plan.events.len())
            .sum::<usize>()
    );
    for violation in outcome.violations.iter().take(TOLD) {
        println!(
            "\n{}",
            check::tell(violation, &outcome.history, &outcome.stored)
        );
    }
    match (outcome.violations.len(), outcome.missing.as_slice()) {
        (0, []) => return Verdict::Clean,
        (0, missing) => println!(
            "no proof, because too little happened: {}",
            missing.join("; ")
        ),
        (count, _) => println!("\n{count} violations with seed {seed}"),
    }
    Verdict::Wrong
}
