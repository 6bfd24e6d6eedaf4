//! Short trials with real processes: they pass, and with a planted bug they fail.

#![allow(
    clippy::unwrap_used,
    reason = "a test whose set-up fails has failed, and the panic message where"
)]

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

/// The `planwright` program, which `cargo test --workspace` builds beside this test.
fn program_path() -> PathBuf {
    let prove = PathBuf::from(env!("CARGO_BIN_EXE_planwright-prove"));
    let program = prove.with_file_name("planwright");
    assert!(
        program.is_file(),
        "{} does not exist: run `cargo xtask test`, or `cargo build` first",
        program.display()
    );
    program
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test starts the program that it tests"
)]
fn run_trial(mode: &str, arguments: &[&str]) -> Output {
    // One after the other, because each trial starts many processes.
    static LOCK: Mutex<()> = Mutex::new(());
    let _lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().unwrap();
    // Under `nohup`, the trial's workers would ignore that their terminal is closed.
    let mut command = Command::new("env");
    if cfg!(target_os = "linux") {
        command.arg("--default-signal=HUP");
    }
    command
        .arg(env!("CARGO_BIN_EXE_planwright-prove"))
        .arg(mode)
        .args(arguments)
        .arg("--program")
        .arg(program_path())
        .current_dir(directory.path())
        .output()
        .unwrap()
}

/// The verdict that a trial must reach.
#[derive(Clone, Copy)]
enum ExpectedVerdict<'a> {
    Passed,
    /// A violation with this text.
    Finds(&'a str),
}

/// Runs a trial and checks its verdict. On a busy machine too little may happen in a short trial, or the bug may not show
/// itself; then it runs again, twice as long. So the verdict does not depend on how busy the machine is. Any other
/// failure is final.
#[track_caller]
fn check_trial(mode: &str, arguments: &[&str], expected: ExpectedVerdict<'_>) {
    const MAX_ATTEMPTS: u8 = 6;
    for attempt in 1..=MAX_ATTEMPTS {
        let longer = scale_minutes(arguments, 1 << (attempt - 1));
        let longer: Vec<&str> = longer.iter().map(String::as_str).collect();
        let output = run_trial(mode, &longer);
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stdout.contains("seed "), "{stdout}\n{stderr}");
        let passed = stdout.contains("no violations");
        let (is_expected, may_repeat) = match (expected, output.status.code()) {
            (ExpectedVerdict::Passed, Some(0)) => (passed, false),
            (ExpectedVerdict::Finds(_), Some(0)) => (false, passed),
            (ExpectedVerdict::Finds(message), Some(1)) if stdout.contains(message) => (true, false),
            (ExpectedVerdict::Passed | ExpectedVerdict::Finds(_), Some(1)) => {
                (false, needs_longer_trial(&stdout))
            }
            (ExpectedVerdict::Passed | ExpectedVerdict::Finds(_), _) => (false, false),
        };
        if is_expected {
            return;
        }
        assert!(
            may_repeat && attempt < MAX_ATTEMPTS,
            "{arguments:?} {stdout}\n{stderr}"
        );
    }
}

/// Multiplies the value of `--minutes`.
fn scale_minutes(arguments: &[&str], factor: u8) -> Vec<String> {
    let mut scaled: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
    let value = scaled.iter().position(|word| word == "--minutes").unwrap() + 1;
    let minutes: f64 = scaled[value].parse().unwrap();
    scaled[value] = (minutes * f64::from(factor)).to_string();
    scaled
}

/// Whether the only problem is that too little happened.
fn needs_longer_trial(stdout: &str) -> bool {
    stdout.contains("too little happened")
        && !stdout.contains("violation: ")
        && !stdout.contains("violations with seed")
}

const SHORT_TRIAL: [&str; 6] = ["--minutes", "0.1", "--processes", "8", "--pace-ms", "5"];

#[track_caller]
fn check_bug(bug: &str, message: &str) {
    check_trial(
        "run",
        &[&SHORT_TRIAL[..], &["--break", bug]].concat(),
        ExpectedVerdict::Finds(message),
    );
}

#[test]
fn a_trial_on_sqlite_passes() {
    check_trial("run", &SHORT_TRIAL, ExpectedVerdict::Passed);
}

#[test]
fn a_trial_on_postgres_passes() {
    let arguments = [&SHORT_TRIAL[..], &["--store", "postgres"]].concat();
    check_trial("run", &arguments, ExpectedVerdict::Passed);
}

#[test]
fn a_stale_read_is_found() {
    check_bug("stale-read", "not linearizable");
}

#[test]
fn a_missing_fence_is_found() {
    check_bug("no-fence", "write without a lease");
}

#[test]
fn a_change_in_the_wrong_changeset_is_found() {
    check_bug("wrong-changeset", "misplaced change");
}

#[test]
fn two_winners_of_a_race_are_found() {
    check_bug("double-transition", "illegal transition");
}

#[test]
fn a_partial_commit_is_found() {
    check_bug("half-commit", "partial commit");
}

#[test]
fn a_lost_event_is_found() {
    check_bug("lost-event", "inconsistent log read");
}

#[test]
fn a_trial_in_which_too_little_happened_is_no_proof() {
    let arguments = ["--minutes", "0.01", "--processes", "2", "--pace-ms", "500"];
    let message = "no proof, too little happened";
    check_trial("run", &arguments, ExpectedVerdict::Finds(message));
}

#[test]
fn landing_trial_passes_and_finds_planted_bugs() {
    let short = ["--minutes", "0.15", "--processes", "3"];
    check_trial("land", &short, ExpectedVerdict::Passed);
    for (bug, message) in [
        ("double-apply", "landed 2 times"),
        ("lost-work", "landed but is not on the branch"),
        ("lost-ignored", ".o is not on the branch"),
        ("told-held", "did not report the outcome"),
    ] {
        check_trial(
            "land",
            &[&short[..], &["--break", bug]].concat(),
            ExpectedVerdict::Finds(message),
        );
    }
}

#[test]
fn worker_trial_passes_and_finds_planted_bugs() {
    let short = ["--minutes", "0.25", "--processes", "3"];
    check_trial("work", &short, ExpectedVerdict::Passed);
    for (bug, message) in [
        ("two-owners", "which was not disturbed"),
        ("orphan-process", "a process was left behind"),
        ("unheard-hangup", "which was not disturbed"),
        ("fast-clock", "which was not disturbed"),
        ("stale-permission", "a call that nobody allowed"),
        ("unknown-full-disk", "failed without a valid reason"),
    ] {
        check_trial(
            "work",
            &[&short[..], &["--break", bug]].concat(),
            ExpectedVerdict::Finds(message),
        );
    }
}

#[test]
fn gate_trial_on_sqlite_passes() {
    check_trial("gates", &["--minutes", "0.2"], ExpectedVerdict::Passed);
}

#[test]
fn gate_trial_on_postgres_passes() {
    let short = ["--minutes", "0.2", "--store", "postgres"];
    check_trial("gates", &short, ExpectedVerdict::Passed);
}

#[track_caller]
fn check_gate_bug(bug: &str, message: &str) {
    let short = ["--minutes", "0.05", "--by-library", "--break", bug];
    check_trial("gates", &short, ExpectedVerdict::Finds(message));
}

#[test]
fn a_skipped_strategize_gate_is_found() {
    check_gate_bug("skip-strategize-gate", "it passed the strategize gate, but");
}

#[test]
fn a_skipped_execute_gate_is_found() {
    check_gate_bug("skip-execute-gate", "it passed the execute gate, but");
}

#[test]
fn a_skipped_result_gate_is_found() {
    check_gate_bug("skip-result-gate", "the result gate reported");
}

#[test]
fn a_skipped_apply_gate_is_found() {
    check_gate_bug("skip-apply-gate", "it passed the apply gate, but");
}

#[test]
fn a_stale_approval_is_found() {
    // Only plans that land need an approval, and landing needs the program.
    let short = ["--minutes", "0.3", "--break", "stale-approval"];
    check_trial("gates", &short, ExpectedVerdict::Finds("in force"));
}

#[test]
fn an_uncharged_run_is_found() {
    check_gate_bug("free-spending", "but is charged 0");
}
