//! Who is here and who is gone, and what is kept of the latter.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use plan::takeover::HolderLiveness;
use planwright_sandbox::Sandboxes;
use tempfile::TempDir;

use crate::fixture::test_git_env;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Is the process that signed in under this name proven to have ended?
fn is_gone(sandboxes: &Sandboxes, owner: &str) -> bool {
    sandboxes.check_liveness(owner).unwrap() == HolderLiveness::Ended
}

struct PresenceFixture {
    directory: TempDir,
    workshop: Sandboxes,
}

impl PresenceFixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let sandboxes = Sandboxes::new(directory.path().join("home"), test_git_env());
        Self {
            directory,
            workshop: sandboxes,
        }
    }

    /// The files of everybody that are kept.
    fn list_files(&self) -> Vec<PathBuf> {
        let present = self.directory.path().join("home/present");
        let entries = fs::read_dir(present).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// The file of somebody who is not here.
    fn find_presence_file(&self, owner: &str) -> PathBuf {
        let _presence = self.workshop.register_presence(owner).unwrap();
        let files = self.list_files();
        let [file] = &files[..] else {
            panic!("{files:?}");
        };
        file.clone()
    }

    /// Leaves what a killed process does: its file without its lock.
    fn leave_killed_file(&self, file: &PathBuf, content: &str, ago: Duration) {
        let made = self.directory.path().join("made");
        fs::write(&made, content).unwrap();
        set_file_age(&made, ago);
        fs::rename(&made, file).unwrap();
    }
}

/// Has a file be last written so long ago.
fn set_file_age(file: &PathBuf, ago: Duration) {
    let file = File::options().write(true).open(file).unwrap();
    file.set_modified(SystemTime::now() - ago).unwrap();
}

#[test]
fn whoever_was_killed_is_known_to_be_gone_for_a_day_and_then_forgotten() {
    let fixture = PresenceFixture::new();
    let sandboxes = &fixture.workshop;
    let file = fixture.find_presence_file("killed");
    assert!(fixture.list_files().is_empty());
    // It worked for weeks before it was killed.
    fixture.leave_killed_file(&file, "here\n", 20 * DAY);
    for _ in 0..3 {
        let other = sandboxes.register_presence("other").unwrap();
        assert!(is_gone(sandboxes, "killed"));
        assert!(!is_gone(sandboxes, "other"));
        drop(other);
    }
    set_file_age(&file, DAY / 2);
    drop(sandboxes.register_presence("other").unwrap());
    assert!(is_gone(sandboxes, "killed"));
    // Not to the moment: file systems keep the time less finely.
    set_file_age(&file, DAY + DAY / 24);
    drop(sandboxes.register_presence("other").unwrap());
    assert!(fixture.list_files().is_empty());
    assert!(!is_gone(sandboxes, "killed"));
}

#[test]
fn whoever_is_here_is_not_forgotten_however_long() {
    let fixture = PresenceFixture::new();
    let sandboxes = &fixture.workshop;
    let file = fixture.find_presence_file("patient");
    let patient = sandboxes.register_presence("patient").unwrap();
    fs::write(&file, "gone\n").unwrap();
    set_file_age(&file, 2 * DAY);
    drop(sandboxes.register_presence("other").unwrap());
    assert!(file.exists());
    assert!(!is_gone(sandboxes, "patient"));
    assert!(sandboxes.register_presence("patient").is_err());
    drop(patient);
    assert!(!file.exists());
}

#[test]
fn whoever_comes_back_is_here_whatever_is_known_of_them() {
    let fixture = PresenceFixture::new();
    let sandboxes = &fixture.workshop;
    let file = fixture.find_presence_file("returning");
    fixture.leave_killed_file(&file, "gone\n", DAY / 2);
    let presence = sandboxes.register_presence("returning").unwrap();
    assert!(!is_gone(sandboxes, "returning"));
    // Killed again, it is known to be gone for a day from then on.
    std::mem::forget(presence);
    fixture.leave_killed_file(&file, &fs::read_to_string(&file).unwrap(), 2 * DAY);
    drop(sandboxes.register_presence("other").unwrap());
    assert!(is_gone(sandboxes, "returning"));
}

/// Somebody comes back under their name while others are about to forget them.
#[test]
fn signing_in_survives_being_forgotten_at_that_moment() {
    const SIGN_IN_COUNT: usize = 500;
    let fixture = PresenceFixture::new();
    let sandboxes = &fixture.workshop;
    let file = fixture.find_presence_file("returning");
    let enough = AtomicBool::new(false);
    let came_back = std::thread::scope(|scope| {
        for number in 0..3 {
            let enough = &enough;
            scope.spawn(move || {
                while !enough.load(Ordering::SeqCst) {
                    drop(
                        sandboxes
                            .register_presence(&format!("other {number}"))
                            .unwrap(),
                    );
                    is_gone(sandboxes, "returning");
                }
            });
        }
        let mut came_back = 0;
        for _ in 0..SIGN_IN_COUNT {
            fixture.leave_killed_file(&file, "gone\n", 2 * DAY);
            let presence = sandboxes.register_presence("returning");
            let is_gone = is_gone(sandboxes, "returning");
            came_back += usize::from(presence.is_ok() && file.exists() && !is_gone);
        }
        enough.store(true, Ordering::SeqCst);
        came_back
    });
    assert_eq!(came_back, SIGN_IN_COUNT);
}
