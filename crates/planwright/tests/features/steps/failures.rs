//! Disks that are full, and connections that are lost.

use std::thread;
use std::time::{Duration, Instant};

use cucumber::{given, then, when};
use testkit::proxy::{CutAftermath, CutMoment};

use crate::scenario_store::ScenarioStore;
use crate::steps::threads::join_thread;
use crate::steps::tries::command_run;
use crate::world::{TryOutcome, World};

/// What only a commit sends to the server: the beginning of an event.
const EVENT_BYTES: &[u8] = b"\"format\":1";
/// A frame of SQLite's log: a page and what is said about it.
const WAL_FRAME_BYTES: u64 = 4096 + 24;

/// Locks every plan until there is something in the table `let_go`.
const LOCK_PLANS_SQL: &str = "BEGIN; SELECT 1 FROM planwright.plans FOR UPDATE; \
    DO $$ BEGIN FOR i IN 1..1000 LOOP \
        EXIT WHEN EXISTS (SELECT FROM let_go); PERFORM pg_sleep(0.02); \
    END LOOP; END $$; COMMIT";

/// How long another process may take to get where a step waits for it.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

#[when(regex = r"^a process tries ([a-z-]+) with no room left on the disk$")]
fn no_room(world: &mut World, command: String) {
    try_with_room(world, &command, 0);
}

#[when(regex = r"^a process tries ([a-z-]+) with room for a part of it$")]
fn room_for_a_part(world: &mut World, command: String) {
    try_with_room(world, &command, WAL_FRAME_BYTES + WAL_FRAME_BYTES / 2);
}

fn try_with_room(world: &mut World, command: &str, room: u64) {
    let ScenarioStore::Sqlite(file) = world.store() else {
        panic!("only a file can lack room here");
    };
    let mut log = file.path().into_os_string();
    log.push("-wal");
    let length = std::fs::metadata(log).unwrap().len();
    let process = command_run(world, command).with_file_size_limit(length + room);
    world.outcome = Some(TryOutcome::Process(process.finish()));
}

#[given("a wire to the server that can be cut")]
fn a_wire(world: &mut World) {
    world.insert_proxy();
}

#[when(regex = r"^a process tries ([a-z-]+) and the wire is cut before its commit arrives$")]
fn cut_before(world: &mut World, command: String) {
    try_with_cut(
        world,
        &command,
        CutMoment::BeforeRequest,
        CutAftermath::Restored,
    );
}

#[when(
    regex = r"^a process tries ([a-z-]+) and the wire is cut before the answer to its commit is back$"
)]
fn cut_after(world: &mut World, command: String) {
    try_with_cut(
        world,
        &command,
        after_commit_answer(),
        CutAftermath::Restored,
    );
}

#[when(
    regex = r"^a process tries ([a-z-]+) under a key and the server is lost before the answer to its commit is back$"
)]
fn lost_after(world: &mut World, command: String) {
    world.key = Some("once".to_owned());
    try_with_cut(
        world,
        &command,
        after_commit_answer(),
        CutAftermath::Unreachable,
    );
}

/// The answer to COMMIT as it comes over the wire: its length, then its text.
fn after_commit_answer() -> CutMoment {
    CutMoment::AfterAnswer(b"\0\0\0\x0bCOMMIT\0")
}

fn try_with_cut(world: &mut World, command: &str, moment: CutMoment, afterwards: CutAftermath) {
    let wire = world.store().proxy();
    let cuts = wire.cut_count();
    wire.cut_on_bytes(EVENT_BYTES, moment, afterwards);
    let said = command_run(world, command).finish();
    assert_eq!(
        world.store().proxy().cut_count(),
        cuts + 1,
        "the wire was cut"
    );
    world.outcome = Some(TryOutcome::Process(said));
}

#[when("the server is back")]
fn the_server_is_back(world: &mut World) {
    world.store().proxy().restore();
}

#[then("it is told to repeat it with the same key")]
fn it_is_told_to_repeat_it(world: &mut World) {
    let told = world.last_output().messages();
    assert!(told.contains("same --idempotency-key"), "{told}");
}

#[when(
    regex = r"^a process tries ([a-z-]+), waits for the plan, and the server ends its connection$"
)]
fn the_server_ends_the_connection(world: &mut World, command: String) {
    let ScenarioStore::Postgres { database, .. } = world.store() else {
        panic!("only a server ends connections");
    };
    let said = thread::scope(|scope| {
        // Somebody holds every plan until they are told to let go.
        database.run_sql("CREATE TABLE let_go (now boolean)");
        let holder = scope.spawn(|| database.run_sql(LOCK_PLANS_SQL));
        let waits_for_a_lock = "SELECT pid FROM pg_stat_activity \
             WHERE datname = current_database() AND wait_event_type = 'Lock'";
        // It sleeps only once it has the locks.
        let has_the_locks = "SELECT pid FROM pg_stat_activity \
             WHERE datname = current_database() AND wait_event = 'PgSleep'";
        let wait_for = |question: &str| {
            let started = Instant::now();
            loop {
                if let Some(pid) = database.run_sql(question).pop() {
                    break pid;
                }
                assert!(started.elapsed() < STEP_TIMEOUT, "no row: {question}");
                thread::sleep(Duration::from_millis(20));
            }
        };
        wait_for(has_the_locks);
        let running = command_run(world, &command).start();
        let pid = wait_for(waits_for_a_lock);
        database.run_sql(&format!("SELECT pg_terminate_backend({pid})"));
        database.run_sql("INSERT INTO let_go VALUES (true)");
        join_thread(holder);
        running.finish()
    });
    world.outcome = Some(TryOutcome::Process(said));
}
