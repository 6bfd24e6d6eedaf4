//! What hostile agents, unlucky people and crashing machines do to a landing.

use std::os::unix::fs::symlink;

use super::yard::Yard;

/// G8, 13.9: a link in the place of a sandbox does not lead the engine to other files.
#[test]
fn a_sandbox_that_became_a_link_is_gone() {
    let yard = Yard::new();
    let (plan, sandbox) = yard.working();
    let precious = tempfile::TempDir::new().unwrap();
    std::fs::write(precious.path().join("gold.txt"), "gold\n").unwrap();
    std::fs::rename(&sandbox, sandbox.with_extension("away")).unwrap();
    symlink(precious.path(), &sandbox).unwrap();
    let complete = ["plumbing", "complete-execute", &plan, "--epoch", "2"];
    yard.bad(3, &complete, "is gone");
    yard.bad(3, &["diff", &plan], "is gone");
    // The next holder gets one of its own, and the files behind the link stay.
    yard.ok(&["revert", &plan, "--reason", "again"]);
    let start = ["plumbing", "start-strategize", &plan, "--owner", "bot"];
    let claimed = yard.ok(&start);
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
    let yard = Yard::new();
    let library = yard.other_repository("library");
    let file = "protocol.file.allow=always";
    yard.git(&["-c", file, "submodule", "-q", "add", &library, "sub"]);
    yard.commit("sub");
    yard.write("sub/README.md", "edited\n");
    yard.write("sub/new.txt", "precious\n");
    let plan = yard.handed_in(|sandbox| std::fs::remove_dir(sandbox.join("sub")).unwrap());
    yard.ok(&["apply", &plan, "--yes"]);
    assert_eq!(yard.git(&["ls-files", "sub"]), "");
    assert_eq!(yard.read("sub/README.md"), "edited\n");
    assert_eq!(yard.read("sub/new.txt"), "precious\n");
    // One that nobody filled goes like any directory that is empty.
    yard.git(&["reset", "-q", "--hard", "HEAD^"]);
    yard.git(&["submodule", "-q", "deinit", "-f", "sub"]);
    let plan = yard.handed_in(|sandbox| std::fs::remove_dir(sandbox.join("sub")).unwrap());
    yard.ok(&["apply", &plan, "--yes"]);
    assert!(!yard.shop().join("sub").exists());
}

/// G8: edits that git was told not to look at are edits.
#[test]
fn edits_that_git_does_not_look_at_are_not_lost() {
    let yard = Yard::new();
    yard.git(&["update-index", "--assume-unchanged", "src/a.txt"]);
    yard.write("src/a.txt", "mine\n");
    let plan = yard.usual();
    for how in ["commit", "uncommitted"] {
        yard.bad(4, &["apply", &plan, "--yes", "--as", how], "src/a.txt");
        assert_eq!(yard.read("src/a.txt"), "mine\n");
    }
    yard.git(&["update-index", "--no-assume-unchanged", "src/a.txt"]);
    yard.git(&["checkout", "-q", "src/a.txt"]);
    yard.git(&["update-index", "--assume-unchanged", "src/a.txt"]);
    yard.ok(&["apply", &plan, "--yes"]);
    yard.git(&["update-index", "--skip-worktree", "src/b.txt"]);
    yard.write("src/b.txt", "mine\n");
    let remove = |sandbox: &std::path::Path| {
        std::fs::remove_file(sandbox.join("src/b.txt")).unwrap();
    };
    let plan = yard.handed_in(remove);
    yard.bad(4, &["apply", &plan, "--yes"], "src/b.txt");
    assert_eq!(yard.read("src/b.txt"), "mine\n");
}

/// 13.4: a person who removed the lock and went to another branch finds nothing of a plan there.
#[test]
fn finishing_leaves_a_checkout_alone_that_went_to_another_branch() {
    for step in ["ref-moved", "index-refreshed"] {
        let yard = Yard::new();
        yard.git(&["branch", "other"]);
        let plan = yard.usual();
        yard.killed(step, &["apply", &plan, "--yes"]);
        std::fs::remove_file(yard.shop().join(".git/index.lock")).unwrap();
        yard.git(&["switch", "-q", "--discard-changes", "other"]);
        std::fs::remove_file(yard.shop().join("new.txt")).unwrap_or_default();
        yard.ok(&["apply", &plan, "--yes"]);
        assert_eq!(yard.git(&["branch", "--show-current"]), "other");
        yard.assert_tidy();
        assert_eq!(yard.git(&["show", "main:new.txt"]), "new");
    }
}

/// 13.5: whoever goes on from a landing that a crash cut off does not keep it from ending.
#[test]
fn a_person_who_goes_on_after_a_crash_keeps_their_index() {
    for (step, lock) in [("unlocked", false), ("ref-moved", true)] {
        let yard = Yard::new();
        let plan = yard.usual();
        yard.killed(step, &["apply", &plan, "--yes"]);
        if lock {
            std::fs::remove_file(yard.shop().join(".git/index.lock")).unwrap();
        }
        yard.write("src/a.txt", "mine\n");
        yard.git(&["commit", "-q", "-m", "mine", "--only", "src/a.txt"]);
        yard.ok(&["apply", &plan, "--yes"]);
        assert_eq!(yard.read("src/a.txt"), "mine\n");
        assert_eq!(yard.git(&["show", "HEAD:src/a.txt"]), "mine");
        let staged = yard.git(&["diff", "--cached", "--name-only", "HEAD", "--", "src"]);
        assert_eq!(staged, "", "{step}");
        assert_eq!(yard.read("new.txt"), "new\n");
    }
}

/// A conflict elsewhere in the index is an edit elsewhere.
#[test]
fn a_conflict_in_other_paths_stays_as_it_is() {
    let yard = Yard::new();
    let plan = yard.usual();
    yard.write("src/b.txt", "stashed\n");
    yard.git(&["stash", "-q"]);
    yard.write("src/b.txt", "committed\n");
    yard.commit("b");
    let pop = std::panic::catch_unwind(|| yard.git(&["stash", "pop", "-q"]));
    assert!(pop.is_err(), "it conflicts");
    assert_eq!(yard.git(&["status", "--porcelain"]), "UU src/b.txt");
    yard.ok(&["apply", &plan, "--yes"]);
    assert_eq!(yard.git(&["status", "--porcelain"]), "UU src/b.txt");
    assert!(yard.read("src/a.txt").ends_with("SIX\n"));
}

/// A lock that another git took after a crash is that git's.
#[test]
fn a_lock_of_somebody_else_is_not_taken_for_ours() {
    let yard = Yard::new();
    let plan = yard.usual();
    yard.killed("unlocked", &["apply", &plan, "--yes"]);
    let lock = yard.shop().join(".git/index.lock");
    std::fs::write(&lock, "theirs").unwrap();
    yard.bad(4, &["apply", &plan, "--yes"], "index.lock");
    assert_eq!(std::fs::read_to_string(&lock).unwrap(), "theirs");
    std::fs::remove_file(&lock).unwrap();
    yard.ok(&["apply", &plan, "--yes"]);
    yard.assert_tidy();
}

/// A directory that took the place of a linked checkout is not one.
#[test]
fn nothing_is_written_where_a_linked_checkout_was() {
    let yard = Yard::new();
    let feature = yard.other_repository("feature");
    std::fs::remove_dir_all(&feature).unwrap();
    yard.git(&["worktree", "add", "-q", "-b", "feature", &feature]);
    std::fs::remove_dir_all(&feature).unwrap();
    yard.git(&["clone", "-q", ".", &feature]);
    let shop = yard.shop();
    let shop = shop.to_str().unwrap();
    let create = ["project", "create", "later", "--git", shop];
    yard.ok(&[&create[..], &["--branch", "feature"]].concat());
    let plan = yard.handed_in_to("later", |sandbox| {
        std::fs::write(sandbox.join("new.txt"), "new\n").unwrap();
    });
    yard.ok(&["apply", &plan, "--yes"]);
    assert!(!std::path::Path::new(&feature).join("new.txt").exists());
    assert_eq!(yard.git(&["show", "feature:new.txt"]), "new");
    yard.assert_tidy();
}

/// Where the git directory does not lie in the checkout, the files are still found.
#[test]
fn a_repository_with_its_git_directory_elsewhere() {
    let yard = Yard::new();
    let aside = yard.other_repository("aside.git");
    std::fs::remove_dir_all(&aside).unwrap();
    yard.git(&["init", "-q", "--separate-git-dir", &aside, "."]);
    let plan = yard.usual();
    yard.ok(&["apply", &plan, "--yes"]);
    assert!(yard.read("src/a.txt").ends_with("SIX\n"));
    assert_eq!(yard.git(&["status", "--porcelain"]), "");
}

/// A split index is one index.
#[test]
fn a_split_index_is_read_whole() {
    let yard = Yard::new();
    yard.git(&["update-index", "--split-index"]);
    yard.write("README.md", "mine\n");
    yard.ok(&["use", "tidy", "shop", "--with-changes"]);
    let plan = yard.usual();
    yard.ok(&["apply", &plan, "--yes", "--as", "uncommitted"]);
    let status = "M README.md\n M src/a.txt\n?? new.txt";
    assert_eq!(yard.git(&["status", "--porcelain"]), status);
}

/// 13.5, 13.13: a branch that cannot be made is refused before anything is signed.
#[test]
fn a_branch_that_cannot_be_made_is_said_at_once() {
    let yard = Yard::new();
    yard.git(&["branch", "taken"]);
    let plan = yard.usual();
    for bad in ["taken", "a..b", "taken/below", "@{-1}", "-x"] {
        let words = ["apply", &plan, "--yes", "--as", "branch", bad];
        let said = yard.run(&words);
        assert!(matches!(said.code(), Some(2 | 4)), "{bad}: {said:?}");
        assert_eq!(yard.state_of(&plan), "execute/complete", "{bad}");
    }
    // Made by somebody after it was signed.
    yard.ok(&["approve", &plan, "--as", "branch", "free"]);
    yard.git(&["branch", "free"]);
    yard.ok(&["plumbing", "apply-plan", &plan]);
    yard.bad(4, &["apply", &plan, "--yes"], "a branch `free` already");
    assert_eq!(yard.state_of(&plan), "apply/constrained");
    yard.ok(&["apply", &plan, "--yes", "--as", "branch", "other"]);
    assert_eq!(yard.git(&["show", "other:new.txt"]), "new");
}

/// G9: what a holder left before a fresh start is kept as well.
#[test]
fn work_from_before_a_fresh_start_is_kept() {
    let yard = Yard::new();
    let (plan, sandbox) = yard.working();
    std::fs::write(sandbox.join("new.txt"), "first\n").unwrap();
    let fail = ["plumbing", "fail", &plan, "--epoch", "2"];
    yard.ok(&[&fail[..], &["--category", "resource", "--message", "no"]].concat());
    yard.ok(&["retry", &plan, "--fresh"]);
    yard.ok(&["plumbing", "start-execute", &plan, "--owner", "bot"]);
    yard.ok(&["cancel", &plan]);
    let cleaned = yard.ok(&["sandbox", "clean"]);
    let kept = cleaned["cleaned"][0]["kept"][0]["ref"].as_str().unwrap();
    assert_eq!(yard.git(&["show", &format!("{kept}:new.txt")]), "first");
    let restored = yard.ok(&["sandbox", "restore", &plan]);
    let path = restored["sandboxes"][0]["path"].as_str().unwrap();
    let text = std::fs::read_to_string(std::path::Path::new(path).join("new.txt"));
    assert_eq!(text.unwrap(), "first\n");
}

/// G9: what somebody changed after it was handed in did not land, and is kept.
#[test]
fn edits_from_after_it_was_handed_in_are_kept() {
    let yard = Yard::new();
    let (plan, sandbox) = yard.working();
    std::fs::write(sandbox.join("new.txt"), "new\n").unwrap();
    yard.ok(&["plumbing", "complete-execute", &plan, "--epoch", "2"]);
    std::fs::write(sandbox.join("late.txt"), "late\n").unwrap();
    yard.ok(&["apply", &plan, "--yes"]);
    assert!(!yard.shop().join("late.txt").exists());
    let kept = yard.git(&["for-each-ref", "--format=%(refname)", "refs/planwright"]);
    assert!(kept.starts_with("refs/planwright/rescue/"), "{kept}");
    assert_eq!(yard.git(&["show", &format!("{kept}:late.txt")]), "late");
}

/// G9: catching up with the target merges what is in the sandbox, handed in or not.
#[test]
fn edits_from_after_it_was_handed_in_survive_a_conflict() {
    let yard = Yard::new();
    let plan = yard.usual();
    yard.write("src/a.txt", "one\ntwo\nthree\nfour\nfive\n6\n");
    yard.commit("six");
    yard.bad(4, &["apply", &plan, "--yes"], "same lines");
    let path = yard.ok(&["path", &plan]);
    let sandbox = std::path::PathBuf::from(path["sandboxes"][0]["path"].as_str().unwrap());
    std::fs::write(sandbox.join("new.txt"), "newer\n").unwrap();
    yard.ok(&["revise", &plan, "solve it"]);
    yard.ok(&["plumbing", "start-execute", &plan, "--owner", "bot"]);
    let there = |path: &str| std::fs::read_to_string(sandbox.join(path)).unwrap();
    assert_eq!(there("new.txt"), "newer\n");
    assert!(there("src/a.txt").contains("<<<<<<<"));
}

/// A key is a promise: the same answer, and nothing twice.
#[test]
fn applying_again_under_the_same_key_gives_the_same_answer() {
    for signed_before in [false, true] {
        let yard = Yard::new();
        let plan = yard.usual();
        if signed_before {
            yard.ok(&["approve", &plan]);
        }
        let keyed = ["apply", &plan, "--yes", "--idempotency-key", "k"];
        yard.ok(&keyed);
        let again = yard.ok(&keyed);
        assert_eq!(again["state"], "applied");
        assert_eq!(yard.git(&["rev-list", "--count", "HEAD"]), "2");
        let other = ["apply", &plan, "--yes", "--idempotency-key", "other"];
        yard.bad(4, &other, "applied since");
        yard.bad(4, &["apply", &plan, "--yes"], "applied since");
    }
}

/// 13.4, 13.5: taking back that was killed is finished by taking back again.
#[test]
fn undo_can_be_killed_anywhere_and_repeating_it_finishes() {
    for step in ["pinned", "staged", "ref-moved", "index-refreshed"] {
        let yard = Yard::new();
        let plan = yard.usual();
        yard.ok(&["apply", &plan, "--yes"]);
        yard.killed(step, &["undo", &plan, "--yes"]);
        yard.ok(&["undo", &plan, "--yes"]);
        yard.assert_tidy();
        assert_eq!(yard.git(&["rev-list", "--count", "HEAD"]), "3", "{step}");
        assert!(!yard.shop().join("new.txt").exists());
        let plans = yard.ok(&["list"]);
        assert_eq!(plans["plans"].as_array().unwrap().len(), 2, "{step}");
    }
}

/// 13.3: what cannot be cleaned up says why, and keeps no other from being cleaned up.
#[test]
fn one_sandbox_that_stays_keeps_no_other_from_going() {
    let yard = Yard::new();
    let (nested, sandbox) = yard.working();
    std::fs::create_dir_all(sandbox.join("inner")).unwrap();
    let inner = sandbox.join("inner");
    yard.git(&["init", "-q", inner.to_str().unwrap()]);
    std::fs::write(inner.join("work.txt"), "work\n").unwrap();
    let (plain, _) = yard.working();
    yard.ok(&["cancel", &nested]);
    yard.ok(&["cancel", &plain]);
    let said = yard.bad(1, &["sandbox", "clean"], "inner cannot be taken");
    assert!(
        said.messages().contains("remove it or its .git"),
        "{said:?}"
    );
    yard.bad(3, &["path", &plain], "no sandbox");
    assert!(inner.join("work.txt").is_file());
    std::fs::remove_dir_all(inner.join(".git")).unwrap();
    yard.ok(&["sandbox", "clean"]);
    yard.bad(3, &["path", &nested], "no sandbox");
}
