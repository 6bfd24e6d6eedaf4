//! What a plan made stays reachable wherever its repository and its sandbox went.

use planwright_sandbox::land::{How, Landed, Outcome, Proposed};
use planwright_sandbox::{SandboxError, SitePlace};

use crate::yard::{Yard, plan};

const COMMIT: How = How::Commit { merge: false };

impl Yard {
    /// A plan with the usual work, handed in.
    fn handed_in(&self) -> Outcome {
        let sandbox = self.enter(plan(1), 1);
        self.usual_work(&sandbox);
        self.captured(plan(1), 1)
    }

    /// Moves the repository; its project knows.
    fn relinked(&mut self) {
        let elsewhere = self.directory.path().join("else:where");
        std::fs::rename(self.path(), &elsewhere).unwrap();
        self.site.place = SitePlace::Git {
            path: elsewhere,
            target: "refs/heads/main".to_owned(),
        };
    }
}

#[test]
fn a_result_is_seen_captured_and_landed_where_its_repository_is_now() {
    let mut yard = Yard::new();
    let result = yard.handed_in();
    yard.relinked();
    let room = yard.room(plan(1));
    let look = yard
        .workshop
        .look(&room, &result.base, &result.tree)
        .unwrap();
    assert_eq!(look.changed(&[]).unwrap().len(), 3);
    let inside = yard.workshop.look_inside(&room).unwrap().unwrap();
    assert_eq!(inside.ends_in(), result.tree.to_string());
    assert_eq!(yard.captured(plan(1), 1), result);
    let Proposed::Ready(proposal) = yard.propose(plan(1), 2, &result, &COMMIT) else {
        panic!("it is free to land");
    };
    let landed = yard.land(plan(1), 2, &proposal);
    assert_eq!(landed, Landed::Yes { kept: Vec::new() });
}

#[test]
fn a_vault_that_lost_its_objects_is_no_result() {
    let yard = Yard::new();
    let result = yard.handed_in();
    let gone = Outcome {
        tree: "0123456789012345678901234567890123456789".parse().unwrap(),
        ..result.clone()
    };
    let room = yard.room(plan(1));
    let looked = yard.workshop.look(&room, &gone.base, &gone.tree);
    assert!(matches!(
        looked.err(),
        Some(SandboxError::ResultGone { .. })
    ));
    let message = crate::yard::message(plan(1));
    let proposed = yard
        .workshop
        .propose(&room, plan::Epoch(2), &gone, &COMMIT, &message);
    assert!(
        matches!(proposed, Err(SandboxError::ResultGone { .. })),
        "{proposed:?}"
    );
    assert_eq!(yard.git(&["for-each-ref", "refs/planwright/pin"]), "");
}

#[test]
fn a_part_of_a_result_can_be_chosen_where_nobody_worked_yet() {
    let yard = Yard::new();
    let whole = yard.handed_in();
    let part = ["src".to_owned()];
    let chosen = yard
        .workshop
        .restrict(&yard.room(plan(1)), &whole, &part)
        .unwrap();
    let Proposed::Ready(proposal) = yard.propose(plan(1), 2, &chosen, &COMMIT) else {
        panic!("it is free to land");
    };
    yard.land(plan(1), 2, &proposal);
    let room = yard.room(plan(1));
    let rest = yard
        .workshop
        .rest(&room, plan(2), &whole, &proposal.new)
        .unwrap()
        .unwrap();
    yard.workshop.remove(plan(1), || Ok(())).unwrap();
    let old = ["old".to_owned()];
    let chosen = yard
        .workshop
        .restrict(&yard.room(plan(2)), &rest, &old)
        .unwrap();
    assert_eq!(chosen.tree, whole.tree);
}

/// We keep a repository per directory, by its path: a directory that moved gets another one.
#[test]
fn a_result_lands_in_a_directory_that_moved() {
    let mut yard = Yard::empty();
    yard.write("a.txt", "one\n");
    yard.site.place = SitePlace::Dir { path: yard.path() };
    let sandbox = yard.enter(plan(1), 1);
    crate::yard::write(&sandbox.path.join("a.txt"), "two\n");
    let result = yard.captured(plan(1), 1);
    let elsewhere = yard.directory.path().join("elsewhere");
    std::fs::rename(yard.path(), &elsewhere).unwrap();
    yard.site.place = SitePlace::Dir {
        path: elsewhere.clone(),
    };
    let room = yard.room(plan(1));
    let look = yard.workshop.look(&room, &result.base, &result.tree);
    assert_eq!(look.unwrap().changed(&[]).unwrap().len(), 1);
    let Proposed::Ready(proposal) = yard.propose(plan(1), 2, &result, &COMMIT) else {
        panic!("it is free to land");
    };
    yard.land(plan(1), 2, &proposal);
    assert_eq!(
        std::fs::read_to_string(elsewhere.join("a.txt")).unwrap(),
        "two\n"
    );
}
