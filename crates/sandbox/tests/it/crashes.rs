//! The crash matrix: killed after every step, or failing there, and then done again.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use plan::Epoch;
use planwright_sandbox::land::{How, Landed, Proposal, Proposed};
use planwright_sandbox::{Faults, ObjectId, Room, SandboxError, Start, Step};

use crate::yard::{Yard, message, plan, write};

const COMMIT: How = How::Commit { merge: false };

/// The steps of making a sandbox and capturing it.
const WORKING: [Step; 7] = [
    Step::VaultMade,
    Step::BasePinned,
    Step::FilesLaidOut,
    Step::RepositoryMade,
    Step::SandboxReady,
    Step::TreeWritten,
    Step::Checkpointed,
];

/// The steps of proposing.
const PROPOSING: [Step; 4] = [
    Step::Fenced,
    Step::Committed,
    Step::ObjectsCopied,
    Step::Pinned,
];

/// The steps of landing in a checkout.
const LANDING: [Step; 10] = [
    Step::IndexLocked,
    Step::Staged,
    Step::Journalled,
    Step::IndexPlaced,
    Step::RefMoved,
    Step::SomeExchanged,
    Step::AllExchanged,
    Step::IndexRefreshed,
    Step::Unlocked,
    Step::JournalRemoved,
];

/// The branch is where it was.
const BEFORE_THE_BRANCH: [Step; 4] = [
    Step::IndexLocked,
    Step::Staged,
    Step::Journalled,
    Step::IndexPlaced,
];

#[test]
fn every_step_is_in_the_matrix() {
    let elsewhere = [Step::Unpinned, Step::Rescued, Step::SandboxSetAside];
    let covered = [&WORKING[..], &PROPOSING, &LANDING, &elsewhere].concat();
    assert_eq!(covered, Step::ALL);
}

/// Fails at one step as if the disk were full.
fn failing(at: Step) -> Faults {
    Faults::new(move |step| {
        if step == at {
            return Err(std::io::Error::from_raw_os_error(28));
        }
        Ok(())
    })
}

#[test]
fn making_and_capturing_a_sandbox_can_be_killed_anywhere() {
    for step in WORKING {
        let yard = Yard::new();
        let before = yard.photograph_of_theirs();
        kill_at(step, "work", &yard, None);
        assert_eq!(yard.photograph_of_theirs(), before, "{step:?}");
        let sandbox = yard.enter(plan(1), 1);
        yard.usual_work_again(&sandbox.path);
        let result = yard.captured(plan(1), 1);
        let Proposed::Ready(proposal) = yard.propose(plan(1), 2, &result, &COMMIT) else {
            panic!("{step:?}");
        };
        yard.land(plan(1), 2, &proposal);
        assert_landed(&yard, &proposal, step);
    }
}

#[test]
fn proposing_can_be_killed_anywhere() {
    for step in PROPOSING {
        let yard = Yard::new();
        let sandbox = yard.enter(plan(1), 1);
        yard.usual_work(&sandbox);
        let result = yard.captured(plan(1), 1);
        let before = yard.photograph_of_theirs();
        kill_at(step, "propose", &yard, None);
        assert_eq!(yard.photograph_of_theirs(), before, "{step:?}");
        let Proposed::Ready(proposal) = yard.propose(plan(1), 3, &result, &COMMIT) else {
            panic!("{step:?}");
        };
        yard.land(plan(1), 3, &proposal);
        assert_landed(&yard, &proposal, step);
    }
}

/// A git that moves a branch outlives whoever started it, and may come to it late.
struct Orphan(String);

impl Orphan {
    /// Of a landing that was killed right before.
    fn of(yard: &Yard, proposal: &Proposal) -> Self {
        let fence = format!("refs/planwright/fence/{}", plan(1));
        let mark = yard.git(&["rev-parse", &fence]);
        let Proposal {
            target, old, new, ..
        } = proposal;
        Self(format!(
            "start\nverify {fence} {mark}\nupdate {target} {new} {old}\nprepare\ncommit\n"
        ))
    }

    fn moves_the_branch(&self, yard: &Yard) -> bool {
        let script = yard.directory.path().join("script");
        std::fs::write(&script, &self.0).unwrap();
        let mut git = Command::new("git");
        git.args(["update-ref", "--stdin"]).current_dir(yard.path());
        let input = std::fs::File::open(script).unwrap();
        git.stdin(input).output().unwrap().status.success()
    }
}

#[test]
fn a_branch_is_not_moved_late_once_another_plan_settled_that_it_did_not_move() {
    let yard = Yard::new();
    let proposal = yard.proposed(plan(1), &COMMIT);
    kill_at(Step::Journalled, "land", &yard, Some(&proposal));
    let orphan = Orphan::of(&yard, &proposal);
    let sandbox = yard.enter(plan(2), 1);
    write(&sandbox.path.join("other.txt"), "other\n");
    let result = yard.captured(plan(2), 1);
    yard.propose(plan(2), 2, &result, &COMMIT);
    assert!(!orphan.moves_the_branch(&yard));
    assert_eq!(yard.tip(), proposal.old);
    yard.assert_clean();
    // Whoever goes on with it may, also under the same epoch.
    let landed = yard.land(plan(1), 2, &proposal);
    assert_eq!(landed, Landed::Yes { kept: Vec::new() });
    assert_eq!(yard.tip(), proposal.new);
}

#[test]
fn a_branch_is_not_moved_late_once_its_landing_was_taken_back() {
    let yard = Yard::new();
    let proposal = yard.proposed(plan(1), &COMMIT);
    kill_at(Step::Journalled, "land", &yard, Some(&proposal));
    let orphan = Orphan::of(&yard, &proposal);
    let room = yard.room(plan(1));
    yard.workshop.settle(&room, &proposal).unwrap();
    assert!(!orphan.moves_the_branch(&yard));
    assert_eq!(yard.tip(), proposal.old);
    yard.assert_clean();
}

/// What is tried above does move a branch if nothing keeps it from it.
#[test]
fn what_a_killed_landing_started_moves_the_branch_before_anybody_settled_it() {
    let yard = Yard::new();
    let proposal = yard.proposed(plan(1), &COMMIT);
    kill_at(Step::Journalled, "land", &yard, Some(&proposal));
    assert!(Orphan::of(&yard, &proposal).moves_the_branch(&yard));
    yard.land(plan(1), 3, &proposal);
    assert_landed(&yard, &proposal, Step::Journalled);
}

#[test]
fn landing_can_be_killed_anywhere_and_is_finished_by_the_next() {
    for step in LANDING {
        let yard = Yard::new();
        let before = yard.tip();
        let proposal = yard.proposed(plan(1), &COMMIT);
        kill_at(step, "land", &yard, Some(&proposal));
        assert_whole(&yard, &before, &proposal, step);
        assert_eq!(
            yard.land(plan(1), 3, &proposal),
            Landed::Yes { kept: Vec::new() },
            "{step:?}"
        );
        assert_landed(&yard, &proposal, step);
        // And once more: nothing is left to do.
        let after = yard.photograph_of_theirs();
        yard.land(plan(1), 4, &proposal);
        assert_eq!(yard.photograph_of_theirs(), after, "{step:?}");
    }
}

#[test]
fn landing_in_the_working_tree_alone_can_be_killed_anywhere() {
    for step in LANDING {
        let yard = Yard::new();
        let proposal = yard.proposed(plan(1), &How::Uncommitted);
        kill_at(step, "land", &yard, Some(&proposal));
        yard.land(plan(1), 3, &proposal);
        assert_eq!(
            yard.git(&["status", "--porcelain", "-uall"]),
            "D old/gone.txt\n M src/a.txt\n?? src/new/c.txt",
            "{step:?}"
        );
        yard.assert_tidy();
    }
}

#[test]
fn a_full_disk_at_any_step_leaves_the_target_before_or_after() {
    for step in LANDING {
        let yard = Yard::new();
        let before = yard.tip();
        let proposal = yard.proposed(plan(1), &COMMIT);
        let failed = yard
            .with_faults(failing(step))
            .land(&yard.room(plan(1)), Epoch(2), &proposal);
        let failed = failed.unwrap_err();
        assert!(failed.is_out_of_space(), "{step:?}: {failed}");
        assert_whole(&yard, &before, &proposal, step);
        yard.land(plan(1), 2, &proposal);
        assert_landed(&yard, &proposal, step);
    }
}

#[test]
fn a_landing_that_never_moved_the_branch_is_taken_back() {
    for step in BEFORE_THE_BRANCH {
        let yard = Yard::new();
        let proposal = yard.proposed(plan(1), &COMMIT);
        let before = yard.photograph_of_theirs();
        kill_at(step, "land", &yard, Some(&proposal));
        assert_ne!(
            yard.photograph_of_theirs(),
            before,
            "{step:?}: a lock is left"
        );
        yard.workshop
            .settle(&yard.room(plan(1)), &proposal)
            .unwrap();
        assert_eq!(yard.photograph_of_theirs(), before, "{step:?}");
    }
}

/// A git that has seen the new branch must not be able to have read the old index: it would write that back.
#[test]
fn whoever_sees_the_branch_moved_sees_the_index_moved() {
    for step in &LANDING[4..] {
        let yard = Yard::new();
        let proposal = yard.proposed(plan(1), &COMMIT);
        kill_at(*step, "land", &yard, Some(&proposal));
        assert_eq!(yard.tip(), proposal.new, "{step:?}");
        let staged = yard.git(&["diff-index", "--cached", "HEAD"]);
        assert_eq!(staged, "", "{step:?}");
    }
}

#[test]
fn a_lock_removed_by_hand_before_the_branch_moved_leaves_nothing_in_the_index() {
    let yard = Yard::new();
    let proposal = yard.proposed(plan(1), &COMMIT);
    kill_at(Step::IndexPlaced, "land", &yard, Some(&proposal));
    std::fs::remove_file(yard.path().join(".git/index.lock")).unwrap();
    yard.write("src/b.txt", "staged by a person\n");
    yard.git(&["add", "src/b.txt"]);
    let room = yard.room(plan(1));
    yard.workshop.settle(&room, &proposal).unwrap();
    assert_eq!(yard.git(&["status", "--porcelain"]), "M  src/b.txt");
    yard.assert_tidy();
}

#[test]
fn what_a_person_saves_after_the_branch_moved_stays() {
    for step in [Step::RefMoved, Step::SomeExchanged, Step::AllExchanged] {
        let yard = Yard::new();
        let proposal = yard.proposed(plan(1), &COMMIT);
        kill_at(step, "land", &yard, Some(&proposal));
        yard.write("src/a.txt", "saved by a person\n");
        yard.write("src/b.txt", "and here\n");
        yard.land(plan(1), 3, &proposal);
        assert_eq!(yard.read("src/a.txt"), "saved by a person\n", "{step:?}");
        assert_eq!(yard.read("src/b.txt"), "and here\n", "{step:?}");
        assert_eq!(
            yard.git(&["status", "--porcelain"]),
            "M src/a.txt\n M src/b.txt",
            "{step:?}"
        );
        assert_eq!(yard.tip(), proposal.new);
        yard.assert_tidy();
    }
}

#[test]
fn a_lock_removed_by_hand_does_not_stop_recovery() {
    for step in [Step::RefMoved, Step::AllExchanged, Step::IndexRefreshed] {
        let yard = Yard::new();
        let proposal = yard.proposed(plan(1), &COMMIT);
        kill_at(step, "land", &yard, Some(&proposal));
        std::fs::remove_file(yard.path().join(".git/index.lock")).unwrap();
        yard.land(plan(1), 3, &proposal);
        assert_landed(&yard, &proposal, step);
    }
}

/// Half a change must not come back into files that the person has put right by themselves.
#[test]
fn a_killed_landing_the_person_reset_by_hand_stays_reset() {
    for step in [Step::RefMoved, Step::SomeExchanged, Step::IndexRefreshed] {
        let yard = Yard::new();
        let start = yard.tip();
        let proposal = yard.proposed(plan(1), &COMMIT);
        kill_at(step, "land", &yard, Some(&proposal));
        std::fs::remove_file(yard.path().join(".git/index.lock")).unwrap();
        yard.git(&["reset", "-q", "--hard", start.as_str()]);
        yard.git(&["clean", "-qfd"]);
        let landed = yard.land(plan(1), 3, &proposal);
        assert_eq!(landed, Landed::Removed, "{step:?}");
        assert_eq!(yard.tip(), start, "{step:?}");
        yard.assert_clean();
        yard.assert_tidy();
    }
}

/// Killed, a landing keeps nobody else from landing: whoever comes next finishes it, or takes it back.
#[test]
fn another_plan_finishes_what_a_killed_one_left() {
    for step in LANDING {
        let yard = Yard::new();
        let first = yard.proposed(plan(1), &COMMIT);
        kill_at(step, "land", &yard, Some(&first));
        let moved = yard.tip() == first.new;
        let sandbox = yard.enter(plan(2), 1);
        write(&sandbox.path.join("second.txt"), "second\n");
        // Where the first one works, too, but not in the same lines.
        let text = std::fs::read_to_string(sandbox.path.join("src/a.txt")).unwrap();
        let text = text.replace("one\n", "ONE\n");
        write(&sandbox.path.join("src/a.txt"), &text);
        let result = yard.captured(plan(2), 1);
        let Proposed::Ready(second) = yard.propose(plan(2), 2, &result, &COMMIT) else {
            panic!("{step:?}");
        };
        yard.land(plan(2), 2, &second);
        assert_eq!(yard.tip(), second.new, "{step:?}");
        assert_eq!(yard.read("second.txt"), "second\n", "{step:?}");
        assert_eq!(
            yard.path().join("src/new/c.txt").exists(),
            moved,
            "{step:?}"
        );
        yard.assert_clean();
        yard.assert_tidy();
        let landed = yard.land(plan(1), 3, &first);
        assert_eq!(landed == Landed::Moved, !moved, "{step:?}: {landed:?}");
    }
}

#[test]
fn somebody_elses_lock_is_waited_for_and_never_removed() {
    let yard = Yard::new();
    let proposal = yard.proposed(plan(1), &COMMIT);
    let lock = yard.path().join(".git/index.lock");
    std::fs::write(&lock, "theirs").unwrap();
    let before = yard.tip();
    let refused = yard.workshop.land(&yard.room(plan(1)), Epoch(2), &proposal);
    assert!(matches!(refused, Err(SandboxError::Locked { .. })));
    assert_eq!(std::fs::read_to_string(&lock).unwrap(), "theirs");
    assert_eq!(yard.tip(), before);
    std::fs::remove_file(&lock).unwrap();
    yard.land(plan(1), 2, &proposal);
    yard.assert_clean();
}

#[test]
fn rescuing_and_removing_can_be_killed_anywhere() {
    for step in [Step::Rescued, Step::SandboxSetAside] {
        let yard = Yard::new();
        let sandbox = yard.enter(plan(1), 1);
        yard.usual_work(&sandbox);
        kill_at(step, "clean", &yard, None);
        let room = yard.room(plan(1));
        let kept = yard.workshop.rescue(&room).unwrap().unwrap();
        yard.workshop.remove(plan(1), || Ok(())).unwrap();
        assert_eq!(
            yard.git(&["show", &format!("{}:src/new/c.txt", kept.name)]),
            "new"
        );
        assert!(!sandbox.path.exists());
        // Whatever was set aside goes with the next one.
        let sandbox = yard.enter(plan(1), 2);
        yard.usual_work(&sandbox);
        yard.workshop.remove(plan(1), || Ok(())).unwrap();
        for place in ["sandboxes", "vaults"] {
            let place = yard.directory.path().join("home").join(place);
            let left: Vec<_> = std::fs::read_dir(place).unwrap().collect();
            assert!(left.is_empty(), "{step:?}: {left:?}");
        }
        assert_eq!(yard.workshop.sandboxes().unwrap(), []);
    }
}

/// At every instant: the branch is old or new, and each file is wholly old or wholly new.
fn assert_whole(yard: &Yard, before: &ObjectId, proposal: &Proposal, step: Step) {
    let tip = yard.tip();
    assert!(
        tip == *before || tip == proposal.new,
        "{step:?}: the branch is at {tip}"
    );
    let text = yard.read("src/a.txt");
    let old = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n";
    let new = "one\ntwo\nthree\nfour\nfive\nsix\nseven\nEIGHT\n";
    assert!(text == old || text == new, "{step:?}: torn: {text:?}");
    if let Ok(text) = std::fs::read_to_string(yard.path().join("src/new/c.txt")) {
        assert_eq!(text, "new\n", "{step:?}");
    }
    if let Ok(text) = std::fs::read_to_string(yard.path().join("old/gone.txt")) {
        assert_eq!(text, "to be deleted\n", "{step:?}");
    }
}

fn assert_landed(yard: &Yard, proposal: &Proposal, step: Step) {
    assert_eq!(yard.tip(), proposal.new, "{step:?}");
    assert_eq!(yard.git(&["rev-list", "--count", "HEAD"]), "2", "{step:?}");
    assert!(yard.read("src/a.txt").ends_with("EIGHT\n"), "{step:?}");
    assert_eq!(yard.read("src/new/c.txt"), "new\n", "{step:?}");
    assert!(!yard.path().join("old").exists(), "{step:?}");
    yard.assert_clean();
    yard.assert_tidy();
}

const ROLE: &str = "PLANWRIGHT_TEST_ROLE";
const YARD: &str = "PLANWRIGHT_TEST_YARD";
const STEP: &str = "PLANWRIGHT_TEST_STEP";
const PROPOSAL: &str = "PLANWRIGHT_TEST_PROPOSAL";

/// Runs a part of a plan's life in a process that is killed right after a step.
fn kill_at(step: Step, role: &str, yard: &Yard, proposal: Option<&Proposal>) {
    let proposal = proposal.map_or_else(String::new, |proposal| {
        format!("{} {} {}", proposal.target, proposal.old, proposal.new)
    });
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["crashes::child_process", "--exact", "--nocapture"])
        .env(ROLE, role)
        .env(YARD, yard.directory.path())
        .env(STEP, step.as_str())
        .env(PROPOSAL, proposal)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&status.stdout).into_owned();
    assert_eq!(
        status.status.signal(),
        Some(9),
        "{role} was not killed at {step:?}: {said}"
    );
}

/// What a child does; as a test of its own it has no role.
#[test]
fn child_process() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let directory = std::env::var_os(YARD).unwrap();
    let at = std::env::var(STEP).unwrap();
    let yard = Yard::found(Path::new(&directory));
    let workshop = yard.with_faults(Faults::new(move |step| {
        if step.as_str() == at {
            let me = rustix::process::getpid();
            rustix::process::kill_process(me, rustix::process::Signal::KILL).unwrap();
        }
        Ok(())
    }));
    let room = Room {
        plan: plan(1),
        site: &yard.site,
    };
    match role.as_str() {
        "work" => {
            let base = workshop.tip(&yard.site).unwrap();
            let sandbox = workshop
                .enter(&room, Epoch(1), &base, Start::Continue)
                .unwrap()
                .sandbox;
            yard.usual_work(&sandbox);
            workshop.capture(&room, Epoch(1), &base).unwrap();
        }
        "propose" => {
            let result = yard.captured(plan(1), 1);
            workshop
                .propose(&room, Epoch(2), &result, &COMMIT, &message(plan(1)))
                .unwrap();
        }
        "land" => {
            let text = std::env::var(PROPOSAL).unwrap();
            let parts: Vec<&str> = text.split(' ').collect();
            let proposal = Proposal {
                target: parts[0].to_owned(),
                old: parts[1].parse().unwrap(),
                new: parts[2].parse().unwrap(),
                onto: parts[1].parse().unwrap(),
            };
            workshop.land(&room, Epoch(2), &proposal).unwrap();
        }
        "clean" => {
            workshop.rescue(&room).unwrap();
            workshop.remove(plan(1), || Ok(())).unwrap();
        }
        other => panic!("no role {other}"),
    }
    panic!("{role} ended without being killed");
}

impl Yard {
    /// The usual work, where some of it may have been done.
    fn usual_work_again(&self, path: &Path) {
        write(
            &path.join("src/a.txt"),
            "one\ntwo\nthree\nfour\nfive\nsix\nseven\nEIGHT\n",
        );
        write(&path.join("src/new/c.txt"), "new\n");
        let _ = std::fs::remove_file(path.join("old/gone.txt"));
    }
}
