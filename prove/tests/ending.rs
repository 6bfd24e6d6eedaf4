//! How a trial ends that somebody else ends: never without a word, and with nothing left behind.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    reason = "a test whose set-up fails has failed, and the panic says where"
)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

#[test]
fn a_trial_goes_on_when_whoever_started_it_ends_while_a_worker_is_stopped() {
    let _turn = turn();
    let directory = tempfile::tempdir().unwrap();
    let mut shell = command("sh");
    shell
        .args(["-c", "\"$@\" >said 2>&1 & echo $!; read -r end", "sh"])
        .args(trial("work", &["--minutes", "0.1", "--processes", "2"]))
        .current_dir(directory.path())
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut shell = shell.spawn().unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(shell.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    let trial: u32 = line.trim().parse().unwrap();

    let worker = eventually("a worker that is stopped", || {
        let worker = children(trial).into_iter().find(is_worker)?;
        signal(worker, Signal::STOP);
        std::thread::sleep(Duration::from_millis(5));
        if state(worker) == Some('T') {
            return Some(worker);
        }
        signal(worker, Signal::CONT);
        None
    });
    drop(shell.stdin.take());
    shell.wait().unwrap();
    // Chaos may have killed it meanwhile.
    signal(worker, Signal::CONT);

    let said = directory.path().join("said");
    eventually("a verdict", || {
        let said = fs::read_to_string(&said).unwrap();
        assert!(!said.contains("interrupted"), "{said}");
        let verdicts = ["no violation", "everything is kept"];
        let is_told = verdicts.iter().any(|verdict| said.contains(verdict));
        is_told.then_some(())
    });
}

#[test]
fn a_trial_that_is_killed_leaves_no_worker() {
    let _turn = turn();
    let directory = tempfile::tempdir().unwrap();
    let mut trial = start(&directory, "work", &[]);
    let worker = eventually("a worker", || {
        children(trial.id()).into_iter().find(is_worker)
    });
    trial.kill().unwrap();
    trial.wait().unwrap();
    eventually("the end of a worker", || {
        // One that ended stays a zombie until somebody asks after it.
        matches!(state(worker), None | Some('Z')).then_some(())
    });
}

#[test]
fn a_trial_that_is_killed_leaves_no_server_and_no_player() {
    let _turn = turn();
    let directory = tempfile::tempdir().unwrap();
    let mut trial = start(&directory, "run", &["--store", "postgres"]);
    let cluster = eventually("a server", || {
        let mut guards = children(trial.id()).into_iter().map(words);
        let guard = guards.find(|words| words.contains(&"guard".to_owned()))?;
        let cluster = PathBuf::from(guard.last()?);
        cluster
            .join("data/postmaster.pid")
            .exists()
            .then_some(cluster)
    });
    let players = || -> Vec<u32> {
        let place = directory.path().to_str().unwrap();
        let is_player = |process: &u32| words(*process).iter().any(|word| word.contains(place));
        processes().filter(is_player).collect()
    };
    eventually("some players", || (players().len() > 2).then_some(()));
    trial.kill().unwrap();
    trial.wait().unwrap();
    eventually("the end of the server and the players", || {
        (!cluster.exists() && players().is_empty()).then_some(())
    });
}

/// Whether it is asked to stop, or whoever started it hangs up.
#[test]
fn a_trial_that_is_interrupted_proves_nothing_and_says_so() {
    let _turn = turn();
    for (how, mode) in [
        (Signal::TERM, "run"),
        (Signal::HUP, "land"),
        (Signal::HUP, "work"),
        (Signal::INT, "gates"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let trial = start(&directory, mode, &[]);
        eventually("something that happens", || {
            (children(trial.id()).len() > 1).then_some(())
        });
        // As a terminal does it, everything it started in its group included.
        let group = Pid::from_child(&trial);
        kill_process_group(group, how).unwrap();
        let output = trial.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{mode}: {said}\n{errors}");
        assert!(!said.contains("no violation"), "{mode}: {said}");
        assert!(errors.contains("nothing was proven"), "{mode}: {errors}");
        let left = fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(left, 0, "{mode} left something behind");
    }
}

/// One after the other: each is a crowd by itself.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_worker(process: &u32) -> bool {
    words(*process).contains(&"--concurrency".to_owned())
}

/// The words with which a trial is started.
fn trial(mode: &str, arguments: &[&str]) -> Vec<String> {
    let prove = env!("CARGO_BIN_EXE_planwright-prove");
    let program = Path::new(prove).with_file_name("planwright");
    let program = program.to_str().unwrap();
    let words = [&[prove, mode, "--program", program], arguments].concat();
    words.into_iter().map(str::to_owned).collect()
}

/// A trial that would take a minute.
fn start(directory: &tempfile::TempDir, mode: &str, arguments: &[&str]) -> Child {
    // Whoever runs the tests under `nohup` has hang-ups ignored, and so would what they start.
    command("env")
        .arg("--default-signal=HUP")
        .args(trial(mode, arguments))
        .current_dir(directory.path())
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test starts the program it is about"
)]
fn command(program: &str) -> Command {
    Command::new(program)
}

#[track_caller]
fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "{what} never came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Processes that may be gone already are not there: nothing is wrong with that.
fn signal(process: u32, signal: Signal) {
    let process = Pid::from_raw(i32::try_from(process).unwrap()).unwrap();
    let _gone = kill_process(process, signal);
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn children(parent: u32) -> Vec<u32> {
    let is_child = |process: &u32| {
        let stat = stat(*process);
        stat.is_some_and(|stat| stat.get(1) == Some(&parent.to_string()))
    };
    processes().filter(is_child).collect()
}

fn state(process: u32) -> Option<char> {
    stat(process)?.first()?.chars().next()
}

/// What the system tells of a process, after its name: state, parent and more.
fn stat(process: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    Some(rest.split(' ').map(str::to_owned).collect())
}

fn words(process: u32) -> Vec<String> {
    let words = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&words);
    words
        .trim_end_matches('\0')
        .split('\0')
        .map(str::to_owned)
        .collect()
}
