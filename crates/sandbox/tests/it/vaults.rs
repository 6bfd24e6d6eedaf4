//! A plan's result stays reachable if its repository or its sandbox moves or disappears.

use planwright_sandbox::land::{LandAttempt, LandingMethod, ProposalOutcome, SandboxResult};
use planwright_sandbox::{ResourceLocation, SandboxError};

use crate::fixture::{SandboxFixture, test_plan_id};

const AS_COMMIT: LandingMethod = LandingMethod::Commit { merge: false };

impl SandboxFixture {
    /// Captures a plan with the usual work.
    fn capture_usual_work(&self) -> SandboxResult {
        let sandbox = self.enter_sandbox(test_plan_id(1), 1);
        self.do_usual_work(&sandbox);
        self.capture_result(test_plan_id(1), 1)
    }

    /// Moves the repository and updates the resource.
    fn move_repository(&mut self) {
        let elsewhere = self.directory.path().join("else:where");
        std::fs::rename(self.path(), &elsewhere).unwrap();
        self.resource.location = ResourceLocation::Git {
            path: elsewhere,
            target: "refs/heads/main".to_owned(),
        };
    }
}

#[test]
fn result_can_be_shown_and_landed_after_its_repository_moved() {
    let mut fixture = SandboxFixture::new();
    let result = fixture.capture_usual_work();
    fixture.move_repository();
    let key = fixture.sandbox_key(test_plan_id(1));
    let diff = fixture
        .sandboxes
        .diffs()
        .diff_trees(&key, &result.base, &result.tree)
        .unwrap();
    assert_eq!(diff.list_changed_paths(&[]).unwrap().len(), 3);
    let inside = fixture
        .sandboxes
        .diffs()
        .diff_sandbox(&key)
        .unwrap()
        .unwrap();
    assert_eq!(inside.new_tree(), result.tree.to_string());
    assert_eq!(fixture.capture_result(test_plan_id(1), 1), result);
    let ProposalOutcome::Ready(proposal) =
        fixture.propose_landing(test_plan_id(1), 2, &result, &AS_COMMIT)
    else {
        panic!("nothing blocks the landing");
    };
    let landed = fixture.land_proposal(test_plan_id(1), 2, &proposal);
    assert_eq!(landed, LandAttempt::Landed { kept: Vec::new() });
}

#[test]
fn missing_result_objects_are_reported() {
    let fixture = SandboxFixture::new();
    let result = fixture.capture_usual_work();
    let missing = SandboxResult {
        tree: "0123456789012345678901234567890123456789".parse().unwrap(),
        ..result.clone()
    };
    let key = fixture.sandbox_key(test_plan_id(1));
    let compared = fixture
        .sandboxes
        .diffs()
        .diff_trees(&key, &missing.base, &missing.tree);
    assert!(matches!(
        compared.err(),
        Some(SandboxError::ResultMissing { .. })
    ));
    let message = crate::fixture::make_landing_message(test_plan_id(1));
    let proposed = fixture.sandboxes.landings().propose_landing(
        &key,
        plan::Epoch(2),
        &missing,
        &AS_COMMIT,
        &message,
    );
    assert!(
        matches!(proposed, Err(SandboxError::ResultMissing { .. })),
        "{proposed:?}"
    );
    assert_eq!(
        fixture.run_git(&["for-each-ref", "refs/planwright/pin"]),
        ""
    );
}

#[test]
fn result_can_be_restricted_without_a_sandbox() {
    let fixture = SandboxFixture::new();
    let whole = fixture.capture_usual_work();
    let part = ["src".to_owned()];
    let chosen = fixture
        .sandboxes
        .landings()
        .restrict_result(&fixture.sandbox_key(test_plan_id(1)), &whole, &part)
        .unwrap();
    let ProposalOutcome::Ready(proposal) =
        fixture.propose_landing(test_plan_id(1), 2, &chosen, &AS_COMMIT)
    else {
        panic!("nothing blocks the landing");
    };
    fixture.land_proposal(test_plan_id(1), 2, &proposal);
    let key = fixture.sandbox_key(test_plan_id(1));
    let rest = fixture
        .sandboxes
        .landings()
        .compute_rest(&key, test_plan_id(2), &whole, None, &proposal.new)
        .unwrap()
        .unwrap();
    fixture
        .sandboxes
        .rescue()
        .remove_plan(test_plan_id(1), || Ok(()))
        .unwrap();
    let old = ["old".to_owned()];
    let chosen = fixture
        .sandboxes
        .landings()
        .restrict_result(&fixture.sandbox_key(test_plan_id(2)), &rest, &old)
        .unwrap();
    assert_eq!(chosen.tree, whole.tree);
}

/// The engine keeps one repository per directory path, so a moved directory gets another one.
#[test]
fn result_lands_in_a_directory_that_moved() {
    let mut fixture = SandboxFixture::new_empty();
    fixture.write_file("a.txt", "one\n");
    fixture.resource.location = ResourceLocation::Dir {
        path: fixture.path(),
    };
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    crate::fixture::write_file(&sandbox.path.join("a.txt"), "two\n");
    let result = fixture.capture_result(test_plan_id(1), 1);
    let elsewhere = fixture.directory.path().join("elsewhere");
    std::fs::rename(fixture.path(), &elsewhere).unwrap();
    fixture.resource.location = ResourceLocation::Dir {
        path: elsewhere.clone(),
    };
    let key = fixture.sandbox_key(test_plan_id(1));
    let diff = fixture
        .sandboxes
        .diffs()
        .diff_trees(&key, &result.base, &result.tree);
    assert_eq!(diff.unwrap().list_changed_paths(&[]).unwrap().len(), 1);
    let ProposalOutcome::Ready(proposal) =
        fixture.propose_landing(test_plan_id(1), 2, &result, &AS_COMMIT)
    else {
        panic!("nothing blocks the landing");
    };
    fixture.land_proposal(test_plan_id(1), 2, &proposal);
    assert_eq!(
        std::fs::read_to_string(elsewhere.join("a.txt")).unwrap(),
        "two\n"
    );
}
