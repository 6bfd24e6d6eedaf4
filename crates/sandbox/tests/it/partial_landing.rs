//! Landing a part of a result: the selected changes land, and another plan gets the rest.

use plan::Epoch;
use planwright_sandbox::land::{LandAttempt, LandingMethod, ProposalOutcome, SandboxResult};
use planwright_sandbox::{SandboxEntryMode, SandboxError};

use crate::fixture::{SandboxFixture, test_plan_id, write_file};

const AS_COMMIT: LandingMethod = LandingMethod::Commit { merge: false };

fn capture_usual_work(fixture: &SandboxFixture) -> SandboxResult {
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    fixture.do_usual_work(&sandbox);
    write_file(&sandbox.path.join("odd [name]*.txt"), "odd\n");
    fixture.capture_result(test_plan_id(1), 1)
}

fn restrict_to_paths(
    fixture: &SandboxFixture,
    whole: &SandboxResult,
    paths: &[&str],
) -> Result<SandboxResult, SandboxError> {
    let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
    fixture.sandboxes.landings().restrict_result(
        &fixture.sandbox_key(test_plan_id(1)),
        whole,
        &paths,
    )
}

fn land_result(
    fixture: &SandboxFixture,
    number: u128,
    epoch: u64,
    result: &SandboxResult,
) -> planwright_sandbox::ObjectId {
    let ProposalOutcome::Ready(proposal) =
        fixture.propose_landing(test_plan_id(number), epoch, result, &AS_COMMIT)
    else {
        panic!("nothing blocks the landing");
    };
    let landed = fixture.land_proposal(test_plan_id(number), epoch, &proposal);
    assert_eq!(landed, LandAttempt::Landed { kept: Vec::new() });
    proposal.new
}

fn list_changed_paths(fixture: &SandboxFixture, commit: &str) -> Vec<String> {
    let shown = ["show", "--format=", "--name-only", "--no-renames", commit];
    fixture.run_git(&shown).lines().map(str::to_owned).collect()
}

#[test]
fn part_lands_and_another_plan_lands_the_rest() {
    let fixture = SandboxFixture::new();
    let whole = capture_usual_work(&fixture);
    let part = restrict_to_paths(&fixture, &whole, &["src", "odd*"]).unwrap();
    let landed = land_result(&fixture, 1, 2, &part);
    assert_eq!(
        list_changed_paths(&fixture, "HEAD"),
        ["odd [name]*.txt", "src/a.txt", "src/new/c.txt"]
    );
    let key = fixture.sandbox_key(test_plan_id(1));
    let rest = fixture
        .sandboxes
        .landings()
        .compute_rest(&key, test_plan_id(2), &whole, None, &landed)
        .unwrap();
    let rest = rest.unwrap();
    assert_eq!(rest.base, landed);
    // The first plan is removed completely; the base ref keeps the rest.
    fixture
        .sandboxes
        .landings()
        .release_pins(&key, Epoch(2))
        .unwrap();
    fixture
        .sandboxes
        .rescue()
        .remove_plan(test_plan_id(1), || Ok(()))
        .unwrap();
    let kept = format!("refs/planwright/base/{}/shop+code", test_plan_id(2));
    assert_eq!(
        fixture.run_git(&["rev-parse", &format!("{kept}^{{tree}}")]),
        rest.tree.to_string()
    );
    assert_eq!(
        fixture.run_git(&["rev-parse", &format!("{kept}^")]),
        landed.to_string()
    );
    // Working on the rest does not remove its base ref.
    fixture
        .sandboxes
        .enter_sandbox(
            &fixture.sandbox_key(test_plan_id(2)),
            Epoch(1),
            &rest.base,
            SandboxEntryMode::ResetToBase,
        )
        .unwrap();
    fixture.run_git(&["reflog", "expire", "--expire=now", "--all"]);
    fixture.run_git(&["gc", "-q", "--prune=now"]);
    let last = land_result(&fixture, 2, 2, &rest);
    assert_eq!(list_changed_paths(&fixture, "HEAD"), ["old/gone.txt"]);
    assert_eq!(
        fixture.run_git(&["rev-parse", "HEAD^{tree}"]),
        whole.tree.to_string()
    );
    let no_rest = fixture
        .sandboxes
        .landings()
        .compute_rest(
            &fixture.sandbox_key(test_plan_id(2)),
            test_plan_id(3),
            &whole,
            None,
            &last,
        )
        .unwrap();
    assert_eq!(no_rest, None);
    fixture.assert_clean();
    fixture.assert_no_leftovers();
}

#[test]
fn pathspec_without_a_match_is_reported() {
    let fixture = SandboxFixture::new();
    let whole = capture_usual_work(&fixture);
    for (paths, named) in [
        (&["src", "README.md"][..], "README.md"),
        (&["nowhere"][..], "nowhere"),
        (&["src", ":!src"][..], "src :!src"),
        (&[":(literal)odd*"][..], ":(literal)odd*"),
    ] {
        let refused = restrict_to_paths(&fixture, &whole, paths);
        let Err(SandboxError::NoPathMatches { pathspec }) = refused else {
            panic!("{paths:?}: {refused:?}");
        };
        assert_eq!(pathspec, named);
    }
    let outside = restrict_to_paths(&fixture, &whole, &["../src"]);
    assert!(matches!(outside, Err(SandboxError::GitFailed { .. })));
    let all = restrict_to_paths(&fixture, &whole, &["."]).unwrap();
    assert_eq!(all, whole);
    let without_src = restrict_to_paths(&fixture, &whole, &[".", ":(exclude)src"]).unwrap();
    assert_eq!(
        list_result_paths(&fixture, &without_src),
        ["odd [name]*.txt", "old/gone.txt"]
    );
}

/// Lists a result's paths, with the agent's repository, which borrows from the vault.
fn list_result_paths(fixture: &SandboxFixture, result: &SandboxResult) -> Vec<String> {
    let key = fixture.sandbox_key(test_plan_id(1));
    let sandbox = fixture.sandboxes.current_sandbox(&key).unwrap().unwrap();
    let arguments = [
        "diff",
        "--name-only",
        "--no-renames",
        result.base.as_str(),
        result.tree.as_str(),
    ];
    crate::fixture::run_git(&sandbox.path, &arguments)
        .lines()
        .map(str::to_owned)
        .collect()
}

#[test]
fn selecting_a_directory_selects_the_file_it_replaced() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    std::fs::remove_file(sandbox.path.join("README.md")).unwrap();
    write_file(&sandbox.path.join("README.md/inside.txt"), "in\n");
    write_file(&sandbox.path.join("src/b.txt"), "rest\n");
    let whole = fixture.capture_result(test_plan_id(1), 1);
    let part = restrict_to_paths(&fixture, &whole, &["README.md/inside.txt"]).unwrap();
    assert_eq!(
        list_result_paths(&fixture, &part),
        ["README.md", "README.md/inside.txt"]
    );
}

#[test]
fn rest_that_conflicts_reports_it_when_proposed() {
    let fixture = SandboxFixture::new();
    let whole = capture_usual_work(&fixture);
    fixture.write_file("src/a.txt", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n8\n");
    fixture.commit_all("the same line");
    let part = restrict_to_paths(&fixture, &whole, &["old"]).unwrap();
    let landed = land_result(&fixture, 1, 2, &part);
    let rest = fixture
        .sandboxes
        .landings()
        .compute_rest(
            &fixture.sandbox_key(test_plan_id(1)),
            test_plan_id(2),
            &whole,
            None,
            &landed,
        )
        .unwrap()
        .unwrap();
    fixture
        .sandboxes
        .rescue()
        .remove_plan(test_plan_id(1), || Ok(()))
        .unwrap();
    match fixture.propose_landing(test_plan_id(2), 1, &rest, &AS_COMMIT) {
        ProposalOutcome::Conflict { paths, .. } => {
            let paths: Vec<String> = paths.iter().map(ToString::to_string).collect();
            assert_eq!(paths, ["src/a.txt"]);
        }
        other => panic!("{other:?}"),
    }
}

/// A hunk that was picked first and dropped later must not come back with the rest.
#[test]
fn rest_of_a_pick_has_only_what_the_pick_left_out() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    write_file(
        &sandbox.path.join("src/a.txt"),
        "one\nTWO\nthree\nfour\nFIVE\nsix\nseven\nEIGHT\n",
    );
    let whole = fixture.capture_result(test_plan_id(1), 1);
    let key = fixture.sandbox_key(test_plan_id(1));
    let landings = fixture.sandboxes.landings();
    let changes = landings.list_result_changes(&key, &whole).unwrap();
    let pick_numbers = |numbers: &[usize]| {
        let chosen = numbers
            .iter()
            .map(|number| changes[0].hunks[*number].id)
            .collect();
        landings.pick_hunks(&key, &whole, &chosen).unwrap().result
    };
    let picked = pick_numbers(&[0, 1]);
    let landed = land_result(&fixture, 1, 2, &pick_numbers(&[0]));
    let rest = landings
        .compute_rest(&key, test_plan_id(2), &whole, Some(&picked.tree), &landed)
        .unwrap()
        .unwrap();
    assert_eq!((rest.base, rest.tree), (landed, pick_numbers(&[0, 2]).tree));
}
