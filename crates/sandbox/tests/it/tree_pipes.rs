//! A named pipe in a working tree never blocks git.

use std::path::Path;
use std::time::Duration;

use plan::Epoch;
use planwright_sandbox::{
    GitEnv, ResourceLocation, Sandbox, SandboxEntryMode, SandboxError, Sandboxes,
};
use rustix::fs::{CWD, FileType, Mode};

use crate::fixture::{SandboxFixture, test_git_env, test_plan_id};

/// Where git reads a pipe, and the path that a refusal names.
const READ_PIPES: [(&str, &str); 5] = [
    (".gitignore", ".gitignore"),
    (".gitattributes", ".gitattributes"),
    ("src/.gitignore", "src/.gitignore"),
    ("src/.gitattributes", "src/.gitattributes"),
    ("nested/.git/HEAD", "nested"),
];

/// Replaces the file at a path.
fn make_pipe(path: &Path) {
    let _ = std::fs::remove_file(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
}

fn make_pipe_in_sandbox(sandbox: &Sandbox, name: &str) {
    make_pipe(&sandbox.path.join(name));
    if let Some((repository, _)) = name.split_once("/.git/") {
        for directory in ["objects", "refs"] {
            let directory = sandbox.path.join(repository).join(".git").join(directory);
            std::fs::create_dir(directory).unwrap();
        }
    }
    std::fs::write(sandbox.path.join("src/n.txt"), "new\n").unwrap();
}

/// A git that waits for a pipe ends in another error than the expected one.
fn open_with_short_timeout(fixture: &SandboxFixture) -> Sandboxes {
    let git_env = GitEnv {
        timeout: Duration::from_secs(30),
        stop: None,
        ..test_git_env()
    };
    Sandboxes::new(fixture.directory.path().join("home"), git_env)
}

#[test]
fn result_with_a_pipe_that_git_reads_is_refused_by_name() {
    for (name, refused) in READ_PIPES {
        let fixture = SandboxFixture::new();
        let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
        make_pipe_in_sandbox(&sandbox, name);
        let sandboxes = open_with_short_timeout(&fixture);
        let key = fixture.sandbox_key(test_plan_id(1));
        let captured = sandboxes
            .capture()
            .capture_sandbox(&key, Epoch(1), &sandbox.base);
        let error = captured.unwrap_err();
        assert!(error.is_uncapturable(), "{name}: {error}");
        let message = error.to_string();
        let expected = format!("{refused} cannot be part of the result: it is ");
        assert!(message.starts_with(&expected), "{name}: {message}");
    }
}

#[test]
fn sandbox_with_a_pipe_can_be_shown_and_entered_again() {
    for (name, _) in READ_PIPES {
        let fixture = SandboxFixture::new();
        let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
        make_pipe_in_sandbox(&sandbox, name);
        let sandboxes = open_with_short_timeout(&fixture);
        let key = fixture.sandbox_key(test_plan_id(1));
        let diff = sandboxes.diffs().diff_sandbox(&key).unwrap().unwrap();
        let changed = diff.list_changed_paths(&[]).unwrap();
        assert!(
            changed.iter().any(|one| one.as_bytes() == b"src/n.txt"),
            "{name}"
        );
        drop(diff);
        sandboxes
            .capture()
            .record_ignored_files(&key, Epoch(1))
            .unwrap();
        let rescued = sandboxes.rescue().rescue_late_changes(&key, &sandbox.base);
        assert!(rescued.unwrap_err().is_uncapturable(), "{name}");
        let entered =
            sandboxes.enter_sandbox(&key, Epoch(2), &sandbox.base, SandboxEntryMode::Continue);
        drop(entered.unwrap());
        assert!(sandbox.path.join(name).symlink_metadata().is_ok(), "{name}");
    }
}

/// A pipe, also in place of a file that a landing would replace.
#[test]
fn directory_with_a_pipe_is_refused_by_name() {
    for name in [".gitignore", "src/.gitattributes", "src/a.txt"] {
        let mut fixture = SandboxFixture::new_empty();
        fixture.resource.location = ResourceLocation::Dir {
            path: fixture.path(),
        };
        fixture.write_file("src/a.txt", "one\n");
        let sandboxes = open_with_short_timeout(&fixture);
        sandboxes.read_tip(&fixture.resource).unwrap();
        make_pipe(&fixture.path().join(name));
        let error = sandboxes.read_tip(&fixture.resource).unwrap_err();
        let SandboxError::NotRegularFile { path } = &error else {
            panic!("{name}: {error}");
        };
        assert_eq!(*path, fixture.path().join(name));
    }
}
