//! Preparing a sandbox: copying ignored files, and running the set-up command.

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
fn only_requested_ignored_files_are_copied() {
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
    let summary = copy_ignored_files(&fixture, &sandbox, &["*.local", "/target/tool"]);
    let bytes = "SECRET=1\ncolour=blue\n#!/bin/sh\n".len() as u64;
    assert_eq!(
        summary,
        IgnoredCopySummary {
            files: 3,
            bytes,
            left_out: 0
        }
    );
    let in_sandbox = |path: &str| sandbox.path.join(path);
    assert_eq!(
        std::fs::read_to_string(in_sandbox(".env")).unwrap(),
        "SECRET=1\n"
    );
    assert!(in_sandbox("app/deep/settings.local").exists());
    let mode = std::fs::metadata(in_sandbox("target/tool")).unwrap();
    assert_eq!(mode.permissions().mode() & 0o777, 0o755);
    for absent in [".env.test", "target/cache", "notes.txt", ".worktreeinclude"] {
        assert!(!in_sandbox(absent).exists(), "{absent}");
    }
    assert!(
        std::fs::read_to_string(in_sandbox("src/a.txt"))
            .unwrap()
            .ends_with("eight\n")
    );
    // None of the copied files is captured.
    let result = fixture.capture_result(test_plan_id(1), 1);
    let tree = fixture.run_git(&["rev-parse", "HEAD^{tree}"]);
    assert_eq!(result.tree.to_string(), tree);
    fixture.run_git(&["checkout", "-q", "src/a.txt"]);
    let after = fixture.snapshot_user_files();
    let ours = |path: &&std::path::PathBuf| !path.ends_with(".git/index");
    assert!(after.keys().filter(ours).eq(before.keys().filter(ours)));
    // A second call does not overwrite what the agent changed.
    write_file(&in_sandbox(".env"), "SECRET=changed\n");
    assert_eq!(
        copy_ignored_files(&fixture, &sandbox, &["*.local"]).files,
        2
    );
    assert_eq!(
        std::fs::read_to_string(in_sandbox(".env")).unwrap(),
        "SECRET=changed\n"
    );
}

#[test]
fn file_ignored_only_in_the_checkout_is_not_copied() {
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
fn symlinks_are_copied_and_never_followed() {
    let fixture = make_ignoring_fixture();
    let outside = fixture.directory.path().join("outside");
    write_file(&outside.join("secret.local"), "not theirs\n");
    std::fs::create_dir(fixture.path().join("links")).unwrap();
    symlink(&outside, fixture.path().join("links/directory")).unwrap();
    symlink("../../../etc/passwd", fixture.path().join("links/file")).unwrap();
    symlink("nowhere", fixture.path().join("links/broken")).unwrap();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    // A symlink of the agent that leads out of the sandbox is not followed either.
    symlink(&outside, sandbox.path.join("app")).unwrap();
    let summary = copy_ignored_files(&fixture, &sandbox, &["links/", "*.local"]);
    assert_eq!((summary.files, summary.left_out), (3, 1));
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
fn files_beyond_the_limits_are_counted_as_left_out() {
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
    let counts = |summary: IgnoredCopySummary| (summary.files, summary.bytes, summary.left_out);
    assert_eq!(counts(within(3, 1000)), (3, 30, 7));
    assert_eq!(counts(within(100, 45)), (4, 40, 6));
    assert_eq!(
        std::fs::read_dir(sandbox.path.join("target"))
            .unwrap()
            .count(),
        4
    );
}

#[test]
fn pipes_and_nested_repositories_are_not_copied() {
    let fixture = make_ignoring_fixture();
    fixture.write_file("target/inner/file.txt", "inner\n");
    crate::fixture::run_git(&fixture.path().join("target/inner"), &["init", "-q", "."]);
    let pipe = std::process::Command::new("mkfifo")
        .arg(fixture.path().join("pipe.local"))
        .status();
    assert!(pipe.unwrap().success());
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    let summary = copy_ignored_files(&fixture, &sandbox, &["target/", "pipe.local"]);
    assert_eq!(summary.files, 1, "the cache alone");
    assert!(!sandbox.path.join("target/inner").exists());
}

fn run_set_up(
    fixture: &SandboxFixture,
    sandbox: &Sandbox,
    command: &str,
    limit: Duration,
) -> Result<SetUpOutcome, SandboxError> {
    let (sandboxes, key) = (&fixture.sandboxes, fixture.sandbox_key(test_plan_id(1)));
    sandboxes.run_set_up(&key, sandbox, command, limit, &|| true)
}

#[test]
fn set_up_runs_once_in_the_sandbox_with_a_minimal_environment() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    let command =
        "pwd; env | cut -d= -f1 | sort | tr '\\n' ' '; mkdir -p target; echo x >> target/ran";
    let SetUpOutcome::Done(output) = run_set_up(&fixture, &sandbox, command, MINUTE).unwrap()
    else {
        panic!("it had not run before");
    };
    let lines: Vec<&str> = output.text.lines().collect();
    let sandbox_path = sandbox.path.canonicalize().unwrap();
    assert_eq!(lines[0], sandbox_path.to_str().unwrap());
    for name in lines[1].split_whitespace() {
        // The shell sets a few variables, and the supervisor marks the run.
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
    // A new sandbox is set up again.
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
fn failed_set_up_is_reported_and_repeated() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    let command = "echo out; echo no such package >&2; exit 3";
    for _ in 0..2 {
        let failed = run_set_up(&fixture, &sandbox, command, MINUTE);
        let Err(SandboxError::SetUpFailed {
            ended,
            said: output,
            ..
        }) = failed
        else {
            panic!("{failed:?}");
        };
        assert_eq!(ended, SetUpFailure::Code(3));
        assert_eq!(output.text, "out\nno such package\n");
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
fn only_the_end_of_long_output_is_kept() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    let command = "yes 0123456789 | head -n 100000; echo the end";
    let SetUpOutcome::Done(output) = run_set_up(&fixture, &sandbox, command, MINUTE).unwrap()
    else {
        panic!("it had not run before");
    };
    assert_eq!(output.text.len(), 64 << 10);
    assert_eq!(output.omitted_bytes, 1_100_000 + 8 - (64 << 10));
    assert!(output.text.ends_with("the end\n"));
}

#[test]
fn set_up_over_its_time_limit_is_killed_with_all_it_started() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    let began = Instant::now();
    let command = format!("echo begun; {ESCAPING_SCRIPT} sleep 62");
    let limit = Duration::from_millis(500);
    let late = run_set_up(&fixture, &sandbox, &command, limit);
    let Err(SandboxError::SetUpFailed {
        ended,
        said: output,
        ..
    }) = late
    else {
        panic!("{late:?}");
    };
    assert_eq!(ended, SetUpFailure::TimedOut(limit));
    assert_eq!(output.text, "begun\n");
    assert!(began.elapsed() < Duration::from_secs(30));
    assert_child_gone(&sandbox);
    // Processes that outlive a successful command are killed as well.
    let done = run_set_up(&fixture, &sandbox, ESCAPING_SCRIPT, MINUTE);
    assert!(matches!(done, Ok(SetUpOutcome::Done(_))), "{done:?}");
    assert_child_gone(&sandbox);
}

/// Starts a process that leaves its group and session, and writes its id to a file.
const ESCAPING_SCRIPT: &str = "setsid sh -c 'echo $$ > child; exec sleep 61' & \
    while ! [ -s child ]; do sleep 0.01; done;";

#[test]
fn unwanted_set_up_is_killed_with_all_it_started() {
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
    // No success was recorded.
    let done = run_set_up(&fixture, &sandbox, "true", MINUTE);
    assert!(matches!(done, Ok(SetUpOutcome::Done(_))), "{done:?}");
}

#[test]
fn sandbox_is_locked_during_set_up() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    let was_checked = std::cell::Cell::new(false);
    let is_still_wanted = || {
        let lock = std::fs::File::open(sandbox.lock_path()).unwrap();
        let locked = rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive);
        was_checked.set(true);
        locked.is_ok()
    };
    let stopped = fixture.sandboxes.run_set_up(
        &fixture.sandbox_key(test_plan_id(1)),
        &sandbox,
        "sleep 62",
        MINUTE,
        &is_still_wanted,
    );
    assert!(was_checked.get());
    assert!(
        matches!(stopped, Err(SandboxError::SetUpStopped { .. })),
        "{stopped:?}"
    );
}

#[test]
fn set_up_needs_a_supervisor() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    let unsupervised = Sandboxes::new(
        fixture.directory.path().join("home"),
        crate::fixture::test_git_env(),
    );
    let key = fixture.sandbox_key(test_plan_id(1));
    let refused = unsupervised.run_set_up(&key, &sandbox, "touch ran", MINUTE, &|| true);
    assert!(
        matches!(refused, Err(SandboxError::NoSupervisor { .. })),
        "{refused:?}"
    );
    assert!(!sandbox.path.join("ran").exists());
}

#[test]
fn failed_set_up_shows_its_last_lines() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    let failed = run_set_up(&fixture, &sandbox, "seq 1 100; exit 4", MINUTE);
    let message = failed.unwrap_err().to_string();
    let lines: Vec<&str> = message.lines().collect();
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
            .ends_with("It printed nothing.")
    );
}

fn assert_child_gone(sandbox: &Sandbox) {
    let child = std::fs::read_to_string(sandbox.path.join("child")).unwrap();
    crate::process_fixture::wait_until("what it started is gone", || {
        !crate::process_fixture::is_alive(child.trim())
    });
    std::fs::remove_file(sandbox.path.join("child")).unwrap();
}
