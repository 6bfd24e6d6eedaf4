//! Trials with real processes, in short: they pass, and with a bug planted they do not.

#![allow(
    clippy::unwrap_used,
    reason = "a test whose set-up fails has failed, and the panic says where"
)]

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

/// The program, which `cargo test --workspace` builds beside us.
fn program() -> PathBuf {
    let prove = PathBuf::from(env!("CARGO_BIN_EXE_planwright-prove"));
    let program = prove.with_file_name("planwright");
    assert!(
        program.is_file(),
        "{} is not there: run `cargo xtask test`, or `cargo build` first",
        program.display()
    );
    program
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test starts the program it is about"
)]
fn prove(mode: &str, arguments: &[&str]) -> Output {
    // One after the other: each is a crowd by itself.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().unwrap();
    Command::new(env!("CARGO_BIN_EXE_planwright-prove"))
        .arg(mode)
        .args(arguments)
        .arg("--program")
        .arg(program())
        .current_dir(directory.path())
        .output()
        .unwrap()
}

/// What a trial comes to.
#[derive(Clone, Copy)]
enum Comes<'a> {
    /// Nothing is wrong with it.
    Clean,
    /// The planted bug is found, and told in these words.
    Found(&'a str),
}

/// A short trial comes to this. In one on a machine that is busy with other things it may be that too little
/// happened, or that the bug had no occasion to show itself: then it is tried again, a few times.
/// Anything else that is wrong is not to be tried away.
#[track_caller]
fn check(mode: &str, arguments: &[&str], comes: Comes<'_>) {
    const TRIES: usize = 8;
    for tried in 1..=TRIES {
        let output = prove(mode, arguments);
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("seed "), "{said}\n{errors}");
        let clean = said.contains("no violation");
        let (came, again) = match (comes, output.status.code()) {
            (Comes::Clean, Some(0)) => (clean, false),
            (Comes::Found(_), Some(0)) => (false, clean),
            (Comes::Found(says), Some(1)) if said.contains(says) => (true, false),
            (Comes::Clean | Comes::Found(_), Some(1)) => (false, is_too_little(&said)),
            (Comes::Clean | Comes::Found(_), _) => (false, false),
        };
        if came {
            return;
        }
        assert!(again && tried < TRIES, "{arguments:?} {said}\n{errors}");
    }
}

/// Is that all that is wrong?
fn is_too_little(said: &str) -> bool {
    said.contains("too little happened")
        && !said.contains("violation: ")
        && !said.contains("violations with seed")
}

const SHORT: [&str; 6] = ["--minutes", "0.1", "--processes", "8", "--pace-ms", "5"];

#[track_caller]
fn check_bug(bug: &str, says: &str) {
    check(
        "run",
        &[&SHORT[..], &["--break", bug]].concat(),
        Comes::Found(says),
    );
}

#[test]
fn a_trial_on_sqlite_passes() {
    check("run", &SHORT, Comes::Clean);
}

#[test]
fn a_trial_on_postgres_passes() {
    let arguments = [&SHORT[..], &["--store", "postgres"]].concat();
    check("run", &arguments, Comes::Clean);
}

#[test]
fn a_stale_read_is_found() {
    check_bug("stale-read", "not linearizable");
}

#[test]
fn a_missing_fence_is_found() {
    check_bug("no-fence", "written without authority");
}

#[test]
fn a_change_in_the_wrong_changeset_is_found() {
    check_bug("wrong-changeset", "a change in the wrong place");
}

#[test]
fn two_winners_of_a_race_are_found() {
    check_bug("double-transition", "a transition that must not happen");
}

#[test]
fn half_a_commit_is_found() {
    check_bug("half-commit", "half a transition");
}

#[test]
fn a_lost_event_is_found() {
    check_bug("lost-event", "a reader of the log was misled");
}

#[test]
fn a_trial_in_which_too_little_happened_is_no_proof() {
    let arguments = ["--minutes", "0.01", "--processes", "2", "--pace-ms", "500"];
    let says = "no proof, because too little happened";
    check("run", &arguments, Comes::Found(says));
}

/// Landing on a real repository, in short.
#[test]
fn plans_land_once_whatever_is_killed_and_planted_bugs_are_found() {
    let short = ["--minutes", "0.15", "--processes", "3"];
    check("land", &short, Comes::Clean);
    for (bug, says) in [
        ("double-apply", "landed 2 times"),
        ("lost-work", "landed and is not in the branch"),
        ("lost-ignored", ".o is not in the branch"),
        ("told-held", "was not told what came of it"),
    ] {
        check(
            "land",
            &[&short[..], &["--break", bug]].concat(),
            Comes::Found(says),
        );
    }
}

/// Workers and a real actor, in short.
#[test]
fn work_is_begun_once_whatever_is_killed_or_stopped_and_planted_bugs_are_found() {
    let short = ["--minutes", "0.25", "--processes", "3"];
    check("work", &short, Comes::Clean);
    for (bug, says) in [
        ("two-owners", "which nobody had disturbed"),
        ("orphan-process", "a process was left behind"),
        ("unheard-hangup", "which nobody had disturbed"),
        ("fast-clock", "which nobody had disturbed"),
    ] {
        check(
            "work",
            &[&short[..], &["--break", bug]].concat(),
            Comes::Found(says),
        );
    }
}

#[test]
fn no_gate_is_passed_and_nothing_is_spent_unseen_on_sqlite() {
    check("gates", &["--minutes", "0.2"], Comes::Clean);
}

#[test]
fn no_gate_is_passed_and_nothing_is_spent_unseen_on_postgres() {
    let short = ["--minutes", "0.2", "--store", "postgres"];
    check("gates", &short, Comes::Clean);
}

#[track_caller]
fn check_gate_bug(bug: &str, says: &str) {
    let short = ["--minutes", "0.05", "--by-library", "--break", bug];
    check("gates", &short, Comes::Found(says));
}

#[test]
fn a_strategize_gate_that_is_not_wired_is_found() {
    check_gate_bug("skip-strategize-gate", "it passed the strategize gate, and");
}

#[test]
fn an_execute_gate_that_is_not_wired_is_found() {
    check_gate_bug("skip-execute-gate", "it passed the execute gate, and");
}

#[test]
fn a_result_gate_that_is_not_wired_is_found() {
    check_gate_bug("skip-result-gate", "at the result gate, and not");
}

#[test]
fn an_apply_gate_that_is_not_wired_is_found() {
    check_gate_bug("skip-apply-gate", "it passed the apply gate, and");
}

#[test]
fn a_signature_on_something_else_is_found() {
    // Only what lands is signed, and that takes the program.
    let short = ["--minutes", "0.3", "--break", "stale-approval"];
    check("gates", &short, Comes::Found("in force"));
}

#[test]
fn a_run_that_is_not_charged_is_found() {
    check_gate_bug("free-spending", "and is charged 0");
}
