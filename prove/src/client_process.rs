//! One client or log reader in its own process. It runs until its standard input ends, so it cannot outlive the harness.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::bail;
use lifecycle::Lifecycle;
use store::{Cursor, PostgresOptions, PostgresStore, SqliteOptions, SqliteStore, Store};

use crate::call_generator::CallGenerator;
use crate::history::{HistoryLine, HistoryWriter, monotonic_now, read_history_file};
use crate::library_client;
use crate::operation::CallAnswer;
use crate::program_client::ProgramClient;

/// The arguments of a client process.
#[derive(Debug, Clone, clap::Args)]
pub struct ClientArgs {
    /// The number of the client
    #[arg(long)]
    pub number: u32,
    /// How often the client was killed and restarted before
    #[arg(long = "life")]
    pub incarnation: u32,
    /// The seed of its random choices
    #[arg(long)]
    pub seed: u64,
    /// The store's address
    #[arg(long)]
    pub store: String,
    /// The directory of the trial
    #[arg(long)]
    pub directory: PathBuf,
    /// Make calls through this program instead of the library
    #[arg(long)]
    pub program: Option<PathBuf>,
    /// The longest pause between two calls, in milliseconds
    #[arg(long)]
    pub pace_ms: u64,
    /// Read the log of all plans instead of making calls
    #[arg(long)]
    pub reads: bool,
    /// Plant this bug
    #[cfg(feature = "broken")]
    #[arg(long)]
    pub bug: Option<crate::store_bugs::StoreBug>,
}

/// The pause after a failure of the store, so that it can recover.
const RETRY_DELAY: Duration = Duration::from_millis(20);

/// How long a reader waits for a commit before it checks whether it should stop.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How often a reader looks for missing events after it was asked to stop.
const MAX_CATCH_UP_POLLS: u32 = 100;

/// Runs the client or the log reader.
pub fn run(arguments: &ClientArgs) -> anyhow::Result<()> {
    let stop = watch_stdin();
    let store = open_client_store(arguments)?;
    if arguments.reads {
        read_log(arguments, store.as_ref(), &stop)
    } else {
        make_calls(arguments, &Lifecycle::on(store), &stop)
    }
}

fn open_client_store(arguments: &ClientArgs) -> anyhow::Result<Arc<dyn Store>> {
    let store = open_store(&arguments.store)?;
    #[cfg(feature = "broken")]
    if let Some(bug) = arguments.bug {
        let hooks = crate::store_bugs::StoreBugHooks::new(bug);
        return Ok(Arc::new(crate::hooked_store::HookedStore::new(
            store, hooks,
        )));
    }
    Ok(store)
}

/// Opens the store at an address as `--store` takes it.
pub fn open_store(address: &str) -> anyhow::Result<Arc<dyn Store>> {
    Ok(match address.strip_prefix("sqlite:") {
        Some(path) => Arc::new(SqliteStore::new(path, SqliteOptions::default())),
        None => Arc::new(PostgresStore::new(address, PostgresOptions::default())?),
    })
}

fn make_calls(
    arguments: &ClientArgs,
    lifecycle: &Lifecycle,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let mut writer = HistoryWriter::new(&history_file(arguments, "client", arguments.incarnation))?;
    let program = arguments.program.as_ref().map(|path| ProgramClient {
        path: path.clone(),
        store: arguments.store.clone(),
        home: arguments.directory.join("home"),
    });
    let mut generator = CallGenerator::new(
        arguments.number,
        arguments.incarnation,
        arguments.seed,
        program.is_some(),
    );
    while !stop.load(Ordering::Relaxed) {
        let call = generator.next_call();
        writer.append_line(&HistoryLine::Called {
            at: monotonic_now(),
            call: call.clone(),
        })?;
        let answer = match &program {
            Some(program) => program.perform_call(&call)?,
            None => library_client::perform_call(lifecycle, &call),
        };
        writer.append_line(&HistoryLine::Answered {
            at: monotonic_now(),
            call_id: call.id,
            answer: answer.clone(),
        })?;
        generator.record_answer(&call, &answer);
        if matches!(answer, CallAnswer::Failed(_) | CallAnswer::Unknown(_)) {
            thread::sleep(RETRY_DELAY);
        }
        thread::sleep(Duration::from_millis(fastrand::u64(..=arguments.pace_ms)));
    }
    Ok(())
}

/// Follows the log, starting at the last cursor that an earlier incarnation recorded.
fn read_log(arguments: &ClientArgs, store: &dyn Store, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut cursor = Cursor::START;
    for incarnation in 0..arguments.incarnation {
        let file = history_file(arguments, "reader", incarnation);
        if let Some(HistoryLine::Read { next, .. }) = read_history_file(&file)?.pop() {
            cursor = next.parse().map_err(anyhow::Error::msg)?;
        }
    }
    let mut writer = HistoryWriter::new(&history_file(arguments, "reader", arguments.incarnation))?;
    let mut catch_up_polls = 0;
    while catch_up_polls < MAX_CATCH_UP_POLLS {
        let page = match store.read_events(&cursor, 50) {
            Ok(page) => page,
            Err(_) => {
                // Once the trial is over, an unavailable store does not come back.
                catch_up_polls += u32::from(stop.load(Ordering::Relaxed));
                thread::sleep(RETRY_DELAY);
                continue;
            }
        };
        let events: Vec<_> = page
            .events
            .iter()
            .map(|stored| (stored.recorded.plan, stored.recorded.version.0))
            .collect();
        let advanced = page.next != cursor;
        cursor = page.next;
        if advanced {
            writer.append_line(&HistoryLine::Read {
                reader: arguments.number,
                events,
                next: cursor.to_string(),
            })?;
            catch_up_polls = 0;
            continue;
        }
        if stop.load(Ordering::Relaxed) {
            if store
                .read_latest_cursor()
                .is_ok_and(|latest| latest == cursor)
            {
                return Ok(());
            }
            catch_up_polls += 1;
        }
        // Waiting is only a hint: on an error the next read decides.
        let _ = store.wait_for_commit(POLL_INTERVAL);
    }
    bail!("could not read the log to its end")
}

fn history_file(arguments: &ClientArgs, role: &str, incarnation: u32) -> PathBuf {
    let name = format!("{role}-{:03}-{incarnation:06}", arguments.number);
    history_directory(&arguments.directory).join(name)
}

/// The directory of the history files of a trial.
pub fn history_directory(directory: &Path) -> PathBuf {
    directory.join("history")
}

/// Returns a flag that becomes true when standard input ends.
fn watch_stdin() -> Arc<AtomicBool> {
    let ended = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&ended);
    thread::spawn(move || {
        let mut buffer = [0; 64];
        while matches!(io::stdin().read(&mut buffer), Ok(1..)) {}
        flag.store(true, Ordering::Relaxed);
    });
    ended
}
