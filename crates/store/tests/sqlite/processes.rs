//! Many processes at once: no error, no loss, nobody held up by the dead.

use std::sync::Arc;
use std::time::Duration;

use planwright_store::StoreWriter;

use crate::child::Process;
use crate::support::{Place, about, create, plan_id, sound, toggle, toggles, version};

/// Starts so many processes that make a plan and commit 20 times each, and waits for all of them.
fn write_with(processes: u64) {
    let place = Place::new();
    let running: Vec<Process> = (0..processes)
        .map(|number| Process::start("write", &place.path, number))
        .collect();
    for process in running {
        process.finish();
    }
    assert_eq!(sound(&place.store()), (processes, processes * 20));
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
fn a_killed_holder_of_the_turn_holds_nobody_up() {
    let place = Place::new();
    create(&place.store(), plan_id(0)).unwrap();
    let mut holder = Process::start("hold-the-turn", &place.path, 0);
    holder.expect("holding");
    let mut waiting = Process::start("commit-once", &place.path, 1);
    waiting.expect("starting");
    let store = Arc::new(place.store());
    let committing = std::thread::spawn({
        let store = Arc::clone(&store);
        move || toggle(&store, plan_id(0))
    });
    // Reading does not wait for anybody.
    assert_eq!(version(&store, plan_id(0)), 1);
    std::thread::sleep(Duration::from_millis(200));
    assert!(!committing.is_finished(), "it is not our turn");
    // One that waits dies too, and then the holder.
    waiting.kill();
    holder.kill();
    committing.join().unwrap().unwrap();
    assert_eq!(sound(&store), (1, 2));
}

/// The database is free; it is not our turn all the same.
#[test]
fn nobody_writes_out_of_turn() {
    let place = Place::new();
    let store = Arc::new(place.store());
    create(&store, plan_id(0)).unwrap();
    let turn = std::fs::File::open(place.directory.path().join("planwright.db-turn")).unwrap();
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
    let place = Place::new();
    let threads: Vec<_> = (0..6)
        .map(|number| {
            let store = place.store();
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
    assert_eq!(sound(&place.store()), (6, 6 * 31));
}

#[test]
fn removed_lock_files_are_made_again() {
    let place = Place::new();
    let store = place.store();
    create(&store, plan_id(0)).unwrap();
    for suffix in ["-turn", "-next"] {
        let name = format!("planwright.db{suffix}");
        std::fs::remove_file(place.directory.path().join(name)).unwrap();
    }
    toggle(&store, plan_id(0)).unwrap();
    let files = place.files();
    assert!(
        files.contains(&"planwright.db-turn".to_owned()),
        "{files:?}"
    );
    // Both the store that was open and a new one wait at the same place.
    toggle(&place.store(), plan_id(0)).unwrap();
    toggle(&store, plan_id(0)).unwrap();
    assert_eq!(sound(&store), (1, 4));
}

#[test]
fn a_commit_of_another_process_is_read_at_once() {
    use std::io::Write;

    let place = Place::new();
    let store = place.store();
    let mut command = crate::child::command("commit-slowly", &place.path, 5);
    let (read_end, mut write_end) = std::io::pipe().unwrap();
    command.stdin(read_end);
    let mut process = Process::run(&mut command);
    process.expect("1");
    for expected in 2..60 {
        assert_eq!(version(&store, plan_id(5)), expected - 1);
        writeln!(write_end).unwrap();
        process.expect(&expected.to_string());
        assert_eq!(version(&store, plan_id(5)), expected);
        // A decision of ours is made on what it wrote, too.
        let id = plan_id(5);
        let mut inner = toggles();
        let looking = about(
            id,
            Box::new(move |facts, now| {
                assert_eq!(facts.plan.as_ref().unwrap().version.0, expected);
                inner(facts, now).and(Err(plan::Refusal::NoSuchPlan(id)))
            }),
        );
        store.commit(looking).unwrap_err();
    }
}
