//! What hostile agents, unlucky people and crashing machines do to a landing.

use std::os::unix::fs::symlink;

use super::shop_repository::ShopRepository;

/// G8, 13.9: a link in the place of a sandbox does not lead the engine to other files.
#[test]
fn a_sandbox_that_became_a_link_is_gone() {
    let repo = ShopRepository::new();
    let (plan, sandbox) = repo.plan_in_execute();
    let precious = tempfile::TempDir::new().unwrap();
    std::fs::write(precious.path().join("gold.txt"), "gold\n").unwrap();
    std::fs::rename(&sandbox, sandbox.with_extension("away")).unwrap();
    symlink(precious.path(), &sandbox).unwrap();
    let complete = ["plumbing", "complete-execute", &plan, "--epoch", "2"];
    repo.run_bad(3, &complete, "is gone");
    repo.run_bad(3, &["diff", &plan], "is gone");
    // The next holder gets one of its own, and the files behind the link stay.
    repo.run_ok(&["revert", &plan, "--reason", "again"]);
    let start = ["plumbing", "start-strategize", &plan, "--owner", "bot"];
    let claimed = repo.run_ok(&start);
    let path = claimed["sandboxes"][0]["path"].as_str().unwrap();
    let path = std::path::Path::new(path);
    assert!(path.join("src/a.txt").is_file());
    assert!(!path.symlink_metadata().unwrap().is_symlink());
    let gold = std::fs::read_to_string(precious.path().join("gold.txt"));
    assert_eq!(gold.unwrap(), "gold\n");
}

/// G8: what a person works on in a submodule is theirs, also if a plan takes the submodule out.
#[test]
fn a_submodule_that_is_taken_out_keeps_its_files() {
    let repo = ShopRepository::new();
    let library = repo.clone_repository("library");
    let file = "protocol.file.allow=always";
    repo.run_git(&["-c", file, "submodule", "-q", "add", &library, "sub"]);
    repo.commit_all("sub");
    repo.write_file("sub/README.md", "edited\n");
    repo.write_file("sub/new.txt", "precious\n");
    let plan = repo.submit_plan(|sandbox| std::fs::remove_dir(sandbox.join("sub")).unwrap());
    repo.run_ok(&["apply", &plan, "--yes"]);
    assert_eq!(repo.run_git(&["ls-files", "sub"]), "");
    assert_eq!(repo.read_file("sub/README.md"), "edited\n");
    assert_eq!(repo.read_file("sub/new.txt"), "precious\n");
    // One that nobody filled goes like any directory that is empty.
    repo.run_git(&["reset", "-q", "--hard", "HEAD^"]);
    repo.run_git(&["submodule", "-q", "deinit", "-f", "sub"]);
    let plan = repo.submit_plan(|sandbox| std::fs::remove_dir(sandbox.join("sub")).unwrap());
    repo.run_ok(&["apply", &plan, "--yes"]);
    assert!(!repo.shop_path().join("sub").exists());
}

/// G8: edits that git was told not to look at are edits.
#[test]
fn edits_that_git_does_not_look_at_are_not_lost() {
    let repo = ShopRepository::new();
    repo.run_git(&["update-index", "--assume-unchanged", "src/a.txt"]);
    repo.write_file("src/a.txt", "mine\n");
    let plan = repo.submit_usual_change();
    for how in ["commit", "uncommitted"] {
        repo.run_bad(4, &["apply", &plan, "--yes", "--as", how], "src/a.txt");
        assert_eq!(repo.read_file("src/a.txt"), "mine\n");
    }
    repo.run_git(&["update-index", "--no-assume-unchanged", "src/a.txt"]);
    repo.run_git(&["checkout", "-q", "src/a.txt"]);
    repo.run_git(&["update-index", "--assume-unchanged", "src/a.txt"]);
    repo.run_ok(&["apply", &plan, "--yes"]);
    repo.run_git(&["update-index", "--skip-worktree", "src/b.txt"]);
    repo.write_file("src/b.txt", "mine\n");
    let remove = |sandbox: &std::path::Path| {
        std::fs::remove_file(sandbox.join("src/b.txt")).unwrap();
    };
    let plan = repo.submit_plan(remove);
    repo.run_bad(4, &["apply", &plan, "--yes"], "src/b.txt");
    assert_eq!(repo.read_file("src/b.txt"), "mine\n");
}

/// 13.4: a person who removed the lock and went to another branch finds nothing of a plan there.
#[test]
fn finishing_leaves_a_checkout_alone_that_went_to_another_branch() {
    for step in ["ref-moved", "index-refreshed"] {
        let repo = ShopRepository::new();
        repo.run_git(&["branch", "other"]);
        let plan = repo.submit_usual_change();
        repo.run_killed_at(step, &["apply", &plan, "--yes"]);
        std::fs::remove_file(repo.shop_path().join(".git/index.lock")).unwrap();
        repo.run_git(&["switch", "-q", "--discard-changes", "other"]);
        std::fs::remove_file(repo.shop_path().join("new.txt")).unwrap_or_default();
        repo.run_ok(&["apply", &plan, "--yes"]);
        assert_eq!(repo.run_git(&["branch", "--show-current"]), "other");
        repo.assert_tidy();
        assert_eq!(repo.run_git(&["show", "main:new.txt"]), "new");
    }
}

/// 13.5: whoever goes on from a landing that a crash cut off does not keep it from ending.
#[test]
fn a_person_who_goes_on_after_a_crash_keeps_their_index() {
    for (step, lock) in [("unlocked", false), ("ref-moved", true)] {
        let repo = ShopRepository::new();
        let plan = repo.submit_usual_change();
        repo.run_killed_at(step, &["apply", &plan, "--yes"]);
        if lock {
            std::fs::remove_file(repo.shop_path().join(".git/index.lock")).unwrap();
        }
        repo.write_file("src/a.txt", "mine\n");
        repo.run_git(&["commit", "-q", "-m", "mine", "--only", "src/a.txt"]);
        repo.run_ok(&["apply", &plan, "--yes"]);
        assert_eq!(repo.read_file("src/a.txt"), "mine\n");
        assert_eq!(repo.run_git(&["show", "HEAD:src/a.txt"]), "mine");
        let staged = repo.run_git(&["diff", "--cached", "--name-only", "HEAD", "--", "src"]);
        assert_eq!(staged, "", "{step}");
        assert_eq!(repo.read_file("new.txt"), "new\n");
    }
}

/// A conflict elsewhere in the index is an edit elsewhere.
#[test]
fn a_conflict_in_other_paths_stays_as_it_is() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    repo.write_file("src/b.txt", "stashed\n");
    repo.run_git(&["stash", "-q"]);
    repo.write_file("src/b.txt", "committed\n");
    repo.commit_all("b");
    let pop = std::panic::catch_unwind(|| repo.run_git(&["stash", "pop", "-q"]));
    assert!(pop.is_err(), "it conflicts");
    assert_eq!(repo.run_git(&["status", "--porcelain"]), "UU src/b.txt");
    repo.run_ok(&["apply", &plan, "--yes"]);
    assert_eq!(repo.run_git(&["status", "--porcelain"]), "UU src/b.txt");
    assert!(repo.read_file("src/a.txt").ends_with("SIX\n"));
}

/// A lock that another git took after a crash is that git's.
#[test]
fn a_lock_of_somebody_else_is_not_taken_for_ours() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    repo.run_killed_at("unlocked", &["apply", &plan, "--yes"]);
    let lock = repo.shop_path().join(".git/index.lock");
    std::fs::write(&lock, "theirs").unwrap();
    repo.run_bad(4, &["apply", &plan, "--yes"], "index.lock");
    assert_eq!(std::fs::read_to_string(&lock).unwrap(), "theirs");
    std::fs::remove_file(&lock).unwrap();
    repo.run_ok(&["apply", &plan, "--yes"]);
    repo.assert_tidy();
}

/// A directory that took the place of a linked checkout is not one.
#[test]
fn nothing_is_written_where_a_linked_checkout_was() {
    let repo = ShopRepository::new();
    let feature = repo.clone_repository("feature");
    std::fs::remove_dir_all(&feature).unwrap();
    repo.run_git(&["worktree", "add", "-q", "-b", "feature", &feature]);
    std::fs::remove_dir_all(&feature).unwrap();
    repo.run_git(&["clone", "-q", ".", &feature]);
    let shop = repo.shop_path();
    let shop = shop.to_str().unwrap();
    let create = ["project", "create", "later", "--git", shop];
    repo.run_ok(&[&create[..], &["--branch", "feature"]].concat());
    let plan = repo.submit_plan_on("later", |sandbox| {
        std::fs::write(sandbox.join("new.txt"), "new\n").unwrap();
    });
    repo.run_ok(&["apply", &plan, "--yes"]);
    assert!(!std::path::Path::new(&feature).join("new.txt").exists());
    assert_eq!(repo.run_git(&["show", "feature:new.txt"]), "new");
    repo.assert_tidy();
}

/// Where the git directory does not lie in the checkout, the files are still found.
#[test]
fn a_repository_with_its_git_directory_elsewhere() {
    let repo = ShopRepository::new();
    let aside = repo.clone_repository("aside.git");
    std::fs::remove_dir_all(&aside).unwrap();
    repo.run_git(&["init", "-q", "--separate-git-dir", &aside, "."]);
    let plan = repo.submit_usual_change();
    repo.run_ok(&["apply", &plan, "--yes"]);
    assert!(repo.read_file("src/a.txt").ends_with("SIX\n"));
    assert_eq!(repo.run_git(&["status", "--porcelain"]), "");
}

/// A split index is one index.
#[test]
fn a_split_index_is_read_whole() {
    let repo = ShopRepository::new();
    repo.run_git(&["update-index", "--split-index"]);
    repo.write_file("README.md", "mine\n");
    repo.run_ok(&["use", "tidy", "shop", "--with-changes"]);
    let plan = repo.submit_usual_change();
    repo.run_ok(&["apply", &plan, "--yes", "--as", "uncommitted"]);
    let status = "M README.md\n M src/a.txt\n?? new.txt";
    assert_eq!(repo.run_git(&["status", "--porcelain"]), status);
}

/// 13.5, 13.13: a branch that cannot be made is refused before anything is signed.
#[test]
fn a_branch_that_cannot_be_made_is_said_at_once() {
    let repo = ShopRepository::new();
    repo.run_git(&["branch", "taken"]);
    let plan = repo.submit_usual_change();
    for bad in ["taken", "a..b", "taken/below", "@{-1}", "-x"] {
        let words = ["apply", &plan, "--yes", "--as", "branch", bad];
        let said = repo.run(&words);
        assert!(matches!(said.exit_code(), Some(2 | 4)), "{bad}: {said:?}");
        assert_eq!(repo.plan_state(&plan), "execute/complete", "{bad}");
    }
    // Made by somebody after it was signed.
    repo.run_ok(&["approve", &plan, "--as", "branch", "free"]);
    repo.run_git(&["branch", "free"]);
    repo.run_ok(&["plumbing", "apply-plan", &plan]);
    repo.run_bad(
        4,
        &["apply", &plan, "--yes"],
        "branch `free` already exists",
    );
    assert_eq!(repo.plan_state(&plan), "apply/constrained");
    repo.run_ok(&["apply", &plan, "--yes", "--as", "branch", "other"]);
    assert_eq!(repo.run_git(&["show", "other:new.txt"]), "new");
}

/// G9: what a holder left before a fresh start is kept as well.
#[test]
fn work_from_before_a_fresh_start_is_kept() {
    let repo = ShopRepository::new();
    let (plan, sandbox) = repo.plan_in_execute();
    std::fs::write(sandbox.join("new.txt"), "first\n").unwrap();
    let fail = ["plumbing", "fail", &plan, "--epoch", "2"];
    repo.run_ok(&[&fail[..], &["--category", "resource", "--message", "no"]].concat());
    repo.run_ok(&["retry", &plan, "--fresh"]);
    repo.run_ok(&["plumbing", "start-execute", &plan, "--owner", "bot"]);
    repo.run_ok(&["cancel", &plan]);
    let cleaned = repo.run_ok(&["sandbox", "clean"]);
    let kept = cleaned["cleaned"][0]["kept"][0]["ref"].as_str().unwrap();
    assert_eq!(repo.run_git(&["show", &format!("{kept}:new.txt")]), "first");
    let restored = repo.run_ok(&["sandbox", "restore", &plan]);
    let path = restored["sandboxes"][0]["path"].as_str().unwrap();
    let text = std::fs::read_to_string(std::path::Path::new(path).join("new.txt"));
    assert_eq!(text.unwrap(), "first\n");
}

/// G9: what somebody changed after it was handed in did not land, and is kept.
#[test]
fn edits_from_after_it_was_handed_in_are_kept() {
    let repo = ShopRepository::new();
    let (plan, sandbox) = repo.plan_in_execute();
    std::fs::write(sandbox.join("new.txt"), "new\n").unwrap();
    repo.run_ok(&["plumbing", "complete-execute", &plan, "--epoch", "2"]);
    std::fs::write(sandbox.join("late.txt"), "late\n").unwrap();
    repo.run_ok(&["apply", &plan, "--yes"]);
    assert!(!repo.shop_path().join("late.txt").exists());
    let kept = repo.run_git(&["for-each-ref", "--format=%(refname)", "refs/planwright"]);
    assert!(kept.starts_with("refs/planwright/rescue/"), "{kept}");
    assert_eq!(repo.run_git(&["show", &format!("{kept}:late.txt")]), "late");
}

/// G9: catching up with the target merges what is in the sandbox, handed in or not.
#[test]
fn edits_from_after_it_was_handed_in_survive_a_conflict() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    repo.write_file("src/a.txt", "one\ntwo\nthree\nfour\nfive\n6\n");
    repo.commit_all("six");
    repo.run_bad(4, &["apply", &plan, "--yes"], "same lines");
    let path = repo.run_ok(&["path", &plan]);
    let sandbox = std::path::PathBuf::from(path["sandboxes"][0]["path"].as_str().unwrap());
    std::fs::write(sandbox.join("new.txt"), "newer\n").unwrap();
    repo.run_ok(&["revise", &plan, "solve it"]);
    repo.run_ok(&["plumbing", "start-execute", &plan, "--owner", "bot"]);
    let there = |path: &str| std::fs::read_to_string(sandbox.join(path)).unwrap();
    assert_eq!(there("new.txt"), "newer\n");
    assert!(there("src/a.txt").contains("<<<<<<<"));
}

/// A key is a promise: the same answer, and nothing twice.
#[test]
fn applying_again_under_the_same_key_gives_the_same_answer() {
    for signed_before in [false, true] {
        let repo = ShopRepository::new();
        let plan = repo.submit_usual_change();
        if signed_before {
            repo.run_ok(&["approve", &plan]);
        }
        let keyed = ["apply", &plan, "--yes", "--idempotency-key", "k"];
        repo.run_ok(&keyed);
        let again = repo.run_ok(&keyed);
        assert_eq!(again["state"], "applied");
        assert_eq!(repo.run_git(&["rev-list", "--count", "HEAD"]), "2");
        let other = ["apply", &plan, "--yes", "--idempotency-key", "other"];
        repo.run_bad(4, &other, "The plan was applied by");
        repo.run_bad(4, &["apply", &plan, "--yes"], "The plan was applied by");
    }
}

/// 13.4, 13.5: taking back that was killed is finished by taking back again.
#[test]
fn undo_can_be_killed_anywhere_and_repeating_it_finishes() {
    for step in ["pinned", "staged", "ref-moved", "index-refreshed"] {
        let repo = ShopRepository::new();
        let plan = repo.submit_usual_change();
        repo.run_ok(&["apply", &plan, "--yes"]);
        repo.run_killed_at(step, &["undo", &plan, "--yes"]);
        repo.run_ok(&["undo", &plan, "--yes"]);
        repo.assert_tidy();
        assert_eq!(
            repo.run_git(&["rev-list", "--count", "HEAD"]),
            "3",
            "{step}"
        );
        assert!(!repo.shop_path().join("new.txt").exists());
        let plans = repo.run_ok(&["list"]);
        assert_eq!(plans["plans"].as_array().unwrap().len(), 2, "{step}");
    }
}

/// 13.3: what cannot be cleaned up says why, and keeps no other from being cleaned up.
#[test]
fn one_sandbox_that_stays_keeps_no_other_from_going() {
    let repo = ShopRepository::new();
    let (nested, sandbox) = repo.plan_in_execute();
    std::fs::create_dir_all(sandbox.join("inner")).unwrap();
    let inner = sandbox.join("inner");
    repo.run_git(&["init", "-q", inner.to_str().unwrap()]);
    std::fs::write(inner.join("work.txt"), "work\n").unwrap();
    let (plain, _) = repo.plan_in_execute();
    repo.run_ok(&["cancel", &nested]);
    repo.run_ok(&["cancel", &plain]);
    let said = repo.run_bad(1, &["sandbox", "clean"], "inner cannot be part");
    assert!(
        said.messages().contains("remove it or its .git"),
        "{said:?}"
    );
    repo.run_bad(3, &["path", &plain], "no sandbox");
    assert!(inner.join("work.txt").is_file());
    std::fs::remove_dir_all(inner.join(".git")).unwrap();
    repo.run_ok(&["sandbox", "clean"]);
    repo.run_bad(3, &["path", &nested], "no sandbox");
}
