//! G7, G8, G10: a change lands once, as a whole, or not at all.

use plan::Epoch;
use planwright_sandbox::land::{
    LandAttempt, LandingMethod, ProposalOutcome, SandboxResult, TargetState,
};
use planwright_sandbox::{LandingObstacle, SandboxEntryMode, SandboxError};

use crate::fixture::{SandboxFixture, make_landing_message, run_git, test_plan_id, write_file};

const AS_COMMIT: LandingMethod = LandingMethod::Commit { merge: false };

#[test]
fn result_lands_as_one_commit_with_trailers_and_updates_files() {
    let fixture = SandboxFixture::new();
    let start = fixture.tip();
    let before = fixture.snapshot_user_files();
    let proposal = fixture.propose_usual_work(test_plan_id(1), &AS_COMMIT);
    assert_eq!(
        fixture.snapshot_user_files(),
        before,
        "nothing changes before"
    );
    assert_eq!(
        fixture
            .sandboxes
            .landings()
            .observe_target(&fixture.sandbox_key(test_plan_id(1)), &proposal)
            .unwrap(),
        TargetState::Untouched
    );
    assert_eq!(
        fixture.land_proposal(test_plan_id(1), 2, &proposal),
        LandAttempt::Landed { kept: Vec::new() }
    );
    assert_eq!(fixture.tip(), proposal.new);
    assert_eq!(fixture.run_git(&["rev-parse", "HEAD^"]), start.to_string());
    assert!(fixture.read_file("src/a.txt").ends_with("EIGHT\n"));
    assert_eq!(fixture.read_file("src/new/c.txt"), "new\n");
    assert!(!fixture.path().join("old").exists());
    fixture.assert_clean();
    let message = fixture.run_git(&["log", "-1", "--format=%B"]);
    assert!(
        message.starts_with("Tidy the shop\n\nBecause it is time."),
        "{message}"
    );
    assert!(
        message.contains(&format!("Planwright-Plan: {}", test_plan_id(1))),
        "{message}"
    );
    assert!(message.contains("Planwright-Chain: "), "{message}");
    fixture
        .sandboxes
        .landings()
        .release_pins(&fixture.sandbox_key(test_plan_id(1)), Epoch(2))
        .unwrap();
    assert_eq!(fixture.run_git(&["for-each-ref", "refs/planwright"]), "");
    fixture.assert_no_leftovers();
}

#[test]
fn landing_twice_lands_once() {
    let fixture = SandboxFixture::new();
    let proposal = fixture.propose_usual_work(test_plan_id(1), &AS_COMMIT);
    fixture.land_proposal(test_plan_id(1), 2, &proposal);
    fixture.write_file("later.txt", "by a person\n");
    fixture.commit_all("later");
    let after = fixture.snapshot_user_files();
    assert_eq!(
        fixture.land_proposal(test_plan_id(1), 3, &proposal),
        LandAttempt::Landed { kept: Vec::new() }
    );
    assert_eq!(fixture.snapshot_user_files(), after);
}

#[test]
fn other_changes_on_the_target_are_merged() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    fixture.do_usual_work(&sandbox);
    let result = fixture.capture_result(test_plan_id(1), 1);
    fixture.write_file(
        "src/a.txt",
        "ONE\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n",
    );
    fixture.write_file("src/b.txt", "alpha\nBETA\n");
    let person = fixture.commit_all("meanwhile");
    let ProposalOutcome::Ready(proposal) =
        fixture.propose_landing(test_plan_id(1), 2, &result, &AS_COMMIT)
    else {
        panic!("it merges");
    };
    assert_eq!(proposal.old, person);
    fixture.land_proposal(test_plan_id(1), 2, &proposal);
    assert_eq!(
        fixture.read_file("src/a.txt"),
        "ONE\ntwo\nthree\nfour\nfive\nsix\nseven\nEIGHT\n"
    );
    assert_eq!(fixture.read_file("src/b.txt"), "alpha\nBETA\n");
    fixture.assert_clean();
}

#[test]
fn overlapping_change_is_a_conflict_and_changes_nothing() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    fixture.do_usual_work(&sandbox);
    let result = fixture.capture_result(test_plan_id(1), 1);
    fixture.write_file("src/b.txt", "unrelated\n");
    fixture.commit_all("unrelated");
    fixture.write_file("src/a.txt", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n8\n");
    let culprit = fixture.commit_all("same line");
    let before = fixture.snapshot_user_files();
    match fixture.propose_landing(test_plan_id(1), 2, &result, &AS_COMMIT) {
        ProposalOutcome::Conflict { paths, commits } => {
            let paths: Vec<String> = paths.iter().map(ToString::to_string).collect();
            assert_eq!(paths, ["src/a.txt"]);
            assert_eq!(commits, [culprit]);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(fixture.snapshot_user_files(), before);
}

#[test]
fn merging_the_target_leaves_only_the_conflict_to_resolve() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    fixture.do_usual_work(&sandbox);
    fixture.capture_result(test_plan_id(1), 1);
    fixture.write_file("src/b.txt", "person\n");
    fixture.write_file("src/a.txt", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n8\n");
    let tip = fixture.commit_all("same line");
    let key = fixture.sandbox_key(test_plan_id(1));
    let base = &sandbox.base;
    let entered = fixture
        .sandboxes
        .enter_sandbox(&key, Epoch(3), base, SandboxEntryMode::Continue)
        .unwrap();
    let merged = fixture
        .sandboxes
        .merge_target_into_sandbox(&key, Epoch(3), &tip)
        .unwrap();
    drop(entered);
    assert_eq!((&merged.base, &merged.path), (&tip, &sandbox.path));
    let text = std::fs::read_to_string(sandbox.path.join("src/a.txt")).unwrap();
    assert!(text.contains("EIGHT") && text.contains("\n8\n"), "{text}");
    // The labels are names that people know.
    let id = test_plan_id(1).to_string().to_lowercase();
    let (ours, theirs) = ("<<<<<<< main\n", format!(">>>>>>> plan-{}\n", &id[18..]));
    assert!(text.contains(ours) && text.contains(&theirs), "{text}");
    assert_eq!(
        std::fs::read_to_string(sandbox.path.join("src/b.txt")).unwrap(),
        "person\n"
    );
    write_file(
        &sandbox.path.join("src/a.txt"),
        "one\ntwo\nthree\nfour\nfive\nsix\nseven\nboth\n",
    );
    let result = fixture.capture_result(test_plan_id(1), 3);
    let ProposalOutcome::Ready(proposal) =
        fixture.propose_landing(test_plan_id(1), 4, &result, &AS_COMMIT)
    else {
        panic!("solved");
    };
    fixture.land_proposal(test_plan_id(1), 4, &proposal);
    assert!(fixture.read_file("src/a.txt").ends_with("both\n"));
    assert!(fixture.path().join("src/new/c.txt").exists());
    fixture.assert_clean();
}

#[test]
fn unresolved_conflict_survives_another_merge_and_another_sandbox() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    fixture.do_usual_work(&sandbox);
    fixture.capture_result(test_plan_id(1), 1);
    let key = fixture.sandbox_key(test_plan_id(1));
    let base = &sandbox.base;
    fixture.write_file("src/a.txt", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n8\n");
    let tip = fixture.commit_all("same line");
    let entered = fixture
        .sandboxes
        .enter_sandbox(&key, Epoch(3), base, SandboxEntryMode::Continue)
        .unwrap();
    fixture
        .sandboxes
        .merge_target_into_sandbox(&key, Epoch(3), &tip)
        .unwrap();
    let unresolved = || {
        let paths = fixture
            .sandboxes
            .capture()
            .list_unresolved_conflicts(&key)
            .unwrap();
        paths.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(unresolved(), ["src/a.txt"]);
    fixture.write_file("src/b.txt", "person\n");
    let later = fixture.commit_all("elsewhere");
    fixture
        .sandboxes
        .merge_target_into_sandbox(&key, Epoch(3), &later)
        .unwrap();
    assert_eq!(unresolved(), ["src/a.txt"]);
    // The first sandbox is still in use, so the next holder gets another one, from the last
    // checkpoint.
    let next = fixture
        .sandboxes
        .enter_sandbox(&key, Epoch(4), &later, SandboxEntryMode::Continue)
        .unwrap();
    assert_ne!(next.sandbox.path, sandbox.path);
    assert_eq!(unresolved(), ["src/a.txt"]);
    drop((entered, next));
    let fresh = fixture
        .sandboxes
        .enter_sandbox(&key, Epoch(5), &later, SandboxEntryMode::NewDirectory)
        .unwrap();
    assert_eq!(unresolved(), [""; 0]);
    drop(fresh);
}

#[test]
fn local_edits_block_only_in_affected_paths() {
    let fixture = SandboxFixture::new();
    fixture.write_file("src/b.txt", "edited, not committed\n");
    fixture.write_file("note.txt", "untracked\n");
    fixture.write_file("staged.txt", "staged\n");
    fixture.run_git(&["add", "staged.txt"]);
    let proposal = fixture.propose_usual_work(test_plan_id(1), &AS_COMMIT);
    fixture.land_proposal(test_plan_id(1), 2, &proposal);
    assert_eq!(
        fixture.run_git(&["status", "--porcelain"]),
        "M src/b.txt\nA  staged.txt\n?? note.txt"
            .replace("M src", " M src")
            .trim()
    );
    // In the way: a modified file, a staged one, and an untracked one at the path of a new one.
    for (path, text) in [
        ("src/a.txt", "mine\n"),
        ("src/new/c.txt", "mine\n"),
        ("old/gone.txt", "mine\n"),
    ] {
        let fixture = SandboxFixture::new();
        let sandbox = fixture.enter_sandbox(test_plan_id(2), 1);
        fixture.do_usual_work(&sandbox);
        let result = fixture.capture_result(test_plan_id(2), 1);
        fixture.write_file(path, text);
        for staged in [false, true] {
            if staged {
                fixture.run_git(&["add", path]);
            }
            let before = fixture.snapshot_user_files();
            match fixture.propose_landing(test_plan_id(2), 2, &result, &AS_COMMIT) {
                ProposalOutcome::Blocked(LandingObstacle::LocalEdits(paths)) => {
                    let paths: Vec<String> = paths.iter().map(ToString::to_string).collect();
                    assert_eq!(paths, [path]);
                }
                other => panic!("{path}: {other:?}"),
            }
            assert_eq!(fixture.snapshot_user_files(), before);
        }
    }
}

#[test]
fn edit_after_the_proposal_is_found_under_the_lock() {
    let fixture = SandboxFixture::new();
    let proposal = fixture.propose_usual_work(test_plan_id(1), &AS_COMMIT);
    fixture.write_file("src/a.txt", "saved just now\n");
    let before = fixture.snapshot_user_files();
    assert!(matches!(
        fixture.land_proposal(test_plan_id(1), 2, &proposal),
        LandAttempt::Blocked(LandingObstacle::LocalEdits(_))
    ));
    assert_eq!(fixture.snapshot_user_files(), before);
    fixture.assert_no_leftovers();
}

#[test]
fn operation_in_progress_blocks_landing() {
    let conflicting = |fixture: &SandboxFixture| {
        fixture.run_git(&["checkout", "-qb", "side", "HEAD~1"]);
        fixture.write_file("README.md", "# Side\n");
        fixture.commit_all("side");
        fixture.run_git(&["checkout", "-q", "main"]);
    };
    let begin = |arguments: &'static [&'static str], fixture: &SandboxFixture| {
        let _ = std::process::Command::new("git")
            .args(["-c", "user.name=Ada", "-c", "user.email=a@example.org"])
            .args(arguments)
            .current_dir(fixture.path())
            .output()
            .unwrap();
    };
    for (arguments, what) in [
        (&["rebase", "side"][..], "rebase"),
        (&["merge", "side"][..], "merge"),
        (&["cherry-pick", "side"][..], "cherry-pick"),
        (&["bisect", "start"][..], "bisect"),
    ] {
        let fixture = SandboxFixture::new();
        fixture.write_file("README.md", "# Main\n");
        fixture.commit_all("main");
        conflicting(&fixture);
        let proposal = fixture.propose_usual_work(test_plan_id(1), &AS_COMMIT);
        begin(arguments, &fixture);
        assert_eq!(
            fixture.land_proposal(test_plan_id(1), 2, &proposal),
            LandAttempt::Blocked(LandingObstacle::InProgress(what))
        );
    }
}

#[test]
fn branch_that_is_not_checked_out_moves_without_files() {
    let fixture = SandboxFixture::new();
    let proposal = fixture.propose_usual_work(test_plan_id(1), &AS_COMMIT);
    fixture.run_git(&["checkout", "-qb", "elsewhere"]);
    let before = fixture.read_file("src/a.txt");
    fixture.land_proposal(test_plan_id(1), 2, &proposal);
    assert_eq!(fixture.read_file("src/a.txt"), before);
    assert_eq!(fixture.run_git(&["status", "--porcelain"]), "");
    assert_eq!(
        fixture.run_git(&["rev-parse", "main"]),
        proposal.new.to_string()
    );
}

#[test]
fn landing_updates_the_linked_worktree_with_the_branch() {
    let fixture = SandboxFixture::new();
    let linked = fixture.directory.path().join("linked");
    fixture.run_git(&["checkout", "-qb", "elsewhere"]);
    fixture.run_git(&["worktree", "add", "-q", linked.to_str().unwrap(), "main"]);
    let proposal = fixture.propose_usual_work(test_plan_id(1), &AS_COMMIT);
    fixture.land_proposal(test_plan_id(1), 2, &proposal);
    assert!(linked.join("src/new/c.txt").exists());
    assert!(!fixture.path().join("src/new/c.txt").exists());
    assert_eq!(run_git(&linked, &["status", "--porcelain"]), "");
    fixture.assert_no_leftovers();
}

#[test]
fn landing_on_a_new_branch_and_in_the_working_tree() {
    let fixture = SandboxFixture::new();
    let start = fixture.tip();
    let proposal = fixture.propose_usual_work(
        test_plan_id(1),
        &LandingMethod::Branch("plans/tidy".to_owned()),
    );
    fixture.land_proposal(test_plan_id(1), 2, &proposal);
    assert_eq!(fixture.tip(), start);
    assert_eq!(
        fixture.run_git(&["rev-parse", "plans/tidy"]),
        proposal.new.to_string()
    );
    fixture.assert_clean();
    let proposal = fixture.propose_usual_work(test_plan_id(2), &LandingMethod::Uncommitted);
    fixture.land_proposal(test_plan_id(2), 2, &proposal);
    assert_eq!(fixture.tip(), start);
    assert_eq!(
        fixture.run_git(&["status", "--porcelain", "-uall"]),
        "D old/gone.txt\n M src/a.txt\n?? src/new/c.txt"
    );
    fixture.land_proposal(test_plan_id(2), 3, &proposal);
    fixture.assert_no_leftovers();
}

#[test]
fn merge_landing_has_the_plans_commit_as_second_parent() {
    let fixture = SandboxFixture::new();
    let proposal =
        fixture.propose_usual_work(test_plan_id(1), &LandingMethod::Commit { merge: true });
    fixture.land_proposal(test_plan_id(1), 2, &proposal);
    let parents = fixture.run_git(&["log", "-1", "--format=%P"]);
    assert_eq!(parents.split(' ').count(), 2);
    fixture.assert_clean();
}

#[test]
fn change_that_the_target_has_already_is_not_landed() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    write_file(&sandbox.path.join("src/b.txt"), "same\n");
    let result = fixture.capture_result(test_plan_id(1), 1);
    fixture.write_file("src/b.txt", "same\n");
    fixture.commit_all("the same by hand");
    assert_eq!(
        fixture.propose_landing(test_plan_id(1), 2, &result, &AS_COMMIT),
        ProposalOutcome::AlreadyLanded
    );
}

/// G6 at the ref: git refuses a holder that was suspended just before it moved the branch.
#[test]
fn suspended_holder_is_fenced_by_git() {
    let fixture = SandboxFixture::new();
    let proposal = fixture.propose_usual_work(test_plan_id(1), &AS_COMMIT);
    let before = fixture.snapshot_user_files();
    let successor = fixture.sandboxes.clone();
    let resource = fixture.resource.clone();
    let suspended = fixture.with_faults(planwright_sandbox::StepFaults::new(move |step| {
        if step == planwright_sandbox::SandboxStep::Journalled {
            // In the meantime, another holder reclaims the plan and raises the fence.
            let key = planwright_sandbox::SandboxKey {
                plan_id: test_plan_id(1),
                resource: &resource,
            };
            let base = successor.read_tip(&resource).unwrap();
            let tree = base.clone();
            let result = SandboxResult { base, tree };
            let _ = successor.landings().propose_landing(
                &key,
                Epoch(9),
                &result,
                &AS_COMMIT,
                &make_landing_message(test_plan_id(1)),
            );
        }
        Ok(())
    }));
    let refused = suspended.landings().land_proposal(
        &fixture.sandbox_key(test_plan_id(1)),
        Epoch(2),
        &proposal,
    );
    assert!(
        matches!(
            refused,
            Err(SandboxError::FencedByNewerHolder {
                given: 2,
                current: 9
            })
        ),
        "{refused:?}"
    );
    assert_eq!(fixture.snapshot_user_files(), before);
    fixture.assert_no_leftovers();
}

#[test]
fn target_state_follows_the_branch() {
    let fixture = SandboxFixture::new();
    let proposal = fixture.propose_usual_work(test_plan_id(1), &AS_COMMIT);
    let state = || {
        fixture
            .sandboxes
            .landings()
            .observe_target(&fixture.sandbox_key(test_plan_id(1)), &proposal)
            .unwrap()
    };
    fixture.write_file("later.txt", "x\n");
    fixture.commit_all("moved on");
    assert_eq!(state(), TargetState::Moved);
    assert_eq!(
        fixture.land_proposal(test_plan_id(1), 2, &proposal),
        LandAttempt::TargetMoved
    );
    fixture.run_git(&["reset", "-q", "--hard", "HEAD~1"]);
    assert_eq!(state(), TargetState::Untouched);
    fixture.land_proposal(test_plan_id(1), 2, &proposal);
    fixture.write_file("later.txt", "x\n");
    fixture.commit_all("on top");
    assert_eq!(state(), TargetState::Landed);
    fixture.run_git(&["reset", "-q", "--hard", "HEAD~2"]);
    fixture.write_file("later.txt", "y\n");
    fixture.commit_all("took it out");
    assert_eq!(state(), TargetState::Removed);
    assert_eq!(
        fixture.land_proposal(test_plan_id(1), 2, &proposal),
        LandAttempt::Removed
    );
}

#[test]
fn landing_that_the_user_reset_is_not_repeated() {
    let fixture = SandboxFixture::new();
    let start = fixture.tip();
    let proposal = fixture.propose_usual_work(test_plan_id(1), &AS_COMMIT);
    fixture.land_proposal(test_plan_id(1), 2, &proposal);
    fixture.run_git(&["reset", "-q", "--hard", "HEAD~1"]);
    assert_eq!(
        fixture.land_proposal(test_plan_id(1), 3, &proposal),
        LandAttempt::Removed
    );
    assert_eq!(fixture.tip(), start);
    fixture.assert_clean();
    fixture.assert_no_leftovers();
}

#[test]
fn concurrent_landings_on_one_branch_all_succeed() {
    let fixture = SandboxFixture::new();
    let mut results = Vec::new();
    for number in 1..=6 {
        let sandbox = fixture.enter_sandbox(test_plan_id(number), 1);
        write_file(
            &sandbox.path.join(format!("made/{number}.txt")),
            &format!("{number}\n"),
        );
        results.push((number, fixture.capture_result(test_plan_id(number), 1)));
    }
    std::thread::scope(|scope| {
        for (number, result) in &results {
            let fixture = &fixture;
            scope.spawn(move || {
                loop {
                    let ProposalOutcome::Ready(proposal) =
                        fixture.propose_landing(test_plan_id(*number), 2, result, &AS_COMMIT)
                    else {
                        panic!("they do not overlap");
                    };
                    match fixture.land_proposal(test_plan_id(*number), 2, &proposal) {
                        LandAttempt::Landed { .. } => break,
                        LandAttempt::TargetMoved => {}
                        other => panic!("{other:?}"),
                    }
                }
            });
        }
    });
    for number in 1..=6 {
        assert_eq!(
            fixture.read_file(&format!("made/{number}.txt")),
            format!("{number}\n")
        );
    }
    assert_eq!(fixture.run_git(&["rev-list", "--count", "HEAD"]), "7");
    fixture.assert_clean();
    fixture.assert_no_leftovers();
}

#[test]
fn rescue_ref_keeps_work_that_did_not_land() {
    let fixture = SandboxFixture::new();
    let key = fixture.sandbox_key(test_plan_id(1));
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    assert_eq!(
        fixture
            .sandboxes
            .rescue()
            .rescue_current_work(&key)
            .unwrap(),
        None,
        "nothing to keep"
    );
    fixture.do_usual_work(&sandbox);
    let kept = fixture
        .sandboxes
        .rescue()
        .rescue_current_work(&key)
        .unwrap()
        .unwrap();
    assert!(
        fixture
            .sandboxes
            .rescue()
            .remove_plan(test_plan_id(1), || Ok(()))
            .unwrap()
    );
    assert!(!sandbox.path.exists());
    fixture.run_git(&["gc", "-q", "--prune=now"]);
    assert_eq!(
        fixture.run_git(&["show", &format!("{}:src/new/c.txt", kept.ref_name)]),
        "new"
    );
    assert_eq!(
        fixture.sandboxes.rescue().find_rescue_ref(&key).unwrap(),
        Some(kept)
    );
    assert!(
        !fixture
            .sandboxes
            .rescue()
            .remove_plan(test_plan_id(1), || Ok(()))
            .unwrap(),
        "gone already"
    );
    // Entering again starts from the base, not from the rescue ref.
    let base = fixture.tip();
    fixture
        .sandboxes
        .enter_sandbox(&key, Epoch(2), &base, SandboxEntryMode::Continue)
        .unwrap();
}

/// The branch moves only from the commit that was checked.
#[test]
fn commit_at_the_last_moment_is_not_overwritten() {
    let fixture = SandboxFixture::new();
    let proposal = fixture.propose_usual_work(test_plan_id(1), &AS_COMMIT);
    let (path, tip) = (fixture.path(), fixture.tip());
    let sandboxes = fixture.with_faults(planwright_sandbox::StepFaults::new(move |step| {
        if step == planwright_sandbox::SandboxStep::Journalled {
            let theirs = run_git(
                &path,
                &["commit-tree", "main^{tree}", "-p", "main", "-m", "theirs"],
            );
            run_git(&path, &["update-ref", "refs/heads/main", &theirs]);
        }
        Ok(())
    }));
    let landed = sandboxes
        .landings()
        .land_proposal(&fixture.sandbox_key(test_plan_id(1)), Epoch(2), &proposal)
        .unwrap();
    assert_eq!(landed, LandAttempt::TargetMoved);
    assert_eq!(fixture.run_git(&["rev-parse", "main^"]), tip.to_string());
    assert_eq!(fixture.run_git(&["log", "-1", "--format=%s"]), "theirs");
    fixture.assert_clean();
    fixture.assert_no_leftovers();
}

/// A lock of another git, or of a killed one, is reported with its path.
#[test]
fn leftover_git_lock_is_reported_and_nothing_changes() {
    let fixture = SandboxFixture::new();
    let proposal = fixture.propose_usual_work(test_plan_id(1), &AS_COMMIT);
    let before = fixture.snapshot_user_files();
    let fence = format!("refs/planwright/fence/{}", test_plan_id(1));
    for (epoch, name) in [(2, "refs/heads/main"), (3, fence.as_str())] {
        let lock = fixture.path().join(format!(".git/{name}.lock"));
        std::fs::write(&lock, "").unwrap();
        let key = fixture.sandbox_key(test_plan_id(1));
        let refused = fixture
            .sandboxes
            .landings()
            .land_proposal(&key, Epoch(epoch), &proposal);
        std::fs::remove_file(&lock).unwrap();
        let Err(error @ SandboxError::LockedByGit { .. }) = refused else {
            panic!("{name}: {refused:?}");
        };
        assert!(
            error.to_string().contains(lock.to_str().unwrap()),
            "{error}"
        );
        assert!(error.is_transient());
        assert_eq!(fixture.snapshot_user_files(), before, "{name}");
    }
    let landed = fixture.land_proposal(test_plan_id(1), 4, &proposal);
    assert_eq!(landed, LandAttempt::Landed { kept: Vec::new() });
}
