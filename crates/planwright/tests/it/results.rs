//! Results stay complete: in parts of parts, after a repository moved, after directories were deleted.

use crate::shop_repository::ShopRepository;

impl ShopRepository {
    /// A result with three changed paths, handed in.
    fn submit_three_changes(&self) -> String {
        self.submit_plan(|sandbox| {
            for (path, text) in [("p1", "one\n"), ("p2", "two\n"), ("p3", "three\n")] {
                std::fs::write(sandbox.join(path), text).unwrap();
            }
        })
    }
}

#[test]
fn the_rest_of_a_partial_apply_can_be_applied_in_part() {
    let repo = ShopRepository::new();
    let plan = repo.submit_three_changes();
    let landed = repo.run_ok(&["apply", &plan, "--yes", "--", "p1"]);
    let rest = landed["rest"].as_str().unwrap().to_owned();
    let shown = repo.run_ok(&["diff", &rest, "--", "p2"]);
    assert_eq!(shown["resources"][0]["files"][0]["path"], "p2");
    let landed = repo.run_ok(&["apply", &rest, "--yes", "--", "p2"]);
    assert_eq!(repo.read_file("p2"), "two\n");
    assert!(!repo.shop_path().join("p3").exists());
    let last = landed["rest"].as_str().unwrap().to_owned();
    repo.run_bad(3, &["apply", &last, "--yes", "--", "p1"], "p1");
    repo.run_ok(&["apply", &last, "--yes", "--", "p3"]);
    assert_eq!(repo.read_file("p3"), "three\n");
    assert_eq!(repo.run_git(&["rev-list", "--count", "HEAD"]), "4");
    repo.assert_tidy();
}

#[test]
fn a_result_is_shown_and_landed_after_its_repository_moved() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    let elsewhere = repo.move_shop("else where:\"there\"");
    repo.run_ok(&["project", "relink", "shop", "shop", "--git", &elsewhere]);
    let shown = repo.run_ok(&["diff", &plan]);
    assert_eq!(shown["resources"][0]["files"][0]["path"], "new.txt");
    // Nothing was written by looking.
    let said = repo.run(&["diff", &plan, "--patch"]);
    assert!(
        said.data()["resources"][0]["patch"]
            .to_string()
            .contains("+SIX")
    );
    repo.run_ok(&["apply", &plan, "--yes"]);
    let landed = std::path::Path::new(&elsewhere).join("src/a.txt");
    assert!(std::fs::read_to_string(landed).unwrap().ends_with("SIX\n"));
}

/// Relinked to a repository that lacks what the result is based on: neither shown nor landed.
#[test]
fn results_that_cannot_be_shown_do_not_land() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    repo.move_shop("elsewhere");
    let other = repo.create_repository("other");
    repo.run_ok(&["project", "relink", "shop", "shop", "--git", &other]);
    repo.run_bad(3, &["diff", &plan], "another repository");
    repo.run_bad(3, &["apply", &plan, "--yes"], "another repository");
    assert_eq!(repo.plan_state(&plan), "execute/complete");
    let said = repo.run(&["approve", &plan]);
    assert_eq!(said.exit_code(), Some(3), "{said:?}");
}

#[test]
fn work_goes_on_in_the_same_sandbox_after_its_repository_moved() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    let elsewhere = repo.move_shop("elsewhere");
    repo.run_ok(&["project", "relink", "shop", "shop", "--git", &elsewhere]);
    repo.run_ok(&["revise", &plan, "more"]);
    let claimed = repo.run_ok(&["plumbing", "start-execute", &plan, "--owner", "bot"]);
    let sandbox = std::path::Path::new(claimed["sandboxes"][0]["path"].as_str().unwrap());
    // The agent's own git finds every object again.
    assert_eq!(
        crate::shop_repository::git_in(sandbox, &["log", "--format=%s"]),
        "start"
    );
    assert_eq!(
        crate::shop_repository::git_in(sandbox, &["diff", "--name-only"]),
        "src/a.txt"
    );
    std::fs::write(sandbox.join("more.txt"), "more\n").unwrap();
    let epoch = claimed["epoch"].to_string();
    repo.run_ok(&["plumbing", "complete-execute", &plan, "--epoch", &epoch]);
    repo.run_ok(&["apply", &plan, "--yes"]);
    assert!(std::path::Path::new(&elsewhere).join("more.txt").exists());
}

impl ShopRepository {
    /// Deletes a directory of a plan in the home, as a person who makes room would.
    fn delete_plan_dir(&self, name: &str, plan: &str) {
        std::fs::remove_dir_all(self.program.home().join(name).join(plan)).unwrap();
    }
}

/// What is in the sandbox of a claim that continues.
fn read_continued_sandbox(repo: &ShopRepository, plan: &str) -> (std::path::PathBuf, String) {
    let claimed = repo.run_ok(&["plumbing", "start-execute", plan, "--owner", "bot"]);
    let sandbox = claimed["sandboxes"][0]["path"].as_str().unwrap();
    (sandbox.into(), claimed["epoch"].to_string())
}

#[test]
fn a_result_outlives_its_deleted_sandbox() {
    let repo = ShopRepository::new();
    let (shown, applied, revised) = (
        repo.submit_usual_change(),
        repo.submit_new_file("a.md"),
        repo.submit_new_file("b.md"),
    );
    std::fs::remove_dir_all(repo.program.home().join("sandboxes")).unwrap();
    let files = repo.run_ok(&["diff", &shown])["resources"][0]["files"].clone();
    assert_eq!(files[0]["path"], "new.txt");
    repo.run_ok(&["apply", &applied, "--yes"]);
    assert_eq!(repo.read_file("a.md"), "a.md\n");
    repo.run_ok(&["revise", &revised, "more"]);
    let (sandbox, epoch) = read_continued_sandbox(&repo, &revised);
    assert!(sandbox.join("b.md").exists());
    std::fs::write(sandbox.join("more.md"), "more\n").unwrap();
    repo.run_ok(&["plumbing", "complete-execute", &revised, "--epoch", &epoch]);
    repo.run_ok(&["apply", &revised, "--yes"]);
    assert_eq!(
        repo.read_file("b.md") + &repo.read_file("more.md"),
        "b.md\nmore\n"
    );
    // What did not land is still kept when everything of the plan goes.
    repo.run_ok(&["cancel", &shown]);
    let cleaned = repo.run_ok(&["sandbox", "clean"]);
    let kept = cleaned["cleaned"][0]["kept"][0]["ref"].as_str().unwrap();
    assert_eq!(repo.run_git(&["show", &format!("{kept}:new.txt")]), "new");
    assert_eq!(
        std::fs::read_dir(repo.program.home().join("vaults"))
            .unwrap()
            .count(),
        0
    );
}

/// Halted work goes on from the last checkpoint.
#[test]
fn a_halted_plan_goes_on_after_its_sandbox_was_deleted() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    repo.run_ok(&["revise", &plan, "more"]);
    let (_, epoch) = read_continued_sandbox(&repo, &plan);
    let fail = ["plumbing", "fail", &plan, "--epoch", &epoch];
    repo.run_ok(&[&fail[..], &["--category", "actor", "--message", "no"]].concat());
    repo.delete_plan_dir("sandboxes", &plan);
    repo.run_ok(&["retry", &plan]);
    let (sandbox, _) = read_continued_sandbox(&repo, &plan);
    assert!(sandbox.join("new.txt").exists());
}

/// Nothing has the result any more: it is said, and a fresh start helps, from every state.
#[test]
fn a_result_that_is_gone_is_named_and_a_fresh_retry_helps() {
    for sent_back in [false, true] {
        let repo = ShopRepository::new();
        let plan = repo.submit_usual_change();
        repo.delete_plan_dir("sandboxes", &plan);
        repo.delete_plan_dir("vaults", &plan);
        if sent_back {
            repo.run_ok(&["revise", &plan, "more"]);
            let start = ["plumbing", "start-execute", &plan, "--owner", "bot"];
            repo.run_bad(3, &start, "retry");
            assert_eq!(repo.plan_state(&plan), "execute/errored");
        } else {
            for verb in [
                &["diff", &plan][..],
                &["approve", &plan],
                &["apply", &plan, "--yes"],
            ] {
                let said = repo.run_bad(3, verb, "result of this plan is gone");
                assert!(said.messages().contains("--fresh"), "{said:?}");
            }
            assert_eq!(repo.plan_state(&plan), "execute/complete");
        }
        repo.run_ok(&["retry", &plan, "--fresh"]);
        assert_eq!(repo.plan_state(&plan), "execute/queued");
        let (sandbox, epoch) = read_continued_sandbox(&repo, &plan);
        assert!(!sandbox.join("new.txt").exists());
        std::fs::write(sandbox.join("again.txt"), "again\n").unwrap();
        repo.run_ok(&["plumbing", "complete-execute", &plan, "--epoch", &epoch]);
        repo.run_ok(&["apply", &plan, "--yes"]);
        assert_eq!(repo.read_file("again.txt"), "again\n");
        repo.run_ok(&["store", "verify"]);
        repo.assert_tidy();
    }
}

/// The files of a sandbox are still there when only its vault was lost.
#[test]
fn work_is_captured_again_when_its_vault_is_gone() {
    let repo = ShopRepository::new();
    repo.write_file(".gitignore", "kept.log\n");
    repo.write_file("kept.log", "tracked all the same\n");
    repo.run_git(&["add", "-f", "."]);
    repo.run_git(&["commit", "-q", "-m", "ignored"]);
    let plan = repo.submit_usual_change();
    repo.delete_plan_dir("vaults", &plan);
    repo.run_ok(&["revise", &plan, "more"]);
    let (_, epoch) = read_continued_sandbox(&repo, &plan);
    repo.run_ok(&["plumbing", "complete-execute", &plan, "--epoch", &epoch]);
    repo.run_ok(&["apply", &plan, "--yes"]);
    assert!(repo.read_file("src/a.txt").ends_with("SIX\n"));
    assert_eq!(repo.read_file("kept.log"), "tracked all the same\n");
}

/// A home of an earlier version has its vaults beside the sandboxes.
#[test]
fn a_vault_in_the_old_place_is_still_used() {
    let repo = ShopRepository::new();
    let (landed, dropped) = (repo.submit_usual_change(), repo.submit_new_file("a.md"));
    for plan in [&landed, &dropped] {
        let vaults = repo.program.home().join("vaults").join(plan);
        let sandboxes = repo.program.home().join("sandboxes").join(plan);
        std::fs::rename(
            vaults.join("shop+shop.git"),
            sandboxes.join("shop+shop.git"),
        )
        .unwrap();
        std::fs::remove_dir(vaults).unwrap();
    }
    repo.run_ok(&["diff", &landed]);
    repo.run_ok(&["apply", &landed, "--yes"]);
    repo.run_ok(&["cancel", &dropped]);
    let cleaned = repo.run_ok(&["sandbox", "clean"]);
    assert_eq!(cleaned["cleaned"][0]["removed"], true);
    assert_eq!(
        std::fs::read_dir(repo.program.home().join("sandboxes"))
            .unwrap()
            .count(),
        0
    );
}

/// What an agent stashed or committed elsewhere in its repository is kept with its sandbox's other work.
#[test]
fn stashes_and_branches_of_an_agent_are_kept_and_named() {
    let repo = ShopRepository::new();
    let ada = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"];
    let left_by_agent = |sandbox: &std::path::Path| {
        let git =
            |words: &[&str]| crate::shop_repository::git_in(sandbox, &[&ada[..], words].concat());
        std::fs::write(sandbox.join("src/a.txt"), "stashed\n").unwrap();
        git(&["stash", "-q"]);
        git(&["switch", "-q", "-c", "try"]);
        std::fs::write(sandbox.join("tried.txt"), "tried\n").unwrap();
        git(&["add", "."]);
        git(&["commit", "-q", "-m", "try"]);
        git(&["switch", "-q", "main"]);
    };
    // Dropped with nothing else to keep; then landed.
    let (dropped, sandbox) = repo.plan_in_execute();
    left_by_agent(&sandbox);
    repo.run_ok(&["cancel", &dropped]);
    let cleaned = repo.run_ok(&["sandbox", "clean"]);
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
        repo.run_git(&["show", &format!("{}:tried.txt", names[0])]),
        "tried"
    );
    assert_eq!(
        repo.run_git(&["show", &format!("{}:src/a.txt", names[1])]),
        "stashed"
    );
    let restored = repo.run(&["sandbox", "restore", &dropped]);
    assert!(restored.messages().contains(names[1]), "{restored:?}");
    assert_eq!(restored.data()["agent_refs"].as_array().unwrap().len(), 2);

    let (landed, sandbox) = repo.plan_in_execute();
    left_by_agent(&sandbox);
    std::fs::write(sandbox.join("new.txt"), "new\n").unwrap();
    repo.run_ok(&["plumbing", "complete-execute", &landed, "--epoch", "2"]);
    repo.run_ok(&["apply", &landed, "--yes"]);
    assert!(!sandbox.exists());
    let restored = repo.run_ok(&["sandbox", "restore", &landed]);
    assert_eq!(restored["agent_refs"].as_array().unwrap().len(), 2);
}

#[test]
fn results_have_numbers_and_stay_comparable() {
    let repo = ShopRepository::new();
    let plan = repo.submit_three_changes();
    for (file, text) in [("p1", "uno\n"), ("p4", "four\n")] {
        repo.run_ok(&["revise", &plan, "Change it", "--detach"]);
        repo.submit_again(&plan, |sandbox| {
            std::fs::write(sandbox.join(file), text).unwrap();
        });
    }
    let shown = repo.run_ok(&["diff", &plan]);
    let results = shown["results"].as_array().unwrap();
    let numbers: Vec<_> = results.iter().map(|one| one["number"].as_u64()).collect();
    assert_eq!(numbers, [Some(1), Some(2), Some(3)]);
    assert_eq!(results[2]["changes"], 4);
    let changed = |arguments: &[&str]| -> Vec<String> {
        let shown = repo.run_ok(&[&["diff", &plan][..], arguments].concat());
        let files = shown["resources"][0]["files"].as_array().unwrap().clone();
        let paths = files.iter().map(|file| file["path"].as_str().unwrap());
        paths.map(str::to_owned).collect()
    };
    assert_eq!(changed(&["r1..r2"]), ["p1"]);
    assert_eq!(changed(&["r1..r3"]), ["p1", "p4"]);
    assert_eq!(changed(&["--since", "r2"]), ["p4"]);
    assert_eq!(changed(&["r1"]), ["p1", "p2", "p3"]);
    repo.run_bad(3, &["diff", &plan, "r4"], "r3");
    repo.run_bad(2, &["diff", &plan, "2"], "r1..r3");
}

#[test]
fn hunks_are_listed_with_ids_that_survive_other_changes() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    let hunk = |path: &str| {
        let shown = repo.run_ok(&["diff", &plan, "--hunks", "--", path]);
        shown["files"][0]["hunks"][0].clone()
    };
    let before = hunk("src/a.txt");
    assert_eq!(before["part"], "lines");
    let lines = before["regions"][0]["lines"].as_array().unwrap();
    let kinds: Vec<_> = lines.iter().map(|line| line["kind"].as_str()).collect();
    assert_eq!(kinds, [Some("removed"), Some("added")]);
    assert_eq!(lines[1]["text"], "SIX");
    let shown = repo.run_plain(&["diff", &plan, "--hunks"]);
    assert!(shown.contains(before["short"].as_str().unwrap()), "{shown}");
    assert!(shown.contains("+SIX"), "{shown}");
    repo.run_ok(&["revise", &plan, "Change it", "--detach"]);
    repo.submit_again(&plan, |sandbox| {
        let path = sandbox.join("src/a.txt");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, format!("zero\n{text}")).unwrap();
    });
    let listed = repo.run_ok(&["diff", &plan, "--hunks", "--", "src/a.txt"]);
    let hunks = listed["files"][0]["hunks"].as_array().unwrap();
    assert_eq!(hunks.len(), 2);
    assert_eq!(hunks[1]["id"], before["id"]);
    assert!(listed["pickable"].is_string());
    let earlier = repo.run_ok(&["diff", &plan, "r1", "--hunks"]);
    assert!(earlier["pickable"].is_null());
}

/// Two changed regions in one file, and another file.
fn submit_parts(repo: &ShopRepository) -> String {
    repo.submit_plan(|sandbox| {
        let text = "ONE\ntwo\nthree\nfour\nfive\nSIX\n";
        std::fs::write(sandbox.join("src/a.txt"), text).unwrap();
        std::fs::write(sandbox.join("new.txt"), "new\n").unwrap();
    })
}

/// The ids of the hunks at a path.
fn hunks_at(repo: &ShopRepository, plan: &str, path: &str) -> Vec<String> {
    let shown = repo.run_ok(&["diff", plan, "--hunks", "--", path]);
    let hunks = shown["files"][0]["hunks"].as_array().unwrap();
    let short = hunks.iter().map(|hunk| hunk["short"].as_str().unwrap());
    short.map(str::to_owned).collect()
}

#[test]
fn chosen_hunks_land_and_the_rest_becomes_a_plan() {
    let repo = ShopRepository::new();
    let plan = submit_parts(&repo);
    let first = &hunks_at(&repo, &plan, "src/a.txt")[0];
    let landed = repo.run_ok(&["apply", &plan, "--yes", "--hunk", first]);
    assert_eq!(
        repo.read_file("src/a.txt"),
        "ONE\ntwo\nthree\nfour\nfive\nsix\n"
    );
    assert!(!repo.shop_path().join("new.txt").exists());
    let rest = landed["rest"].as_str().unwrap().to_owned();
    let last = &hunks_at(&repo, &rest, "src/a.txt")[0];
    repo.run_ok(&["apply", &rest, "--yes", "--hunk", last, "--", "new.txt"]);
    assert_eq!(
        repo.read_file("src/a.txt"),
        "ONE\ntwo\nthree\nfour\nfive\nSIX\n"
    );
    assert_eq!(repo.read_file("new.txt"), "new\n");
    repo.assert_tidy();
}

#[test]
fn the_rest_of_a_pick_can_be_let_go() {
    let repo = ShopRepository::new();
    let plan = submit_parts(&repo);
    let landed = repo.run_ok(&["apply", &plan, "--yes", "--rest", "drop", "--", "new.txt"]);
    assert!(landed["rest"].is_null());
    assert_eq!(repo.read_file("new.txt"), "new\n");
    assert_eq!(
        repo.read_file("src/a.txt"),
        "one\ntwo\nthree\nfour\nfive\nsix\n"
    );
    repo.assert_tidy();
}

#[test]
fn dropped_parts_stay_out_of_the_result() {
    let repo = ShopRepository::new();
    let plan = submit_parts(&repo);
    repo.run_ok(&["approve", &plan]);
    let approved = repo.run_ok(&["status", &plan]);
    assert_eq!(approved["standing"], "approved", "{approved}");
    let hunks = hunks_at(&repo, &plan, "src/a.txt");
    let dropped = repo.run_ok(&["drop", &plan, "--hunk", &hunks[1]]);
    assert!(dropped["approved_by"].is_null(), "the approval is void");
    assert_eq!(dropped["standing"], "needs review", "{dropped}");
    assert_eq!(dropped["reduced"][0], "src/a.txt");
    assert_eq!(repo.plan_state(&plan), "execute/complete");
    // The hunk is of an earlier result now.
    repo.run_bad(3, &["drop", &plan, "--hunk", &hunks[1]], "no hunk");
    repo.run_ok(&["drop", &plan, "new.txt"]);
    let shown = repo.run_ok(&["diff", &plan]);
    assert_eq!(shown["results"].as_array().unwrap().len(), 3);
    assert_eq!(shown["results"][2]["source"], "picked");
    repo.run_bad(3, &["drop", &plan, "*.nothing"], "no changed path matches");
    repo.run_bad(2, &["drop", &plan, "src"], "Nothing of the result");
    repo.run_ok(&["apply", &plan, "--yes"]);
    assert_eq!(
        repo.read_file("src/a.txt"),
        "ONE\ntwo\nthree\nfour\nfive\nsix\n"
    );
    assert!(!repo.shop_path().join("new.txt").exists());
    repo.assert_tidy();
}

#[test]
fn rules_judge_exactly_the_picked_tree() {
    let repo = ShopRepository::new();
    repo.run_ok(&[
        "rule",
        "add",
        "no-six",
        "--command",
        "! grep -q SIX src/a.txt",
        "--at",
        "apply",
    ]);
    repo.run_ok(&[
        "rule",
        "add",
        "one",
        "--expr",
        "totals.files == 1",
        "--at",
        "apply",
    ]);
    let plan = submit_parts(&repo);
    repo.run_bad(5, &["apply", &plan, "--yes"], "no-six");
    let hunks = hunks_at(&repo, &plan, "src/a.txt");
    let landed = repo.run_ok(&["apply", &plan, "--yes", "--hunk", &hunks[0]]);
    let rest = landed["rest"].as_str().unwrap().to_owned();
    repo.run_bad(5, &["apply", &rest, "--yes"], "no-six");
    repo.assert_landed_nothing_more("ONE\ntwo\nthree\nfour\nfive\nsix\n");
}

impl ShopRepository {
    fn assert_landed_nothing_more(&self, text: &str) {
        assert_eq!(self.read_file("src/a.txt"), text);
        assert_eq!(self.run_git(&["status", "--porcelain"]), "");
        assert_eq!(self.run_git(&["rev-list", "--count", "HEAD"]), "2");
    }
}

/// What was taken out is gone from the sandbox when the agent goes on, and it is told.
#[test]
fn the_next_run_starts_from_the_picked_tree() {
    let repo = ShopRepository::new();
    let plan = submit_parts(&repo);
    let hunks = hunks_at(&repo, &plan, "src/a.txt");
    repo.run_ok(&["drop", &plan, "new.txt", "--hunk", &hunks[0]]);
    repo.run_ok(&["revise", &plan, "Go on", "--detach"]);
    repo.submit_again(&plan, |sandbox| {
        let text = std::fs::read_to_string(sandbox.join("src/a.txt")).unwrap();
        assert_eq!(text, "one\ntwo\nthree\nfour\nfive\nSIX\n");
        assert!(!sandbox.join("new.txt").exists());
        std::fs::write(sandbox.join("more.txt"), "more\n").unwrap();
    });
    repo.run_ok(&["apply", &plan, "--yes"]);
    assert_eq!(
        repo.read_file("src/a.txt"),
        "one\ntwo\nthree\nfour\nfive\nSIX\n"
    );
    assert_eq!(repo.read_file("more.txt"), "more\n");
    assert!(!repo.shop_path().join("new.txt").exists());
    repo.assert_tidy();
}
