//! Processes of our own: this test binary run again, told by an environment variable what to be.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use planwright_store::fault::{FaultPoint, StoreFault, StoreFaults};
use planwright_store::sqlite::{SqliteOptions, SqliteStore};
use planwright_store::{Clock, StoreMaintenance, StoreReader, StoreWriter};

use crate::support::{about, create, creates, key, plan_id, toggle};

const ROLE: &str = "PLANWRIGHT_TEST_ROLE";
const STORE: &str = "PLANWRIGHT_TEST_STORE";
const NUMBER: &str = "PLANWRIGHT_TEST_NUMBER";

/// A running child. Killed if the test ends before it does.
pub struct Process {
    child: Child,
    said: BufReader<ChildStdout>,
}

/// The command that runs this binary as a child with this role.
pub fn command(role: &str, store: &Path, number: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    set_up(&mut command, role, store, number);
    command.args(ARGUMENTS);
    command
}

/// What makes the test binary run nothing but the child.
pub const ARGUMENTS: [&str; 3] = ["child::child_process", "--exact", "--nocapture"];

pub fn set_up(command: &mut Command, role: &str, store: &Path, number: u64) {
    command
        .env(ROLE, role)
        .env(STORE, store)
        .env(NUMBER, number.to_string());
}

impl Process {
    pub fn start(role: &str, store: &Path, number: u64) -> Self {
        Self::run(&mut command(role, store, number))
    }

    pub fn run(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Self { child, said }
    }

    /// The next thing it says; `None` once it has ended.
    pub fn hear(&mut self) -> Option<String> {
        let mut line = String::new();
        while self.said.read_line(&mut line).unwrap() > 0 {
            if let Some((_, said)) = line.trim_end().split_once("> ") {
                return Some(said.to_owned());
            }
            line.clear();
        }
        None
    }

    pub fn expect(&mut self, what: &str) {
        assert_eq!(self.hear().as_deref(), Some(what));
    }

    /// Waits until it ended well.
    pub fn finish(mut self) {
        while self.hear().is_some() {}
        assert!(self.child.wait().unwrap().success(), "a child failed");
    }

    /// Waits until it ended, however.
    pub fn wait(&mut self) {
        self.child.wait().unwrap();
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Told to the parent, on a line of its own that the test runner does not write into.
fn say(what: &str) {
    println!("\n> {what}");
    std::io::stdout().flush().unwrap();
}

/// Not a test of its own: what a child does. Nothing unless a test started it.
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
        "look" => look(store),
        "fill" => fill(store),
        point => die_in_a_batch(store, point),
    }
}

/// Makes a plan and commits to it 20 times; the store may not exist yet.
fn write(path: &Path, number: u64) {
    let store = SqliteStore::new(path, SqliteOptions::default());
    create(&store, plan_id(number)).unwrap();
    for _ in 1..20 {
        toggle(&store, plan_id(number)).unwrap();
    }
}

/// Says the version of its plan after every commit.
fn write_until_killed(path: &Path, number: u64) {
    let store = SqliteStore::new(path, SqliteOptions::default());
    if store.read_plan(plan_id(number)).unwrap().is_none() {
        create(&store, plan_id(number)).unwrap();
    }
    loop {
        let committed = toggle(&store, plan_id(number)).unwrap();
        say(&committed.receipt.version.unwrap().to_string());
    }
}

/// Takes the turn, and stays in it.
fn hold_the_turn(path: &Path) {
    let faults = StoreFaults::new(|point| {
        if point == FaultPoint::BeforeCommit {
            say("holding");
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
    say("starting");
    create(&store, plan_id(number)).unwrap();
    say("committed");
}

/// One commit for every line it is sent.
fn commit_slowly(path: &Path, number: u64) {
    let store = SqliteStore::new(path, SqliteOptions::default());
    create(&store, plan_id(number)).unwrap();
    say("1");
    for line in std::io::stdin().lines() {
        line.unwrap();
        let committed = toggle(&store, plan_id(number)).unwrap();
        say(&committed.receipt.version.unwrap().to_string());
    }
}

/// Says what is wrong with reading and with writing.
fn look(path: &Path) {
    let store = SqliteStore::new(path, SqliteOptions::default());
    say(&store
        .read_info()
        .err()
        .map_or("-".into(), |error| error.to_string()));
    say(&create(&store, plan_id(1))
        .err()
        .map_or("-".into(), |error| error.to_string()));
}

/// Writes until the system refuses to let a file grow. Says how far it came and what it was told.
fn fill(path: &Path) {
    let store = SqliteStore::new(path, SqliteOptions::default());
    let goal = "x".repeat(20_000);
    for number in 0.. {
        let submission = about(plan_id(number), creates(plan_id(number), &goal));
        if let Err(error) = store.commit(submission) {
            say(&number.to_string());
            say(&format!("{error:?}"));
            return;
        }
    }
}

/// Commits one plan; then eight threads submit at once, and the process is killed at this point of a
/// batch that carries at least two of them. Says how many of the eight were committed before that
/// batch, and how many with it.
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
            // The first commit goes through. Whoever leads next dawdles until all of the eight that
            // are not decided yet wait behind it.
            if so_far >= 2 && at == FaultPoint::BeforeCommit {
                let store = store.upgrade().unwrap();
                while store.queued_callers() as u64 != 1 + (8 - (so_far - 1)) {
                    std::thread::yield_now();
                }
            }
            if at == deadly && so_far >= before + 2 {
                say(&format!("dying {} {}", before - 1, so_far - 1));
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
                let mut submission = about(plan_id(number), creates(plan_id(number), "batch"));
                submission.key = Some(key(&number.to_string()));
                store.commit(submission).unwrap();
                say(&number.to_string());
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}
