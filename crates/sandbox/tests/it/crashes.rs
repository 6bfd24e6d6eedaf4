//! The crash matrix: the process is killed, or fails, after every step, and the operation is
//! repeated.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use plan::Epoch;
use planwright_sandbox::land::{
    LandAttempt, LandingMethod, LandingProposal, ProposalOutcome, SandboxResult,
};
use planwright_sandbox::{
    ObjectId, PickedResult, ResourceLocation, SandboxEntryMode, SandboxError, SandboxKey,
    SandboxStep, Sandboxes, StepFaults,
};

use crate::fixture::{SandboxFixture, make_landing_message, test_plan_id, write_file};

const AS_COMMIT: LandingMethod = LandingMethod::Commit { merge: false };

/// The steps of creating and capturing a sandbox.
const WORK_STEPS: [SandboxStep; 7] = [
    SandboxStep::VaultMade,
    SandboxStep::BasePinned,
    SandboxStep::FilesLaidOut,
    SandboxStep::RepositoryMade,
    SandboxStep::SandboxReady,
    SandboxStep::TreeWritten,
    SandboxStep::Checkpointed,
];

/// The steps of proposing.
const PROPOSE_STEPS: [SandboxStep; 4] = [
    SandboxStep::Fenced,
    SandboxStep::Committed,
    SandboxStep::ObjectsCopied,
    SandboxStep::Pinned,
];

/// The steps of landing in a checkout.
const LAND_STEPS: [SandboxStep; 10] = [
    SandboxStep::IndexLocked,
    SandboxStep::Staged,
    SandboxStep::Journalled,
    SandboxStep::IndexPlaced,
    SandboxStep::RefMoved,
    SandboxStep::SomeExchanged,
    SandboxStep::AllExchanged,
    SandboxStep::IndexRefreshed,
    SandboxStep::Unlocked,
    SandboxStep::JournalRemoved,
];

/// The branch is still at its old commit.
const STEPS_BEFORE_REF_MOVES: [SandboxStep; 4] = [
    SandboxStep::IndexLocked,
    SandboxStep::Staged,
    SandboxStep::Journalled,
    SandboxStep::IndexPlaced,
];

const PICK_STEPS: [SandboxStep; 2] = [SandboxStep::PickWritten, SandboxStep::PickKept];

#[test]
fn every_step_is_in_the_matrix() {
    let covered_elsewhere = [
        SandboxStep::Unpinned,
        SandboxStep::Rescued,
        SandboxStep::SandboxSetAside,
    ];
    let covered = [
        &WORK_STEPS[..],
        &PROPOSE_STEPS,
        &LAND_STEPS,
        &covered_elsewhere,
        &PICK_STEPS,
    ]
    .concat();
    assert_eq!(covered, SandboxStep::ALL);
}

/// Fails at one step as if the disk were full.
fn fail_at_step(at: SandboxStep) -> StepFaults {
    StepFaults::new(move |step| {
        if step == at {
            return Err(std::io::Error::from_raw_os_error(28));
        }
        Ok(())
    })
}

#[test]
fn creating_and_capturing_a_sandbox_survives_a_kill_at_any_step() {
    for step in WORK_STEPS {
        let fixture = SandboxFixture::new();
        let before = fixture.snapshot_user_files();
        kill_at(step, "work", &fixture, None);
        assert_eq!(fixture.snapshot_user_files(), before, "{step:?}");
        let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
        fixture.redo_usual_work(&sandbox.path);
        let result = fixture.capture_result(test_plan_id(1), 1);
        let ProposalOutcome::Ready(proposal) =
            fixture.propose_landing(test_plan_id(1), 2, &result, &AS_COMMIT)
        else {
            panic!("{step:?}");
        };
        fixture.land_proposal(test_plan_id(1), 2, &proposal);
        assert_landed(&fixture, &proposal, step);
    }
}

#[test]
fn proposing_survives_a_kill_at_any_step() {
    for step in PROPOSE_STEPS {
        let fixture = SandboxFixture::new();
        let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
        fixture.do_usual_work(&sandbox);
        let result = fixture.capture_result(test_plan_id(1), 1);
        let before = fixture.snapshot_user_files();
        kill_at(step, "propose", &fixture, None);
        assert_eq!(fixture.snapshot_user_files(), before, "{step:?}");
        let ProposalOutcome::Ready(proposal) =
            fixture.propose_landing(test_plan_id(1), 3, &result, &AS_COMMIT)
        else {
            panic!("{step:?}");
        };
        fixture.land_proposal(test_plan_id(1), 3, &proposal);
        assert_landed(&fixture, &proposal, step);
    }
}

#[test]
fn picking_survives_a_kill_at_any_step() {
    for step in PICK_STEPS {
        let fixture = SandboxFixture::new();
        let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
        fixture.do_usual_work(&sandbox);
        let result = fixture.capture_result(test_plan_id(1), 1);
        let agents_file = sandbox.path.join("src/b.txt");
        write_file(&agents_file, "being edited\n");
        let before = fixture.snapshot_files();
        kill_at(step, "pick", &fixture, None);
        // A pick writes to the vault alone, so there is nothing to recover.
        assert_eq!(fixture.snapshot_files(), before, "{step:?}");
        assert_eq!(
            std::fs::read(&agents_file).unwrap(),
            b"being edited\n",
            "{step:?}"
        );
        let picked = pick_first_change(&fixture, &fixture.sandboxes);
        assert_eq!((picked.changes, picked.reduced.len()), (1, 2), "{step:?}");
        let vault = vault_path(&fixture);
        for tree in [&result.tree, &picked.result.tree] {
            let kept = format!("refs/planwright/kept/result/{tree}");
            crate::fixture::run_git(&vault, &["rev-parse", "--verify", &kept]);
        }
    }
}

/// Picks the first hunk of the last checkpoint.
fn pick_first_change(fixture: &SandboxFixture, sandboxes: &Sandboxes) -> PickedResult {
    let key = fixture.sandbox_key(test_plan_id(1));
    let result = SandboxResult {
        base: fixture.tip(),
        tree: read_checkpoint_tree(fixture),
    };
    let diff = sandboxes
        .diffs()
        .diff_trees(&key, &result.base, &result.tree);
    let changes = diff.unwrap().list_file_changes("shop/code", &[]).unwrap();
    let first = BTreeSet::from([changes[0].hunks[0].id]);
    sandboxes
        .landings()
        .pick_hunks(&key, &result, &first)
        .unwrap()
}

fn read_checkpoint_tree(fixture: &SandboxFixture) -> ObjectId {
    let name = "refs/planwright/checkpoint^{tree}";
    crate::fixture::run_git(&vault_path(fixture), &["rev-parse", name])
        .parse()
        .unwrap()
}

/// The vault of plan 1. Found from the repository, which a child process knows too.
fn vault_path(fixture: &SandboxFixture) -> PathBuf {
    let ResourceLocation::Git { path, .. } = &fixture.resource.location else {
        panic!("the fixture has a repository");
    };
    let name = format!("home/vaults/{}/shop+code.git", test_plan_id(1));
    path.parent().unwrap().join(name)
}

/// A git that moves a branch may outlive the process that started it, and act late.
struct OrphanedGit(String);

impl OrphanedGit {
    /// The git of a landing that was killed right before the branch moved.
    fn from_killed_landing(fixture: &SandboxFixture, proposal: &LandingProposal) -> Self {
        let fence = format!("refs/planwright/fence/{}", test_plan_id(1));
        let mark = fixture.run_git(&["rev-parse", &fence]);
        let LandingProposal {
            target, old, new, ..
        } = proposal;
        Self(format!(
            "start\nverify {fence} {mark}\nupdate {target} {new} {old}\nprepare\ncommit\n"
        ))
    }

    fn tries_to_move_branch(&self, fixture: &SandboxFixture) -> bool {
        let script = fixture.directory.path().join("script");
        std::fs::write(&script, &self.0).unwrap();
        let mut git = Command::new("git");
        git.args(["update-ref", "--stdin"])
            .current_dir(fixture.path());
        let input = std::fs::File::open(script).unwrap();
        git.stdin(input).output().unwrap().status.success()
    }
}

#[test]
fn orphaned_git_cannot_move_the_branch_after_another_plan_recovered_the_landing() {
    let fixture = SandboxFixture::new();
    let proposal = fixture.propose_usual_work(test_plan_id(1), &AS_COMMIT);
    kill_at(SandboxStep::Journalled, "land", &fixture, Some(&proposal));
    let orphan = OrphanedGit::from_killed_landing(&fixture, &proposal);
    let sandbox = fixture.enter_sandbox(test_plan_id(2), 1);
    write_file(&sandbox.path.join("other.txt"), "other\n");
    let result = fixture.capture_result(test_plan_id(2), 1);
    fixture.propose_landing(test_plan_id(2), 2, &result, &AS_COMMIT);
    assert!(!orphan.tries_to_move_branch(&fixture));
    assert_eq!(fixture.tip(), proposal.old);
    fixture.assert_clean();
    // The plan itself can still land, even under the same epoch.
    let landed = fixture.land_proposal(test_plan_id(1), 2, &proposal);
    assert_eq!(landed, LandAttempt::Landed { kept: Vec::new() });
    assert_eq!(fixture.tip(), proposal.new);
}

#[test]
fn orphaned_git_cannot_move_the_branch_after_its_landing_was_undone() {
    let fixture = SandboxFixture::new();
    let proposal = fixture.propose_usual_work(test_plan_id(1), &AS_COMMIT);
    kill_at(SandboxStep::Journalled, "land", &fixture, Some(&proposal));
    let orphan = OrphanedGit::from_killed_landing(&fixture, &proposal);
    let key = fixture.sandbox_key(test_plan_id(1));
    fixture
        .sandboxes
        .landings()
        .recover_landing(&key, &proposal)
        .unwrap();
    assert!(!orphan.tries_to_move_branch(&fixture));
    assert_eq!(fixture.tip(), proposal.old);
    fixture.assert_clean();
}

/// The counterpart of the tests above: without recovery, the orphaned git moves the branch.
#[test]
fn orphaned_git_moves_the_branch_before_recovery() {
    let fixture = SandboxFixture::new();
    let proposal = fixture.propose_usual_work(test_plan_id(1), &AS_COMMIT);
    kill_at(SandboxStep::Journalled, "land", &fixture, Some(&proposal));
    assert!(OrphanedGit::from_killed_landing(&fixture, &proposal).tries_to_move_branch(&fixture));
    fixture.land_proposal(test_plan_id(1), 3, &proposal);
    assert_landed(&fixture, &proposal, SandboxStep::Journalled);
}

#[test]
fn landing_killed_at_any_step_is_finished_by_the_next() {
    for step in LAND_STEPS {
        let fixture = SandboxFixture::new();
        let before = fixture.tip();
        let proposal = fixture.propose_usual_work(test_plan_id(1), &AS_COMMIT);
        kill_at(step, "land", &fixture, Some(&proposal));
        assert_old_or_new(&fixture, &before, &proposal, step);
        assert_eq!(
            fixture.land_proposal(test_plan_id(1), 3, &proposal),
            LandAttempt::Landed { kept: Vec::new() },
            "{step:?}"
        );
        assert_landed(&fixture, &proposal, step);
        // Repeating it changes nothing.
        let after = fixture.snapshot_user_files();
        fixture.land_proposal(test_plan_id(1), 4, &proposal);
        assert_eq!(fixture.snapshot_user_files(), after, "{step:?}");
    }
}

#[test]
fn working_tree_landing_survives_a_kill_at_any_step() {
    for step in LAND_STEPS {
        let fixture = SandboxFixture::new();
        let proposal = fixture.propose_usual_work(test_plan_id(1), &LandingMethod::Uncommitted);
        kill_at(step, "land", &fixture, Some(&proposal));
        fixture.land_proposal(test_plan_id(1), 3, &proposal);
        assert_eq!(
            fixture.run_git(&["status", "--porcelain", "-uall"]),
            "D old/gone.txt\n M src/a.txt\n?? src/new/c.txt",
            "{step:?}"
        );
        fixture.assert_no_leftovers();
    }
}

#[test]
fn full_disk_at_any_step_leaves_the_target_old_or_new() {
    for step in LAND_STEPS {
        let fixture = SandboxFixture::new();
        let before = fixture.tip();
        let proposal = fixture.propose_usual_work(test_plan_id(1), &AS_COMMIT);
        let failed = fixture
            .with_faults(fail_at_step(step))
            .landings()
            .land_proposal(&fixture.sandbox_key(test_plan_id(1)), Epoch(2), &proposal);
        let failed = failed.unwrap_err();
        assert!(failed.is_out_of_space(), "{step:?}: {failed}");
        assert_old_or_new(&fixture, &before, &proposal, step);
        fixture.land_proposal(test_plan_id(1), 2, &proposal);
        assert_landed(&fixture, &proposal, step);
    }
}

#[test]
fn landing_that_did_not_move_the_branch_is_undone() {
    for step in STEPS_BEFORE_REF_MOVES {
        let fixture = SandboxFixture::new();
        let proposal = fixture.propose_usual_work(test_plan_id(1), &AS_COMMIT);
        let before = fixture.snapshot_user_files();
        kill_at(step, "land", &fixture, Some(&proposal));
        assert_ne!(
            fixture.snapshot_user_files(),
            before,
            "{step:?}: a lock is left"
        );
        fixture
            .sandboxes
            .landings()
            .recover_landing(&fixture.sandbox_key(test_plan_id(1)), &proposal)
            .unwrap();
        assert_eq!(fixture.snapshot_user_files(), before, "{step:?}");
    }
}

/// A git that sees the new branch must not have read the old index, because it would write it back.
#[test]
fn new_index_is_installed_before_the_branch_moves() {
    for step in &LAND_STEPS[4..] {
        let fixture = SandboxFixture::new();
        let proposal = fixture.propose_usual_work(test_plan_id(1), &AS_COMMIT);
        kill_at(*step, "land", &fixture, Some(&proposal));
        assert_eq!(fixture.tip(), proposal.new, "{step:?}");
        let staged = fixture.run_git(&["diff-index", "--cached", "HEAD"]);
        assert_eq!(staged, "", "{step:?}");
    }
}

#[test]
fn undo_after_the_user_removed_the_lock_keeps_only_their_staged_files() {
    let fixture = SandboxFixture::new();
    let proposal = fixture.propose_usual_work(test_plan_id(1), &AS_COMMIT);
    kill_at(SandboxStep::IndexPlaced, "land", &fixture, Some(&proposal));
    std::fs::remove_file(fixture.path().join(".git/index.lock")).unwrap();
    fixture.write_file("src/b.txt", "staged by a person\n");
    fixture.run_git(&["add", "src/b.txt"]);
    let key = fixture.sandbox_key(test_plan_id(1));
    fixture
        .sandboxes
        .landings()
        .recover_landing(&key, &proposal)
        .unwrap();
    assert_eq!(fixture.run_git(&["status", "--porcelain"]), "M  src/b.txt");
    fixture.assert_no_leftovers();
}

#[test]
fn files_saved_after_the_branch_moved_are_kept() {
    for step in [
        SandboxStep::RefMoved,
        SandboxStep::SomeExchanged,
        SandboxStep::AllExchanged,
    ] {
        let fixture = SandboxFixture::new();
        let proposal = fixture.propose_usual_work(test_plan_id(1), &AS_COMMIT);
        kill_at(step, "land", &fixture, Some(&proposal));
        fixture.write_file("src/a.txt", "saved by a person\n");
        fixture.write_file("src/b.txt", "and here\n");
        fixture.land_proposal(test_plan_id(1), 3, &proposal);
        assert_eq!(
            fixture.read_file("src/a.txt"),
            "saved by a person\n",
            "{step:?}"
        );
        assert_eq!(fixture.read_file("src/b.txt"), "and here\n", "{step:?}");
        assert_eq!(
            fixture.run_git(&["status", "--porcelain"]),
            "M src/a.txt\n M src/b.txt",
            "{step:?}"
        );
        assert_eq!(fixture.tip(), proposal.new);
        fixture.assert_no_leftovers();
    }
}

#[test]
fn recovery_works_after_the_user_removed_the_lock() {
    for step in [
        SandboxStep::RefMoved,
        SandboxStep::AllExchanged,
        SandboxStep::IndexRefreshed,
    ] {
        let fixture = SandboxFixture::new();
        let proposal = fixture.propose_usual_work(test_plan_id(1), &AS_COMMIT);
        kill_at(step, "land", &fixture, Some(&proposal));
        std::fs::remove_file(fixture.path().join(".git/index.lock")).unwrap();
        fixture.land_proposal(test_plan_id(1), 3, &proposal);
        assert_landed(&fixture, &proposal, step);
    }
}

/// A half-landed change must not come back into files that the user reset.
#[test]
fn killed_landing_that_the_user_reset_stays_reset() {
    for step in [
        SandboxStep::RefMoved,
        SandboxStep::SomeExchanged,
        SandboxStep::IndexRefreshed,
    ] {
        let fixture = SandboxFixture::new();
        let start = fixture.tip();
        let proposal = fixture.propose_usual_work(test_plan_id(1), &AS_COMMIT);
        kill_at(step, "land", &fixture, Some(&proposal));
        std::fs::remove_file(fixture.path().join(".git/index.lock")).unwrap();
        fixture.run_git(&["reset", "-q", "--hard", start.as_str()]);
        fixture.run_git(&["clean", "-qfd"]);
        let landed = fixture.land_proposal(test_plan_id(1), 3, &proposal);
        assert_eq!(landed, LandAttempt::Removed, "{step:?}");
        assert_eq!(fixture.tip(), start, "{step:?}");
        fixture.assert_clean();
        fixture.assert_no_leftovers();
    }
}

/// A killed landing does not block others: the next one finishes it or undoes it.
#[test]
fn another_plan_recovers_a_killed_landing() {
    for step in LAND_STEPS {
        let fixture = SandboxFixture::new();
        let first = fixture.propose_usual_work(test_plan_id(1), &AS_COMMIT);
        kill_at(step, "land", &fixture, Some(&first));
        let was_moved = fixture.tip() == first.new;
        let sandbox = fixture.enter_sandbox(test_plan_id(2), 1);
        write_file(&sandbox.path.join("second.txt"), "second\n");
        // In a file that the first plan changes, but in other lines.
        let text = std::fs::read_to_string(sandbox.path.join("src/a.txt")).unwrap();
        let text = text.replace("one\n", "ONE\n");
        write_file(&sandbox.path.join("src/a.txt"), &text);
        let result = fixture.capture_result(test_plan_id(2), 1);
        let ProposalOutcome::Ready(second) =
            fixture.propose_landing(test_plan_id(2), 2, &result, &AS_COMMIT)
        else {
            panic!("{step:?}");
        };
        fixture.land_proposal(test_plan_id(2), 2, &second);
        assert_eq!(fixture.tip(), second.new, "{step:?}");
        assert_eq!(fixture.read_file("second.txt"), "second\n", "{step:?}");
        assert_eq!(
            fixture.path().join("src/new/c.txt").exists(),
            was_moved,
            "{step:?}"
        );
        fixture.assert_clean();
        fixture.assert_no_leftovers();
        let landed = fixture.land_proposal(test_plan_id(1), 3, &first);
        assert_eq!(
            landed == LandAttempt::TargetMoved,
            !was_moved,
            "{step:?}: {landed:?}"
        );
    }
}

#[test]
fn foreign_index_lock_is_waited_for_and_never_removed() {
    let fixture = SandboxFixture::new();
    let proposal = fixture.propose_usual_work(test_plan_id(1), &AS_COMMIT);
    let lock = fixture.path().join(".git/index.lock");
    std::fs::write(&lock, "theirs").unwrap();
    let before = fixture.tip();
    let refused = fixture.sandboxes.landings().land_proposal(
        &fixture.sandbox_key(test_plan_id(1)),
        Epoch(2),
        &proposal,
    );
    assert!(matches!(refused, Err(SandboxError::LockedByGit { .. })));
    assert_eq!(std::fs::read_to_string(&lock).unwrap(), "theirs");
    assert_eq!(fixture.tip(), before);
    std::fs::remove_file(&lock).unwrap();
    fixture.land_proposal(test_plan_id(1), 2, &proposal);
    fixture.assert_clean();
}

#[test]
fn rescue_and_removal_survive_a_kill_at_any_step() {
    for step in [SandboxStep::Rescued, SandboxStep::SandboxSetAside] {
        let fixture = SandboxFixture::new();
        let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
        fixture.do_usual_work(&sandbox);
        kill_at(step, "clean", &fixture, None);
        let key = fixture.sandbox_key(test_plan_id(1));
        let kept = fixture
            .sandboxes
            .rescue()
            .rescue_current_work(&key)
            .unwrap()
            .unwrap();
        fixture
            .sandboxes
            .rescue()
            .remove_plan(test_plan_id(1), || Ok(()))
            .unwrap();
        assert_eq!(
            fixture.run_git(&["show", &format!("{}:src/new/c.txt", kept.ref_name)]),
            "new"
        );
        assert!(!sandbox.path.exists());
        // Leftovers that were set aside are removed with the next plan.
        let sandbox = fixture.enter_sandbox(test_plan_id(1), 2);
        fixture.do_usual_work(&sandbox);
        fixture
            .sandboxes
            .rescue()
            .remove_plan(test_plan_id(1), || Ok(()))
            .unwrap();
        for directory in ["sandboxes", "vaults"] {
            let directory = fixture.directory.path().join("home").join(directory);
            let leftovers: Vec<_> = std::fs::read_dir(directory).unwrap().collect();
            assert!(leftovers.is_empty(), "{step:?}: {leftovers:?}");
        }
        assert_eq!(fixture.sandboxes.rescue().list_plan_dirs().unwrap(), []);
    }
}

/// At every moment, the branch is old or new, and each file is completely old or completely new.
fn assert_old_or_new(
    fixture: &SandboxFixture,
    before: &ObjectId,
    proposal: &LandingProposal,
    step: SandboxStep,
) {
    let tip = fixture.tip();
    assert!(
        tip == *before || tip == proposal.new,
        "{step:?}: the branch is at {tip}"
    );
    let text = fixture.read_file("src/a.txt");
    let old = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n";
    let new = "one\ntwo\nthree\nfour\nfive\nsix\nseven\nEIGHT\n";
    assert!(text == old || text == new, "{step:?}: torn: {text:?}");
    if let Ok(text) = std::fs::read_to_string(fixture.path().join("src/new/c.txt")) {
        assert_eq!(text, "new\n", "{step:?}");
    }
    if let Ok(text) = std::fs::read_to_string(fixture.path().join("old/gone.txt")) {
        assert_eq!(text, "to be deleted\n", "{step:?}");
    }
}

fn assert_landed(fixture: &SandboxFixture, proposal: &LandingProposal, step: SandboxStep) {
    assert_eq!(fixture.tip(), proposal.new, "{step:?}");
    assert_eq!(
        fixture.run_git(&["rev-list", "--count", "HEAD"]),
        "2",
        "{step:?}"
    );
    assert!(
        fixture.read_file("src/a.txt").ends_with("EIGHT\n"),
        "{step:?}"
    );
    assert_eq!(fixture.read_file("src/new/c.txt"), "new\n", "{step:?}");
    assert!(!fixture.path().join("old").exists(), "{step:?}");
    fixture.assert_clean();
    fixture.assert_no_leftovers();
}

const ROLE_VARIABLE: &str = "PLANWRIGHT_TEST_ROLE";
const FIXTURE_VARIABLE: &str = "PLANWRIGHT_TEST_FIXTURE";
const STEP_VARIABLE: &str = "PLANWRIGHT_TEST_STEP";
const PROPOSAL_VARIABLE: &str = "PLANWRIGHT_TEST_PROPOSAL";

/// Runs a part of a plan in a child process that is killed right after a step.
fn kill_at(
    step: SandboxStep,
    role: &str,
    fixture: &SandboxFixture,
    proposal: Option<&LandingProposal>,
) {
    let proposal = proposal.map_or_else(String::new, |proposal| {
        format!("{} {} {}", proposal.target, proposal.old, proposal.new)
    });
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["crashes::child_process", "--exact", "--nocapture"])
        .env(ROLE_VARIABLE, role)
        .env(FIXTURE_VARIABLE, fixture.directory.path())
        .env(STEP_VARIABLE, step.as_str())
        .env(PROPOSAL_VARIABLE, proposal)
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&status.stdout).into_owned();
    assert_eq!(
        status.status.signal(),
        Some(9),
        "{role} was not killed at {step:?}: {stdout}"
    );
}

/// The body of the child process. Without a role, as a normal test, it does nothing.
#[test]
fn child_process() {
    let Ok(role) = std::env::var(ROLE_VARIABLE) else {
        return;
    };
    let directory = std::env::var_os(FIXTURE_VARIABLE).unwrap();
    let at = std::env::var(STEP_VARIABLE).unwrap();
    let fixture = SandboxFixture::open_existing(Path::new(&directory));
    let sandboxes = fixture.with_faults(StepFaults::new(move |step| {
        if step.as_str() == at {
            let pid = rustix::process::getpid();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        Ok(())
    }));
    let key = SandboxKey {
        plan_id: test_plan_id(1),
        resource: &fixture.resource,
    };
    match role.as_str() {
        "work" => {
            let base = sandboxes.read_tip(&fixture.resource).unwrap();
            let sandbox = sandboxes
                .enter_sandbox(&key, Epoch(1), &base, SandboxEntryMode::Continue)
                .unwrap()
                .sandbox;
            fixture.do_usual_work(&sandbox);
            sandboxes
                .capture()
                .capture_sandbox(&key, Epoch(1), &base)
                .unwrap();
        }
        "propose" => {
            let result = fixture.capture_result(test_plan_id(1), 1);
            sandboxes
                .landings()
                .propose_landing(
                    &key,
                    Epoch(2),
                    &result,
                    &AS_COMMIT,
                    &make_landing_message(test_plan_id(1)),
                )
                .unwrap();
        }
        "land" => {
            let text = std::env::var(PROPOSAL_VARIABLE).unwrap();
            let parts: Vec<&str> = text.split(' ').collect();
            let proposal = LandingProposal {
                target: parts[0].to_owned(),
                old: parts[1].parse().unwrap(),
                new: parts[2].parse().unwrap(),
                merged_with: parts[1].parse().unwrap(),
            };
            sandboxes
                .landings()
                .land_proposal(&key, Epoch(2), &proposal)
                .unwrap();
        }
        "pick" => {
            pick_first_change(&fixture, &sandboxes);
        }
        "clean" => {
            sandboxes.rescue().rescue_current_work(&key).unwrap();
            sandboxes
                .rescue()
                .remove_plan(test_plan_id(1), || Ok(()))
                .unwrap();
        }
        other => panic!("no role {other}"),
    }
    panic!("{role} ended without being killed");
}

impl SandboxFixture {
    /// The usual work, some of which may have been done before.
    fn redo_usual_work(&self, path: &Path) {
        write_file(
            &path.join("src/a.txt"),
            "one\ntwo\nthree\nfour\nfive\nsix\nseven\nEIGHT\n",
        );
        write_file(&path.join("src/new/c.txt"), "new\n");
        let _ = std::fs::remove_file(path.join("old/gone.txt"));
    }
}
