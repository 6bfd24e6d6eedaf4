//! G8 before apply: an agent may do what it likes in its sandbox; the person's repository gains refs
//! of ours and nothing else.

use plan::Epoch;
use plan::changeset::Operation;
use planwright_sandbox::{Faults, Room, SandboxError, Start, Step};

use crate::yard::{Yard, git, plan, write};

#[test]
fn whatever_an_agent_does_with_git_the_persons_repository_stays_as_it_was() {
    let yard = Yard::new();
    let before = yard.photograph_of_theirs();
    let sandbox = yard.enter(plan(1), 1);
    let agents = |arguments: &[&str]| git(&sandbox.path, arguments);
    assert_eq!(agents(&["status", "--porcelain"]), "");
    assert_eq!(agents(&["symbolic-ref", "--short", "HEAD"]), "main");
    assert_eq!(agents(&["remote"]), "");
    write(&sandbox.path.join("src/a.txt"), "rewritten\n");
    agents(&["commit", "-qam", "work"]);
    write(&sandbox.path.join("src/b.txt"), "stashed\n");
    agents(&["stash", "-q"]);
    agents(&["stash", "pop", "-q"]);
    agents(&["checkout", "-qb", "topic"]);
    agents(&["commit", "-qam", "more"]);
    agents(&["rebase", "-q", "main"]);
    agents(&["tag", "mine"]);
    agents(&["gc", "-q", "--prune=now"]);
    agents(&["reflog", "expire", "--expire=now", "--all"]);
    agents(&["gc", "-q", "--prune=now", "--aggressive"]);
    let captured = yard
        .workshop
        .capture(&yard.room(plan(1)), Epoch(1), &sandbox.base)
        .unwrap();
    let paths: Vec<String> = captured
        .changes
        .iter()
        .map(|change| format!("{} {}", change.operation, change.path))
        .collect();
    assert_eq!(paths, ["modify src/a.txt", "modify src/b.txt"]);
    assert_eq!(yard.photograph_of_theirs(), before);
    yard.assert_clean();
}

#[test]
fn the_base_outlives_the_persons_gc() {
    let yard = Yard::new();
    let sandbox = yard.enter(plan(1), 1);
    yard.usual_work(&sandbox);
    // They amend the commit away and prune everything nobody points to.
    yard.write("README.md", "# Other\n");
    yard.git(&["commit", "-qa", "--amend", "--no-verify", "-m", "other"]);
    yard.git(&["reflog", "expire", "--expire=now", "--all"]);
    yard.git(&["gc", "-q", "--prune=now"]);
    let captured = yard
        .workshop
        .capture(&yard.room(plan(1)), Epoch(1), &sandbox.base)
        .unwrap();
    assert_eq!(captured.changes.len(), 3);
}

#[test]
fn changes_are_read_from_the_tree_and_renames_are_renames() {
    let yard = Yard::new();
    let sandbox = yard.enter(plan(1), 1);
    std::fs::rename(
        sandbox.path.join("src/a.txt"),
        sandbox.path.join("src/moved.txt"),
    )
    .unwrap();
    write(&sandbox.path.join("bin.dat"), "\0\u{1}\u{2}");
    write(&sandbox.path.join("target/junk"), "ignored");
    std::fs::remove_file(sandbox.path.join("old/gone.txt")).unwrap();
    let captured = yard
        .workshop
        .capture(&yard.room(plan(1)), Epoch(1), &sandbox.base)
        .unwrap();
    let mut seen: Vec<(Operation, String, Option<String>)> = captured
        .changes
        .iter()
        .map(|change| {
            let from = change.from.as_ref().map(ToString::to_string);
            (change.operation, change.path.to_string(), from)
        })
        .collect();
    seen.sort_by(|one, other| one.1.cmp(&other.1));
    assert_eq!(
        seen,
        [
            (Operation::Create, "bin.dat".to_owned(), None),
            (Operation::Delete, "old/gone.txt".to_owned(), None),
            (
                Operation::Rename,
                "src/moved.txt".to_owned(),
                Some("src/a.txt".to_owned())
            ),
        ]
    );
    assert!(captured.changes.iter().all(|change| {
        change.before.is_some() == (change.operation != Operation::Create)
            && change.after.is_some() == (change.operation != Operation::Delete)
    }));
}

#[test]
fn entering_twice_is_entering_once() {
    let yard = Yard::new();
    let sandbox = yard.enter(plan(1), 1);
    write(&sandbox.path.join("src/a.txt"), "half done\n");
    let again = yard.enter(plan(1), 1);
    assert_eq!(again, sandbox);
    assert_eq!(
        std::fs::read_to_string(sandbox.path.join("src/a.txt")).unwrap(),
        "half done\n"
    );
}

#[test]
fn a_later_holder_takes_the_sandbox_over_unless_somebody_is_in_it() {
    let yard = Yard::new();
    let room = yard.room(plan(1));
    let sandbox = yard.enter(plan(1), 1);
    yard.usual_work(&sandbox);
    yard.captured(plan(1), 1);
    write(&sandbox.path.join("after.txt"), "after the checkpoint\n");
    let mut inside = std::process::Command::new("sleep")
        .arg("60")
        .current_dir(sandbox.path.join("src"))
        .spawn()
        .unwrap();
    let second = yard
        .workshop
        .enter(&room, Epoch(2), &sandbox.base, Start::Continue)
        .unwrap()
        .sandbox;
    inside.kill().unwrap();
    inside.wait().unwrap();
    assert_ne!(second.path, sandbox.path);
    assert!(second.path.join("src/new/c.txt").exists(), "the checkpoint");
    assert!(!second.path.join("after.txt").exists());
    assert!(sandbox.path.join("after.txt").exists(), "kept for rescue");
    // Nobody is in the second one: the next holder goes on in the same place.
    let third = yard
        .workshop
        .enter(&room, Epoch(3), &sandbox.base, Start::Continue)
        .unwrap()
        .sandbox;
    assert_eq!((third.path, third.held_by), (second.path, Epoch(3)));
}

#[test]
fn a_sandbox_with_a_held_lock_is_not_taken_over() {
    let yard = Yard::new();
    let room = yard.room(plan(1));
    let sandbox = yard.enter(plan(1), 1);
    let lock = std::fs::File::create(sandbox.lock()).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockShared).unwrap();
    let enter = |epoch| {
        let workshop = &yard.workshop;
        workshop.enter(&room, Epoch(epoch), &sandbox.base, Start::Continue)
    };
    let second = enter(2).unwrap().sandbox;
    assert_ne!(second.path, sandbox.path);
    assert!(sandbox.path.exists(), "kept for rescue");
    assert_ne!(second.lock(), sandbox.lock());
}

#[test]
fn a_sandbox_whose_programs_are_being_ended_is_waited_for() {
    let yard = Yard::new();
    let room = yard.room(plan(1));
    let sandbox = yard.enter(plan(1), 1);
    let lock = std::fs::File::create(sandbox.lock()).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockShared).unwrap();
    let ending = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        drop(lock);
    });
    let workshop = &yard.workshop;
    let second = workshop.enter(&room, Epoch(2), &sandbox.base, Start::Continue);
    assert_eq!(second.unwrap().sandbox.path, sandbox.path);
    ending.join().unwrap();
}

#[test]
fn whoever_has_entered_keeps_its_sandbox_from_a_later_holder() {
    let yard = Yard::new();
    let room = yard.room(plan(1));
    let base = yard.tip();
    let enter = |epoch| {
        let workshop = &yard.workshop;
        let entered = workshop.enter(&room, Epoch(epoch), &base, Start::Continue);
        entered.unwrap()
    };
    let first = enter(1);
    let second = enter(2);
    assert_ne!(second.sandbox.path, first.sandbox.path);
    drop((first, second));
    // Taken over, it is held as well.
    let third = enter(3);
    assert_eq!(third.sandbox.made_by, Epoch(2));
    let fourth = enter(4);
    assert_eq!(fourth.sandbox.made_by, Epoch(4));
}

#[test]
fn whoever_comes_back_late_is_told_that_its_sandbox_is_another_s() {
    let yard = Yard::new();
    let room = yard.room(plan(1));
    let sandbox = yard.enter(plan(1), 1);
    yard.usual_work(&sandbox);
    yard.captured(plan(1), 1);
    let second = yard.enter(plan(1), 2);
    assert_eq!(second.path, sandbox.path, "nobody was in it");
    write(&second.path.join("second.txt"), "of the second\n");
    let newer = yard.captured(plan(1), 2);
    let base = &sandbox.base;
    let late = [
        yard.workshop
            .enter(&room, Epoch(1), base, Start::Base)
            .map(drop),
        yard.workshop.occupy(&room, Epoch(1)).map(drop),
        yard.workshop.capture(&room, Epoch(1), base).map(drop),
        yard.workshop.catch_up(&room, Epoch(1), base).map(drop),
        yard.workshop.drop_paths(&room, Epoch(1), &[]),
    ];
    for came in late {
        assert!(
            matches!(
                came,
                Err(SandboxError::Fenced {
                    given: 1,
                    current: 2
                })
            ),
            "{came:?}"
        );
    }
    assert_eq!(yard.captured(plan(1), 2), newer);
}

#[test]
fn a_sandbox_that_somebody_has_entered_is_not_removed() {
    let yard = Yard::new();
    let room = yard.room(plan(1));
    let entered = yard
        .workshop
        .enter(&room, Epoch(1), &yard.tip(), Start::Continue)
        .unwrap();
    let kept = yard.workshop.remove(plan(1), || Ok(()));
    assert!(
        matches!(kept, Err(SandboxError::WorkedIn { .. })),
        "{kept:?}"
    );
    assert!(entered.sandbox.path.exists());
    drop(entered);
    assert!(yard.workshop.remove(plan(1), || Ok(())).unwrap());
}

/// Whoever takes a sandbox over does so with the lock to itself; who waited for the lock looks again.
#[test]
fn whoever_waited_while_its_sandbox_was_taken_over_is_told_so() {
    let yard = Yard::new();
    let sandbox = yard.enter(plan(1), 1);
    let state = sandbox.lock().with_extension("json");
    let lock = std::fs::File::create(sandbox.lock()).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let taking_over = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        let text = std::fs::read_to_string(&state).unwrap();
        let taken = text.replace("\"held_by\":1", "\"held_by\":2");
        assert_ne!(taken, text);
        std::fs::write(&state, taken).unwrap();
        drop(lock);
    });
    let late = yard.workshop.occupy(&yard.room(plan(1)), Epoch(1));
    assert!(
        matches!(late, Err(SandboxError::Fenced { current: 2, .. })),
        "{late:?}"
    );
    taking_over.join().unwrap();
}

/// Stopped after its files were read and before that was remembered, it must not replace what a newer
/// holder remembered meanwhile.
#[test]
fn a_late_checkpoint_does_not_replace_a_newer_one() {
    let yard = std::sync::Arc::new(Yard::new());
    let sandbox = yard.enter(plan(1), 1);
    yard.usual_work(&sandbox);
    let meanwhile = std::sync::Arc::clone(&yard);
    let stopped = std::sync::atomic::AtomicBool::new(false);
    let faults = Faults::new(move |step| {
        let once = || !stopped.swap(true, std::sync::atomic::Ordering::SeqCst);
        if step == Step::TreeWritten && once() {
            // It holds the first one, so that this is another.
            let second = meanwhile.enter(plan(1), 2);
            write(&second.path.join("second.txt"), "of the second\n");
            meanwhile.captured(plan(1), 2);
        }
        Ok(())
    });
    let room = yard.room(plan(1));
    let late = yard
        .with_faults(faults)
        .capture(&room, Epoch(1), &sandbox.base);
    assert!(
        matches!(late, Err(SandboxError::Fenced { current: 2, .. })),
        "{late:?}"
    );
    let third = yard
        .workshop
        .enter(&room, Epoch(3), &sandbox.base, Start::Continue)
        .unwrap()
        .sandbox;
    assert!(third.path.join("second.txt").exists());
}

#[test]
fn starting_from_the_base_discards_what_was_left_but_not_what_is_ignored() {
    let yard = Yard::new();
    let sandbox = yard.enter(plan(1), 1);
    yard.usual_work(&sandbox);
    write(&sandbox.path.join("target/cache"), "useful");
    let again = yard
        .workshop
        .enter(&yard.room(plan(1)), Epoch(2), &sandbox.base, Start::Base)
        .unwrap()
        .sandbox;
    assert_eq!(again.path, sandbox.path);
    assert_eq!(git(&again.path, &["status", "--porcelain"]), "");
    assert!(again.path.join("old/gone.txt").exists());
    assert!(!again.path.join("src/new").exists());
    assert!(again.path.join("target/cache").exists());
}

#[test]
fn dropped_paths_go_back_to_the_base() {
    let yard = Yard::new();
    let sandbox = yard.enter(plan(1), 1);
    yard.usual_work(&sandbox);
    let paths =
        ["old/gone.txt", "src/new/c.txt"].map(|path| plan::changeset::TreePath::new(path).unwrap());
    yard.workshop
        .drop_paths(&yard.room(plan(1)), Epoch(1), &paths)
        .unwrap();
    let captured = yard
        .workshop
        .capture(&yard.room(plan(1)), Epoch(1), &sandbox.base)
        .unwrap();
    let left: Vec<String> = captured
        .changes
        .iter()
        .map(|change| change.path.to_string())
        .collect();
    assert_eq!(left, ["src/a.txt"]);
}

#[test]
fn eight_sandboxes_at_once() {
    let yard = Yard::new();
    std::thread::scope(|scope| {
        for number in 1..=8 {
            let yard = &yard;
            scope.spawn(move || {
                let sandbox = yard.enter(plan(number), 1);
                write(
                    &sandbox.path.join("src/b.txt"),
                    &format!("by plan {number}\n"),
                );
                yard.captured(plan(number), 1);
            });
        }
    });
    for number in 1..=8 {
        let room = Room {
            plan: plan(number),
            site: &yard.site,
        };
        let sandbox = yard.workshop.current(&room).unwrap().unwrap();
        let text = std::fs::read_to_string(sandbox.path.join("src/b.txt")).unwrap();
        assert_eq!(text, format!("by plan {number}\n"));
    }
    yard.assert_clean();
}

#[test]
fn configuration_an_agent_writes_is_never_run() {
    let yard = Yard::new();
    let sandbox = yard.enter(plan(1), 1);
    let trap = yard.directory.path().join("sprung");
    let run = format!("touch {}", trap.display());
    let agents = |arguments: &[&str]| git(&sandbox.path, arguments);
    agents(&["config", "core.fsmonitor", &run]);
    agents(&["config", "filter.evil.clean", &format!("{run}; cat")]);
    agents(&["config", "filter.evil.smudge", &format!("{run}; cat")]);
    agents(&["config", "diff.external", &run]);
    write(&sandbox.path.join(".gitattributes"), "*.txt diff=evil\n");
    write(&sandbox.path.join("src/a.txt"), "changed\n");
    yard.captured(plan(1), 1);
    let _ = std::fs::remove_file(&trap);
    yard.captured(plan(1), 1);
    assert!(!trap.exists(), "the engine ran what an agent configured");
}
