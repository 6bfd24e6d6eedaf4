//! A git that hangs: ended with all it started, said clearly, and nothing is lost.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plan::Epoch;
use planwright_sandbox::land::{How, Landed, Proposed};
use planwright_sandbox::{SandboxError, Surroundings, Workshop, git_version};

use crate::script::write_program;
use crate::yard::{Yard, message, plan, surroundings};

const COMMIT: How = How::Commit { merge: false };

/// A program in the place of git.
fn fake(directory: &Path, script: &str, patience: Duration) -> Surroundings {
    let path = directory.join("fake-git");
    write_program(&path, &format!("#!/bin/sh\n{script}\n"));
    Surroundings {
        git: path.into(),
        patience,
        ..surroundings()
    }
}

fn is_running(process: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn a_git_that_hangs_is_ended_with_all_it_started() {
    let directory = tempfile::tempdir().unwrap();
    let list = directory.path().join("processes");
    // It does not listen to being told, either.
    let script = format!(
        "trap '' TERM; echo $$ > {0}; sleep 600 & echo $! >> {0}; wait",
        list.display()
    );
    let hanging = fake(directory.path(), &script, Duration::from_millis(500));
    let began = Instant::now();
    let error = git_version(&hanging).unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(30));
    let said = error.to_string();
    assert_eq!(
        said,
        "git version was ended in /: it took longer than 0.5 s"
    );
    let processes = std::fs::read_to_string(list).unwrap();
    assert_eq!(processes.lines().count(), 2);
    for process in processes.lines() {
        // The system takes a moment over whoever is killed.
        while is_running(process) {
            assert!(began.elapsed() < Duration::from_secs(30), "{process}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn whoever_holds_the_outputs_open_is_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let left = directory.path().join("left");
    let script = format!(
        "sleep 600 & echo $! > {}; echo git version 9.9.9",
        left.display()
    );
    let fake = fake(directory.path(), &script, Duration::from_secs(60));
    let began = Instant::now();
    assert_eq!(git_version(&fake).unwrap(), "9.9.9");
    assert!(began.elapsed() < Duration::from_secs(30));
    let process = std::fs::read_to_string(left).unwrap();
    let process = process.trim().parse().unwrap();
    let process = rustix::process::Pid::from_raw(process).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
}

/// Whichever git of a landing hangs, nothing of the person's has changed, and it can land afterwards.
#[test]
fn a_landing_whose_git_hangs_can_be_repeated() {
    for command in [
        "commit-tree",
        "index-pack",
        "status",
        "read-tree",
        "update-ref",
    ] {
        let yard = Yard::new();
        let sandbox = yard.enter(plan(1), 1);
        yard.usual_work(&sandbox);
        let result = yard.captured(plan(1), 1);
        let before = yard.photograph_of_theirs();
        let script = format!("case \" $* \" in *' {command} '*) sleep 600;; esac; exec git \"$@\"");
        let hanging = fake(yard.directory.path(), &script, Duration::from_millis(2500));
        let home: PathBuf = yard.directory.path().join("home");
        let workshop = Workshop::new(home, hanging);
        let room = yard.room(plan(1));
        let proposed = workshop.propose(&room, Epoch(2), &result, &COMMIT, &message(plan(1)));
        let error = match proposed {
            Ok(Proposed::Ready(proposal)) => workshop.land(&room, Epoch(2), &proposal).unwrap_err(),
            other => other.unwrap_err(),
        };
        assert!(
            matches!(&error, SandboxError::TooSlow { command: named, .. } if named == command),
            "{command}: {error}"
        );
        assert_eq!(yard.photograph_of_theirs(), before, "{command}");
        let Proposed::Ready(proposal) = yard.propose(plan(1), 3, &result, &COMMIT) else {
            panic!("{command}");
        };
        let landed = yard.land(plan(1), 3, &proposal);
        assert_eq!(landed, Landed::Yes { kept: Vec::new() }, "{command}");
        yard.assert_tidy();
    }
}

/// What is looked at under the lock of the person's index may hang, too: the lock does not stay.
#[test]
fn a_git_that_hangs_under_the_lock_leaves_no_lock() {
    let yard = Yard::new();
    let proposal = yard.proposed(plan(1), &COMMIT);
    let lock = yard.path().join(".git/index.lock");
    let script = format!(
        "case \" $* \" in *' status '*) [ -e '{}' ] && sleep 600;; esac; exec git \"$@\"",
        lock.display()
    );
    let hanging = fake(yard.directory.path(), &script, Duration::from_millis(2500));
    let workshop = Workshop::new(yard.directory.path().join("home"), hanging);
    let error = workshop.land(&yard.room(plan(1)), Epoch(2), &proposal);
    let error = error.unwrap_err();
    assert!(matches!(error, SandboxError::TooSlow { .. }), "{error}");
    assert!(!lock.exists());
    let landed = yard.land(plan(1), 3, &proposal);
    assert_eq!(landed, Landed::Yes { kept: Vec::new() });
    yard.assert_tidy();
}

/// On a full disk git leaves what it had written of an object. Nothing of it may take the room that somebody makes.
#[test]
fn what_git_leaves_on_a_full_disk_is_removed() {
    let yard = Yard::new();
    let sandbox = yard.enter(plan(1), 1);
    std::fs::write(sandbox.path.join("new.txt"), "new\n").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let script = "case \" $* \" in
  *' add '*)
    objects=${GIT_OBJECT_DIRECTORY:-$GIT_DIR/objects}
    for word; do case $word in --git-dir=*) objects=${word#--git-dir=}/objects;; esac; done
    mkdir -p \"$objects/ab\"; echo half > \"$objects/ab/tmp_obj_x1\"
    echo \"$objects\" > \"${0%/*}/objects\"
    echo 'error: unable to write loose object file: No space left on device' >&2; exit 128;;
esac
exec git \"$@\"";
    let full = fake(directory.path(), script, planwright_sandbox::PATIENCE);
    let workshop = Workshop::new(yard.directory.path().join("home"), full);
    let error = workshop.capture(&yard.room(plan(1)), Epoch(1), &sandbox.base);
    let error = error.unwrap_err();
    assert!(error.is_out_of_space(), "{error}");
    let objects = std::fs::read_to_string(directory.path().join("objects")).unwrap();
    let left = Path::new(objects.trim()).join("ab/tmp_obj_x1");
    assert!(!left.exists(), "{}", left.display());
    // With room it goes on.
    yard.workshop
        .capture(&yard.room(plan(1)), Epoch(1), &sandbox.base)
        .unwrap();
}
