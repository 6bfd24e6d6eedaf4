//! Who is here and who is gone, and what is kept of the latter.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use plan::takeover::Liveness;
use planwright_sandbox::Workshop;
use tempfile::TempDir;

use crate::yard::surroundings;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Is the process that signed in under this name proven to have ended?
fn is_gone(workshop: &Workshop, owner: &str) -> bool {
    workshop.liveness(owner).unwrap() == Liveness::Ended
}

struct House {
    directory: TempDir,
    workshop: Workshop,
}

impl House {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let workshop = Workshop::new(directory.path().join("home"), surroundings());
        Self {
            directory,
            workshop,
        }
    }

    /// The files of everybody that are kept.
    fn files(&self) -> Vec<PathBuf> {
        let present = self.directory.path().join("home/present");
        let entries = fs::read_dir(present).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// The file of somebody who is not here.
    fn file_of(&self, owner: &str) -> PathBuf {
        let _presence = self.workshop.sign_in(owner).unwrap();
        let files = self.files();
        let [file] = &files[..] else {
            panic!("{files:?}");
        };
        file.clone()
    }

    /// Leaves what a killed process does: its file without its lock.
    fn kill(&self, file: &PathBuf, said: &str, ago: Duration) {
        let made = self.directory.path().join("made");
        fs::write(&made, said).unwrap();
        age(&made, ago);
        fs::rename(&made, file).unwrap();
    }
}

/// Has a file be last written so long ago.
fn age(file: &PathBuf, ago: Duration) {
    let file = File::options().write(true).open(file).unwrap();
    file.set_modified(SystemTime::now() - ago).unwrap();
}

#[test]
fn whoever_was_killed_is_known_to_be_gone_for_a_day_and_then_forgotten() {
    let house = House::new();
    let workshop = &house.workshop;
    let file = house.file_of("killed");
    assert!(house.files().is_empty());
    // It worked for weeks before it was killed.
    house.kill(&file, "here\n", 20 * DAY);
    for _ in 0..3 {
        let other = workshop.sign_in("other").unwrap();
        assert!(is_gone(workshop, "killed"));
        assert!(!is_gone(workshop, "other"));
        drop(other);
    }
    age(&file, DAY / 2);
    drop(workshop.sign_in("other").unwrap());
    assert!(is_gone(workshop, "killed"));
    // Not to the moment: file systems keep the time less finely.
    age(&file, DAY + DAY / 24);
    drop(workshop.sign_in("other").unwrap());
    assert!(house.files().is_empty());
    assert!(!is_gone(workshop, "killed"));
}

#[test]
fn whoever_is_here_is_not_forgotten_however_long() {
    let house = House::new();
    let workshop = &house.workshop;
    let file = house.file_of("patient");
    let patient = workshop.sign_in("patient").unwrap();
    fs::write(&file, "gone\n").unwrap();
    age(&file, 2 * DAY);
    drop(workshop.sign_in("other").unwrap());
    assert!(file.exists());
    assert!(!is_gone(workshop, "patient"));
    assert!(workshop.sign_in("patient").is_err());
    drop(patient);
    assert!(!file.exists());
}

#[test]
fn whoever_comes_back_is_here_whatever_is_known_of_them() {
    let house = House::new();
    let workshop = &house.workshop;
    let file = house.file_of("returning");
    house.kill(&file, "gone\n", DAY / 2);
    let presence = workshop.sign_in("returning").unwrap();
    assert!(!is_gone(workshop, "returning"));
    // Killed again, it is known to be gone for a day from then on.
    std::mem::forget(presence);
    house.kill(&file, &fs::read_to_string(&file).unwrap(), 2 * DAY);
    drop(workshop.sign_in("other").unwrap());
    assert!(is_gone(workshop, "returning"));
}

/// Somebody comes back under their name while others are about to forget them.
#[test]
fn signing_in_survives_being_forgotten_at_that_moment() {
    const TIMES: usize = 500;
    let house = House::new();
    let workshop = &house.workshop;
    let file = house.file_of("returning");
    let enough = AtomicBool::new(false);
    let came_back = std::thread::scope(|scope| {
        for number in 0..3 {
            let enough = &enough;
            scope.spawn(move || {
                while !enough.load(Ordering::SeqCst) {
                    drop(workshop.sign_in(&format!("other {number}")).unwrap());
                    is_gone(workshop, "returning");
                }
            });
        }
        let mut came_back = 0;
        for _ in 0..TIMES {
            house.kill(&file, "gone\n", 2 * DAY);
            let presence = workshop.sign_in("returning");
            let is_gone = is_gone(workshop, "returning");
            came_back += usize::from(presence.is_ok() && file.exists() && !is_gone);
        }
        enough.store(true, Ordering::SeqCst);
        came_back
    });
    assert_eq!(came_back, TIMES);
}
