//! Landing on a real repository: step by step, with other options, after crashes and from another host.

#![allow(clippy::disallowed_methods, reason = "tests run programs directly")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actors::{Actor, Assignment, Report, Stop, Workplace};
use plan::command::{CompleteApply, ReleaseLease, RevertPlan};
use plan::landing_options::LandingDestination;
use plan::project::{Resource, ResourcePlace};
use plan::repository_policy::{RepositoryPolicy, SandboxCleanupPolicy};
use plan::stage::{FailureCategory, ResultContent};
use plan::{Caller, LandingOptions, Phase, PlanActors, PlanId, Refusal, Span};
use planwright_lifecycle::{
    Call, Claim, CrashRemnant, ForceRemoval, LandingOutcome, LandingStep, Lifecycle,
    LifecycleError, LocalHost, NextPhase, UseRequest, Worker,
};
use sandbox::{GitEnv, Sandboxes};
use store::MemoryStore;
use testkit::samples;

const TEST_LEASE: Span = Span::from_seconds(60);

fn call_as_ada() -> Call {
    Call::by(Caller::Person("ada".to_owned()))
}

/// A repository with one file, and an engine that can access it.
struct EngineRepoFixture {
    directory: tempfile::TempDir,
    lifecycle: Lifecycle,
}

impl EngineRepoFixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let shop = directory.path().join("shop");
        std::fs::create_dir(&shop).unwrap();
        run_git(&shop, &["init", "-q", "-b", "main", "."]);
        run_git(&shop, &["config", "user.name", "Ada"]);
        run_git(&shop, &["config", "user.email", "ada@example.org"]);
        std::fs::write(shop.join("README.md"), "# Shop\n").unwrap();
        run_git(&shop, &["add", "-A"]);
        run_git(&shop, &["commit", "-q", "-m", "start"]);
        let git_env = GitEnv {
            program: "git".into(),
            path: std::env::var_os("PATH"),
            home: Some("/nonexistent".into()),
            config_home: None,
            timeout: sandbox::GIT_TIMEOUT,
            stop: None,
        };
        let local_host = LocalHost {
            sandboxes: Sandboxes::new(directory.path().join("home"), git_env),
            host: "here".parse().unwrap(),
        };
        let lifecycle = Lifecycle::open(MemoryStore::new()).with_local_host(local_host);
        let fixture = Self {
            directory,
            lifecycle,
        };
        fixture
            .lifecycle
            .projects()
            .create_project(
                &samples::parse_name("shop"),
                vec![fixture.make_resource("here")],
                &call_as_ada(),
            )
            .unwrap();
        fixture
    }

    fn repository_path(&self) -> PathBuf {
        self.directory.path().join("shop")
    }

    fn make_resource(&self, host: &str) -> Resource {
        Resource {
            name: "code".parse().unwrap(),
            host: host.parse().unwrap(),
            place: ResourcePlace::Git {
                path: self.repository_path().display().to_string(),
                branch: "refs/heads/main".to_owned(),
            },
        }
    }

    fn create_plan(&self, policy: RepositoryPolicy) -> PlanId {
        let request = UseRequest {
            goal: Some("Write notes".to_owned()),
            fallback_actors: Some(PlanActors::for_both_phases(samples::parse_name("robot"))),
            projects: vec![samples::parse_name("shop")],
            policy,
            ..UseRequest::default()
        };
        self.lifecycle
            .use_action(request, &call_as_ada())
            .unwrap()
            .plan
            .id()
    }

    /// Claims execute and writes a file into the sandbox.
    fn execute_and_write(&self, plan_id: PlanId) -> Claim {
        let lifecycle = &self.lifecycle;
        lifecycle
            .claims()
            .start_strategize(plan_id, "w", TEST_LEASE, &call_as_ada())
            .unwrap()
            .complete_strategize(Vec::new())
            .unwrap();
        lifecycle.execute_plan(plan_id, &call_as_ada()).unwrap();
        let claim = lifecycle
            .claims()
            .start_execute(plan_id, "w", TEST_LEASE, &call_as_ada())
            .unwrap();
        let [sandbox] = claim.sandboxes() else {
            panic!("{:?}", claim.sandboxes());
        };
        std::fs::write(sandbox.path.join("NOTES.md"), "Noted.\n").unwrap();
        claim
    }

    /// Creates an approved plan that is queued in apply.
    fn create_landing_plan(&self) -> PlanId {
        let plan_id = self.create_plan(RepositoryPolicy::default());
        let result = ResultContent::default();
        self.execute_and_write(plan_id)
            .complete_execute(&result)
            .unwrap();
        let lifecycle = &self.lifecycle;
        lifecycle
            .landing()
            .approve_result(plan_id, &LandingOptions::default(), &call_as_ada())
            .unwrap();
        lifecycle.apply_plan(plan_id, &call_as_ada()).unwrap();
        plan_id
    }

    fn read_stage(&self, plan_id: PlanId) -> String {
        self.lifecycle
            .get_plan(plan_id)
            .unwrap()
            .plan
            .stage()
            .to_string()
    }

    fn files_on(&self, branch: &str) -> String {
        run_git(&self.repository_path(), &["ls-tree", "--name-only", branch])
    }
}

fn run_git(directory: &Path, arguments: &[&str]) -> String {
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
fn a_landing_can_be_done_step_by_step() {
    let fixture = EngineRepoFixture::new();
    let lifecycle = &fixture.lifecycle;
    let plan_id = fixture.create_landing_plan();
    let claim = lifecycle
        .claims()
        .start_apply(plan_id, "w", TEST_LEASE, &call_as_ada())
        .unwrap();
    let epoch = claim.epoch();
    let start = run_git(&fixture.repository_path(), &["rev-parse", "main"]);
    let prepared = lifecycle
        .landing()
        .prepare_landing(plan_id, epoch, &call_as_ada())
        .unwrap();
    assert!(
        matches!(prepared, LandingStep::Completed(_)),
        "{prepared:?}"
    );
    let row = lifecycle.get_plan(plan_id).unwrap();
    assert!(row.plan.is_prepared());
    assert_eq!(
        run_git(&fixture.repository_path(), &["rev-parse", "main"]),
        start
    );
    // Withdraw before anything moves, and prepare again.
    lifecycle
        .landing()
        .withdraw_landing(plan_id, epoch, &call_as_ada())
        .unwrap();
    assert!(!lifecycle.get_plan(plan_id).unwrap().plan.is_prepared());
    assert_eq!(
        run_git(&fixture.repository_path(), &["rev-parse", "main"]),
        start
    );
    lifecycle
        .landing()
        .prepare_landing(plan_id, epoch, &call_as_ada())
        .unwrap();
    let ended = lifecycle
        .landing()
        .complete_landing(plan_id, epoch, &call_as_ada())
        .unwrap();
    assert!(
        matches!(ended, LandingStep::Ended(LandingOutcome::Landed { .. })),
        "{ended:?}"
    );
    assert_eq!(fixture.read_stage(plan_id), "apply/applied");
    assert_eq!(fixture.files_on("main"), "NOTES.md\nREADME.md");
    let changes = lifecycle.sandboxes().view_changes(plan_id).unwrap();
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].resource, "shop/code");
}

#[test]
fn a_landed_intent_cannot_be_withdrawn() {
    let fixture = EngineRepoFixture::new();
    let lifecycle = &fixture.lifecycle;
    let plan_id = fixture.create_landing_plan();
    let claim = lifecycle
        .claims()
        .start_apply(plan_id, "w", TEST_LEASE, &call_as_ada())
        .unwrap();
    lifecycle
        .landing()
        .prepare_landing(plan_id, claim.epoch(), &call_as_ada())
        .unwrap();
    let row = lifecycle.get_plan(plan_id).unwrap();
    let intent = row.plan.stage().intent().unwrap();
    let [step] = intent.moves.as_slice() else {
        panic!("{intent:?}");
    };
    // As if the process had died right after it moved the branch.
    run_git(
        &fixture.repository_path(),
        &["update-ref", "refs/heads/main", &step.new, &step.old],
    );
    let withdrawn = lifecycle
        .landing()
        .withdraw_landing(plan_id, claim.epoch(), &call_as_ada());
    assert!(
        matches!(
            withdrawn,
            Err(LifecycleError::Refused(Refusal::PointOfNoReturn { .. }))
        ),
        "{withdrawn:?}"
    );
    assert!(lifecycle.get_plan(plan_id).unwrap().plan.is_prepared());
}

#[test]
fn a_queued_landing_can_be_approved_with_other_options() {
    let fixture = EngineRepoFixture::new();
    let plan_id = fixture.create_landing_plan();
    assert_eq!(fixture.read_stage(plan_id), "apply/queued");
    let aside = LandingOptions {
        shape: LandingDestination::Branch("aside".to_owned()),
        ..LandingOptions::default()
    };
    let landing = fixture
        .lifecycle
        .landing()
        .approve_and_land(plan_id, &aside, "w", &call_as_ada())
        .unwrap();
    assert!(
        matches!(landing, LandingOutcome::Landed { .. }),
        "{landing:?}"
    );
    assert_eq!(fixture.files_on("main"), "README.md");
    assert_eq!(fixture.files_on("aside"), "NOTES.md\nREADME.md");
    let row = fixture.lifecycle.get_plan(plan_id).unwrap();
    assert_eq!(row.plan.valid_approval().unwrap().options, aside);
    // A plan on its own branch cannot be undone.
    let undone = fixture
        .lifecycle
        .landing()
        .undo_plan(plan_id, &call_as_ada())
        .map(drop);
    assert!(
        matches!(&undone, Err(LifecycleError::LandedOnBranch { branch }) if branch == "aside"),
        "{undone:?}"
    );
}

#[test]
fn a_failed_landing_can_be_retried() {
    let fixture = EngineRepoFixture::new();
    let plan_id = fixture.create_landing_plan();
    let claim = fixture
        .lifecycle
        .claims()
        .start_apply(plan_id, "w", TEST_LEASE, &call_as_ada())
        .unwrap();
    claim
        .fail(FailureCategory::Resource, "the disk is offline")
        .unwrap();
    assert_eq!(fixture.read_stage(plan_id), "apply/errored");
    let landing = fixture
        .lifecycle
        .landing()
        .approve_and_land(plan_id, &LandingOptions::default(), "w", &call_as_ada())
        .unwrap();
    assert!(
        matches!(landing, LandingOutcome::Landed { .. }),
        "{landing:?}"
    );
    assert_eq!(fixture.files_on("main"), "NOTES.md\nREADME.md");
}

#[test]
fn a_plan_without_resources_ends_without_a_landing() {
    let fixture = EngineRepoFixture::new();
    for lifecycle in [
        fixture.lifecycle.clone(),
        Lifecycle::open(MemoryStore::new()),
    ] {
        let request = UseRequest {
            goal: Some("Think".to_owned()),
            fallback_actors: Some(PlanActors::for_both_phases(samples::parse_name("robot"))),
            ..UseRequest::default()
        };
        let claim = lifecycle
            .claims()
            .use_and_start(request, "w", TEST_LEASE, &call_as_ada())
            .unwrap();
        let plan_id = claim.plan().id();
        let Ok(NextPhase::Claimed(claim)) =
            claim.complete_strategize_and_continue(Vec::new(), TEST_LEASE)
        else {
            panic!("execute was not claimed");
        };
        claim.complete_execute(&ResultContent::default()).unwrap();
        let landing = lifecycle
            .landing()
            .approve_and_land(plan_id, &LandingOptions::default(), "w", &call_as_ada())
            .unwrap();
        assert!(
            matches!(landing, LandingOutcome::Landed { .. }),
            "{landing:?}"
        );
        let row = lifecycle.get_plan(plan_id).unwrap();
        assert_eq!(row.plan.stage().to_string(), "apply/applied");
    }
}

#[test]
fn a_result_on_a_repository_waits_for_approval() {
    let fixture = EngineRepoFixture::new();
    let plan_id = fixture.create_plan(RepositoryPolicy::default());
    let next_phase = fixture
        .execute_and_write(plan_id)
        .complete_execute_and_continue(&ResultContent::default(), TEST_LEASE)
        .unwrap();
    assert!(
        matches!(next_phase, NextPhase::Waits(_)),
        "it landed without approval"
    );
    assert_eq!(fixture.read_stage(plan_id), "execute/complete");
}

#[test]
fn a_plan_on_another_host_cannot_be_claimed_here() {
    let fixture = EngineRepoFixture::new();
    let lifecycle = &fixture.lifecycle;
    let plan_id = fixture.create_plan(RepositoryPolicy::default());
    let code = fixture.make_resource("elsewhere");
    lifecycle
        .projects()
        .relink_resource(
            &samples::parse_name("shop"),
            &code.name,
            code.host.clone(),
            code.place.clone(),
            &call_as_ada(),
        )
        .unwrap();
    let started = lifecycle
        .claims()
        .start_strategize(plan_id, "w", TEST_LEASE, &call_as_ada())
        .map(|_| ());
    match started {
        Err(error @ LifecycleError::WaitingForHost { .. }) => assert_eq!(
            error.to_string(),
            "waiting for host elsewhere, where shop/code is"
        ),
        other => panic!("{other:?}"),
    }
    assert_eq!(fixture.read_stage(plan_id), "strategize/queued");
    let claimed = lifecycle
        .claims()
        .claim_next(Phase::Strategize, "w", TEST_LEASE, &call_as_ada());
    assert!(claimed.unwrap().is_none());
    // Relinked to this host, it can be claimed.
    let code = fixture.make_resource("here");
    lifecycle
        .projects()
        .relink_resource(
            &samples::parse_name("shop"),
            &code.name,
            code.host,
            code.place,
            &call_as_ada(),
        )
        .unwrap();
    let claimed = lifecycle
        .claims()
        .claim_next(Phase::Strategize, "w", TEST_LEASE, &call_as_ada());
    assert_eq!(claimed.unwrap().unwrap().plan().id(), plan_id);
}

#[test]
fn a_plan_whose_resource_was_unlinked_cannot_be_claimed() {
    let fixture = EngineRepoFixture::new();
    let plan_id = fixture.create_plan(RepositoryPolicy::default());
    fixture
        .lifecycle
        .projects()
        .unlink_resource(
            &samples::parse_name("shop"),
            &"code".parse().unwrap(),
            ForceRemoval::Yes,
            &call_as_ada(),
        )
        .unwrap();
    let started = fixture
        .lifecycle
        .claims()
        .start_strategize(plan_id, "w", TEST_LEASE, &call_as_ada())
        .map(|_| ());
    assert!(
        matches!(
            started,
            Err(LifecycleError::Refused(Refusal::NoSuchResource { .. }))
        ),
        "{started:?}"
    );
    assert_eq!(fixture.read_stage(plan_id), "strategize/queued");
    let error = fixture
        .lifecycle
        .sandboxes()
        .view_changes(plan_id)
        .map(|_| ())
        .unwrap_err();
    assert!(
        matches!(error, LifecycleError::ResourceGone { .. }),
        "{error:?}"
    );
    assert_eq!(
        error.to_string(),
        "shop/code is no longer part of its project"
    );
}

#[test]
fn a_cancelled_plan_keeps_its_sandbox_as_the_policy_says() {
    for (clean, stays) in [
        (SandboxCleanupPolicy::OnTerminal, false),
        (SandboxCleanupPolicy::OnApply, true),
    ] {
        let fixture = EngineRepoFixture::new();
        let plan_id = fixture.create_plan(RepositoryPolicy {
            clean,
            ..RepositoryPolicy::default()
        });
        let claim = fixture.execute_and_write(plan_id);
        let sandbox = claim.sandboxes()[0].path.clone();
        assert!(sandbox.join("NOTES.md").exists());
        claim.release().unwrap();
        fixture
            .lifecycle
            .cancel_plan(plan_id, Some("no need"), &call_as_ada())
            .unwrap();
        assert_eq!(fixture.read_stage(plan_id), "execute/cancelled");
        assert_eq!(sandbox.exists(), stays, "{clean:?}");
    }
}

#[test]
fn a_landing_interrupted_by_a_crash_is_found_and_finished() {
    let fixture = EngineRepoFixture::new();
    let lifecycle = &fixture.lifecycle;
    let plan_id = fixture.create_landing_plan();
    let claim = lifecycle
        .claims()
        .start_apply(plan_id, "w", TEST_LEASE, &call_as_ada())
        .unwrap();
    lifecycle
        .landing()
        .prepare_landing(plan_id, claim.epoch(), &call_as_ada())
        .unwrap();
    assert_eq!(lifecycle.sandboxes().find_crash_remnants().unwrap(), []);
    // The holder is not registered here, but its lease has expired.
    claim.renew(Span(1)).unwrap();
    std::thread::sleep(Duration::from_millis(1));
    assert_eq!(
        lifecycle.sandboxes().find_crash_remnants().unwrap(),
        [CrashRemnant::UnfinishedLanding(plan_id)]
    );
    claim.release().unwrap();
    assert_eq!(
        lifecycle.sandboxes().find_crash_remnants().unwrap(),
        [CrashRemnant::UnfinishedLanding(plan_id)]
    );
    let recovered = lifecycle.sandboxes().recover_remnant(
        &CrashRemnant::UnfinishedLanding(plan_id),
        "m",
        &call_as_ada(),
    );
    assert!(
        matches!(recovered, Ok(Some(LandingOutcome::Landed { .. }))),
        "{recovered:?}"
    );
    assert_eq!(fixture.files_on("main"), "NOTES.md\nREADME.md");
    assert_eq!(lifecycle.sandboxes().find_crash_remnants().unwrap(), []);
}

#[test]
fn a_landing_by_a_former_holder_is_fenced() {
    let fixture = EngineRepoFixture::new();
    let lifecycle = &fixture.lifecycle;
    let plan_id = fixture.create_landing_plan();
    let start = run_git(&fixture.repository_path(), &["rev-parse", "main"]);
    let late = lifecycle
        .claims()
        .start_apply(plan_id, "w", TEST_LEASE, &call_as_ada())
        .unwrap();
    lifecycle
        .submit_command(
            plan_id,
            ReleaseLease {
                epoch: late.epoch(),
            },
            &call_as_ada(),
        )
        .unwrap();
    for _ in 0..2 {
        let landing = lifecycle.landing().drive_landing(&late);
        assert!(
            matches!(
                landing,
                Err(LifecycleError::Refused(Refusal::Fenced { .. }))
            ),
            "{landing:?}"
        );
        assert_eq!(
            run_git(&fixture.repository_path(), &["rev-parse", "main"]),
            start
        );
        // The second time, another holder has the plan.
        let _ = lifecycle
            .claims()
            .start_apply(plan_id, "v", TEST_LEASE, &call_as_ada());
    }
}

#[test]
fn nothing_lands_during_a_merge() {
    let fixture = EngineRepoFixture::new();
    let plan_id = fixture.create_landing_plan();
    let start = run_git(&fixture.repository_path(), &["rev-parse", "main"]);
    std::fs::write(
        fixture.repository_path().join(".git/MERGE_HEAD"),
        format!("{start}\n"),
    )
    .unwrap();
    let landing = fixture
        .lifecycle
        .landing()
        .approve_and_land(plan_id, &LandingOptions::default(), "w", &call_as_ada())
        .unwrap();
    assert!(
        matches!(landing, LandingOutcome::Constrained(_)),
        "{landing:?}"
    );
    assert_eq!(fixture.read_stage(plan_id), "apply/constrained");
    let row = fixture.lifecycle.get_plan(plan_id).unwrap();
    let encoded_stage = serde_json::to_string(row.plan.stage()).unwrap();
    assert!(
        encoded_stage.contains("operation_in_progress"),
        "{encoded_stage}"
    );
    assert!(
        encoded_stage.contains("a merge is in progress in"),
        "{encoded_stage}"
    );
    assert_eq!(
        run_git(&fixture.repository_path(), &["rev-parse", "main"]),
        start
    );
    // After the merge, it lands.
    std::fs::remove_file(fixture.repository_path().join(".git/MERGE_HEAD")).unwrap();
    let landing = fixture
        .lifecycle
        .landing()
        .approve_and_land(plan_id, &LandingOptions::default(), "w", &call_as_ada())
        .unwrap();
    assert!(
        matches!(landing, LandingOutcome::Landed { .. }),
        "{landing:?}"
    );
    assert_eq!(fixture.files_on("main"), "NOTES.md\nREADME.md");
}

#[test]
fn a_sandbox_left_by_a_crash_after_landing_is_removed() {
    let fixture = EngineRepoFixture::new();
    let lifecycle = &fixture.lifecycle;
    let plan_id = fixture.create_plan(RepositoryPolicy::default());
    let claim = fixture.execute_and_write(plan_id);
    let sandbox = claim.sandboxes()[0].path.clone();
    claim.complete_execute(&ResultContent::default()).unwrap();
    lifecycle
        .landing()
        .approve_result(plan_id, &LandingOptions::default(), &call_as_ada())
        .unwrap();
    lifecycle.apply_plan(plan_id, &call_as_ada()).unwrap();
    let claim = lifecycle
        .claims()
        .start_apply(plan_id, "w", TEST_LEASE, &call_as_ada())
        .unwrap();
    let epoch = claim.epoch();
    lifecycle
        .landing()
        .prepare_landing(plan_id, epoch, &call_as_ada())
        .unwrap();
    let row = lifecycle.get_plan(plan_id).unwrap();
    let step = row.plan.stage().intent().unwrap().moves[0].clone();
    run_git(
        &fixture.repository_path(),
        &["update-ref", "refs/heads/main", &step.new, &step.old],
    );
    // As if the process had died right after it stored the landing.
    let landed = vec!["shop/code".to_owned()];
    lifecycle
        .submit_command(
            plan_id,
            CompleteApply::new(epoch, landed, None),
            &call_as_ada(),
        )
        .unwrap();
    assert!(sandbox.exists());
    assert_eq!(
        lifecycle.sandboxes().find_crash_remnants().unwrap(),
        [CrashRemnant::LeftoverSandboxes(plan_id)]
    );
    let recovered = lifecycle.sandboxes().recover_remnant(
        &CrashRemnant::LeftoverSandboxes(plan_id),
        "m",
        &call_as_ada(),
    );
    assert!(matches!(recovered, Ok(None)), "{recovered:?}");
    assert!(!sandbox.exists());
    assert_eq!(lifecycle.sandboxes().find_crash_remnants().unwrap(), []);
}

/// A suspended worker that resumes after a takeover still has its own files, but its result is refused.
#[test]
fn a_takeover_does_not_reuse_a_sandbox_in_use() {
    let fixture = EngineRepoFixture::new();
    let lifecycle = &fixture.lifecycle;
    let plan_id = fixture.create_plan(RepositoryPolicy::default());
    let first = fixture.execute_and_write(plan_id);
    let path = first.sandboxes()[0].path.clone();
    lifecycle
        .submit_command(
            plan_id,
            ReleaseLease {
                epoch: first.epoch(),
            },
            &call_as_ada(),
        )
        .expect("release, as after a takeover");
    let second = lifecycle
        .claims()
        .start_execute(plan_id, "v", TEST_LEASE, &call_as_ada())
        .unwrap();
    let other = second.sandboxes()[0].path.clone();
    assert_ne!(other, path);
    std::fs::write(other.join("SECOND.md"), "Mine.\n").unwrap();
    let late = first.complete_execute(&ResultContent::default());
    assert!(
        matches!(late, Err(LifecycleError::Refused(Refusal::Fenced { .. }))),
        "{late:?}"
    );
    // After the result is submitted, the next holder continues in the same sandbox.
    second.complete_execute(&ResultContent::default()).unwrap();
    lifecycle
        .revise_plan(plan_id, "more", Vec::new(), &call_as_ada())
        .unwrap();
    let third = lifecycle
        .claims()
        .start_execute(plan_id, "u", TEST_LEASE, &call_as_ada())
        .unwrap();
    assert_eq!(third.sandboxes()[0].path, other);
    assert!(other.join("SECOND.md").exists());
}

#[test]
fn execute_continues_in_the_sandbox_of_strategize() {
    let fixture = EngineRepoFixture::new();
    let lifecycle = &fixture.lifecycle;
    let plan_id = fixture.create_plan(RepositoryPolicy::default());
    let claim = lifecycle
        .claims()
        .start_strategize(plan_id, "w", TEST_LEASE, &call_as_ada())
        .unwrap();
    let path = claim.sandboxes()[0].path.clone();
    let next_phase = claim
        .complete_strategize_and_continue(Vec::new(), TEST_LEASE)
        .unwrap();
    let NextPhase::Claimed(claim) = next_phase else {
        panic!("{:?}", fixture.read_stage(plan_id));
    };
    assert_eq!(claim.sandboxes()[0].path, path);
}

#[test]
fn a_report_of_success_needs_changes_in_the_sandbox() {
    let fixture = EngineRepoFixture::new();
    let claim = fixture.execute_and_write(fixture.create_plan(RepositoryPolicy::default()));
    let done = claim.complete(&Report::done("Wrote notes")).unwrap();
    assert_eq!(done.plan.stage().to_string(), "execute/complete");
    let [tree] = &done.plan.result().unwrap().trees[..] else {
        panic!("{:?}", done.plan.result());
    };
    assert_eq!(tree.changes, Some(1));

    let claim = fixture.execute_and_write(fixture.create_plan(RepositoryPolicy::default()));
    let [sandbox] = claim.sandboxes() else {
        panic!("{:?}", claim.sandboxes());
    };
    std::fs::remove_file(sandbox.path.join("NOTES.md")).unwrap();
    let done = claim.complete(&Report::done("Wrote notes")).unwrap();
    let failure = done.plan.stage().failure().unwrap();
    assert_eq!(failure.category, FailureCategory::Actor);
    assert_eq!(
        failure.message.to_string(),
        "the agent reported success but changed nothing; its last message: Wrote notes"
    );
}

/// Writes one more file on each run, or fails. Records the dropped paths and the `revises` flag of its assignments.
#[derive(Clone, Default)]
struct FileWritingActor {
    dropped_paths: Arc<Mutex<Vec<Vec<String>>>>,
    revises: Arc<AtomicBool>,
    fails: Arc<AtomicBool>,
}

impl Actor for FileWritingActor {
    fn work(&self, assignment: &Assignment, _: &Workplace<'_>) -> Report {
        let mut dropped_paths = self.dropped_paths.lock().unwrap();
        dropped_paths.push(assignment.dropped.clone());
        self.revises.store(assignment.revises, Ordering::SeqCst);
        if self.fails.load(Ordering::SeqCst) {
            return Report::failed(FailureCategory::Actor, "no ink");
        }
        let name = format!("{}.md", dropped_paths.len());
        std::fs::write(assignment.sandboxes[0].path.join(name), "Noted.\n").unwrap();
        Report::done("Wrote a file")
    }
}

#[test]
fn dropped_paths_stay_dropped_until_the_work_starts_over() {
    let fixture = EngineRepoFixture::new();
    let (lifecycle, writer) = (&fixture.lifecycle, FileWritingActor::default());
    let plan_id = fixture.create_plan(RepositoryPolicy::default());
    let run_and_read_dropped = || {
        let worker = Worker::new(lifecycle).actor("robot", writer.clone());
        worker.drain(&Stop::default()).unwrap();
        writer.dropped_paths.lock().unwrap().last().unwrap().clone()
    };
    let revise = |feedback: &str, paths: &[&str]| {
        let paths = paths.iter().map(|path| samples::tree_path(*path)).collect();
        lifecycle
            .revise_plan(plan_id, feedback, paths, &call_as_ada())
            .unwrap();
        run_and_read_dropped()
    };
    assert!(run_and_read_dropped().is_empty());
    assert_eq!(revise("Without the first", &["1.md"]), ["1.md"]);
    // A later revision keeps the earlier dropped paths.
    assert_eq!(revise("Shorter", &[]), ["1.md"]);
    let both = ["1.md", "2.md"];
    assert_eq!(revise("Nor the second", &both), both);
    writer.fails.store(true, Ordering::SeqCst);
    assert_eq!(revise("Longer", &[]), both);
    lifecycle
        .retry_phase(plan_id, false, None, &call_as_ada())
        .unwrap();
    assert_eq!(run_and_read_dropped(), both);
    assert!(writer.revises.load(Ordering::SeqCst));
    writer.fails.store(false, Ordering::SeqCst);
    lifecycle
        .retry_phase(plan_id, true, None, &call_as_ada())
        .unwrap();
    assert!(run_and_read_dropped().is_empty());
    // A fresh retry has no result to revise.
    assert!(!writer.revises.load(Ordering::SeqCst));
    assert_eq!(revise("Without that one", &["7.md"]), ["7.md"]);
    lifecycle
        .submit_command(plan_id, RevertPlan::new("Otherwise"), &call_as_ada())
        .unwrap();
    assert!(run_and_read_dropped().is_empty());
    assert_eq!(writer.dropped_paths.lock().unwrap().len(), 9);
}
