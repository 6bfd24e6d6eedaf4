//! One player in a process of its own. It plays until its standard input ends, so that it cannot outlive
//! whoever started it.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::bail;
use lifecycle::Lifecycle;
use store::{Cursor, PostgresOptions, PostgresStore, SqliteOptions, SqliteStore, Store};

use crate::binary::Program;
use crate::history::{Line, Pen, lines, now};
use crate::library;
use crate::operation::Answer;
use crate::player::Player;

/// Everything a player is told when it is started.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// Which player.
    #[arg(long)]
    pub number: u32,
    /// How often it was killed before.
    #[arg(long)]
    pub life: u32,
    /// What its choices follow from.
    #[arg(long)]
    pub seed: u64,
    /// The store's address.
    #[arg(long)]
    pub store: String,
    /// Where everything is written down.
    #[arg(long)]
    pub directory: PathBuf,
    /// Plays through this program instead of the library.
    #[arg(long)]
    pub program: Option<PathBuf>,
    /// Thinks so long between two calls, at most.
    #[arg(long)]
    pub pace_ms: u64,
    /// Reads the log of all plans instead of playing.
    #[arg(long)]
    pub reads: bool,
    /// Plays with this bug.
    #[cfg(feature = "broken")]
    #[arg(long)]
    pub bug: Option<crate::broken::Bug>,
}

/// After a failure of the store: time for it to come back.
const AFTER_FAILURE: Duration = Duration::from_millis(20);

/// How long a reader waits for news before it looks whether it shall stop.
const LOOK: Duration = Duration::from_millis(100);

/// How long a reader looks for what it still misses, once it was told to stop.
const CATCHING_UP: u32 = 100;

/// Plays, or reads.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let over = watch_input();
    let store = open(arguments)?;
    if arguments.reads {
        read(arguments, store.as_ref(), &over)
    } else {
        play(arguments, &Lifecycle::on(store), &over)
    }
}

fn open(arguments: &Arguments) -> anyhow::Result<Arc<dyn Store>> {
    let store = open_store(&arguments.store)?;
    #[cfg(feature = "broken")]
    if let Some(bug) = arguments.bug {
        let doors = crate::broken::Broken::new(bug);
        return Ok(Arc::new(crate::wrapped::Wrapped::new(store, doors)));
    }
    Ok(store)
}

/// The store at an address, as the program takes it.
pub fn open_store(address: &str) -> anyhow::Result<Arc<dyn Store>> {
    Ok(match address.strip_prefix("sqlite:") {
        Some(path) => Arc::new(SqliteStore::new(path, SqliteOptions::default())),
        None => Arc::new(PostgresStore::new(address, PostgresOptions::default())?),
    })
}

fn play(arguments: &Arguments, lifecycle: &Lifecycle, over: &AtomicBool) -> anyhow::Result<()> {
    let mut pen = Pen::new(&file(arguments, "player", arguments.life))?;
    let program = arguments.program.as_ref().map(|path| Program {
        path: path.clone(),
        store: arguments.store.clone(),
        home: arguments.directory.join("home"),
    });
    let mut player = Player::new(
        arguments.number,
        arguments.life,
        arguments.seed,
        program.is_some(),
    );
    while !over.load(Ordering::Relaxed) {
        let call = player.next();
        pen.write(&Line::Called {
            at: now(),
            call: call.clone(),
        })?;
        let answer = match &program {
            Some(program) => program.perform(&call)?,
            None => library::perform(lifecycle, &call),
        };
        pen.write(&Line::Answered {
            at: now(),
            id: call.id,
            answer: answer.clone(),
        })?;
        player.learn(&call, &answer);
        if matches!(answer, Answer::Failed(_) | Answer::Unknown(_)) {
            thread::sleep(AFTER_FAILURE);
        }
        thread::sleep(Duration::from_millis(fastrand::u64(..=arguments.pace_ms)));
    }
    Ok(())
}

/// Follows the log from where an earlier life wrote down that it was.
fn read(arguments: &Arguments, store: &dyn Store, over: &AtomicBool) -> anyhow::Result<()> {
    let mut cursor = Cursor::START;
    for life in 0..arguments.life {
        if let Some(Line::Read { next, .. }) = lines(&file(arguments, "reader", life))?.pop() {
            cursor = next.parse().map_err(anyhow::Error::msg)?;
        }
    }
    let mut pen = Pen::new(&file(arguments, "reader", arguments.life))?;
    let mut quiet = 0;
    while quiet < CATCHING_UP {
        let page = match store.read_events(&cursor, 50) {
            Ok(page) => page,
            Err(_) => {
                // A store that is gone when all is over does not come back.
                quiet += u32::from(over.load(Ordering::Relaxed));
                thread::sleep(AFTER_FAILURE);
                continue;
            }
        };
        let events: Vec<_> = page
            .events
            .iter()
            .map(|stored| (stored.recorded.plan, stored.recorded.version.0))
            .collect();
        let news = page.next != cursor;
        cursor = page.next;
        if news {
            pen.write(&Line::Read {
                reader: arguments.number,
                events,
                next: cursor.to_string(),
            })?;
            quiet = 0;
            continue;
        }
        if over.load(Ordering::Relaxed) {
            if store
                .read_latest_cursor()
                .is_ok_and(|latest| latest == cursor)
            {
                return Ok(());
            }
            quiet += 1;
        }
        // A hint that fails is no hint; the next look decides.
        let _ = store.wait_for_commit(LOOK);
    }
    bail!("the log could not be read to its end")
}

fn file(arguments: &Arguments, role: &str, life: u32) -> PathBuf {
    let name = format!("{role}-{:03}-{life:06}", arguments.number);
    history_directory(&arguments.directory).join(name)
}

/// Where the players write.
pub fn history_directory(directory: &Path) -> PathBuf {
    directory.join("history")
}

/// Becomes true when standard input ends.
fn watch_input() -> Arc<AtomicBool> {
    let over = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&over);
    thread::spawn(move || {
        let mut nothing = [0; 64];
        while matches!(io::stdin().read(&mut nothing), Ok(1..)) {}
        told.store(true, Ordering::Relaxed);
    });
    over
}
