//! Detecting running and ended processes, and how long ended ones are remembered.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use plan::takeover::HolderLiveness;
use planwright_sandbox::Sandboxes;
use tempfile::TempDir;

use crate::fixture::test_git_env;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Did the process that registered under this name certainly end?
fn is_gone(sandboxes: &Sandboxes, owner: &str) -> bool {
    sandboxes.processes().check_liveness(owner).unwrap() == HolderLiveness::Ended
}

struct PresenceFixture {
    directory: TempDir,
    sandboxes: Sandboxes,
}

impl PresenceFixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let sandboxes = Sandboxes::new(directory.path().join("home"), test_git_env());
        Self {
            directory,
            sandboxes,
        }
    }

    fn list_files(&self) -> Vec<PathBuf> {
        let present = self.directory.path().join("home/present");
        let entries = fs::read_dir(present).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// The path of the file of a process that is not running.
    fn find_presence_file(&self, owner: &str) -> PathBuf {
        let _presence = self.sandboxes.processes().register_presence(owner).unwrap();
        let files = self.list_files();
        let [file] = &files[..] else {
            panic!("{files:?}");
        };
        file.clone()
    }

    /// Leaves the file of a killed process, without its lock.
    fn leave_killed_file(&self, file: &PathBuf, content: &str, ago: Duration) {
        let new_file = self.directory.path().join("made");
        fs::write(&new_file, content).unwrap();
        set_file_age(&new_file, ago);
        fs::rename(&new_file, file).unwrap();
    }
}

fn set_file_age(file: &PathBuf, ago: Duration) {
    let file = File::options().write(true).open(file).unwrap();
    file.set_modified(SystemTime::now() - ago).unwrap();
}

#[test]
fn killed_process_is_remembered_for_a_day() {
    let fixture = PresenceFixture::new();
    let sandboxes = &fixture.sandboxes;
    let file = fixture.find_presence_file("killed");
    assert!(fixture.list_files().is_empty());
    // It had run for weeks before it was killed.
    fixture.leave_killed_file(&file, "here\n", 20 * DAY);
    for _ in 0..3 {
        let other = sandboxes.processes().register_presence("other").unwrap();
        assert!(is_gone(sandboxes, "killed"));
        assert!(!is_gone(sandboxes, "other"));
        drop(other);
    }
    set_file_age(&file, DAY / 2);
    drop(sandboxes.processes().register_presence("other").unwrap());
    assert!(is_gone(sandboxes, "killed"));
    // Not to the second: file systems may store times with less precision.
    set_file_age(&file, DAY + DAY / 24);
    drop(sandboxes.processes().register_presence("other").unwrap());
    assert!(fixture.list_files().is_empty());
    assert!(!is_gone(sandboxes, "killed"));
}

#[test]
fn running_process_is_never_expired() {
    let fixture = PresenceFixture::new();
    let sandboxes = &fixture.sandboxes;
    let file = fixture.find_presence_file("patient");
    let patient = sandboxes.processes().register_presence("patient").unwrap();
    fs::write(&file, "gone\n").unwrap();
    set_file_age(&file, 2 * DAY);
    drop(sandboxes.processes().register_presence("other").unwrap());
    assert!(file.exists());
    assert!(!is_gone(sandboxes, "patient"));
    assert!(sandboxes.processes().register_presence("patient").is_err());
    drop(patient);
    assert!(!file.exists());
}

#[test]
fn returning_process_counts_as_running() {
    let fixture = PresenceFixture::new();
    let sandboxes = &fixture.sandboxes;
    let file = fixture.find_presence_file("returning");
    fixture.leave_killed_file(&file, "gone\n", DAY / 2);
    let presence = sandboxes
        .processes()
        .register_presence("returning")
        .unwrap();
    assert!(!is_gone(sandboxes, "returning"));
    // Killed again, it counts as gone for another day.
    std::mem::forget(presence);
    fixture.leave_killed_file(&file, &fs::read_to_string(&file).unwrap(), 2 * DAY);
    drop(sandboxes.processes().register_presence("other").unwrap());
    assert!(is_gone(sandboxes, "returning"));
}

/// A process returns under its name while others are about to expire its file.
#[test]
fn registering_survives_a_concurrent_expiry() {
    const REGISTRATION_COUNT: usize = 500;
    let fixture = PresenceFixture::new();
    let sandboxes = &fixture.sandboxes;
    let file = fixture.find_presence_file("returning");
    let stop = AtomicBool::new(false);
    let registered = std::thread::scope(|scope| {
        for number in 0..3 {
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    drop(
                        sandboxes
                            .processes()
                            .register_presence(&format!("other {number}"))
                            .unwrap(),
                    );
                    is_gone(sandboxes, "returning");
                }
            });
        }
        let mut registered = 0;
        for _ in 0..REGISTRATION_COUNT {
            fixture.leave_killed_file(&file, "gone\n", 2 * DAY);
            let presence = sandboxes.processes().register_presence("returning");
            let is_gone = is_gone(sandboxes, "returning");
            registered += usize::from(presence.is_ok() && file.exists() && !is_gone);
        }
        stop.store(true, Ordering::SeqCst);
        registered
    });
    assert_eq!(registered, REGISTRATION_COUNT);
}
