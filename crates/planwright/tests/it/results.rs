//! Results stay complete: in parts of parts, after a repository moved, after directories were deleted.

use crate::yard::Yard;

impl Yard {
    /// A result with three changed paths, handed in.
    fn three_changes(&self) -> String {
        self.handed_in(|sandbox| {
            for (path, text) in [("p1", "one\n"), ("p2", "two\n"), ("p3", "three\n")] {
                std::fs::write(sandbox.join(path), text).unwrap();
            }
        })
    }
}

#[test]
fn the_rest_of_a_partial_apply_can_be_applied_in_part() {
    let yard = Yard::new();
    let plan = yard.three_changes();
    let landed = yard.ok(&["apply", &plan, "--yes", "--", "p1"]);
    let rest = landed["rest"].as_str().unwrap().to_owned();
    let shown = yard.ok(&["diff", &rest, "--", "p2"]);
    assert_eq!(shown["resources"][0]["files"][0]["path"], "p2");
    let landed = yard.ok(&["apply", &rest, "--yes", "--", "p2"]);
    assert_eq!(yard.read("p2"), "two\n");
    assert!(!yard.shop().join("p3").exists());
    let last = landed["rest"].as_str().unwrap().to_owned();
    yard.bad(3, &["apply", &last, "--yes", "--", "p1"], "p1");
    yard.ok(&["apply", &last, "--yes", "--", "p3"]);
    assert_eq!(yard.read("p3"), "three\n");
    assert_eq!(yard.git(&["rev-list", "--count", "HEAD"]), "4");
    yard.assert_tidy();
}

#[test]
fn a_result_is_shown_and_landed_after_its_repository_moved() {
    let yard = Yard::new();
    let plan = yard.usual();
    let elsewhere = yard.move_shop("else where:\"there\"");
    yard.ok(&["project", "relink", "shop", "shop", "--git", &elsewhere]);
    let shown = yard.ok(&["diff", &plan]);
    assert_eq!(shown["resources"][0]["files"][0]["path"], "new.txt");
    // Nothing was written by looking.
    let said = yard.run(&["diff", &plan, "--patch"]);
    assert!(
        said.data()["resources"][0]["patch"]
            .to_string()
            .contains("+SIX")
    );
    yard.ok(&["apply", &plan, "--yes"]);
    let landed = std::path::Path::new(&elsewhere).join("src/a.txt");
    assert!(std::fs::read_to_string(landed).unwrap().ends_with("SIX\n"));
}

/// Relinked to a repository that lacks what the result is based on: neither shown nor landed.
#[test]
fn what_cannot_be_shown_does_not_land() {
    let yard = Yard::new();
    let plan = yard.usual();
    yard.move_shop("elsewhere");
    let other = yard.new_repository("other");
    yard.ok(&["project", "relink", "shop", "shop", "--git", &other]);
    yard.bad(3, &["diff", &plan], "another repository");
    yard.bad(3, &["apply", &plan, "--yes"], "another repository");
    assert_eq!(yard.state_of(&plan), "execute/complete");
    let said = yard.run(&["approve", &plan]);
    assert_eq!(said.code(), Some(3), "{said:?}");
}

#[test]
fn work_goes_on_in_the_same_sandbox_after_its_repository_moved() {
    let yard = Yard::new();
    let plan = yard.usual();
    let elsewhere = yard.move_shop("elsewhere");
    yard.ok(&["project", "relink", "shop", "shop", "--git", &elsewhere]);
    yard.ok(&["revise", &plan, "more"]);
    let claimed = yard.ok(&["plumbing", "start-execute", &plan, "--owner", "bot"]);
    let sandbox = std::path::Path::new(claimed["sandboxes"][0]["path"].as_str().unwrap());
    // The agent's own git finds every object again.
    assert_eq!(
        crate::yard::git_in(sandbox, &["log", "--format=%s"]),
        "start"
    );
    assert_eq!(
        crate::yard::git_in(sandbox, &["diff", "--name-only"]),
        "src/a.txt"
    );
    std::fs::write(sandbox.join("more.txt"), "more\n").unwrap();
    let epoch = claimed["epoch"].to_string();
    yard.ok(&["plumbing", "complete-execute", &plan, "--epoch", &epoch]);
    yard.ok(&["apply", &plan, "--yes"]);
    assert!(std::path::Path::new(&elsewhere).join("more.txt").exists());
}

impl Yard {
    /// Deletes a directory of a plan in the home, as a person who makes room would.
    fn delete(&self, name: &str, plan: &str) {
        std::fs::remove_dir_all(self.program.home().join(name).join(plan)).unwrap();
    }
}

/// What is in the sandbox of a claim that continues.
fn continued(yard: &Yard, plan: &str) -> (std::path::PathBuf, String) {
    let claimed = yard.ok(&["plumbing", "start-execute", plan, "--owner", "bot"]);
    let sandbox = claimed["sandboxes"][0]["path"].as_str().unwrap();
    (sandbox.into(), claimed["epoch"].to_string())
}

#[test]
fn a_result_outlives_its_deleted_sandbox() {
    let yard = Yard::new();
    let (shown, applied, revised) = (
        yard.usual(),
        yard.usual_like("a.md"),
        yard.usual_like("b.md"),
    );
    std::fs::remove_dir_all(yard.program.home().join("sandboxes")).unwrap();
    let files = yard.ok(&["diff", &shown])["resources"][0]["files"].clone();
    assert_eq!(files[0]["path"], "new.txt");
    yard.ok(&["apply", &applied, "--yes"]);
    assert_eq!(yard.read("a.md"), "a.md\n");
    yard.ok(&["revise", &revised, "more"]);
    let (sandbox, epoch) = continued(&yard, &revised);
    assert!(sandbox.join("b.md").exists());
    std::fs::write(sandbox.join("more.md"), "more\n").unwrap();
    yard.ok(&["plumbing", "complete-execute", &revised, "--epoch", &epoch]);
    yard.ok(&["apply", &revised, "--yes"]);
    assert_eq!(yard.read("b.md") + &yard.read("more.md"), "b.md\nmore\n");
    // What did not land is still kept when everything of the plan goes.
    yard.ok(&["cancel", &shown]);
    let cleaned = yard.ok(&["sandbox", "clean"]);
    let kept = cleaned["cleaned"][0]["kept"][0]["ref"].as_str().unwrap();
    assert_eq!(yard.git(&["show", &format!("{kept}:new.txt")]), "new");
    assert_eq!(
        std::fs::read_dir(yard.program.home().join("vaults"))
            .unwrap()
            .count(),
        0
    );
}

/// Halted work goes on from the last checkpoint.
#[test]
fn a_halted_plan_goes_on_after_its_sandbox_was_deleted() {
    let yard = Yard::new();
    let plan = yard.usual();
    yard.ok(&["revise", &plan, "more"]);
    let (_, epoch) = continued(&yard, &plan);
    let fail = ["plumbing", "fail", &plan, "--epoch", &epoch];
    yard.ok(&[&fail[..], &["--category", "actor", "--message", "no"]].concat());
    yard.delete("sandboxes", &plan);
    yard.ok(&["retry", &plan]);
    let (sandbox, _) = continued(&yard, &plan);
    assert!(sandbox.join("new.txt").exists());
}

/// Nothing has the result any more: it is said, and a fresh start helps, from every state.
#[test]
fn a_result_that_is_gone_is_named_and_a_fresh_retry_helps() {
    for sent_back in [false, true] {
        let yard = Yard::new();
        let plan = yard.usual();
        yard.delete("sandboxes", &plan);
        yard.delete("vaults", &plan);
        if sent_back {
            yard.ok(&["revise", &plan, "more"]);
            let start = ["plumbing", "start-execute", &plan, "--owner", "bot"];
            yard.bad(3, &start, "retry");
            assert_eq!(yard.state_of(&plan), "execute/errored");
        } else {
            for verb in [
                &["diff", &plan][..],
                &["approve", &plan],
                &["apply", &plan, "--yes"],
            ] {
                let said = yard.bad(3, verb, "result of this plan is gone");
                assert!(said.messages().contains("--fresh"), "{said:?}");
            }
            assert_eq!(yard.state_of(&plan), "execute/complete");
        }
        yard.ok(&["retry", &plan, "--fresh"]);
        assert_eq!(yard.state_of(&plan), "execute/queued");
        let (sandbox, epoch) = continued(&yard, &plan);
        assert!(!sandbox.join("new.txt").exists());
        std::fs::write(sandbox.join("again.txt"), "again\n").unwrap();
        yard.ok(&["plumbing", "complete-execute", &plan, "--epoch", &epoch]);
        yard.ok(&["apply", &plan, "--yes"]);
        assert_eq!(yard.read("again.txt"), "again\n");
        yard.ok(&["store", "verify"]);
        yard.assert_tidy();
    }
}

/// The files of a sandbox are still there when only its vault was lost.
#[test]
fn work_is_captured_again_when_its_vault_is_gone() {
    let yard = Yard::new();
    yard.write(".gitignore", "kept.log\n");
    yard.write("kept.log", "tracked all the same\n");
    yard.git(&["add", "-f", "."]);
    yard.git(&["commit", "-q", "-m", "ignored"]);
    let plan = yard.usual();
    yard.delete("vaults", &plan);
    yard.ok(&["revise", &plan, "more"]);
    let (_, epoch) = continued(&yard, &plan);
    yard.ok(&["plumbing", "complete-execute", &plan, "--epoch", &epoch]);
    yard.ok(&["apply", &plan, "--yes"]);
    assert!(yard.read("src/a.txt").ends_with("SIX\n"));
    assert_eq!(yard.read("kept.log"), "tracked all the same\n");
}

/// A home of an earlier version has its vaults beside the sandboxes.
#[test]
fn a_vault_in_the_old_place_is_still_used() {
    let yard = Yard::new();
    let (landed, dropped) = (yard.usual(), yard.usual_like("a.md"));
    for plan in [&landed, &dropped] {
        let vaults = yard.program.home().join("vaults").join(plan);
        let sandboxes = yard.program.home().join("sandboxes").join(plan);
        std::fs::rename(
            vaults.join("shop+shop.git"),
            sandboxes.join("shop+shop.git"),
        )
        .unwrap();
        std::fs::remove_dir(vaults).unwrap();
    }
    yard.ok(&["diff", &landed]);
    yard.ok(&["apply", &landed, "--yes"]);
    yard.ok(&["cancel", &dropped]);
    let cleaned = yard.ok(&["sandbox", "clean"]);
    assert_eq!(cleaned["cleaned"][0]["removed"], true);
    assert_eq!(
        std::fs::read_dir(yard.program.home().join("sandboxes"))
            .unwrap()
            .count(),
        0
    );
}

/// What an agent stashed or committed elsewhere in its repository is kept with its sandbox's other work.
#[test]
fn stashes_and_branches_of_an_agent_are_kept_and_named() {
    let yard = Yard::new();
    let ada = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"];
    let left_by_agent = |sandbox: &std::path::Path| {
        let git = |words: &[&str]| crate::yard::git_in(sandbox, &[&ada[..], words].concat());
        std::fs::write(sandbox.join("src/a.txt"), "stashed\n").unwrap();
        git(&["stash", "-q"]);
        git(&["switch", "-q", "-c", "try"]);
        std::fs::write(sandbox.join("tried.txt"), "tried\n").unwrap();
        git(&["add", "."]);
        git(&["commit", "-q", "-m", "try"]);
        git(&["switch", "-q", "main"]);
    };
    // Dropped with nothing else to keep; then landed.
    let (dropped, sandbox) = yard.working();
    left_by_agent(&sandbox);
    yard.ok(&["cancel", &dropped]);
    let cleaned = yard.ok(&["sandbox", "clean"]);
    let kept = cleaned["cleaned"][0]["kept"].as_array().unwrap();
    let names: Vec<&str> = kept
        .iter()
        .map(|one| one["ref"].as_str().unwrap())
        .collect();
    assert!(
        names[0].ends_with("/heads/try") && names[1].ends_with("/stash"),
        "{names:?}"
    );
    assert_eq!(
        yard.git(&["show", &format!("{}:tried.txt", names[0])]),
        "tried"
    );
    assert_eq!(
        yard.git(&["show", &format!("{}:src/a.txt", names[1])]),
        "stashed"
    );
    let restored = yard.run(&["sandbox", "restore", &dropped]);
    assert!(restored.messages().contains(names[1]), "{restored:?}");
    assert_eq!(restored.data()["agent_refs"].as_array().unwrap().len(), 2);

    let (landed, sandbox) = yard.working();
    left_by_agent(&sandbox);
    std::fs::write(sandbox.join("new.txt"), "new\n").unwrap();
    yard.ok(&["plumbing", "complete-execute", &landed, "--epoch", "2"]);
    yard.ok(&["apply", &landed, "--yes"]);
    assert!(!sandbox.exists());
    let restored = yard.ok(&["sandbox", "restore", &landed]);
    assert_eq!(restored["agent_refs"].as_array().unwrap().len(), 2);
}
