//! G7, G8, G10: a change lands once, whole, or not at all.

use plan::Epoch;
use planwright_sandbox::land::{How, Landed, Outcome, Proposed, Seen};
use planwright_sandbox::{Obstacle, SandboxError, Start};

use crate::yard::{Yard, git, message, plan, write};

const COMMIT: How = How::Commit { merge: false };

#[test]
fn a_result_lands_as_one_commit_with_trailers_and_the_files_follow() {
    let yard = Yard::new();
    let start = yard.tip();
    let before = yard.photograph_of_theirs();
    let proposal = yard.proposed(plan(1), &COMMIT);
    assert_eq!(yard.photograph_of_theirs(), before, "nothing moves before");
    assert_eq!(
        yard.workshop
            .observe(&yard.room(plan(1)), &proposal)
            .unwrap(),
        Seen::Untouched
    );
    assert_eq!(
        yard.land(plan(1), 2, &proposal),
        Landed::Yes { kept: Vec::new() }
    );
    assert_eq!(yard.tip(), proposal.new);
    assert_eq!(yard.git(&["rev-parse", "HEAD^"]), start.to_string());
    assert!(yard.read("src/a.txt").ends_with("EIGHT\n"));
    assert_eq!(yard.read("src/new/c.txt"), "new\n");
    assert!(!yard.path().join("old").exists());
    yard.assert_clean();
    let said = yard.git(&["log", "-1", "--format=%B"]);
    assert!(
        said.starts_with("Tidy the shop\n\nBecause it is time."),
        "{said}"
    );
    assert!(
        said.contains(&format!("Planwright-Plan: {}", plan(1))),
        "{said}"
    );
    assert!(said.contains("Planwright-Chain: "), "{said}");
    yard.workshop
        .release_pins(&yard.room(plan(1)), Epoch(2))
        .unwrap();
    assert_eq!(yard.git(&["for-each-ref", "refs/planwright"]), "");
    yard.assert_tidy();
}

#[test]
fn landing_twice_lands_once() {
    let yard = Yard::new();
    let proposal = yard.proposed(plan(1), &COMMIT);
    yard.land(plan(1), 2, &proposal);
    yard.write("later.txt", "by a person\n");
    yard.commit("later");
    let after = yard.photograph_of_theirs();
    assert_eq!(
        yard.land(plan(1), 3, &proposal),
        Landed::Yes { kept: Vec::new() }
    );
    assert_eq!(yard.photograph_of_theirs(), after);
}

#[test]
fn disjoint_movement_of_the_target_is_merged() {
    let yard = Yard::new();
    let sandbox = yard.enter(plan(1), 1);
    yard.usual_work(&sandbox);
    let result = yard.captured(plan(1), 1);
    yard.write(
        "src/a.txt",
        "ONE\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n",
    );
    yard.write("src/b.txt", "alpha\nBETA\n");
    let person = yard.commit("meanwhile");
    let Proposed::Ready(proposal) = yard.propose(plan(1), 2, &result, &COMMIT) else {
        panic!("it merges");
    };
    assert_eq!(proposal.old, person);
    yard.land(plan(1), 2, &proposal);
    assert_eq!(
        yard.read("src/a.txt"),
        "ONE\ntwo\nthree\nfour\nfive\nsix\nseven\nEIGHT\n"
    );
    assert_eq!(yard.read("src/b.txt"), "alpha\nBETA\n");
    yard.assert_clean();
}

#[test]
fn overlap_is_a_conflict_with_paths_and_commits_and_nothing_differs() {
    let yard = Yard::new();
    let sandbox = yard.enter(plan(1), 1);
    yard.usual_work(&sandbox);
    let result = yard.captured(plan(1), 1);
    yard.write("src/b.txt", "unrelated\n");
    yard.commit("unrelated");
    yard.write("src/a.txt", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n8\n");
    let culprit = yard.commit("same line");
    let before = yard.photograph_of_theirs();
    match yard.propose(plan(1), 2, &result, &COMMIT) {
        Proposed::Conflict { paths, commits } => {
            let paths: Vec<String> = paths.iter().map(ToString::to_string).collect();
            assert_eq!(paths, ["src/a.txt"]);
            assert_eq!(commits, [culprit]);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(yard.photograph_of_theirs(), before);
}

#[test]
fn after_a_conflict_the_sandbox_catches_up_and_only_the_conflict_is_left_to_solve() {
    let yard = Yard::new();
    let sandbox = yard.enter(plan(1), 1);
    yard.usual_work(&sandbox);
    yard.captured(plan(1), 1);
    yard.write("src/b.txt", "person\n");
    yard.write("src/a.txt", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n8\n");
    let tip = yard.commit("same line");
    let room = yard.room(plan(1));
    let base = &sandbox.base;
    let entered = yard
        .workshop
        .enter(&room, Epoch(3), base, Start::Continue)
        .unwrap();
    let caught_up = yard.workshop.catch_up(&room, Epoch(3), &tip).unwrap();
    drop(entered);
    assert_eq!((&caught_up.base, &caught_up.path), (&tip, &sandbox.path));
    let text = std::fs::read_to_string(sandbox.path.join("src/a.txt")).unwrap();
    assert!(text.contains("EIGHT") && text.contains("\n8\n"), "{text}");
    // Each side is called what people call it.
    let id = plan(1).to_string().to_lowercase();
    let (ours, theirs) = ("<<<<<<< main\n", format!(">>>>>>> plan-{}\n", &id[18..]));
    assert!(text.contains(ours) && text.contains(&theirs), "{text}");
    assert_eq!(
        std::fs::read_to_string(sandbox.path.join("src/b.txt")).unwrap(),
        "person\n"
    );
    write(
        &sandbox.path.join("src/a.txt"),
        "one\ntwo\nthree\nfour\nfive\nsix\nseven\nboth\n",
    );
    let result = yard.captured(plan(1), 3);
    let Proposed::Ready(proposal) = yard.propose(plan(1), 4, &result, &COMMIT) else {
        panic!("solved");
    };
    yard.land(plan(1), 4, &proposal);
    assert!(yard.read("src/a.txt").ends_with("both\n"));
    assert!(yard.path().join("src/new/c.txt").exists());
    yard.assert_clean();
}

#[test]
fn an_unsolved_conflict_is_known_after_another_merge_and_in_another_sandbox() {
    let yard = Yard::new();
    let sandbox = yard.enter(plan(1), 1);
    yard.usual_work(&sandbox);
    yard.captured(plan(1), 1);
    let room = yard.room(plan(1));
    let base = &sandbox.base;
    yard.write("src/a.txt", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n8\n");
    let tip = yard.commit("same line");
    let entered = yard
        .workshop
        .enter(&room, Epoch(3), base, Start::Continue)
        .unwrap();
    yard.workshop.catch_up(&room, Epoch(3), &tip).unwrap();
    let unsolved = || {
        let paths = yard.workshop.unsolved(&room).unwrap();
        paths.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(unsolved(), ["src/a.txt"]);
    yard.write("src/b.txt", "person\n");
    let later = yard.commit("elsewhere");
    yard.workshop.catch_up(&room, Epoch(3), &later).unwrap();
    assert_eq!(unsolved(), ["src/a.txt"]);
    // Somebody is still in there: whoever goes on gets another sandbox, from the last checkpoint.
    let next = yard
        .workshop
        .enter(&room, Epoch(4), &later, Start::Continue)
        .unwrap();
    assert_ne!(next.sandbox.path, sandbox.path);
    assert_eq!(unsolved(), ["src/a.txt"]);
    drop((entered, next));
    let afresh = yard
        .workshop
        .enter(&room, Epoch(5), &later, Start::Afresh)
        .unwrap();
    assert_eq!(unsolved(), [""; 0]);
    drop(afresh);
}

#[test]
fn local_edits_in_affected_paths_are_refused_and_edits_elsewhere_stay() {
    let yard = Yard::new();
    yard.write("src/b.txt", "edited, not committed\n");
    yard.write("note.txt", "untracked\n");
    yard.write("staged.txt", "staged\n");
    yard.git(&["add", "staged.txt"]);
    let proposal = yard.proposed(plan(1), &COMMIT);
    yard.land(plan(1), 2, &proposal);
    assert_eq!(
        yard.git(&["status", "--porcelain"]),
        "M src/b.txt\nA  staged.txt\n?? note.txt"
            .replace("M src", " M src")
            .trim()
    );
    // Now in the way: a modified file, a staged one, and an untracked one where a new one comes.
    for (path, text) in [
        ("src/a.txt", "mine\n"),
        ("src/new/c.txt", "mine\n"),
        ("old/gone.txt", "mine\n"),
    ] {
        let yard = Yard::new();
        let sandbox = yard.enter(plan(2), 1);
        yard.usual_work(&sandbox);
        let result = yard.captured(plan(2), 1);
        yard.write(path, text);
        for staged in [false, true] {
            if staged {
                yard.git(&["add", path]);
            }
            let before = yard.photograph_of_theirs();
            match yard.propose(plan(2), 2, &result, &COMMIT) {
                Proposed::Hindered(Obstacle::LocalEdits(paths)) => {
                    let paths: Vec<String> = paths.iter().map(ToString::to_string).collect();
                    assert_eq!(paths, [path]);
                }
                other => panic!("{path}: {other:?}"),
            }
            assert_eq!(yard.photograph_of_theirs(), before);
        }
    }
}

#[test]
fn an_edit_between_prepare_and_landing_is_seen_under_the_lock() {
    let yard = Yard::new();
    let proposal = yard.proposed(plan(1), &COMMIT);
    yard.write("src/a.txt", "saved just now\n");
    let before = yard.photograph_of_theirs();
    assert!(matches!(
        yard.land(plan(1), 2, &proposal),
        Landed::Hindered(Obstacle::LocalEdits(_))
    ));
    assert_eq!(yard.photograph_of_theirs(), before);
    yard.assert_tidy();
}

#[test]
fn a_rebase_bisect_or_merge_in_progress_is_refused() {
    let conflicting = |yard: &Yard| {
        yard.git(&["checkout", "-qb", "side", "HEAD~1"]);
        yard.write("README.md", "# Side\n");
        yard.commit("side");
        yard.git(&["checkout", "-q", "main"]);
    };
    let begin = |arguments: &'static [&'static str], yard: &Yard| {
        let _ = std::process::Command::new("git")
            .args(["-c", "user.name=Ada", "-c", "user.email=a@example.org"])
            .args(arguments)
            .current_dir(yard.path())
            .output()
            .unwrap();
    };
    for (arguments, what) in [
        (&["rebase", "side"][..], "rebase"),
        (&["merge", "side"][..], "merge"),
        (&["cherry-pick", "side"][..], "cherry-pick"),
        (&["bisect", "start"][..], "bisect"),
    ] {
        let yard = Yard::new();
        yard.write("README.md", "# Main\n");
        yard.commit("main");
        conflicting(&yard);
        let proposal = yard.proposed(plan(1), &COMMIT);
        begin(arguments, &yard);
        assert_eq!(
            yard.land(plan(1), 2, &proposal),
            Landed::Hindered(Obstacle::InProgress(what))
        );
    }
}

#[test]
fn a_branch_that_is_not_checked_out_moves_alone() {
    let yard = Yard::new();
    let proposal = yard.proposed(plan(1), &COMMIT);
    yard.git(&["checkout", "-qb", "elsewhere"]);
    let before = yard.read("src/a.txt");
    yard.land(plan(1), 2, &proposal);
    assert_eq!(yard.read("src/a.txt"), before);
    assert_eq!(yard.git(&["status", "--porcelain"]), "");
    assert_eq!(yard.git(&["rev-parse", "main"]), proposal.new.to_string());
}

#[test]
fn it_lands_in_the_linked_worktree_that_has_the_branch() {
    let yard = Yard::new();
    let linked = yard.directory.path().join("linked");
    yard.git(&["checkout", "-qb", "elsewhere"]);
    yard.git(&["worktree", "add", "-q", linked.to_str().unwrap(), "main"]);
    let proposal = yard.proposed(plan(1), &COMMIT);
    yard.land(plan(1), 2, &proposal);
    assert!(linked.join("src/new/c.txt").exists());
    assert!(!yard.path().join("src/new/c.txt").exists());
    assert_eq!(git(&linked, &["status", "--porcelain"]), "");
    yard.assert_tidy();
}

#[test]
fn on_a_branch_of_its_own_and_in_the_working_tree_alone() {
    let yard = Yard::new();
    let start = yard.tip();
    let proposal = yard.proposed(plan(1), &How::Branch("plans/tidy".to_owned()));
    yard.land(plan(1), 2, &proposal);
    assert_eq!(yard.tip(), start);
    assert_eq!(
        yard.git(&["rev-parse", "plans/tidy"]),
        proposal.new.to_string()
    );
    yard.assert_clean();
    let proposal = yard.proposed(plan(2), &How::Uncommitted);
    yard.land(plan(2), 2, &proposal);
    assert_eq!(yard.tip(), start);
    assert_eq!(
        yard.git(&["status", "--porcelain", "-uall"]),
        "D old/gone.txt\n M src/a.txt\n?? src/new/c.txt"
    );
    yard.land(plan(2), 3, &proposal);
    yard.assert_tidy();
}

#[test]
fn a_merge_keeps_the_plans_own_commit_as_second_parent() {
    let yard = Yard::new();
    let proposal = yard.proposed(plan(1), &How::Commit { merge: true });
    yard.land(plan(1), 2, &proposal);
    let parents = yard.git(&["log", "-1", "--format=%P"]);
    assert_eq!(parents.split(' ').count(), 2);
    yard.assert_clean();
}

#[test]
fn a_change_the_target_has_already_is_nothing_to_land() {
    let yard = Yard::new();
    let sandbox = yard.enter(plan(1), 1);
    write(&sandbox.path.join("src/b.txt"), "same\n");
    let result = yard.captured(plan(1), 1);
    yard.write("src/b.txt", "same\n");
    yard.commit("the same by hand");
    assert_eq!(
        yard.propose(plan(1), 2, &result, &COMMIT),
        Proposed::Nothing
    );
}

/// G6 at the ref: a holder that was stopped just before it moved the branch is refused by git.
#[test]
fn a_woken_holder_is_fenced_by_git_itself() {
    let yard = Yard::new();
    let proposal = yard.proposed(plan(1), &COMMIT);
    let before = yard.photograph_of_theirs();
    let successor = yard.workshop.clone();
    let site = yard.site.clone();
    let woken = yard.with_faults(planwright_sandbox::Faults::new(move |step| {
        if step == planwright_sandbox::Step::Journalled {
            // Meanwhile somebody reclaimed the plan and raised the fence.
            let room = planwright_sandbox::Room {
                plan: plan(1),
                site: &site,
            };
            let base = successor.tip(&site).unwrap();
            let tree = base.clone();
            let result = Outcome { base, tree };
            let _ = successor.propose(&room, Epoch(9), &result, &COMMIT, &message(plan(1)));
        }
        Ok(())
    }));
    let refused = woken.land(&yard.room(plan(1)), Epoch(2), &proposal);
    assert!(
        matches!(
            refused,
            Err(SandboxError::Fenced {
                given: 2,
                current: 9
            })
        ),
        "{refused:?}"
    );
    assert_eq!(yard.photograph_of_theirs(), before);
    yard.assert_tidy();
}

#[test]
fn what_becomes_of_a_proposal_is_looked_up() {
    let yard = Yard::new();
    let proposal = yard.proposed(plan(1), &COMMIT);
    let seen = || {
        yard.workshop
            .observe(&yard.room(plan(1)), &proposal)
            .unwrap()
    };
    yard.write("later.txt", "x\n");
    yard.commit("moved on");
    assert_eq!(seen(), Seen::Moved);
    assert_eq!(yard.land(plan(1), 2, &proposal), Landed::Moved);
    yard.git(&["reset", "-q", "--hard", "HEAD~1"]);
    assert_eq!(seen(), Seen::Untouched);
    yard.land(plan(1), 2, &proposal);
    yard.write("later.txt", "x\n");
    yard.commit("on top");
    assert_eq!(seen(), Seen::Landed);
    yard.git(&["reset", "-q", "--hard", "HEAD~2"]);
    yard.write("later.txt", "y\n");
    yard.commit("took it out");
    assert_eq!(seen(), Seen::Removed);
    assert_eq!(yard.land(plan(1), 2, &proposal), Landed::Removed);
}

#[test]
fn a_landing_the_person_took_back_is_not_landed_again() {
    let yard = Yard::new();
    let start = yard.tip();
    let proposal = yard.proposed(plan(1), &COMMIT);
    yard.land(plan(1), 2, &proposal);
    yard.git(&["reset", "-q", "--hard", "HEAD~1"]);
    assert_eq!(yard.land(plan(1), 3, &proposal), Landed::Removed);
    assert_eq!(yard.tip(), start);
    yard.assert_clean();
    yard.assert_tidy();
}

#[test]
fn two_plans_into_one_branch_at_once_both_arrive() {
    let yard = Yard::new();
    let mut results = Vec::new();
    for number in 1..=6 {
        let sandbox = yard.enter(plan(number), 1);
        write(
            &sandbox.path.join(format!("made/{number}.txt")),
            &format!("{number}\n"),
        );
        results.push((number, yard.captured(plan(number), 1)));
    }
    std::thread::scope(|scope| {
        for (number, result) in &results {
            let yard = &yard;
            scope.spawn(move || {
                loop {
                    let Proposed::Ready(proposal) = yard.propose(plan(*number), 2, result, &COMMIT)
                    else {
                        panic!("they do not overlap");
                    };
                    match yard.land(plan(*number), 2, &proposal) {
                        Landed::Yes { .. } => break,
                        Landed::Moved => {}
                        other => panic!("{other:?}"),
                    }
                }
            });
        }
    });
    for number in 1..=6 {
        assert_eq!(
            yard.read(&format!("made/{number}.txt")),
            format!("{number}\n")
        );
    }
    assert_eq!(yard.git(&["rev-list", "--count", "HEAD"]), "7");
    yard.assert_clean();
    yard.assert_tidy();
}

#[test]
fn a_rescue_ref_keeps_what_did_not_land() {
    let yard = Yard::new();
    let room = yard.room(plan(1));
    let sandbox = yard.enter(plan(1), 1);
    assert_eq!(
        yard.workshop.rescue(&room).unwrap(),
        None,
        "nothing to keep"
    );
    yard.usual_work(&sandbox);
    let kept = yard.workshop.rescue(&room).unwrap().unwrap();
    assert!(yard.workshop.remove(plan(1), || Ok(())).unwrap());
    assert!(!sandbox.path.exists());
    yard.git(&["gc", "-q", "--prune=now"]);
    assert_eq!(
        yard.git(&["show", &format!("{}:src/new/c.txt", kept.name)]),
        "new"
    );
    assert_eq!(yard.workshop.rescued(&room).unwrap(), Some(kept));
    assert!(
        !yard.workshop.remove(plan(1), || Ok(())).unwrap(),
        "gone already"
    );
    // Entering again starts from the base, not from what is only kept.
    let base = yard.tip();
    yard.workshop
        .enter(&room, Epoch(2), &base, Start::Continue)
        .unwrap();
}

/// The branch moves from exactly where it was looked at, or not at all.
#[test]
fn a_commit_in_the_last_moment_is_not_overwritten() {
    let yard = Yard::new();
    let proposal = yard.proposed(plan(1), &COMMIT);
    let (path, tip) = (yard.path(), yard.tip());
    let late = yard.with_faults(planwright_sandbox::Faults::new(move |step| {
        if step == planwright_sandbox::Step::Journalled {
            let theirs = git(
                &path,
                &["commit-tree", "main^{tree}", "-p", "main", "-m", "theirs"],
            );
            git(&path, &["update-ref", "refs/heads/main", &theirs]);
        }
        Ok(())
    }));
    let landed = late.land(&yard.room(plan(1)), Epoch(2), &proposal).unwrap();
    assert_eq!(landed, Landed::Moved);
    assert_eq!(yard.git(&["rev-parse", "main^"]), tip.to_string());
    assert_eq!(yard.git(&["log", "-1", "--format=%s"]), "theirs");
    yard.assert_clean();
    yard.assert_tidy();
}

/// Whoever finds a lock of another git, or of one that was killed, is told which file it is.
#[test]
fn a_lock_that_git_left_is_named_and_nothing_is_touched() {
    let yard = Yard::new();
    let proposal = yard.proposed(plan(1), &COMMIT);
    let before = yard.photograph_of_theirs();
    let fence = format!("refs/planwright/fence/{}", plan(1));
    for (epoch, name) in [(2, "refs/heads/main"), (3, fence.as_str())] {
        let lock = yard.path().join(format!(".git/{name}.lock"));
        std::fs::write(&lock, "").unwrap();
        let room = yard.room(plan(1));
        let refused = yard.workshop.land(&room, Epoch(epoch), &proposal);
        std::fs::remove_file(&lock).unwrap();
        let Err(error @ SandboxError::Locked { .. }) = refused else {
            panic!("{name}: {refused:?}");
        };
        assert!(
            error.to_string().contains(lock.to_str().unwrap()),
            "{error}"
        );
        assert!(error.is_passing());
        assert_eq!(yard.photograph_of_theirs(), before, "{name}");
    }
    let landed = yard.land(plan(1), 4, &proposal);
    assert_eq!(landed, Landed::Yes { kept: Vec::new() });
}
