//! The program that `cargo xtask prove` runs. It also runs as each of the clients and actors that it starts.

#![expect(
    clippy::print_stdout,
    reason = "a development tool whose output is its purpose"
)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;
use planwright_prove::call_trial::{self, CallTrialOutcome, TrialDatabase};
use planwright_prove::simulation::{self, SimulatedStore};
use planwright_prove::trial::{Trial, print_status};
use planwright_prove::{check, client_process, gate_trial, landing_trial, worker_trial};

/// Search for a history that Planwright must never produce
#[derive(Parser)]
#[command(name = "planwright-prove")]
enum ProveCommand {
    /// Make random calls with many processes, then compare their answers with the store
    Run(RunTrialArgs),
    /// Land plans on a repository while processes are killed, then check the branch
    Land(LandTrialArgs),
    /// Run workers that are killed, paused and hung up on, then check plans and processes
    Work(WorkTrialArgs),
    /// Change rules, spend and land under gates and budgets, then check that none was bypassed
    Gates(GateTrialArgs),
    /// Run as many schedules as possible in one process on virtual time
    Simulate(SimulateArgs),
    /// Run as a client of a trial
    #[command(hide = true)]
    Client(client_process::ClientArgs),
    /// Run as the actor of the workers
    #[command(hide = true)]
    Actor,
    /// Run as the actor that asks before it makes a tool call
    #[command(hide = true)]
    AskingActor,
    /// Run as the actor that spends
    #[command(hide = true)]
    Spender,
}

#[derive(clap::Args)]
struct RunTrialArgs {
    /// The database
    #[arg(long, value_enum, default_value = "sqlite")]
    store: TrialDatabase,
    #[command(flatten)]
    common: CommonTrialArgs,
    /// The longest pause of a client between two calls, in milliseconds
    #[arg(long, default_value_t = 40)]
    pace_ms: u64,
    /// Plant a bug
    #[cfg(feature = "broken")]
    #[arg(long = "break", value_enum)]
    bug: Option<planwright_prove::store_bugs::StoreBug>,
}

/// Arguments of all trials.
#[derive(clap::Args)]
struct CommonTrialArgs {
    /// The number of clients or workers
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=200))]
    processes: u32,
    /// The duration of the trial
    #[arg(long, default_value_t = 1.0, value_parser = parse_minutes)]
    minutes: f64,
    /// The seed of all random choices [default: random]
    #[arg(long)]
    seed: Option<u64>,
    /// The planwright program
    #[arg(long)]
    program: PathBuf,
}

impl CommonTrialArgs {
    /// Runs a trial in a new directory and prints the verdict. Keeps the directory if the trial failed.
    fn run_trial(
        &self,
        name: &str,
        database: TrialDatabase,
        run: impl FnOnce(Trial) -> anyhow::Result<TrialVerdict>,
    ) -> anyhow::Result<ExitCode> {
        call_trial::require_program(&self.program)?;
        let directory = tempfile::Builder::new()
            .prefix("planwright-prove-")
            .tempdir_in(".")
            .context("could not create a directory for the trial")?;
        let trial = Trial {
            database,
            processes: self.processes,
            duration: Duration::from_secs_f64(self.minutes * 60.0),
            seed: self.seed.unwrap_or_else(|| fastrand::u64(..)),
            directory: directory.path().canonicalize()?,
            program: self.program.canonicalize()?,
            interrupted: register_interrupt_flag()?,
        };
        let (seed, interrupted) = (trial.seed, Arc::clone(&trial.interrupted));
        println!(
            "{name}, seed {seed}: {} processes on {:?} for {:?}",
            trial.processes, trial.database, trial.duration
        );
        let verdict = run(trial);
        let interrupted = interrupted.load(Ordering::Relaxed);
        let code = match verdict {
            Ok(TrialVerdict::Failed) => 1,
            // The signal also reached the processes of the trial, so any other outcome means nothing. Print this before
            // the slow clean-up, which the user may not wait for.
            Ok(TrialVerdict::Passed) | Err(_) if interrupted => {
                print_status("error: interrupted; nothing was proven");
                return Ok(ExitCode::from(2));
            }
            Ok(TrialVerdict::Passed) => {
                println!("no violations");
                return Ok(ExitCode::SUCCESS);
            }
            Err(error) => {
                print_status(format_args!("error: {error:#}"));
                2
            }
        };
        println!("files kept in {}", directory.keep().display());
        Ok(ExitCode::from(code))
    }
}

/// The verdict on a trial that ran to its end.
enum TrialVerdict {
    Passed,
    /// A violation, or too little happened. The problem was printed.
    Failed,
}

#[derive(clap::Args)]
struct LandTrialArgs {
    #[command(flatten)]
    common: CommonTrialArgs,
    /// Plant a bug
    #[cfg(feature = "broken")]
    #[arg(long = "break", value_enum)]
    bug: Option<planwright_prove::landing_trial::LandingBug>,
}

#[derive(clap::Args)]
struct WorkTrialArgs {
    /// The database
    #[arg(long, value_enum, default_value = "sqlite")]
    store: TrialDatabase,
    #[command(flatten)]
    common: CommonTrialArgs,
    /// Plant a bug
    #[cfg(feature = "broken")]
    #[arg(long = "break", value_enum)]
    bug: Option<planwright_prove::worker_trial::bugs::WorkerBug>,
}

#[derive(clap::Args)]
struct GateTrialArgs {
    /// The database
    #[arg(long, value_enum, default_value = "sqlite")]
    store: TrialDatabase,
    #[command(flatten)]
    common: CommonTrialArgs,
    /// All clients use the library and no plan lands: more happens in less time
    #[arg(long)]
    by_library: bool,
    /// Plant a bug
    #[cfg(feature = "broken")]
    #[arg(long = "break", value_enum)]
    bug: Option<planwright_prove::gate_trial::bugs::GateBug>,
}

#[derive(clap::Args)]
struct SimulateArgs {
    /// How long to run schedules
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// The first seed; the others follow it [default: random]
    #[arg(long)]
    seed: Option<u64>,
    /// Run only the first schedule and print all its calls
    #[arg(long)]
    once: bool,
    /// The number of steps of each schedule
    #[arg(long, default_value_t = 30)]
    steps: usize,
}

fn parse_minutes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(minutes) if (0.01..=600.0).contains(&minutes) => Ok(minutes),
        Ok(_) | Err(_) => Err("must be between 0.01 and 600".to_owned()),
    }
}

fn main() -> ExitCode {
    let result = match ProveCommand::parse() {
        ProveCommand::Client(arguments) => {
            client_process::run(&arguments).map(|()| ExitCode::SUCCESS)
        }
        ProveCommand::Run(arguments) => run_call_trial(&arguments),
        ProveCommand::Land(arguments) => run_landing_trial(&arguments),
        ProveCommand::Work(arguments) => run_worker_trial(&arguments),
        ProveCommand::Gates(arguments) => run_gate_trial(&arguments),
        ProveCommand::Actor => worker_trial::trial_actor::run(),
        ProveCommand::AskingActor => worker_trial::asking_actor::run(),
        ProveCommand::Spender => gate_trial::spending_actor::run(),
        ProveCommand::Simulate(arguments) => run_schedules(&arguments),
    };
    result.unwrap_or_else(|error| {
        print_status(format_args!("error: {error:#}"));
        ExitCode::from(2)
    })
}

/// Returns a flag that SIGINT, SIGTERM or SIGHUP sets. Leaves SIGHUP alone under `nohup`.
fn register_interrupt_flag() -> anyhow::Result<Arc<AtomicBool>> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if signal != SIGHUP || !is_signal_ignored(signal) {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
        }
    }
    Ok(interrupted)
}

/// Whether this process was started with the signal ignored. False on systems without `/proc`.
fn is_signal_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let ignored = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

fn run_call_trial(arguments: &RunTrialArgs) -> anyhow::Result<ExitCode> {
    arguments
        .common
        .run_trial("calls", arguments.store, |trial| {
            let seed = trial.seed;
            let outcome = call_trial::run(&call_trial::CallTrialSettings {
                trial,
                pace_ms: arguments.pace_ms,
                #[cfg(feature = "broken")]
                bug: arguments.bug,
            })?;
            Ok(report_call_trial(&outcome, seed))
        })
}

fn run_landing_trial(arguments: &LandTrialArgs) -> anyhow::Result<ExitCode> {
    arguments
        .common
        .run_trial("landing", TrialDatabase::Sqlite, |trial| {
            let outcome = landing_trial::run(&landing_trial::LandingTrialSettings {
                trial,
                #[cfg(feature = "broken")]
                bug: arguments.bug,
            })?;
            println!(
                "{} plans landed, {} of them undone, {} processes killed, {} commits by a person",
                outcome.landed, outcome.undone, outcome.kills, outcome.commits
            );
            Ok(report_problems(&outcome.violations, &outcome.missing))
        })
}

fn run_worker_trial(arguments: &WorkTrialArgs) -> anyhow::Result<ExitCode> {
    arguments.common.run_trial("work", arguments.store, |trial| {
        let outcome = worker_trial::run(&worker_trial::WorkerTrialSettings {
            trial,
            #[cfg(feature = "broken")]
            bug: arguments.bug,
        })?;
        println!(
            "{} plans: {} applied, {} to review, {} failed; {} actor starts, {} workers killed, {} paused past \
             their lease, {} terminals closed, {} full disks, {} leases reclaimed, {} tool calls decided",
            outcome.plans,
            outcome.applied,
            outcome.to_review,
            outcome.failed,
            outcome.starts,
            outcome.kills,
            outcome.pauses,
            outcome.hangups,
            outcome.full_disks,
            outcome.reclaims,
            outcome.decided_calls
        );
        Ok(report_problems(&outcome.violations, &outcome.missing))
    })
}

fn run_gate_trial(arguments: &GateTrialArgs) -> anyhow::Result<ExitCode> {
    arguments
        .common
        .run_trial("gates", arguments.store, |trial| {
            let outcome = gate_trial::run(&gate_trial::GateTrialSettings {
                trial,
                by_library: arguments.by_library,
                #[cfg(feature = "broken")]
                bug: arguments.bug,
            })?;
            println!("{}", outcome.counts);
            Ok(report_problems(&outcome.violations, &outcome.missing))
        })
}

/// Prints the first violations and what did not happen often enough.
fn report_problems(violations: &[String], missing: &[String]) -> TrialVerdict {
    for violation in violations.iter().take(20) {
        println!("violation: {violation}");
    }
    for missing in missing {
        println!("too little happened: {missing}");
    }
    match violations.is_empty() && missing.is_empty() {
        true => TrialVerdict::Passed,
        false => TrialVerdict::Failed,
    }
}

/// Runs schedules on all cores until the time is over or one fails.
fn run_schedules(arguments: &SimulateArgs) -> anyhow::Result<ExitCode> {
    let first_seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..));
    let start = Instant::now();
    let duration = Duration::from_secs(arguments.seconds);
    let started = AtomicU64::new(0);
    // More threads than cores, because a schedule sometimes waits for the thread that evaluates expressions.
    let threads = 2 * std::thread::available_parallelism().map_or(1, usize::from);
    let failure = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..if arguments.once { 1 } else { threads } {
            scope.spawn(|| {
                loop {
                    let number = started.fetch_add(1, Ordering::Relaxed);
                    let seed = first_seed.wrapping_add(number);
                    if let Some(message) = run_schedule(seed, arguments.steps, arguments.once) {
                        // A count above `u32::MAX` stops the other threads.
                        started.fetch_add(u64::from(u32::MAX), Ordering::Relaxed);
                        *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(message);
                    }
                    let is_over = start.elapsed() > duration || arguments.once;
                    if is_over || started.load(Ordering::Relaxed) > u64::from(u32::MAX) {
                        return;
                    }
                }
            });
        }
    });
    if let Some(message) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        println!("{message}");
        return Ok(ExitCode::from(1));
    }
    let schedules = started.into_inner();
    #[expect(
        clippy::cast_precision_loss,
        reason = "a rate, displayed without a fraction"
    )]
    let rate = schedules as f64 / start.elapsed().as_secs_f64();
    println!(
        "{schedules} schedules of {} steps, first seed {first_seed}, {rate:.0} per second: no violations",
        arguments.steps
    );
    Ok(ExitCode::SUCCESS)
}

/// Runs one schedule; returns a message if it fails.
fn run_schedule(seed: u64, steps: usize, print_calls: bool) -> Option<String> {
    let repeat_hint =
        format!("repeat with: planwright-prove simulate --once --seed {seed} --steps {steps}");
    let outcome = match simulation::run_schedule(&SimulatedStore::in_memory(), seed, steps) {
        Ok(outcome) => outcome,
        Err(error) => return Some(format!("seed {seed}: {error}\n{repeat_hint}")),
    };
    if print_calls {
        for recorded in outcome.history.calls.values() {
            let answer = recorded
                .answer()
                .map_or("killed".to_owned(), ToString::to_string);
            println!("{} {}: {answer}", recorded.call.id, recorded.call.operation);
        }
    }
    let first = outcome.violations.first()?;
    let message = check::format_violation(first, &outcome.history, &outcome.stored);
    Some(format!("seed {seed}: {message}\n{repeat_hint}"))
}

/// How many violations are printed; usually the first explains the others.
const MAX_PRINTED_VIOLATIONS: usize = 3;

fn report_call_trial(outcome: &CallTrialOutcome, seed: u64) -> TrialVerdict {
    println!("{}", outcome.call_counts);
    println!("  {}", outcome.fault_counts.summary());
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
    for violation in outcome.violations.iter().take(MAX_PRINTED_VIOLATIONS) {
        println!(
            "\n{}",
            check::format_violation(violation, &outcome.history, &outcome.stored)
        );
    }
    match (outcome.violations.len(), outcome.missing.as_slice()) {
        (0, []) => return TrialVerdict::Passed,
        (0, missing) => println!("no proof, too little happened: {}", missing.join("; ")),
        (count, _) => println!("\n{count} violations with seed {seed}"),
    }
    TrialVerdict::Failed
}
