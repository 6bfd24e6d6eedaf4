//! G8 before apply: an agent may do anything in its sandbox, and the user's repository only gets
//! refs of the engine.

use plan::Epoch;
use plan::changeset::PathOperation;
use planwright_sandbox::{SandboxEntryMode, SandboxError, SandboxKey, SandboxStep, StepFaults};

use crate::fixture::{SandboxFixture, run_git, test_plan_id, write_file};

#[test]
fn git_commands_of_an_agent_do_not_change_the_users_repository() {
    let fixture = SandboxFixture::new();
    let before = fixture.snapshot_user_files();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    let agent_git = |arguments: &[&str]| run_git(&sandbox.path, arguments);
    assert_eq!(agent_git(&["status", "--porcelain"]), "");
    assert_eq!(agent_git(&["symbolic-ref", "--short", "HEAD"]), "main");
    assert_eq!(agent_git(&["remote"]), "");
    write_file(&sandbox.path.join("src/a.txt"), "rewritten\n");
    agent_git(&["commit", "-qam", "work"]);
    write_file(&sandbox.path.join("src/b.txt"), "stashed\n");
    agent_git(&["stash", "-q"]);
    agent_git(&["stash", "pop", "-q"]);
    agent_git(&["checkout", "-qb", "topic"]);
    agent_git(&["commit", "-qam", "more"]);
    agent_git(&["rebase", "-q", "main"]);
    agent_git(&["tag", "mine"]);
    agent_git(&["gc", "-q", "--prune=now"]);
    agent_git(&["reflog", "expire", "--expire=now", "--all"]);
    agent_git(&["gc", "-q", "--prune=now", "--aggressive"]);
    let captured = fixture
        .sandboxes
        .capture()
        .capture_sandbox(
            &fixture.sandbox_key(test_plan_id(1)),
            Epoch(1),
            &sandbox.base,
        )
        .unwrap();
    let paths: Vec<String> = captured
        .changes
        .iter()
        .map(|change| format!("{} {}", change.operation, change.path))
        .collect();
    assert_eq!(paths, ["modify src/a.txt", "modify src/b.txt"]);
    assert_eq!(fixture.snapshot_user_files(), before);
    fixture.assert_clean();
}

#[test]
fn base_survives_the_users_gc() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    fixture.do_usual_work(&sandbox);
    // The user amends the commit away and prunes all unreachable objects.
    fixture.write_file("README.md", "# Other\n");
    fixture.run_git(&["commit", "-qa", "--amend", "--no-verify", "-m", "other"]);
    fixture.run_git(&["reflog", "expire", "--expire=now", "--all"]);
    fixture.run_git(&["gc", "-q", "--prune=now"]);
    let captured = fixture
        .sandboxes
        .capture()
        .capture_sandbox(
            &fixture.sandbox_key(test_plan_id(1)),
            Epoch(1),
            &sandbox.base,
        )
        .unwrap();
    assert_eq!(captured.changes.len(), 3);
}

#[test]
fn changes_are_read_from_the_tree_with_renames() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    std::fs::rename(
        sandbox.path.join("src/a.txt"),
        sandbox.path.join("src/moved.txt"),
    )
    .unwrap();
    write_file(&sandbox.path.join("bin.dat"), "\0\u{1}\u{2}");
    write_file(&sandbox.path.join("target/junk"), "ignored");
    std::fs::remove_file(sandbox.path.join("old/gone.txt")).unwrap();
    let captured = fixture
        .sandboxes
        .capture()
        .capture_sandbox(
            &fixture.sandbox_key(test_plan_id(1)),
            Epoch(1),
            &sandbox.base,
        )
        .unwrap();
    let mut seen: Vec<(PathOperation, String, Option<String>)> = captured
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
            (PathOperation::Create, "bin.dat".to_owned(), None),
            (PathOperation::Delete, "old/gone.txt".to_owned(), None),
            (
                PathOperation::Rename,
                "src/moved.txt".to_owned(),
                Some("src/a.txt".to_owned())
            ),
        ]
    );
    assert!(captured.changes.iter().all(|change| {
        change.before.is_some() == (change.operation != PathOperation::Create)
            && change.after.is_some() == (change.operation != PathOperation::Delete)
    }));
}

#[test]
fn entering_twice_returns_the_same_sandbox() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    write_file(&sandbox.path.join("src/a.txt"), "half done\n");
    let again = fixture.enter_sandbox(test_plan_id(1), 1);
    assert_eq!(again, sandbox);
    assert_eq!(
        std::fs::read_to_string(sandbox.path.join("src/a.txt")).unwrap(),
        "half done\n"
    );
}

#[test]
fn later_holder_takes_over_unless_a_process_is_inside() {
    let fixture = SandboxFixture::new();
    let key = fixture.sandbox_key(test_plan_id(1));
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    fixture.do_usual_work(&sandbox);
    fixture.capture_result(test_plan_id(1), 1);
    write_file(&sandbox.path.join("after.txt"), "after the checkpoint\n");
    let mut inside = std::process::Command::new("sleep")
        .arg("60")
        .current_dir(sandbox.path.join("src"))
        .spawn()
        .unwrap();
    let second = fixture
        .sandboxes
        .enter_sandbox(&key, Epoch(2), &sandbox.base, SandboxEntryMode::Continue)
        .unwrap()
        .sandbox;
    inside.kill().unwrap();
    inside.wait().unwrap();
    assert_ne!(second.path, sandbox.path);
    assert!(second.path.join("src/new/c.txt").exists(), "the checkpoint");
    assert!(!second.path.join("after.txt").exists());
    assert!(sandbox.path.join("after.txt").exists(), "kept for rescue");
    // The second one is not in use: the next holder continues in the same place.
    let third = fixture
        .sandboxes
        .enter_sandbox(&key, Epoch(3), &sandbox.base, SandboxEntryMode::Continue)
        .unwrap()
        .sandbox;
    assert_eq!((third.path, third.holder_epoch), (second.path, Epoch(3)));
}

#[test]
fn locked_sandbox_is_not_taken_over() {
    let fixture = SandboxFixture::new();
    let key = fixture.sandbox_key(test_plan_id(1));
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    let lock = std::fs::File::create(sandbox.lock_path()).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockShared).unwrap();
    let enter = |epoch| {
        let sandboxes = &fixture.sandboxes;
        sandboxes.enter_sandbox(
            &key,
            Epoch(epoch),
            &sandbox.base,
            SandboxEntryMode::Continue,
        )
    };
    let second = enter(2).unwrap().sandbox;
    assert_ne!(second.path, sandbox.path);
    assert!(sandbox.path.exists(), "kept for rescue");
    assert_ne!(second.lock_path(), sandbox.lock_path());
}

#[test]
fn take_over_waits_for_programs_that_are_being_killed() {
    let fixture = SandboxFixture::new();
    let key = fixture.sandbox_key(test_plan_id(1));
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    let lock = std::fs::File::create(sandbox.lock_path()).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockShared).unwrap();
    let ending = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        drop(lock);
    });
    let sandboxes = &fixture.sandboxes;
    let second = sandboxes.enter_sandbox(&key, Epoch(2), &sandbox.base, SandboxEntryMode::Continue);
    assert_eq!(second.unwrap().sandbox.path, sandbox.path);
    ending.join().unwrap();
}

#[test]
fn entered_sandbox_is_not_taken_over() {
    let fixture = SandboxFixture::new();
    let key = fixture.sandbox_key(test_plan_id(1));
    let base = fixture.tip();
    let enter = |epoch| {
        let sandboxes = &fixture.sandboxes;
        let entered =
            sandboxes.enter_sandbox(&key, Epoch(epoch), &base, SandboxEntryMode::Continue);
        entered.unwrap()
    };
    let first = enter(1);
    let second = enter(2);
    assert_ne!(second.sandbox.path, first.sandbox.path);
    drop((first, second));
    // A sandbox that was taken over is locked as well.
    let third = enter(3);
    assert_eq!(third.sandbox.creator_epoch, Epoch(2));
    let fourth = enter(4);
    assert_eq!(fourth.sandbox.creator_epoch, Epoch(4));
}

#[test]
fn late_holder_is_fenced_off_from_its_sandbox() {
    let fixture = SandboxFixture::new();
    let key = fixture.sandbox_key(test_plan_id(1));
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    fixture.do_usual_work(&sandbox);
    fixture.capture_result(test_plan_id(1), 1);
    let second = fixture.enter_sandbox(test_plan_id(1), 2);
    assert_eq!(second.path, sandbox.path, "nobody was in it");
    write_file(&second.path.join("second.txt"), "of the second\n");
    let newer = fixture.capture_result(test_plan_id(1), 2);
    let base = &sandbox.base;
    let late = [
        fixture
            .sandboxes
            .enter_sandbox(&key, Epoch(1), base, SandboxEntryMode::ResetToBase)
            .map(drop),
        fixture.sandboxes.occupy_sandbox(&key, Epoch(1)).map(drop),
        fixture
            .sandboxes
            .capture()
            .capture_sandbox(&key, Epoch(1), base)
            .map(drop),
        fixture
            .sandboxes
            .merge_target_into_sandbox(&key, Epoch(1), base)
            .map(drop),
        fixture.sandboxes.revert_paths(&key, Epoch(1), &[]),
    ];
    for result in late {
        assert!(
            matches!(
                result,
                Err(SandboxError::FencedByNewerHolder {
                    given: 1,
                    current: 2
                })
            ),
            "{result:?}"
        );
    }
    assert_eq!(fixture.capture_result(test_plan_id(1), 2), newer);
}

#[test]
fn sandbox_in_use_is_not_removed() {
    let fixture = SandboxFixture::new();
    let key = fixture.sandbox_key(test_plan_id(1));
    let entered = fixture
        .sandboxes
        .enter_sandbox(&key, Epoch(1), &fixture.tip(), SandboxEntryMode::Continue)
        .unwrap();
    let kept = fixture
        .sandboxes
        .rescue()
        .remove_plan(test_plan_id(1), || Ok(()));
    assert!(
        matches!(kept, Err(SandboxError::SandboxInUse { .. })),
        "{kept:?}"
    );
    assert!(entered.sandbox.path.exists());
    drop(entered);
    assert!(
        fixture
            .sandboxes
            .rescue()
            .remove_plan(test_plan_id(1), || Ok(()))
            .unwrap()
    );
}

/// A take-over needs the exclusive lock. A holder that waited for the lock must check again.
#[test]
fn holder_that_waited_for_the_lock_finds_the_take_over() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    let state = sandbox.lock_path().with_extension("json");
    let lock = std::fs::File::create(sandbox.lock_path()).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let taking_over = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        let text = std::fs::read_to_string(&state).unwrap();
        let taken = text.replace("\"held_by\":1", "\"held_by\":2");
        assert_ne!(taken, text);
        std::fs::write(&state, taken).unwrap();
        drop(lock);
    });
    let late = fixture
        .sandboxes
        .occupy_sandbox(&fixture.sandbox_key(test_plan_id(1)), Epoch(1));
    assert!(
        matches!(
            late,
            Err(SandboxError::FencedByNewerHolder { current: 2, .. })
        ),
        "{late:?}"
    );
    taking_over.join().unwrap();
}

/// A holder that is suspended between reading its files and saving the checkpoint must not replace
/// a newer holder's checkpoint.
#[test]
fn late_checkpoint_does_not_replace_a_newer_one() {
    let fixture = std::sync::Arc::new(SandboxFixture::new());
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    fixture.do_usual_work(&sandbox);
    let meanwhile = std::sync::Arc::clone(&fixture);
    let stopped = std::sync::atomic::AtomicBool::new(false);
    let faults = StepFaults::new(move |step| {
        let once = || !stopped.swap(true, std::sync::atomic::Ordering::SeqCst);
        if step == SandboxStep::TreeWritten && once() {
            // The first sandbox is still locked, so this is another one.
            let second = meanwhile.enter_sandbox(test_plan_id(1), 2);
            write_file(&second.path.join("second.txt"), "of the second\n");
            meanwhile.capture_result(test_plan_id(1), 2);
        }
        Ok(())
    });
    let key = fixture.sandbox_key(test_plan_id(1));
    let late = fixture
        .with_faults(faults)
        .capture()
        .capture_sandbox(&key, Epoch(1), &sandbox.base);
    assert!(
        matches!(
            late,
            Err(SandboxError::FencedByNewerHolder { current: 2, .. })
        ),
        "{late:?}"
    );
    let third = fixture
        .sandboxes
        .enter_sandbox(&key, Epoch(3), &sandbox.base, SandboxEntryMode::Continue)
        .unwrap()
        .sandbox;
    assert!(third.path.join("second.txt").exists());
}

#[test]
fn resetting_to_the_base_keeps_ignored_files() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    fixture.do_usual_work(&sandbox);
    write_file(&sandbox.path.join("target/cache"), "useful");
    let again = fixture
        .sandboxes
        .enter_sandbox(
            &fixture.sandbox_key(test_plan_id(1)),
            Epoch(2),
            &sandbox.base,
            SandboxEntryMode::ResetToBase,
        )
        .unwrap()
        .sandbox;
    assert_eq!(again.path, sandbox.path);
    assert_eq!(run_git(&again.path, &["status", "--porcelain"]), "");
    assert!(again.path.join("old/gone.txt").exists());
    assert!(!again.path.join("src/new").exists());
    assert!(again.path.join("target/cache").exists());
}

#[test]
fn reverted_paths_match_the_base() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    fixture.do_usual_work(&sandbox);
    let paths =
        ["old/gone.txt", "src/new/c.txt"].map(|path| plan::changeset::TreePath::new(path).unwrap());
    fixture
        .sandboxes
        .revert_paths(&fixture.sandbox_key(test_plan_id(1)), Epoch(1), &paths)
        .unwrap();
    let captured = fixture
        .sandboxes
        .capture()
        .capture_sandbox(
            &fixture.sandbox_key(test_plan_id(1)),
            Epoch(1),
            &sandbox.base,
        )
        .unwrap();
    let remaining: Vec<String> = captured
        .changes
        .iter()
        .map(|change| change.path.to_string())
        .collect();
    assert_eq!(remaining, ["src/a.txt"]);
}

#[test]
fn eight_sandboxes_work_in_parallel() {
    let fixture = SandboxFixture::new();
    std::thread::scope(|scope| {
        for number in 1..=8 {
            let fixture = &fixture;
            scope.spawn(move || {
                let sandbox = fixture.enter_sandbox(test_plan_id(number), 1);
                write_file(
                    &sandbox.path.join("src/b.txt"),
                    &format!("by plan {number}\n"),
                );
                fixture.capture_result(test_plan_id(number), 1);
            });
        }
    });
    for number in 1..=8 {
        let key = SandboxKey {
            plan_id: test_plan_id(number),
            resource: &fixture.resource,
        };
        let sandbox = fixture.sandboxes.current_sandbox(&key).unwrap().unwrap();
        let text = std::fs::read_to_string(sandbox.path.join("src/b.txt")).unwrap();
        assert_eq!(text, format!("by plan {number}\n"));
    }
    fixture.assert_clean();
}

#[test]
fn configuration_of_an_agent_is_never_run() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    let trap = fixture.directory.path().join("sprung");
    let run = format!("touch {}", trap.display());
    let agent_git = |arguments: &[&str]| run_git(&sandbox.path, arguments);
    agent_git(&["config", "core.fsmonitor", &run]);
    agent_git(&["config", "filter.evil.clean", &format!("{run}; cat")]);
    agent_git(&["config", "filter.evil.smudge", &format!("{run}; cat")]);
    agent_git(&["config", "diff.external", &run]);
    write_file(&sandbox.path.join(".gitattributes"), "*.txt diff=evil\n");
    write_file(&sandbox.path.join("src/a.txt"), "changed\n");
    fixture.capture_result(test_plan_id(1), 1);
    let _ = std::fs::remove_file(&trap);
    fixture.capture_result(test_plan_id(1), 1);
    assert!(!trap.exists(), "the engine ran what an agent configured");
}
