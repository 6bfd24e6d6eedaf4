//! Ready to work: ignored files that work needs, and the user's set-up command.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, Instant};

use planwright_sandbox::{
    Ended, FurnishLimits, Furnished, Sandbox, SandboxError, SetUp, Start, Workshop,
};

use crate::yard::{Yard, plan, write};

const MINUTE: Duration = Duration::from_secs(60);

fn furnish(yard: &Yard, sandbox: &Sandbox, include: &[&str]) -> Furnished {
    let include: Vec<String> = include.iter().map(|one| (*one).to_owned()).collect();
    yard.workshop
        .furnish(&yard.room(plan(1)), sandbox, &include)
        .unwrap()
}

/// A checkout with ignored, tracked and untracked files.
fn yard() -> Yard {
    let yard = Yard::new();
    yard.write(
        ".gitignore",
        "target/\n.env*\n*.local\nlinks/\nkept/*.key\n",
    );
    yard.commit("ignores");
    yard.write(".env", "SECRET=1\n");
    yard.write(".env.test", "SECRET=2\n");
    yard.write("app/deep/settings.local", "colour=blue\n");
    yard.write("target/cache/big", "cached\n");
    yard.write("notes.txt", "untracked, not ignored\n");
    yard
}

#[test]
fn ignored_files_that_are_asked_for_are_copied_and_no_others() {
    let yard = yard();
    let tool = yard.path().join("target/tool");
    write(&tool, "#!/bin/sh\n");
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    yard.write(
        ".worktreeinclude",
        "# what work needs\n.env*\n!.env.test\nnotes.txt\nsrc/a.txt\n",
    );
    let before = yard.photograph_of_theirs();
    let sandbox = yard.enter(plan(1), 1);
    yard.write("src/a.txt", "edited, not committed\n");
    let furnished = furnish(&yard, &sandbox, &["*.local", "/target/tool"]);
    let bytes = "SECRET=1\ncolour=blue\n#!/bin/sh\n".len() as u64;
    assert_eq!(
        furnished,
        Furnished {
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
    let result = yard.captured(plan(1), 1);
    let tree = yard.git(&["rev-parse", "HEAD^{tree}"]);
    assert_eq!(result.tree.to_string(), tree);
    yard.git(&["checkout", "-q", "src/a.txt"]);
    let after = yard.photograph_of_theirs();
    let ours = |path: &&std::path::PathBuf| !path.ends_with(".git/index");
    assert!(after.keys().filter(ours).eq(before.keys().filter(ours)));
    // What the agent made of it stays when it is done again.
    write(&there(".env"), "SECRET=changed\n");
    assert_eq!(furnish(&yard, &sandbox, &["*.local"]).files, 2);
    assert_eq!(
        std::fs::read_to_string(there(".env")).unwrap(),
        "SECRET=changed\n"
    );
}

#[test]
fn a_file_that_only_the_checkout_ignores_would_be_captured_and_is_not_copied() {
    let yard = Yard::new();
    let sandbox = yard.enter(plan(1), 1);
    yard.write(".gitignore", "target/\n.env\n");
    yard.write(".env", "SECRET=1\n");
    assert_eq!(furnish(&yard, &sandbox, &[".env"]), Furnished::default());
    assert!(!sandbox.path.join(".env").exists());
}

#[test]
fn links_are_copied_as_links_and_never_followed() {
    let yard = yard();
    let outside = yard.directory.path().join("outside");
    write(&outside.join("secret.local"), "not theirs\n");
    std::fs::create_dir(yard.path().join("links")).unwrap();
    symlink(&outside, yard.path().join("links/directory")).unwrap();
    symlink("../../../etc/passwd", yard.path().join("links/file")).unwrap();
    symlink("nowhere", yard.path().join("links/broken")).unwrap();
    let sandbox = yard.enter(plan(1), 1);
    // A way that leads out of the sandbox by a link of the agent's is not taken either.
    symlink(&outside, sandbox.path.join("app")).unwrap();
    let furnished = furnish(&yard, &sandbox, &["links/", "*.local"]);
    assert_eq!((furnished.files, furnished.left_out), (3, 1));
    for link in ["directory", "file", "broken"] {
        let name = format!("links/{link}");
        assert_eq!(
            std::fs::read_link(sandbox.path.join(&name)).unwrap(),
            std::fs::read_link(yard.path().join(&name)).unwrap()
        );
    }
    assert!(!outside.join("deep").exists());
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn too_much_is_cut_off_and_said() {
    let yard = yard();
    for number in 0..10 {
        yard.write(&format!("target/{number}.txt"), "0123456789");
    }
    let sandbox = yard.enter(plan(1), 1);
    let within = |files, bytes| {
        let limits = FurnishLimits { files, bytes };
        let include = ["/target/*.txt".to_owned()];
        yard.workshop
            .furnish_within(&yard.room(plan(1)), &sandbox, &include, limits)
            .unwrap()
    };
    let cut_off = |furnished: Furnished| (furnished.files, furnished.bytes, furnished.left_out);
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
    let yard = yard();
    yard.write("target/inner/file.txt", "inner\n");
    crate::yard::git(&yard.path().join("target/inner"), &["init", "-q", "."]);
    let pipe = std::process::Command::new("mkfifo")
        .arg(yard.path().join("pipe.local"))
        .status();
    assert!(pipe.unwrap().success());
    let sandbox = yard.enter(plan(1), 1);
    let furnished = furnish(&yard, &sandbox, &["target/", "pipe.local"]);
    assert_eq!(furnished.files, 1, "the cache alone");
    assert!(!sandbox.path.join("target/inner").exists());
}

fn set_up(
    yard: &Yard,
    sandbox: &Sandbox,
    command: &str,
    limit: Duration,
) -> Result<SetUp, SandboxError> {
    let (workshop, room) = (&yard.workshop, yard.room(plan(1)));
    workshop.set_up(&room, sandbox, command, limit, &|| true)
}

#[test]
fn the_set_up_runs_once_in_the_sandbox_with_little_around_it() {
    let yard = Yard::new();
    let sandbox = yard.enter(plan(1), 1);
    let command =
        "pwd; env | cut -d= -f1 | sort | tr '\\n' ' '; mkdir -p target; echo x >> target/ran";
    let SetUp::Done(said) = set_up(&yard, &sandbox, command, MINUTE).unwrap() else {
        panic!("it had not run before");
    };
    let lines: Vec<&str> = said.end.lines().collect();
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
    let again = set_up(&yard, &sandbox, command, MINUTE).unwrap();
    assert_eq!(again, SetUp::DoneBefore);
    let ran = std::fs::read_to_string(sandbox.path.join("target/ran")).unwrap();
    assert_eq!(ran, "x\n");
    // A sandbox of its own is new again.
    let room = yard.room(plan(1));
    let fresh = yard
        .workshop
        .enter(&room, plan::Epoch(2), &sandbox.base, Start::Afresh)
        .unwrap();
    assert!(matches!(
        set_up(&yard, &fresh.sandbox, command, MINUTE),
        Ok(SetUp::Done(_))
    ));
}

#[test]
fn a_set_up_that_fails_says_how_and_is_tried_again() {
    let yard = Yard::new();
    let sandbox = yard.enter(plan(1), 1);
    let command = "echo out; echo no such package >&2; exit 3";
    for _ in 0..2 {
        let failed = set_up(&yard, &sandbox, command, MINUTE);
        let Err(SandboxError::SetUpFailed { ended, said, .. }) = failed else {
            panic!("{failed:?}");
        };
        assert_eq!(ended, Ended::Code(3));
        assert_eq!(said.end, "out\nno such package\n");
    }
    let killed = set_up(&yard, &sandbox, "kill -TERM $$", MINUTE);
    let Err(SandboxError::SetUpFailed { ended, .. }) = killed else {
        panic!("{killed:?}");
    };
    assert_eq!(ended, Ended::Signal(15));
    let done = set_up(&yard, &sandbox, "true", MINUTE);
    assert!(matches!(done, Ok(SetUp::Done(_))));
}

#[test]
fn only_the_end_of_a_long_output_is_kept() {
    let yard = Yard::new();
    let sandbox = yard.enter(plan(1), 1);
    let command = "yes 0123456789 | head -n 100000; echo the end";
    let SetUp::Done(said) = set_up(&yard, &sandbox, command, MINUTE).unwrap() else {
        panic!("it had not run before");
    };
    assert_eq!(said.end.len(), 64 << 10);
    assert_eq!(said.left_out, 1_100_000 + 8 - (64 << 10));
    assert!(said.end.ends_with("the end\n"));
}

#[test]
fn a_set_up_that_takes_too_long_is_ended_with_all_it_started() {
    let yard = Yard::new();
    let sandbox = yard.enter(plan(1), 1);
    let began = Instant::now();
    let command = format!("echo begun; {ESCAPES} sleep 62");
    let limit = Duration::from_millis(500);
    let late = set_up(&yard, &sandbox, &command, limit);
    let Err(SandboxError::SetUpFailed { ended, said, .. }) = late else {
        panic!("{late:?}");
    };
    assert_eq!(ended, Ended::TooLate(limit));
    assert_eq!(said.end, "begun\n");
    assert!(began.elapsed() < Duration::from_secs(30));
    assert_gone(&sandbox);
    // What it leaves running when it ends by itself goes as well.
    let done = set_up(&yard, &sandbox, ESCAPES, MINUTE);
    assert!(matches!(done, Ok(SetUp::Done(_))), "{done:?}");
    assert_gone(&sandbox);
}

/// Starts a process that leaves the group and the session it was started in, and says which it is.
const ESCAPES: &str = "setsid sh -c 'echo $$ > child; exec sleep 61' & \
    while ! [ -s child ]; do sleep 0.01; done;";

#[test]
fn a_set_up_that_nobody_wants_any_more_is_ended_with_all_it_started() {
    let yard = Yard::new();
    let sandbox = yard.enter(plan(1), 1);
    let began = Instant::now();
    let is_begun = || std::fs::read(sandbox.path.join("child")).is_ok_and(|text| !text.is_empty());
    let stopped = yard.workshop.set_up(
        &yard.room(plan(1)),
        &sandbox,
        &format!("{ESCAPES} sleep 62"),
        MINUTE,
        &|| !is_begun(),
    );
    assert!(
        matches!(stopped, Err(SandboxError::SetUpStopped { .. })),
        "{stopped:?}"
    );
    assert!(began.elapsed() < Duration::from_secs(30));
    assert_gone(&sandbox);
    // Nothing says that it succeeded.
    let done = set_up(&yard, &sandbox, "true", MINUTE);
    assert!(matches!(done, Ok(SetUp::Done(_))), "{done:?}");
}

#[test]
fn nobody_takes_a_sandbox_over_that_is_being_set_up() {
    let yard = Yard::new();
    let sandbox = yard.enter(plan(1), 1);
    let looked = std::cell::Cell::new(false);
    let look = || {
        let lock = std::fs::File::open(sandbox.lock()).unwrap();
        let taken = rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive);
        looked.set(true);
        taken.is_ok()
    };
    let stopped = yard
        .workshop
        .set_up(&yard.room(plan(1)), &sandbox, "sleep 62", MINUTE, &look);
    assert!(looked.get());
    assert!(
        matches!(stopped, Err(SandboxError::SetUpStopped { .. })),
        "{stopped:?}"
    );
}

#[test]
fn a_workshop_that_nobody_supervises_in_runs_no_set_up() {
    let yard = Yard::new();
    let sandbox = yard.enter(plan(1), 1);
    let alone = Workshop::new(
        yard.directory.path().join("home"),
        crate::yard::surroundings(),
    );
    let room = yard.room(plan(1));
    let refused = alone.set_up(&room, &sandbox, "touch ran", MINUTE, &|| true);
    assert!(
        matches!(refused, Err(SandboxError::NoSupervisor { .. })),
        "{refused:?}"
    );
    assert!(!sandbox.path.join("ran").exists());
}

#[test]
fn people_are_told_the_last_lines_of_a_set_up() {
    let yard = Yard::new();
    let sandbox = yard.enter(plan(1), 1);
    let failed = set_up(&yard, &sandbox, "seq 1 100; exit 4", MINUTE);
    let told = failed.unwrap_err().to_string();
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(
        lines[0],
        "the set-up `seq 1 100; exit 4` ended with exit code 4"
    );
    assert_eq!(lines[1..3], ["[…]", "61"]);
    assert_eq!(lines.last(), Some(&"100"));
    let silent = set_up(&yard, &sandbox, "exit 4", MINUTE);
    assert!(
        silent
            .unwrap_err()
            .to_string()
            .ends_with("It said nothing.")
    );
}

fn assert_gone(sandbox: &Sandbox) {
    let child = std::fs::read_to_string(sandbox.path.join("child")).unwrap();
    crate::stage::eventually("what it started is gone", || {
        !crate::stage::is_alive(child.trim())
    });
    std::fs::remove_file(sandbox.path.join("child")).unwrap();
}
