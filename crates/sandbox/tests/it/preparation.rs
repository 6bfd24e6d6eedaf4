//! Ready to work: ignored files that work needs, and the user's set-up command.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, Instant};

use planwright_sandbox::{
    IgnoredCopyLimits, IgnoredCopySummary, Sandbox, SandboxEntryMode, SandboxError, Sandboxes,
    SetUpFailure, SetUpOutcome,
};

use crate::fixture::{SandboxFixture, test_plan_id, write_file};

const MINUTE: Duration = Duration::from_secs(60);

fn copy_ignored_files(
    fixture: &SandboxFixture,
    sandbox: &Sandbox,
    include: &[&str],
) -> IgnoredCopySummary {
    let include: Vec<String> = include.iter().map(|one| (*one).to_owned()).collect();
    fixture
        .sandboxes
        .copy_ignored_files(&fixture.sandbox_key(test_plan_id(1)), sandbox, &include)
        .unwrap()
}

/// A checkout with ignored, tracked and untracked files.
fn make_ignoring_fixture() -> SandboxFixture {
    let fixture = SandboxFixture::new();
    fixture.write_file(
        ".gitignore",
        "target/\n.env*\n*.local\nlinks/\nkept/*.key\n",
    );
    fixture.commit_all("ignores");
    fixture.write_file(".env", "SECRET=1\n");
    fixture.write_file(".env.test", "SECRET=2\n");
    fixture.write_file("app/deep/settings.local", "colour=blue\n");
    fixture.write_file("target/cache/big", "cached\n");
    fixture.write_file("notes.txt", "untracked, not ignored\n");
    fixture
}

#[test]
fn ignored_files_that_are_asked_for_are_copied_and_no_others() {
    let fixture = make_ignoring_fixture();
    let tool = fixture.path().join("target/tool");
    write_file(&tool, "#!/bin/sh\n");
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    fixture.write_file(
        ".worktreeinclude",
        "# what work needs\n.env*\n!.env.test\nnotes.txt\nsrc/a.txt\n",
    );
    let before = fixture.snapshot_user_files();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    fixture.write_file("src/a.txt", "edited, not committed\n");
    let furnished = copy_ignored_files(&fixture, &sandbox, &["*.local", "/target/tool"]);
    let bytes = "SECRET=1\ncolour=blue\n#!/bin/sh\n".len() as u64;
    assert_eq!(
        furnished,
        IgnoredCopySummary {
            files: 3,
            bytes,
            left_out: 0
        }
    );
    let there = |path: &str| sandbox.path.join(path);
    assert_eq!(
        std::fs::read_to_string(there(".env")).unwrap(),
        "SECRET=1\n"
    );
    assert!(there("app/deep/settings.local").exists());
    let mode = std::fs::metadata(there("target/tool")).unwrap();
    assert_eq!(mode.permissions().mode() & 0o777, 0o755);
    for absent in [".env.test", "target/cache", "notes.txt", ".worktreeinclude"] {
        assert!(!there(absent).exists(), "{absent}");
    }
    assert!(
        std::fs::read_to_string(there("src/a.txt"))
            .unwrap()
            .ends_with("eight\n")
    );
    // Nothing of it is work.
    let result = fixture.capture_result(test_plan_id(1), 1);
    let tree = fixture.run_git(&["rev-parse", "HEAD^{tree}"]);
    assert_eq!(result.tree.to_string(), tree);
    fixture.run_git(&["checkout", "-q", "src/a.txt"]);
    let after = fixture.snapshot_user_files();
    let ours = |path: &&std::path::PathBuf| !path.ends_with(".git/index");
    assert!(after.keys().filter(ours).eq(before.keys().filter(ours)));
    // What the agent made of it stays when it is done again.
    write_file(&there(".env"), "SECRET=changed\n");
    assert_eq!(
        copy_ignored_files(&fixture, &sandbox, &["*.local"]).files,
        2
    );
    assert_eq!(
        std::fs::read_to_string(there(".env")).unwrap(),
        "SECRET=changed\n"
    );
}

#[test]
fn a_file_that_only_the_checkout_ignores_would_be_captured_and_is_not_copied() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    fixture.write_file(".gitignore", "target/\n.env\n");
    fixture.write_file(".env", "SECRET=1\n");
    assert_eq!(
        copy_ignored_files(&fixture, &sandbox, &[".env"]),
        IgnoredCopySummary::default()
    );
    assert!(!sandbox.path.join(".env").exists());
}

#[test]
fn links_are_copied_as_links_and_never_followed() {
    let fixture = make_ignoring_fixture();
    let outside = fixture.directory.path().join("outside");
    write_file(&outside.join("secret.local"), "not theirs\n");
    std::fs::create_dir(fixture.path().join("links")).unwrap();
    symlink(&outside, fixture.path().join("links/directory")).unwrap();
    symlink("../../../etc/passwd", fixture.path().join("links/file")).unwrap();
    symlink("nowhere", fixture.path().join("links/broken")).unwrap();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    // A way that leads out of the sandbox by a link of the agent's is not taken either.
    symlink(&outside, sandbox.path.join("app")).unwrap();
    let furnished = copy_ignored_files(&fixture, &sandbox, &["links/", "*.local"]);
    assert_eq!((furnished.files, furnished.left_out), (3, 1));
    for link in ["directory", "file", "broken"] {
        let name = format!("links/{link}");
        assert_eq!(
            std::fs::read_link(sandbox.path.join(&name)).unwrap(),
            std::fs::read_link(fixture.path().join(&name)).unwrap()
        );
    }
    assert!(!outside.join("deep").exists());
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn too_much_is_cut_off_and_said() {
    let fixture = make_ignoring_fixture();
    for number in 0..10 {
        fixture.write_file(&format!("target/{number}.txt"), "0123456789");
    }
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    let within = |files, bytes| {
        let limits = IgnoredCopyLimits { files, bytes };
        let include = ["/target/*.txt".to_owned()];
        fixture
            .sandboxes
            .copy_ignored_files_within(
                &fixture.sandbox_key(test_plan_id(1)),
                &sandbox,
                &include,
                limits,
            )
            .unwrap()
    };
    let cut_off =
        |furnished: IgnoredCopySummary| (furnished.files, furnished.bytes, furnished.left_out);
    assert_eq!(cut_off(within(3, 1000)), (3, 30, 7));
    assert_eq!(cut_off(within(100, 45)), (4, 40, 6));
    assert_eq!(
        std::fs::read_dir(sandbox.path.join("target"))
            .unwrap()
            .count(),
        4
    );
}

#[test]
fn pipes_and_nested_repositories_are_left_alone() {
    let fixture = make_ignoring_fixture();
    fixture.write_file("target/inner/file.txt", "inner\n");
    crate::fixture::run_git(&fixture.path().join("target/inner"), &["init", "-q", "."]);
    let pipe = std::process::Command::new("mkfifo")
        .arg(fixture.path().join("pipe.local"))
        .status();
    assert!(pipe.unwrap().success());
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    let furnished = copy_ignored_files(&fixture, &sandbox, &["target/", "pipe.local"]);
    assert_eq!(furnished.files, 1, "the cache alone");
    assert!(!sandbox.path.join("target/inner").exists());
}

fn run_set_up(
    fixture: &SandboxFixture,
    sandbox: &Sandbox,
    command: &str,
    limit: Duration,
) -> Result<SetUpOutcome, SandboxError> {
    let (workshop, room) = (&fixture.sandboxes, fixture.sandbox_key(test_plan_id(1)));
    workshop.run_set_up(&room, sandbox, command, limit, &|| true)
}

#[test]
fn the_set_up_runs_once_in_the_sandbox_with_little_around_it() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    let command =
        "pwd; env | cut -d= -f1 | sort | tr '\\n' ' '; mkdir -p target; echo x >> target/ran";
    let SetUpOutcome::Done(said) = run_set_up(&fixture, &sandbox, command, MINUTE).unwrap() else {
        panic!("it had not run before");
    };
    let lines: Vec<&str> = said.text.lines().collect();
    let place = sandbox.path.canonicalize().unwrap();
    assert_eq!(lines[0], place.to_str().unwrap());
    for name in lines[1].split_whitespace() {
        // The shell sets a few by itself, and the supervisor marks what it runs.
        let known = [
            "HOME",
            "PATH",
            "PWD",
            "OLDPWD",
            "SHLVL",
            "_",
            "TMPDIR",
            "TMP",
            "TEMP",
            "PLANWRIGHT_SUPERVISED",
        ];
        assert!(known.contains(&name), "{name} was passed on");
    }
    let again = run_set_up(&fixture, &sandbox, command, MINUTE).unwrap();
    assert_eq!(again, SetUpOutcome::AlreadyDone);
    let ran = std::fs::read_to_string(sandbox.path.join("target/ran")).unwrap();
    assert_eq!(ran, "x\n");
    // A sandbox of its own is new again.
    let key = fixture.sandbox_key(test_plan_id(1));
    let fresh = fixture
        .sandboxes
        .enter_sandbox(
            &key,
            plan::Epoch(2),
            &sandbox.base,
            SandboxEntryMode::NewDirectory,
        )
        .unwrap();
    assert!(matches!(
        run_set_up(&fixture, &fresh.sandbox, command, MINUTE),
        Ok(SetUpOutcome::Done(_))
    ));
}

#[test]
fn a_set_up_that_fails_says_how_and_is_tried_again() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    let command = "echo out; echo no such package >&2; exit 3";
    for _ in 0..2 {
        let failed = run_set_up(&fixture, &sandbox, command, MINUTE);
        let Err(SandboxError::SetUpFailed { ended, said, .. }) = failed else {
            panic!("{failed:?}");
        };
        assert_eq!(ended, SetUpFailure::Code(3));
        assert_eq!(said.text, "out\nno such package\n");
    }
    let killed = run_set_up(&fixture, &sandbox, "kill -TERM $$", MINUTE);
    let Err(SandboxError::SetUpFailed { ended, .. }) = killed else {
        panic!("{killed:?}");
    };
    assert_eq!(ended, SetUpFailure::Signal(15));
    let done = run_set_up(&fixture, &sandbox, "true", MINUTE);
    assert!(matches!(done, Ok(SetUpOutcome::Done(_))));
}

#[test]
fn only_the_end_of_a_long_output_is_kept() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    let command = "yes 0123456789 | head -n 100000; echo the end";
    let SetUpOutcome::Done(said) = run_set_up(&fixture, &sandbox, command, MINUTE).unwrap() else {
        panic!("it had not run before");
    };
    assert_eq!(said.text.len(), 64 << 10);
    assert_eq!(said.omitted_bytes, 1_100_000 + 8 - (64 << 10));
    assert!(said.text.ends_with("the end\n"));
}

#[test]
fn a_set_up_that_takes_too_long_is_ended_with_all_it_started() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    let began = Instant::now();
    let command = format!("echo begun; {ESCAPING_SCRIPT} sleep 62");
    let limit = Duration::from_millis(500);
    let late = run_set_up(&fixture, &sandbox, &command, limit);
    let Err(SandboxError::SetUpFailed { ended, said, .. }) = late else {
        panic!("{late:?}");
    };
    assert_eq!(ended, SetUpFailure::TimedOut(limit));
    assert_eq!(said.text, "begun\n");
    assert!(began.elapsed() < Duration::from_secs(30));
    assert_child_gone(&sandbox);
    // What it leaves running when it ends by itself goes as well.
    let done = run_set_up(&fixture, &sandbox, ESCAPING_SCRIPT, MINUTE);
    assert!(matches!(done, Ok(SetUpOutcome::Done(_))), "{done:?}");
    assert_child_gone(&sandbox);
}

/// Starts a process that leaves the group and the session it was started in, and says which it is.
const ESCAPING_SCRIPT: &str = "setsid sh -c 'echo $$ > child; exec sleep 61' & \
    while ! [ -s child ]; do sleep 0.01; done;";

#[test]
fn a_set_up_that_nobody_wants_any_more_is_ended_with_all_it_started() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    let began = Instant::now();
    let is_begun = || std::fs::read(sandbox.path.join("child")).is_ok_and(|text| !text.is_empty());
    let stopped = fixture.sandboxes.run_set_up(
        &fixture.sandbox_key(test_plan_id(1)),
        &sandbox,
        &format!("{ESCAPING_SCRIPT} sleep 62"),
        MINUTE,
        &|| !is_begun(),
    );
    assert!(
        matches!(stopped, Err(SandboxError::SetUpStopped { .. })),
        "{stopped:?}"
    );
    assert!(began.elapsed() < Duration::from_secs(30));
    assert_child_gone(&sandbox);
    // Nothing says that it succeeded.
    let done = run_set_up(&fixture, &sandbox, "true", MINUTE);
    assert!(matches!(done, Ok(SetUpOutcome::Done(_))), "{done:?}");
}

#[test]
fn nobody_takes_a_sandbox_over_that_is_being_set_up() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    let looked = std::cell::Cell::new(false);
    let look = || {
        let lock = std::fs::File::open(sandbox.lock_path()).unwrap();
        let taken = rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive);
        looked.set(true);
        taken.is_ok()
    };
    let stopped = fixture.sandboxes.run_set_up(
        &fixture.sandbox_key(test_plan_id(1)),
        &sandbox,
        "sleep 62",
        MINUTE,
        &look,
    );
    assert!(looked.get());
    assert!(
        matches!(stopped, Err(SandboxError::SetUpStopped { .. })),
        "{stopped:?}"
    );
}

#[test]
fn a_workshop_that_nobody_supervises_in_runs_no_set_up() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    let alone = Sandboxes::new(
        fixture.directory.path().join("home"),
        crate::fixture::test_git_env(),
    );
    let key = fixture.sandbox_key(test_plan_id(1));
    let refused = alone.run_set_up(&key, &sandbox, "touch ran", MINUTE, &|| true);
    assert!(
        matches!(refused, Err(SandboxError::NoSupervisor { .. })),
        "{refused:?}"
    );
    assert!(!sandbox.path.join("ran").exists());
}

#[test]
fn people_are_told_the_last_lines_of_a_set_up() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    let failed = run_set_up(&fixture, &sandbox, "seq 1 100; exit 4", MINUTE);
    let told = failed.unwrap_err().to_string();
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(
        lines[0],
        "the set-up `seq 1 100; exit 4` ended with exit code 4"
    );
    assert_eq!(lines[1..3], ["[…]", "61"]);
    assert_eq!(lines.last(), Some(&"100"));
    let silent = run_set_up(&fixture, &sandbox, "exit 4", MINUTE);
    assert!(
        silent
            .unwrap_err()
            .to_string()
            .ends_with("It said nothing.")
    );
}

fn assert_child_gone(sandbox: &Sandbox) {
    let child = std::fs::read_to_string(sandbox.path.join("child")).unwrap();
    crate::process_fixture::wait_until("what it started is gone", || {
        !crate::process_fixture::is_alive(child.trim())
    });
    std::fs::remove_file(sandbox.path.join("child")).unwrap();
}
