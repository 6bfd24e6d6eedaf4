//! The engine with hands, on a real repository: landing step by step, in another way, and from where it
//! cannot be reached.

#![cfg(not(feature = "shuttle"))]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a person's git and a failing test are as blunt as they like"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actors::{Actor, Assignment, Report, Stop, Workplace};
use plan::how::Shape;
use plan::project::{Place, Resource};
use plan::stage::{Category, ResultContent};
use plan::ways::{Clean, Ways};
use plan::{Actors, Caller, How, Phase, PlanId, Refusal, Span};
use planwright_lifecycle::{
    Call, Claim, Driven, Error, Force, Hands, Lifecycle, Mendable, Stepped, UseRequest, WentOn,
    Worker,
};
use sandbox::{Surroundings, Workshop};
use store::MemoryStore;
use testkit::samples;

const LEASE: Span = Span::seconds(60);

fn ada() -> Call {
    Call::by(Caller::Person("ada".to_owned()))
}

/// A repository with a file, and an engine that reaches it.
struct Yard {
    directory: tempfile::TempDir,
    lifecycle: Lifecycle,
}

impl Yard {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let shop = directory.path().join("shop");
        std::fs::create_dir(&shop).unwrap();
        git(&shop, &["init", "-q", "-b", "main", "."]);
        git(&shop, &["config", "user.name", "Ada"]);
        git(&shop, &["config", "user.email", "ada@example.org"]);
        std::fs::write(shop.join("README.md"), "# Shop\n").unwrap();
        git(&shop, &["add", "-A"]);
        git(&shop, &["commit", "-q", "-m", "start"]);
        let surroundings = Surroundings {
            git: "git".into(),
            path: std::env::var_os("PATH"),
            home: Some("/nonexistent".into()),
            config_home: None,
            patience: sandbox::PATIENCE,
        };
        let hands = Hands {
            workshop: Workshop::new(directory.path().join("home"), surroundings),
            host: "here".parse().unwrap(),
        };
        let lifecycle = Lifecycle::open(MemoryStore::new()).with_hands(hands);
        let yard = Self {
            directory,
            lifecycle,
        };
        yard.lifecycle
            .create_project(&samples::name("shop"), vec![yard.resource("here")], &ada())
            .unwrap();
        yard
    }

    fn shop(&self) -> PathBuf {
        self.directory.path().join("shop")
    }

    fn resource(&self, host: &str) -> Resource {
        Resource {
            name: "code".parse().unwrap(),
            host: host.parse().unwrap(),
            place: Place::Git {
                path: self.shop().display().to_string(),
                branch: "refs/heads/main".to_owned(),
            },
        }
    }

    fn used(&self, ways: Ways) -> PlanId {
        let request = UseRequest {
            goal: Some("Write notes".to_owned()),
            fallback_actors: Some(Actors::both(samples::name("robot"))),
            projects: vec![samples::name("shop")],
            ways,
            ..UseRequest::default()
        };
        self.lifecycle.use_action(request, &ada()).unwrap().plan.id
    }

    /// Somebody works on it and wrote a file.
    fn written(&self, plan: PlanId) -> Claim {
        let lifecycle = &self.lifecycle;
        lifecycle
            .start_strategize(plan, "w", LEASE, &ada())
            .unwrap()
            .complete_strategize(Vec::new())
            .unwrap();
        lifecycle.execute_plan(plan, &ada()).unwrap();
        let claim = lifecycle.start_execute(plan, "w", LEASE, &ada()).unwrap();
        let [sandbox] = claim.sandboxes() else {
            panic!("{:?}", claim.sandboxes());
        };
        std::fs::write(sandbox.path.join("NOTES.md"), "Noted.\n").unwrap();
        claim
    }

    /// A plan that waits to land, signed in the usual way.
    fn waiting(&self) -> PlanId {
        let plan = self.used(Ways::default());
        let result = ResultContent::default();
        self.written(plan).complete_execute(&result).unwrap();
        let lifecycle = &self.lifecycle;
        lifecycle.approve(plan, &How::default(), &ada()).unwrap();
        lifecycle.apply_plan(plan, &ada()).unwrap();
        plan
    }

    fn stage(&self, plan: PlanId) -> String {
        self.lifecycle
            .get_plan(plan)
            .unwrap()
            .plan
            .stage
            .to_string()
    }

    fn files_on(&self, branch: &str) -> String {
        git(&self.shop(), &["ls-tree", "--name-only", branch])
    }
}

fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(arguments)
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_landing_is_taken_step_by_step() {
    let yard = Yard::new();
    let lifecycle = &yard.lifecycle;
    let plan = yard.waiting();
    let claim = lifecycle.start_apply(plan, "w", LEASE, &ada()).unwrap();
    let epoch = claim.epoch();
    let start = git(&yard.shop(), &["rev-parse", "main"]);
    let prepared = lifecycle.prepare_landing(plan, epoch, &ada()).unwrap();
    assert!(matches!(prepared, Stepped::Done(_)), "{prepared:?}");
    let row = lifecycle.get_plan(plan).unwrap();
    assert!(row.plan.is_prepared());
    assert_eq!(git(&yard.shop(), &["rev-parse", "main"]), start);
    // Taken back, nothing having moved; and prepared anew.
    lifecycle.withdraw_landing(plan, epoch, &ada()).unwrap();
    assert!(!lifecycle.get_plan(plan).unwrap().plan.is_prepared());
    assert_eq!(git(&yard.shop(), &["rev-parse", "main"]), start);
    lifecycle.prepare_landing(plan, epoch, &ada()).unwrap();
    let ended = lifecycle.complete_landing(plan, epoch, &ada()).unwrap();
    assert!(
        matches!(ended, Stepped::Ended(Driven::Landed { .. })),
        "{ended:?}"
    );
    assert_eq!(yard.stage(plan), "apply/applied");
    assert_eq!(yard.files_on("main"), "NOTES.md\nREADME.md");
    let looked = lifecycle.look(plan).unwrap();
    assert_eq!(looked.len(), 1);
    assert_eq!(looked[0].resource, "shop/code");
}

#[test]
fn what_a_target_has_is_not_withdrawn() {
    let yard = Yard::new();
    let lifecycle = &yard.lifecycle;
    let plan = yard.waiting();
    let claim = lifecycle.start_apply(plan, "w", LEASE, &ada()).unwrap();
    lifecycle
        .prepare_landing(plan, claim.epoch(), &ada())
        .unwrap();
    let row = lifecycle.get_plan(plan).unwrap();
    let intent = row.plan.stage.intent().unwrap();
    let [step] = intent.moves.as_slice() else {
        panic!("{intent:?}");
    };
    // As if it had died right after the branch moved.
    git(
        &yard.shop(),
        &["update-ref", "refs/heads/main", &step.new, &step.old],
    );
    let withdrawn = lifecycle.withdraw_landing(plan, claim.epoch(), &ada());
    assert!(
        matches!(
            withdrawn,
            Err(Error::Refused(Refusal::PointOfNoReturn { .. }))
        ),
        "{withdrawn:?}"
    );
    assert!(lifecycle.get_plan(plan).unwrap().plan.is_prepared());
}

#[test]
fn what_waits_to_land_can_be_signed_to_arrive_in_another_way() {
    let yard = Yard::new();
    let plan = yard.waiting();
    assert_eq!(yard.stage(plan), "apply/queued");
    let aside = How {
        shape: Shape::Branch("aside".to_owned()),
        ..How::default()
    };
    let driven = yard.lifecycle.apply(plan, &aside, "w", &ada()).unwrap();
    assert!(matches!(driven, Driven::Landed { .. }), "{driven:?}");
    assert_eq!(yard.files_on("main"), "README.md");
    assert_eq!(yard.files_on("aside"), "NOTES.md\nREADME.md");
    let row = yard.lifecycle.get_plan(plan).unwrap();
    assert_eq!(row.plan.valid_approval().unwrap().how, aside);
    // A branch of its own is removed, not merged out.
    let undone = yard.lifecycle.undo(plan, &ada()).map(drop);
    assert!(
        matches!(&undone, Err(Error::LandedOnBranch { branch }) if branch == "aside"),
        "{undone:?}"
    );
}

#[test]
fn a_landing_that_failed_is_tried_again() {
    let yard = Yard::new();
    let plan = yard.waiting();
    let claim = yard
        .lifecycle
        .start_apply(plan, "w", LEASE, &ada())
        .unwrap();
    claim.fail(Category::Resource, "the disk is away").unwrap();
    assert_eq!(yard.stage(plan), "apply/errored");
    let driven = yard
        .lifecycle
        .apply(plan, &How::default(), "w", &ada())
        .unwrap();
    assert!(matches!(driven, Driven::Landed { .. }), "{driven:?}");
    assert_eq!(yard.files_on("main"), "NOTES.md\nREADME.md");
}

#[test]
fn what_works_on_nothing_ends_without_landing_anywhere() {
    let yard = Yard::new();
    for lifecycle in [yard.lifecycle.clone(), Lifecycle::open(MemoryStore::new())] {
        let request = UseRequest {
            goal: Some("Think".to_owned()),
            fallback_actors: Some(Actors::both(samples::name("robot"))),
            ..UseRequest::default()
        };
        let claim = lifecycle
            .use_and_start(request, "w", LEASE, &ada())
            .unwrap();
        let plan = claim.plan().id;
        let Ok(WentOn::Claimed(claim)) = claim.complete_strategize_and_go_on(Vec::new(), LEASE)
        else {
            panic!("it waits");
        };
        claim.complete_execute(&ResultContent::default()).unwrap();
        let driven = lifecycle.apply(plan, &How::default(), "w", &ada()).unwrap();
        assert!(matches!(driven, Driven::Landed { .. }), "{driven:?}");
        let row = lifecycle.get_plan(plan).unwrap();
        assert_eq!(row.plan.stage.to_string(), "apply/applied");
    }
}

#[test]
fn a_result_on_a_repository_waits_for_a_signature() {
    let yard = Yard::new();
    let plan = yard.used(Ways::default());
    let went = yard
        .written(plan)
        .complete_execute_and_go_on(&ResultContent::default(), LEASE)
        .unwrap();
    assert!(matches!(went, WentOn::Waits(_)), "it landed unasked");
    assert_eq!(yard.stage(plan), "execute/complete");
}

#[test]
fn what_lies_on_another_host_waits_for_it_and_is_claimed_by_nobody_here() {
    let yard = Yard::new();
    let lifecycle = &yard.lifecycle;
    let plan = yard.used(Ways::default());
    let code = yard.resource("elsewhere");
    lifecycle
        .relink_resource(
            &samples::name("shop"),
            &code.name,
            code.host.clone(),
            code.place.clone(),
            &ada(),
        )
        .unwrap();
    let started = lifecycle
        .start_strategize(plan, "w", LEASE, &ada())
        .map(|_| ());
    match started {
        Err(error @ Error::WaitingForHost { .. }) => assert_eq!(
            error.to_string(),
            "waiting for host elsewhere: shop/code lies there"
        ),
        other => panic!("{other:?}"),
    }
    assert_eq!(yard.stage(plan), "strategize/queued");
    let claimed = lifecycle.claim(Phase::Strategize, "w", LEASE, &ada());
    assert!(claimed.unwrap().is_none());
    // Back here, it is claimed.
    let code = yard.resource("here");
    lifecycle
        .relink_resource(
            &samples::name("shop"),
            &code.name,
            code.host,
            code.place,
            &ada(),
        )
        .unwrap();
    let claimed = lifecycle.claim(Phase::Strategize, "w", LEASE, &ada());
    assert_eq!(claimed.unwrap().unwrap().plan().id, plan);
}

#[test]
fn a_plan_whose_resource_is_gone_is_not_claimed_and_says_why() {
    let yard = Yard::new();
    let plan = yard.used(Ways::default());
    yard.lifecycle
        .unlink_resource(
            &samples::name("shop"),
            &"code".parse().unwrap(),
            Force::Yes,
            &ada(),
        )
        .unwrap();
    let started = yard
        .lifecycle
        .start_strategize(plan, "w", LEASE, &ada())
        .map(|_| ());
    assert!(
        matches!(started, Err(Error::Refused(Refusal::NoSuchResource { .. }))),
        "{started:?}"
    );
    assert_eq!(yard.stage(plan), "strategize/queued");
    let looked = yard.lifecycle.look(plan).map(|_| ()).unwrap_err();
    assert!(matches!(looked, Error::ResourceGone { .. }), "{looked:?}");
    assert_eq!(
        looked.to_string(),
        "shop/code is no longer part of its project"
    );
}

#[test]
fn a_plan_that_ends_without_landing_leaves_no_sandbox_where_that_was_asked_for() {
    for (clean, stays) in [(Clean::OnTerminal, false), (Clean::OnApply, true)] {
        let yard = Yard::new();
        let plan = yard.used(Ways {
            clean,
            ..Ways::default()
        });
        let claim = yard.written(plan);
        let sandbox = claim.sandboxes()[0].path.clone();
        assert!(sandbox.join("NOTES.md").exists());
        claim.release().unwrap();
        yard.lifecycle
            .cancel(plan, Some("no need"), &ada())
            .unwrap();
        assert_eq!(yard.stage(plan), "execute/cancelled");
        assert_eq!(sandbox.exists(), stays, "{clean:?}");
    }
}

#[test]
fn a_landing_that_a_crash_left_is_found_and_finished() {
    let yard = Yard::new();
    let lifecycle = &yard.lifecycle;
    let plan = yard.waiting();
    let claim = lifecycle.start_apply(plan, "w", LEASE, &ada()).unwrap();
    lifecycle
        .prepare_landing(plan, claim.epoch(), &ada())
        .unwrap();
    assert_eq!(lifecycle.mendable().unwrap(), []);
    // Nobody knows that the holder is gone; but its lease has run out.
    claim.renew(Span(1)).unwrap();
    std::thread::sleep(Duration::from_millis(1));
    assert_eq!(lifecycle.mendable().unwrap(), [Mendable::Landing(plan)]);
    claim.release().unwrap();
    assert_eq!(lifecycle.mendable().unwrap(), [Mendable::Landing(plan)]);
    let mended = lifecycle.mend(&Mendable::Landing(plan), "m", &ada());
    assert!(
        matches!(mended, Ok(Some(Driven::Landed { .. }))),
        "{mended:?}"
    );
    assert_eq!(yard.files_on("main"), "NOTES.md\nREADME.md");
    assert_eq!(lifecycle.mendable().unwrap(), []);
}

#[test]
fn a_landing_whose_authority_is_over_moves_nothing() {
    let yard = Yard::new();
    let lifecycle = &yard.lifecycle;
    let plan = yard.waiting();
    let start = git(&yard.shop(), &["rev-parse", "main"]);
    let late = lifecycle.start_apply(plan, "w", LEASE, &ada()).unwrap();
    lifecycle.release(plan, late.epoch(), &ada()).unwrap();
    for _ in 0..2 {
        let driven = lifecycle.drive_apply(&late);
        assert!(
            matches!(driven, Err(Error::Refused(Refusal::Fenced { .. }))),
            "{driven:?}"
        );
        assert_eq!(git(&yard.shop(), &["rev-parse", "main"]), start);
        // The second time somebody else holds it.
        let _ = lifecycle.start_apply(plan, "v", LEASE, &ada());
    }
}

#[test]
fn nothing_lands_into_the_middle_of_a_merge() {
    let yard = Yard::new();
    let plan = yard.waiting();
    let start = git(&yard.shop(), &["rev-parse", "main"]);
    std::fs::write(yard.shop().join(".git/MERGE_HEAD"), format!("{start}\n")).unwrap();
    let driven = yard
        .lifecycle
        .apply(plan, &How::default(), "w", &ada())
        .unwrap();
    assert!(matches!(driven, Driven::Constrained(_)), "{driven:?}");
    assert_eq!(yard.stage(plan), "apply/constrained");
    let row = yard.lifecycle.get_plan(plan).unwrap();
    let told = serde_json::to_string(&row.plan.stage).unwrap();
    assert!(told.contains("operation_in_progress"), "{told}");
    assert!(told.contains("a merge is in progress in"), "{told}");
    assert_eq!(git(&yard.shop(), &["rev-parse", "main"]), start);
    // Once the person is through, it lands.
    std::fs::remove_file(yard.shop().join(".git/MERGE_HEAD")).unwrap();
    let driven = yard
        .lifecycle
        .apply(plan, &How::default(), "w", &ada())
        .unwrap();
    assert!(matches!(driven, Driven::Landed { .. }), "{driven:?}");
    assert_eq!(yard.files_on("main"), "NOTES.md\nREADME.md");
}

#[test]
fn the_sandbox_that_a_crash_left_behind_a_landing_is_removed() {
    let yard = Yard::new();
    let lifecycle = &yard.lifecycle;
    let plan = yard.used(Ways::default());
    let claim = yard.written(plan);
    let sandbox = claim.sandboxes()[0].path.clone();
    claim.complete_execute(&ResultContent::default()).unwrap();
    lifecycle.approve(plan, &How::default(), &ada()).unwrap();
    lifecycle.apply_plan(plan, &ada()).unwrap();
    let claim = lifecycle.start_apply(plan, "w", LEASE, &ada()).unwrap();
    let epoch = claim.epoch();
    lifecycle.prepare_landing(plan, epoch, &ada()).unwrap();
    let row = lifecycle.get_plan(plan).unwrap();
    let step = row.plan.stage.intent().unwrap().moves[0].clone();
    git(
        &yard.shop(),
        &["update-ref", "refs/heads/main", &step.new, &step.old],
    );
    // As if it had died right after that was stored.
    let landed = vec!["shop/code".to_owned()];
    lifecycle
        .complete_apply(plan, epoch, landed, None, &ada())
        .unwrap();
    assert!(sandbox.exists());
    assert_eq!(lifecycle.mendable().unwrap(), [Mendable::Remains(plan)]);
    let mended = lifecycle.mend(&Mendable::Remains(plan), "m", &ada());
    assert!(matches!(mended, Ok(None)), "{mended:?}");
    assert!(!sandbox.exists());
    assert_eq!(lifecycle.mendable().unwrap(), []);
}

/// A worker that was stopped and comes back after another took its plan still has its own files, and what
/// it hands in is refused.
#[test]
fn a_claim_keeps_its_sandbox_from_whoever_takes_the_plan_over() {
    let yard = Yard::new();
    let lifecycle = &yard.lifecycle;
    let plan = yard.used(Ways::default());
    let first = yard.written(plan);
    let path = first.sandboxes()[0].path.clone();
    lifecycle
        .release(plan, first.epoch(), &ada())
        .expect("as if it had been taken from it");
    let second = lifecycle.start_execute(plan, "v", LEASE, &ada()).unwrap();
    let other = second.sandboxes()[0].path.clone();
    assert_ne!(other, path);
    std::fs::write(other.join("SECOND.md"), "Mine.\n").unwrap();
    let late = first.complete_execute(&ResultContent::default());
    assert!(
        matches!(late, Err(Error::Refused(Refusal::Fenced { .. }))),
        "{late:?}"
    );
    // Handed in, it is left: the next one goes on in it.
    second.complete_execute(&ResultContent::default()).unwrap();
    lifecycle.revise(plan, "more", Vec::new(), &ada()).unwrap();
    let third = lifecycle.start_execute(plan, "u", LEASE, &ada()).unwrap();
    assert_eq!(third.sandboxes()[0].path, other);
    assert!(other.join("SECOND.md").exists());
}

#[test]
fn going_on_into_execute_stays_in_the_same_sandbox() {
    let yard = Yard::new();
    let lifecycle = &yard.lifecycle;
    let plan = yard.used(Ways::default());
    let claim = lifecycle
        .start_strategize(plan, "w", LEASE, &ada())
        .unwrap();
    let path = claim.sandboxes()[0].path.clone();
    let went_on = claim
        .complete_strategize_and_go_on(Vec::new(), LEASE)
        .unwrap();
    let WentOn::Claimed(claim) = went_on else {
        panic!("{:?}", yard.stage(plan));
    };
    assert_eq!(claim.sandboxes()[0].path, path);
}

#[test]
fn a_report_counts_as_far_as_the_sandbox_bears_it_out() {
    let yard = Yard::new();
    let claim = yard.written(yard.used(Ways::default()));
    let done = claim.complete(&Report::done("Wrote notes")).unwrap();
    assert_eq!(done.plan.stage.to_string(), "execute/complete");
    let [tree] = &done.plan.result.as_ref().unwrap().trees[..] else {
        panic!("{:?}", done.plan.result);
    };
    assert_eq!(tree.changes, Some(1));

    let claim = yard.written(yard.used(Ways::default()));
    let [sandbox] = claim.sandboxes() else {
        panic!("{:?}", claim.sandboxes());
    };
    std::fs::remove_file(sandbox.path.join("NOTES.md")).unwrap();
    let done = claim.complete(&Report::done("Wrote notes")).unwrap();
    let failure = done.plan.stage.failure().unwrap();
    assert_eq!(failure.category, Category::Actor);
    assert_eq!(
        failure.message.to_string(),
        "the agent said it was done, and changed nothing; it said last: Wrote notes"
    );
}

/// Writes a file more each time, or fails, and keeps what it was told to leave alone and whether its result was
/// sent back.
#[derive(Clone, Default)]
struct Scribe {
    told: Arc<Mutex<Vec<Vec<String>>>>,
    revises: Arc<AtomicBool>,
    fails: Arc<AtomicBool>,
}

impl Actor for Scribe {
    fn work(&self, assignment: &Assignment, _: &Workplace<'_>) -> Report {
        let mut told = self.told.lock().unwrap();
        told.push(assignment.dropped.clone());
        self.revises.store(assignment.revises, Ordering::SeqCst);
        if self.fails.load(Ordering::SeqCst) {
            return Report::failed(Category::Actor, "no ink");
        }
        let name = format!("{}.md", told.len());
        std::fs::write(assignment.sandboxes[0].path.join(name), "Noted.\n").unwrap();
        Report::done("Wrote a file")
    }
}

#[test]
fn what_was_taken_out_once_is_left_alone_until_the_work_begins_anew() {
    let yard = Yard::new();
    let (lifecycle, scribe) = (&yard.lifecycle, Scribe::default());
    let plan = yard.used(Ways::default());
    let told = || {
        let worker = Worker::new(lifecycle).actor("robot", scribe.clone());
        worker.drain(&Stop::default()).unwrap();
        scribe.told.lock().unwrap().last().unwrap().clone()
    };
    let revise = |feedback: &str, paths: &[&str]| {
        let paths = paths.iter().map(|path| samples::path(*path)).collect();
        lifecycle.revise(plan, feedback, paths, &ada()).unwrap();
        told()
    };
    assert!(told().is_empty());
    assert_eq!(revise("Without the first", &["1.md"]), ["1.md"]);
    // Asked for something else, it does not bring back what was taken out before.
    assert_eq!(revise("Shorter", &[]), ["1.md"]);
    let both = ["1.md", "2.md"];
    assert_eq!(revise("Nor the second", &both), both);
    scribe.fails.store(true, Ordering::SeqCst);
    assert_eq!(revise("Longer", &[]), both);
    lifecycle.retry(plan, false, None, &ada()).unwrap();
    assert_eq!(told(), both);
    assert!(scribe.revises.load(Ordering::SeqCst));
    scribe.fails.store(false, Ordering::SeqCst);
    lifecycle.retry(plan, true, None, &ada()).unwrap();
    assert!(told().is_empty());
    // Of what was sent back nothing is left to go on with.
    assert!(!scribe.revises.load(Ordering::SeqCst));
    assert_eq!(revise("Without that one", &["7.md"]), ["7.md"]);
    lifecycle.revert(plan, "Otherwise", &ada()).unwrap();
    assert!(told().is_empty());
    assert_eq!(scribe.told.lock().unwrap().len(), 9);
}
