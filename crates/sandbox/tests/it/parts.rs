//! Landing a part of a result: what is chosen lands, the rest becomes another plan's.

use plan::Epoch;
use planwright_sandbox::land::{How, Landed, Outcome, Proposed};
use planwright_sandbox::{SandboxError, Start};

use crate::yard::{Yard, plan, write};

const COMMIT: How = How::Commit { merge: false };

fn worked(yard: &Yard) -> Outcome {
    let sandbox = yard.enter(plan(1), 1);
    yard.usual_work(&sandbox);
    write(&sandbox.path.join("odd [name]*.txt"), "odd\n");
    yard.captured(plan(1), 1)
}

fn restricted(yard: &Yard, whole: &Outcome, paths: &[&str]) -> Result<Outcome, SandboxError> {
    let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
    yard.workshop.restrict(&yard.room(plan(1)), whole, &paths)
}

fn land(yard: &Yard, number: u128, epoch: u64, result: &Outcome) -> planwright_sandbox::ObjectId {
    let Proposed::Ready(proposal) = yard.propose(plan(number), epoch, result, &COMMIT) else {
        panic!("it is free to land");
    };
    let landed = yard.land(plan(number), epoch, &proposal);
    assert_eq!(landed, Landed::Yes { kept: Vec::new() });
    proposal.new
}

/// The paths a commit changed.
fn changed(yard: &Yard, commit: &str) -> Vec<String> {
    let shown = ["show", "--format=", "--name-only", "--no-renames", commit];
    yard.git(&shown).lines().map(str::to_owned).collect()
}

#[test]
fn a_part_lands_and_the_rest_lands_later_by_another_plan() {
    let yard = Yard::new();
    let whole = worked(&yard);
    let part = restricted(&yard, &whole, &["src", "odd*"]).unwrap();
    let landed = land(&yard, 1, 2, &part);
    assert_eq!(
        changed(&yard, "HEAD"),
        ["odd [name]*.txt", "src/a.txt", "src/new/c.txt"]
    );
    let room = yard.room(plan(1));
    let rest = yard.workshop.rest(&room, plan(2), &whole, &landed).unwrap();
    let rest = rest.unwrap();
    assert_eq!(rest.base, landed);
    // The first plan goes with all it had; what is kept in the repository is enough.
    yard.workshop.release_pins(&room, Epoch(2)).unwrap();
    yard.workshop.remove(plan(1), || Ok(())).unwrap();
    let kept = format!("refs/planwright/base/{}/shop+code", plan(2));
    assert_eq!(
        yard.git(&["rev-parse", &format!("{kept}^{{tree}}")]),
        rest.tree.to_string()
    );
    assert_eq!(
        yard.git(&["rev-parse", &format!("{kept}^")]),
        landed.to_string()
    );
    // Working on it does not unpin it.
    yard.workshop
        .enter(&yard.room(plan(2)), Epoch(1), &rest.base, Start::Base)
        .unwrap();
    yard.git(&["reflog", "expire", "--expire=now", "--all"]);
    yard.git(&["gc", "-q", "--prune=now"]);
    let last = land(&yard, 2, 2, &rest);
    assert_eq!(changed(&yard, "HEAD"), ["old/gone.txt"]);
    assert_eq!(
        yard.git(&["rev-parse", "HEAD^{tree}"]),
        whole.tree.to_string()
    );
    let nothing = yard
        .workshop
        .rest(&yard.room(plan(2)), plan(3), &whole, &last)
        .unwrap();
    assert_eq!(nothing, None);
    yard.assert_clean();
    yard.assert_tidy();
}

#[test]
fn a_pathspec_that_matches_nothing_is_named() {
    let yard = Yard::new();
    let whole = worked(&yard);
    for (paths, named) in [
        (&["src", "README.md"][..], "README.md"),
        (&["nowhere"][..], "nowhere"),
        (&["src", ":!src"][..], "src :!src"),
        (&[":(literal)odd*"][..], ":(literal)odd*"),
    ] {
        let refused = restricted(&yard, &whole, paths);
        let Err(SandboxError::NothingMatches { pathspec }) = refused else {
            panic!("{paths:?}: {refused:?}");
        };
        assert_eq!(pathspec, named);
    }
    let outside = restricted(&yard, &whole, &["../src"]);
    assert!(matches!(outside, Err(SandboxError::Git { .. })));
    let all = restricted(&yard, &whole, &["."]).unwrap();
    assert_eq!(all, whole);
    let but = restricted(&yard, &whole, &[".", ":(exclude)src"]).unwrap();
    assert_eq!(
        changed_between(&yard, &but),
        ["odd [name]*.txt", "old/gone.txt"]
    );
}

/// The paths of a result, as the agent's view of the vault shows them.
fn changed_between(yard: &Yard, result: &Outcome) -> Vec<String> {
    let room = yard.room(plan(1));
    let sandbox = yard.workshop.current(&room).unwrap().unwrap();
    let arguments = [
        "diff",
        "--name-only",
        "--no-renames",
        result.base.as_str(),
        result.tree.as_str(),
    ];
    crate::yard::git(&sandbox.path, &arguments)
        .lines()
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_directory_that_took_the_place_of_a_file_takes_it_along() {
    let yard = Yard::new();
    let sandbox = yard.enter(plan(1), 1);
    std::fs::remove_file(sandbox.path.join("README.md")).unwrap();
    write(&sandbox.path.join("README.md/inside.txt"), "in\n");
    write(&sandbox.path.join("src/b.txt"), "rest\n");
    let whole = yard.captured(plan(1), 1);
    let part = restricted(&yard, &whole, &["README.md/inside.txt"]).unwrap();
    assert_eq!(
        changed_between(&yard, &part),
        ["README.md", "README.md/inside.txt"]
    );
}

#[test]
fn a_rest_that_somebody_else_overlapped_says_so_when_it_is_proposed() {
    let yard = Yard::new();
    let whole = worked(&yard);
    yard.write("src/a.txt", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n8\n");
    yard.commit("the same line");
    let part = restricted(&yard, &whole, &["old"]).unwrap();
    let landed = land(&yard, 1, 2, &part);
    let rest = yard
        .workshop
        .rest(&yard.room(plan(1)), plan(2), &whole, &landed)
        .unwrap()
        .unwrap();
    yard.workshop.remove(plan(1), || Ok(())).unwrap();
    match yard.propose(plan(2), 1, &rest, &COMMIT) {
        Proposed::Conflict { paths, .. } => {
            let paths: Vec<String> = paths.iter().map(ToString::to_string).collect();
            assert_eq!(paths, ["src/a.txt"]);
        }
        other => panic!("{other:?}"),
    }
}
