//! Tests many processes at once: no errors, no lost commits, no blocking by dead processes.

use std::sync::Arc;
use std::time::Duration;

use planwright_store::StoreWriter;

use crate::sqlite::child::ChildProcess;
use crate::sqlite::support::{
    DatabaseDir, create, plan_id, submission_for, toggle, toggles, verify_counts, version,
};

/// Starts processes that create a plan and commit 20 times each, and waits for all of them.
fn write_with(processes: u64) {
    let dir = DatabaseDir::new();
    let running: Vec<ChildProcess> = (0..processes)
        .map(|number| ChildProcess::start("write", &dir.path, number))
        .collect();
    for process in running {
        process.finish();
    }
    assert_eq!(verify_counts(&dir.store()), (processes, processes * 20));
}

#[test]
fn ten_processes_open_a_new_file_at_once() {
    for _ in 0..5 {
        write_with(10);
    }
}

#[test]
fn eight_processes_write_without_an_error() {
    write_with(8);
}

#[test]
fn fifty_processes_write_without_an_error() {
    write_with(50);
}

#[test]
fn a_killed_turn_holder_blocks_nobody() {
    let dir = DatabaseDir::new();
    create(&dir.store(), plan_id(0)).unwrap();
    let mut holder = ChildProcess::start("hold-the-turn", &dir.path, 0);
    holder.expect("holding");
    let mut waiting = ChildProcess::start("commit-once", &dir.path, 1);
    waiting.expect("starting");
    let store = Arc::new(dir.store());
    let committing = std::thread::spawn({
        let store = Arc::clone(&store);
        move || toggle(&store, plan_id(0))
    });
    // Reads do not wait.
    assert_eq!(version(&store, plan_id(0)), 1);
    std::thread::sleep(Duration::from_millis(200));
    assert!(!committing.is_finished(), "it is not our turn");
    // A waiting process dies too, and then the holder.
    waiting.kill();
    holder.kill();
    committing.join().unwrap().unwrap();
    assert_eq!(verify_counts(&store), (1, 2));
}

/// The database is unlocked, but it is another process's turn.
#[test]
fn processes_write_in_their_order() {
    let dir = DatabaseDir::new();
    let store = Arc::new(dir.store());
    create(&store, plan_id(0)).unwrap();
    let turn = std::fs::File::open(dir.directory.path().join("planwright.db-turn")).unwrap();
    turn.lock().unwrap();
    let committing = std::thread::spawn({
        let store = Arc::clone(&store);
        move || toggle(&store, plan_id(0))
    });
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(version(&store, plan_id(0)), 1);
    turn.unlock().unwrap();
    committing.join().unwrap().unwrap();
}

#[test]
fn two_stores_of_one_file_in_one_process_take_turns() {
    let dir = DatabaseDir::new();
    let threads: Vec<_> = (0..6)
        .map(|number| {
            let store = dir.store();
            std::thread::spawn(move || {
                create(&store, plan_id(number)).unwrap();
                for _ in 0..30 {
                    toggle(&store, plan_id(number)).unwrap();
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(verify_counts(&dir.store()), (6, 6 * 31));
}

#[test]
fn removed_lock_files_are_recreated() {
    let dir = DatabaseDir::new();
    let store = dir.store();
    create(&store, plan_id(0)).unwrap();
    for suffix in ["-turn", "-next"] {
        let name = format!("planwright.db{suffix}");
        std::fs::remove_file(dir.directory.path().join(name)).unwrap();
    }
    toggle(&store, plan_id(0)).unwrap();
    let files = dir.files();
    assert!(
        files.contains(&"planwright.db-turn".to_owned()),
        "{files:?}"
    );
    // The open store and a new one queue on the same file.
    toggle(&dir.store(), plan_id(0)).unwrap();
    toggle(&store, plan_id(0)).unwrap();
    assert_eq!(verify_counts(&store), (1, 4));
}

#[test]
fn a_commit_of_another_process_is_read_at_once() {
    use std::io::Write;

    let dir = DatabaseDir::new();
    let store = dir.store();
    let mut command = crate::sqlite::child::command("commit-slowly", &dir.path, 5);
    let (read_end, mut write_end) = std::io::pipe().unwrap();
    command.stdin(read_end);
    let mut process = ChildProcess::run(&mut command);
    process.expect("1");
    for expected in 2..60 {
        assert_eq!(version(&store, plan_id(5)), expected - 1);
        writeln!(write_end).unwrap();
        process.expect(&expected.to_string());
        assert_eq!(version(&store, plan_id(5)), expected);
        // Our decision also sees what it wrote.
        let id = plan_id(5);
        let mut inner = toggles();
        let looking = submission_for(
            id,
            Box::new(move |facts, now| {
                assert_eq!(facts.plan.as_ref().unwrap().version().0, expected);
                inner(facts, now).and(Err(plan::Refusal::NoSuchPlan(id)))
            }),
        );
        store.commit(looking).unwrap_err();
    }
}
