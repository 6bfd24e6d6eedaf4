//! A git that hangs is killed with everything it started and reported, and no work is lost.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plan::Epoch;
use planwright_sandbox::land::{LandAttempt, LandingMethod, ProposalOutcome};
use planwright_sandbox::{GitEnv, SandboxEntryMode, SandboxError, Sandboxes, Stop, git_version};

use crate::fixture::{SandboxFixture, make_landing_message, test_git_env, test_plan_id};
use crate::script::write_program;

const AS_COMMIT: LandingMethod = LandingMethod::Commit { merge: false };

/// Installs a script in place of git.
fn make_fake_git(directory: &Path, script: &str, timeout: Duration) -> GitEnv {
    let path = directory.join("fake-git");
    write_program(&path, &format!("#!/bin/sh\n{script}\n"));
    GitEnv {
        program: path.into(),
        timeout,
        ..test_git_env()
    }
}

fn is_process_running(process: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn hanging_git_is_killed_with_all_it_started() {
    let directory = tempfile::tempdir().unwrap();
    let list = directory.path().join("processes");
    // It ignores SIGTERM, too.
    let script = format!(
        "trap '' TERM; echo $$ > {0}; sleep 600 & echo $! >> {0}; wait",
        list.display()
    );
    let hanging = make_fake_git(directory.path(), &script, Duration::from_millis(500));
    let began = Instant::now();
    let error = git_version(&hanging).unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(30));
    let message = error.to_string();
    assert_eq!(message, "git version timed out in / after 0.5 s");
    let processes = std::fs::read_to_string(list).unwrap();
    assert_eq!(processes.lines().count(), 2);
    for process in processes.lines() {
        // The system takes a moment to remove a killed process.
        while is_process_running(process) {
            assert!(began.elapsed() < Duration::from_secs(30), "{process}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn process_that_holds_the_output_open_is_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let leftover = directory.path().join("left");
    let script = format!(
        "sleep 600 & echo $! > {}; echo git version 9.9.9",
        leftover.display()
    );
    let fake = make_fake_git(directory.path(), &script, Duration::from_secs(60));
    let began = Instant::now();
    assert_eq!(git_version(&fake).unwrap(), "9.9.9");
    assert!(began.elapsed() < Duration::from_secs(30));
    let process = std::fs::read_to_string(leftover).unwrap();
    let process = process.trim().parse().unwrap();
    let process = rustix::process::Pid::from_raw(process).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
}

/// Whichever git command of a landing hangs, the user's files are unchanged and the landing can be
/// repeated.
#[test]
fn landing_with_a_hanging_git_can_be_repeated() {
    for command in [
        "commit-tree",
        "index-pack",
        "status",
        "read-tree",
        "update-ref",
    ] {
        let fixture = SandboxFixture::new();
        let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
        fixture.do_usual_work(&sandbox);
        let result = fixture.capture_result(test_plan_id(1), 1);
        let before = fixture.snapshot_user_files();
        let script = format!("case \" $* \" in *' {command} '*) sleep 600;; esac; exec git \"$@\"");
        let hanging = make_fake_git(
            fixture.directory.path(),
            &script,
            Duration::from_millis(2500),
        );
        let home: PathBuf = fixture.directory.path().join("home");
        let sandboxes = Sandboxes::new(home, hanging);
        let key = fixture.sandbox_key(test_plan_id(1));
        let proposed = sandboxes.landings().propose_landing(
            &key,
            Epoch(2),
            &result,
            &AS_COMMIT,
            &make_landing_message(test_plan_id(1)),
        );
        let error = match proposed {
            Ok(ProposalOutcome::Ready(proposal)) => sandboxes
                .landings()
                .land_proposal(&key, Epoch(2), &proposal)
                .unwrap_err(),
            other => other.unwrap_err(),
        };
        assert!(
            matches!(&error, SandboxError::GitTimedOut { command: named, .. } if named == command),
            "{command}: {error}"
        );
        assert_eq!(fixture.snapshot_user_files(), before, "{command}");
        let ProposalOutcome::Ready(proposal) =
            fixture.propose_landing(test_plan_id(1), 3, &result, &AS_COMMIT)
        else {
            panic!("{command}");
        };
        let landed = fixture.land_proposal(test_plan_id(1), 3, &proposal);
        assert_eq!(
            landed,
            LandAttempt::Landed { kept: Vec::new() },
            "{command}"
        );
        fixture.assert_no_leftovers();
    }
}

/// A git that hangs while the user's index is locked must not leave the lock.
#[test]
fn git_hanging_under_the_index_lock_leaves_no_lock() {
    let fixture = SandboxFixture::new();
    let proposal = fixture.propose_usual_work(test_plan_id(1), &AS_COMMIT);
    let lock = fixture.path().join(".git/index.lock");
    let script = format!(
        "case \" $* \" in *' status '*) [ -e '{}' ] && sleep 600;; esac; exec git \"$@\"",
        lock.display()
    );
    let hanging = make_fake_git(
        fixture.directory.path(),
        &script,
        Duration::from_millis(2500),
    );
    let sandboxes = Sandboxes::new(fixture.directory.path().join("home"), hanging);
    let error = sandboxes.landings().land_proposal(
        &fixture.sandbox_key(test_plan_id(1)),
        Epoch(2),
        &proposal,
    );
    let error = error.unwrap_err();
    assert!(matches!(error, SandboxError::GitTimedOut { .. }), "{error}");
    assert!(!lock.exists());
    let landed = fixture.land_proposal(test_plan_id(1), 3, &proposal);
    assert_eq!(landed, LandAttempt::Landed { kept: Vec::new() });
    fixture.assert_no_leftovers();
}

/// On a full disk, git leaves partly written objects. They must not use up the space that the user
/// frees.
#[test]
fn partial_objects_on_a_full_disk_are_removed() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
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
    let full = make_fake_git(directory.path(), script, planwright_sandbox::GIT_TIMEOUT);
    let sandboxes = Sandboxes::new(fixture.directory.path().join("home"), full);
    let error = sandboxes.capture().capture_sandbox(
        &fixture.sandbox_key(test_plan_id(1)),
        Epoch(1),
        &sandbox.base,
    );
    let error = error.unwrap_err();
    assert!(error.is_out_of_space(), "{error}");
    let objects = std::fs::read_to_string(directory.path().join("objects")).unwrap();
    let leftover = Path::new(objects.trim()).join("ab/tmp_obj_x1");
    assert!(!leftover.exists(), "{}", leftover.display());
    // With free space, capturing works again.
    fixture
        .sandboxes
        .capture()
        .capture_sandbox(
            &fixture.sandbox_key(test_plan_id(1)),
            Epoch(1),
            &sandbox.base,
        )
        .unwrap();
}

#[test]
fn hanging_git_ends_when_a_stop_is_requested() {
    let fixture = SandboxFixture::new();
    let script = "case \" $* \" in *' read-tree '*) sleep 600;; esac; exec git \"$@\"";
    let hanging = make_fake_git(
        fixture.directory.path(),
        script,
        planwright_sandbox::GIT_TIMEOUT,
    );
    let stop = Stop::default();
    let sandboxes = Sandboxes::new(fixture.directory.path().join("home"), hanging);
    let key = fixture.sandbox_key(test_plan_id(1));
    let base = fixture.sandboxes.read_tip(&fixture.resource).unwrap();
    let error = std::thread::scope(|scope| {
        let stoppable = sandboxes.clone().with_git_stop(Some(&stop));
        let entering = scope.spawn(move || {
            stoppable
                .enter_sandbox(&key, Epoch(1), &base, SandboxEntryMode::Continue)
                .map(drop)
        });
        std::thread::sleep(Duration::from_millis(300));
        assert!(!entering.is_finished());
        stop.request();
        entering.join().unwrap().unwrap_err()
    });
    assert_eq!(error.to_string(), "git read-tree was stopped");
    fixture.enter_sandbox(test_plan_id(1), 2);
}

/// Half a sandbox must not use up the space that the user frees.
#[test]
fn half_a_sandbox_on_a_full_disk_is_removed() {
    let fixture = SandboxFixture::new();
    let script = "case \" $* \" in *' read-tree '*)
    echo half > \"$GIT_WORK_TREE/half.txt\"
    echo 'error: unable to write file: No space left on device' >&2; exit 128;;
esac
exec git \"$@\"";
    let full = make_fake_git(
        fixture.directory.path(),
        script,
        planwright_sandbox::GIT_TIMEOUT,
    );
    let home = fixture.directory.path().join("home");
    let key = fixture.sandbox_key(test_plan_id(1));
    let base = fixture.sandboxes.read_tip(&fixture.resource).unwrap();
    let entered = Sandboxes::new(&home, full).enter_sandbox(
        &key,
        Epoch(1),
        &base,
        SandboxEntryMode::Continue,
    );
    let error = entered.map(drop).unwrap_err();
    assert!(matches!(error, SandboxError::DiskFull { .. }), "{error}");
    assert!(error.is_transient());
    let directory = home.join("sandboxes").join(test_plan_id(1).to_string());
    let left = std::fs::read_dir(directory.join("1")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().path()).collect();
    assert!(!left.iter().any(|path| path.is_dir()), "{left:?}");
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    assert!(!sandbox.path.join("half.txt").exists());
}
