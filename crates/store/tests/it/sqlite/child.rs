//! Child processes: this test binary started again, with its role in an environment variable.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use planwright_store::fault::{FaultPoint, StoreFault, StoreFaults};
use planwright_store::sqlite::{SqliteOptions, SqliteStore};
use planwright_store::{Clock, StoreMaintenance, StoreReader, StoreWriter};

use crate::sqlite::support::{create, creates, key, plan_id, submission_for, toggle};

const ROLE: &str = "PLANWRIGHT_TEST_ROLE";
const STORE: &str = "PLANWRIGHT_TEST_STORE";
const NUMBER: &str = "PLANWRIGHT_TEST_NUMBER";

/// A running child. Killed when dropped.
pub struct ChildProcess {
    child: Child,
    output: BufReader<ChildStdout>,
}

/// Returns the command that runs this binary as a child with this role.
pub fn command(role: &str, store: &Path, number: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    set_role(&mut command, role, store, number);
    command.args(ARGUMENTS);
    command
}

/// Arguments that make the test binary run only the child.
pub const ARGUMENTS: [&str; 3] = ["sqlite::child::child_process", "--exact", "--nocapture"];

pub fn set_role(command: &mut Command, role: &str, store: &Path, number: u64) {
    command
        .env(ROLE, role)
        .env(STORE, store)
        .env(NUMBER, number.to_string());
}

impl ChildProcess {
    pub fn start(role: &str, store: &Path, number: u64) -> Self {
        Self::run(&mut command(role, store, number))
    }

    pub fn run(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    /// Returns the next line of output; `None` once the child has ended.
    pub fn read_line(&mut self) -> Option<String> {
        let mut line = String::new();
        while self.output.read_line(&mut line).unwrap() > 0 {
            if let Some((_, output)) = line.trim_end().split_once("> ") {
                return Some(output.to_owned());
            }
            line.clear();
        }
        None
    }

    pub fn expect(&mut self, what: &str) {
        assert_eq!(self.read_line().as_deref(), Some(what));
    }

    /// Waits for the child and checks that it succeeded.
    pub fn finish(mut self) {
        while self.read_line().is_some() {}
        assert!(self.child.wait().unwrap().success(), "a child failed");
    }

    /// Waits for the child, whatever its status.
    pub fn wait(&mut self) {
        self.child.wait().unwrap();
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Prints to the parent, on a separate line that the test runner does not write to.
fn report(what: &str) {
    println!("\n> {what}");
    std::io::stdout().flush().unwrap();
}

/// Not a test: runs a child's role. Does nothing unless a test started it.
#[test]
fn child_process() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let store = std::env::var(STORE).unwrap();
    let store = Path::new(&store);
    let number: u64 = std::env::var(NUMBER).unwrap().parse().unwrap();
    match role.as_str() {
        "write" => write(store, number),
        "write-until-killed" => write_until_killed(store, number),
        "hold-the-turn" => hold_the_turn(store),
        "commit-once" => commit_once(store, number),
        "commit-slowly" => commit_slowly(store, number),
        "look" => report_errors(store),
        "fill" => write_until_refused(store),
        point => die_in_a_batch(store, point),
    }
}

/// Creates a plan and commits to it 20 times. The store may not exist yet.
fn write(path: &Path, number: u64) {
    let store = SqliteStore::new(path, SqliteOptions::default());
    create(&store, plan_id(number)).unwrap();
    for _ in 1..20 {
        toggle(&store, plan_id(number)).unwrap();
    }
}

/// Prints the version of its plan after every commit.
fn write_until_killed(path: &Path, number: u64) {
    let store = SqliteStore::new(path, SqliteOptions::default());
    if store.read_plan(plan_id(number)).unwrap().is_none() {
        create(&store, plan_id(number)).unwrap();
    }
    loop {
        let committed = toggle(&store, plan_id(number)).unwrap();
        report(&committed.receipt.version.unwrap().to_string());
    }
}

/// Takes the write turn and keeps it.
fn hold_the_turn(path: &Path) {
    let faults = StoreFaults::new(|point| {
        if point == FaultPoint::BeforeCommit {
            report("holding");
            std::thread::sleep(Duration::from_secs(600));
        }
        StoreFault::None
    });
    let options = SqliteOptions {
        clock: Clock::default(),
        faults,
    };
    let store = SqliteStore::new(path, options);
    create(&store, plan_id(999)).unwrap();
}

fn commit_once(path: &Path, number: u64) {
    let store = SqliteStore::new(path, SqliteOptions::default());
    report("starting");
    create(&store, plan_id(number)).unwrap();
    report("committed");
}

/// Commits once for every line of input.
fn commit_slowly(path: &Path, number: u64) {
    let store = SqliteStore::new(path, SqliteOptions::default());
    create(&store, plan_id(number)).unwrap();
    report("1");
    for line in std::io::stdin().lines() {
        line.unwrap();
        let committed = toggle(&store, plan_id(number)).unwrap();
        report(&committed.receipt.version.unwrap().to_string());
    }
}

/// Prints the errors of reading and writing.
fn report_errors(path: &Path) {
    let store = SqliteStore::new(path, SqliteOptions::default());
    report(
        &store
            .read_info()
            .err()
            .map_or("-".into(), |error| error.to_string()),
    );
    report(
        &create(&store, plan_id(1))
            .err()
            .map_or("-".into(), |error| error.to_string()),
    );
}

/// Writes until a file cannot grow any more. Prints how far it got and the error.
fn write_until_refused(path: &Path) {
    let store = SqliteStore::new(path, SqliteOptions::default());
    let goal = "x".repeat(20_000);
    for number in 0.. {
        let submission = submission_for(plan_id(number), creates(plan_id(number), &goal));
        if let Err(error) = store.commit(submission) {
            report(&number.to_string());
            report(&format!("{error:?}"));
            return;
        }
    }
}

/// Commits one plan. Then eight threads submit at once, and the process is killed at this point of
/// a batch with at least two of them. Prints how many of the eight were committed before that
/// batch, and how many including it.
fn die_in_a_batch(path: &Path, point: &str) {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Weak};

    let deadly = match point {
        "Decided" => FaultPoint::Decided,
        "BeforeCommit" => FaultPoint::BeforeCommit,
        "AfterCommit" => FaultPoint::AfterCommit,
        other => panic!("unknown role {other}"),
    };
    let faults = |store: Weak<SqliteStore>| {
        let (decided, committed) = (AtomicU64::new(0), AtomicU64::new(0));
        StoreFaults::new(move |at| {
            if at == FaultPoint::Decided {
                decided.fetch_add(1, Ordering::SeqCst);
            }
            let so_far = decided.load(Ordering::SeqCst);
            let before = committed.load(Ordering::SeqCst);
            // The first commit passes. The next leader waits until all undecided threads queue
            // behind it.
            if so_far >= 2 && at == FaultPoint::BeforeCommit {
                let store = store.upgrade().unwrap();
                while store.queued_callers() as u64 != 1 + (8 - (so_far - 1)) {
                    std::thread::yield_now();
                }
            }
            if at == deadly && so_far >= before + 2 {
                report(&format!("dying {} {}", before - 1, so_far - 1));
                let this = rustix::process::getpid();
                rustix::process::kill_process(this, rustix::process::Signal::KILL).unwrap();
                std::thread::sleep(Duration::from_secs(60));
            }
            if at == FaultPoint::AfterCommit {
                committed.store(so_far, Ordering::SeqCst);
            }
            StoreFault::None
        })
    };
    let store = Arc::new_cyclic(|store| {
        let options = SqliteOptions {
            clock: Clock::default(),
            faults: faults(Weak::clone(store)),
        };
        SqliteStore::new(path, options)
    });
    create(&store, plan_id(0)).unwrap();
    let threads: Vec<_> = (1..=8)
        .map(|number| {
            let store = Arc::clone(&store);
            std::thread::spawn(move || {
                let mut submission =
                    submission_for(plan_id(number), creates(plan_id(number), "batch"));
                submission.key = Some(key(&number.to_string()));
                store.commit(submission).unwrap();
                report(&number.to_string());
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}
