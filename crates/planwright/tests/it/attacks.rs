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
    let said = yard.bad(4, &["sandbox", "clean"], "inner cannot be taken");
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
