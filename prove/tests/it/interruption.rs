//! A trial that is interrupted or killed prints why, and leaves no process behind.

#![cfg(target_os = "linux")]
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

#[test]
fn a_trial_survives_its_parent_while_a_worker_is_stopped() {
    let _lock = lock_trials();
    let directory = tempfile::tempdir().unwrap();
    let mut shell = new_command("sh");
    shell
        .args(["-c", "\"$@\" >output 2>&1 & echo $!; read -r end", "sh"])
        .args(trial_command(
            "work",
            &["--minutes", "0.1", "--processes", "2"],
        ))
        .current_dir(directory.path())
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut shell = shell.spawn().unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(shell.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    let trial: u32 = line.trim().parse().unwrap();

    let worker = wait_for("a stopped worker", || {
        let worker = children_of(trial).into_iter().find(is_worker)?;
        send_signal(worker, Signal::STOP);
        std::thread::sleep(Duration::from_millis(5));
        if process_state(worker) == Some('T') {
            return Some(worker);
        }
        send_signal(worker, Signal::CONT);
        None
    });
    drop(shell.stdin.take());
    shell.wait().unwrap();
    // The trial may have killed it meanwhile.
    send_signal(worker, Signal::CONT);

    let output_file = directory.path().join("output");
    wait_for("a verdict", || {
        let output = fs::read_to_string(&output_file).unwrap();
        assert!(!output.contains("interrupted"), "{output}");
        let verdicts = ["no violations", "files kept in"];
        let is_over = verdicts.iter().any(|verdict| output.contains(verdict));
        is_over.then_some(())
    });
}

#[test]
fn a_killed_trial_leaves_no_worker() {
    let _lock = lock_trials();
    let directory = tempfile::tempdir().unwrap();
    let mut trial = start_trial(&directory, "work", &[]);
    let worker = wait_for("a worker", || {
        children_of(trial.id()).into_iter().find(is_worker)
    });
    trial.kill().unwrap();
    trial.wait().unwrap();
    wait_for("the end of the worker", || {
        // An ended process stays a zombie until its parent waits for it.
        matches!(process_state(worker), None | Some('Z')).then_some(())
    });
}

#[test]
fn a_killed_trial_leaves_no_server_and_no_client() {
    let _lock = lock_trials();
    let directory = tempfile::tempdir().unwrap();
    let mut trial = start_trial(&directory, "run", &["--store", "postgres"]);
    let cluster = wait_for("a server", || {
        let mut guards = children_of(trial.id()).into_iter().map(command_line);
        let guard = guards.find(|arguments| arguments.contains(&"guard".to_owned()))?;
        let cluster = PathBuf::from(guard.last()?);
        cluster
            .join("data/postmaster.pid")
            .exists()
            .then_some(cluster)
    });
    let clients = || -> Vec<u32> {
        let path = directory.path().to_str().unwrap();
        let is_client = |process: &u32| {
            command_line(*process)
                .iter()
                .any(|argument| argument.contains(path))
        };
        all_processes().filter(is_client).collect()
    };
    wait_for("some clients", || (clients().len() > 2).then_some(()));
    trial.kill().unwrap();
    trial.wait().unwrap();
    wait_for("the end of the server and the clients", || {
        (!cluster.exists() && clients().is_empty()).then_some(())
    });
}

/// By a request to stop or by a hang-up.
#[test]
fn an_interrupted_trial_reports_that_nothing_was_proven() {
    let _lock = lock_trials();
    for (signal, mode) in [
        (Signal::TERM, "run"),
        (Signal::HUP, "land"),
        (Signal::HUP, "work"),
        (Signal::INT, "gates"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let trial = start_trial(&directory, mode, &[]);
        wait_for("a running trial", || {
            (children_of(trial.id()).len() > 1).then_some(())
        });
        // Like a terminal: to the whole process group of the trial.
        let group = Pid::from_child(&trial);
        kill_process_group(group, signal).unwrap();
        let output = trial.wait_with_output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{mode}: {stdout}\n{stderr}");
        assert!(!stdout.contains("no violations"), "{mode}: {stdout}");
        assert!(stderr.contains("nothing was proven"), "{mode}: {stderr}");
        let remaining = fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(remaining, 0, "{mode} left files behind");
    }
}

/// Trials run one after the other, because each starts many processes.
fn lock_trials() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_worker(process: &u32) -> bool {
    command_line(*process).contains(&"--concurrency".to_owned())
}

/// The command line of a trial.
fn trial_command(mode: &str, arguments: &[&str]) -> Vec<String> {
    let prove = env!("CARGO_BIN_EXE_planwright-prove");
    let program = Path::new(prove).with_file_name("planwright");
    let program = program.to_str().unwrap();
    let command = [&[prove, mode, "--program", program], arguments].concat();
    command.into_iter().map(str::to_owned).collect()
}

/// Starts a trial that would take a minute.
fn start_trial(directory: &tempfile::TempDir, mode: &str, arguments: &[&str]) -> Child {
    // Under `nohup`, the tests and what they start would ignore hang-ups.
    new_command("env")
        .arg("--default-signal=HUP")
        .args(trial_command(mode, arguments))
        .current_dir(directory.path())
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test starts the program that it tests"
)]
fn new_command(program: &str) -> Command {
    Command::new(program)
}

#[track_caller]
fn wait_for<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    // On a busy machine, a short trial repeats itself until enough has happened.
    let deadline = Instant::now() + Duration::from_secs(600);
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(Instant::now() < deadline, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends a signal, to a process that may have ended already.
fn send_signal(process: u32, signal: Signal) {
    let process = Pid::from_raw(i32::try_from(process).unwrap()).unwrap();
    let _already_gone = kill_process(process, signal);
}

fn all_processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn children_of(parent: u32) -> Vec<u32> {
    let is_child = |process: &u32| {
        let stat = read_stat(*process);
        stat.is_some_and(|stat| stat.get(1) == Some(&parent.to_string()))
    };
    all_processes().filter(is_child).collect()
}

fn process_state(process: u32) -> Option<char> {
    read_stat(process)?.first()?.chars().next()
}

/// The fields of `/proc/PID/stat` after the process name: state, parent and more.
fn read_stat(process: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    Some(rest.split(' ').map(str::to_owned).collect())
}

fn command_line(process: u32) -> Vec<String> {
    let command_line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let command_line = String::from_utf8_lossy(&command_line);
    command_line
        .trim_end_matches('\0')
        .split('\0')
        .map(str::to_owned)
        .collect()
}
