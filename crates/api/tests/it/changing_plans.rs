//! What people decide about plans.

use actors::Stop;
use lifecycle::{LifecycleError, OperationOutcome, Worker};
use plan::invariant::{Gate, RuleScope};
use plan::landing_options::LandingDestination;
use plan::plan::PlanLimits;
use plan::repository_policy::RepositoryPolicy;
use plan::stage::{ApplyState, ResultContent, WorkState};
use plan::{Caller, LandingOptions, PlanActors, PlanId, PlanStage, Refusal, Span};
use planwright_api::landing::LandingRequest;
use planwright_api::plan_config::LimitOverrides;
use planwright_api::plans::{self, CancelRequest, RetryRequest, ReviseError, ReviseRequest};
use planwright_api::view::PlanChangeView;
use testkit::samples;

use crate::shop_repository::{ShopFixture, call_as_ada};

const TEST_LEASE: Span = Span::from_seconds(60);

/// Creates a plan whose result adds `notes.md` and `draft.md`.
pub fn create_result(shop: &ShopFixture, policy: RepositoryPolicy) -> PlanId {
    let request = lifecycle::UseRequest {
        goal: Some("Write notes".to_owned()),
        fallback_actors: Some(PlanActors::for_both_phases(samples::parse_name("robot"))),
        projects: vec![samples::parse_name("shop")],
        policy,
        ..lifecycle::UseRequest::default()
    };
    let call = call_as_ada();
    let done = shop.lifecycle.use_action(request, &call).unwrap();
    let plan_id = done.plan.id();
    shop.lifecycle
        .claims()
        .start_strategize(plan_id, "w", TEST_LEASE, &call)
        .unwrap()
        .complete_strategize(Vec::new())
        .unwrap();
    shop.lifecycle.execute_plan(plan_id, &call).unwrap();
    let claim = shop
        .lifecycle
        .claims()
        .start_execute(plan_id, "w", TEST_LEASE, &call)
        .unwrap();
    for file in ["notes.md", "draft.md"] {
        std::fs::write(claim.sandboxes()[0].path.join(file), "text\n").unwrap();
    }
    claim.complete_execute(&ResultContent::default()).unwrap();
    plan_id
}

#[test]
fn an_approval_lands_as_the_repository_says_unless_asked_otherwise() {
    let shop = ShopFixture::new();
    let on_a_branch = LandingOptions {
        shape: LandingDestination::Branch("notes".to_owned()),
        ..LandingOptions::default()
    };
    let policy = RepositoryPolicy {
        landing: on_a_branch.clone(),
        ..RepositoryPolicy::default()
    };
    let plan_id = create_result(&shop, policy);
    let approve = |request: &LandingRequest| {
        let done = plans::approve_result(&shop.lifecycle, plan_id, request, &call_as_ada());
        let plan = done.unwrap().plan;
        plan.approval().unwrap().options.clone()
    };
    assert_eq!(approve(&LandingRequest::default()), on_a_branch);
    let merge = LandingRequest {
        merge: true,
        ..LandingRequest::default()
    };
    let as_merge = LandingOptions {
        merge: true,
        ..LandingOptions::default()
    };
    assert_eq!(approve(&merge), as_merge);
    // A standing approval is what the next landing uses.
    let plan = shop.lifecycle.get_plan(plan_id).unwrap().plan;
    assert_eq!(LandingRequest::default().options_to_land(&plan), as_merge);
    assert_eq!(
        LandingRequest::default().options_to_approve(&plan),
        on_a_branch
    );
}

#[test]
fn a_revision_drops_the_changed_paths_that_match() {
    let shop = ShopFixture::new();
    let plan_id = create_result(&shop, RepositoryPolicy::default());
    let request = |glob: &str| ReviseRequest {
        text: "Without the draft".to_owned(),
        comments: Default::default(),
        drop: vec![glob.to_owned()],
        drop_paths: Vec::new(),
    };
    let unmatched = plans::revise_plan(&shop.lifecycle, plan_id, &request("*.rs"), &call_as_ada());
    assert!(
        matches!(unmatched, Err(ReviseError::NoPathMatches(_))),
        "{unmatched:?}"
    );
    let matched = plans::match_changed_paths(&shop.lifecycle, plan_id, "draft*").unwrap();
    assert_eq!(matched.len(), 1);
    assert_eq!(matched[0].as_bytes(), b"draft.md");
    let done = plans::revise_plan(&shop.lifecycle, plan_id, &request("draft*"), &call_as_ada());
    let claim = shop
        .lifecycle
        .claims()
        .start_execute(done.unwrap().plan.id(), "w", TEST_LEASE, &call_as_ada())
        .unwrap();
    let sandbox = &claim.sandboxes()[0].path;
    assert!(sandbox.join("notes.md").exists());
    assert!(!sandbox.join("draft.md").exists());
}

#[test]
fn a_retry_changes_only_the_limits_that_are_given() {
    let shop = ShopFixture::new();
    let request = lifecycle::UseRequest {
        goal: Some("Look around".to_owned()),
        fallback_actors: Some(PlanActors::for_both_phases(samples::parse_name("robot"))),
        limits: PlanLimits {
            tokens: Some(100),
            ..PlanLimits::default()
        },
        ..lifecycle::UseRequest::default()
    };
    let lifecycle = &shop.lifecycle;
    let plan_id = lifecycle
        .use_action(request, &call_as_ada())
        .unwrap()
        .plan
        .id();
    let claim = lifecycle
        .claims()
        .start_strategize(plan_id, "w", TEST_LEASE, &call_as_ada())
        .unwrap();
    claim
        .fail(plan::stage::FailureCategory::Actor, "It broke")
        .unwrap();
    let retry = RetryRequest {
        fresh: false,
        limits: LimitOverrides {
            attempts: Some(9),
            ..LimitOverrides::default()
        },
    };
    let done = plans::retry_plan(lifecycle, plan_id, &retry, &call_as_ada()).unwrap();
    assert_eq!(done.plan.limits().attempts, 9);
    assert_eq!(done.plan.limits().tokens, Some(100));
}

#[test]
fn a_change_is_described_with_its_receipt() {
    let shop = ShopFixture::new();
    let plan_id = create_result(&shop, RepositoryPolicy::default());
    let call = call_as_ada().with_key("once");
    let cancel = |reason: &str| -> Result<OperationOutcome, LifecycleError> {
        let request = CancelRequest {
            reason: Some(reason.to_owned()),
        };
        plans::cancel_plan(&shop.lifecycle, plan_id, &request, &call)
    };
    let first = cancel("enough").unwrap();
    assert!(matches!(
        first.plan.stage(),
        PlanStage::Execute(WorkState::Cancelled(_))
    ));
    let view = serde_json::to_value(plans::view_change(&shop.lifecycle, &first).unwrap()).unwrap();
    assert_eq!(view["plan_id"], plan_id.to_string());
    assert_eq!(view["state"], "cancelled");
    assert_eq!(view["receipt"]["repeated"], false);
    let second = cancel("enough").unwrap();
    let repeated =
        serde_json::to_value(plans::view_change(&shop.lifecycle, &second).unwrap()).unwrap();
    assert_eq!(repeated["receipt"]["repeated"], true);
    assert_eq!(repeated["receipt"]["version"], view["receipt"]["version"]);
    // Without the plan, the receipt still says which plan it was.
    let bare = serde_json::to_value(PlanChangeView::of_receipt(&second)).unwrap();
    assert_eq!(bare["plan_id"], view["plan_id"]);
    assert_eq!(bare["receipt"], repeated["receipt"]);
}

#[test]
fn an_undo_is_a_plan_of_its_own_and_only_one() {
    let shop = ShopFixture::new();
    let plan_id = create_result(&shop, RepositoryPolicy::default());
    let landed = shop.lifecycle.landing().approve_and_land(
        plan_id,
        &LandingOptions::default(),
        "ada",
        &call_as_ada(),
    );
    landed.unwrap();
    let undo = || plans::undo_plan(&shop.lifecycle, plan_id, &call_as_ada()).unwrap();
    let undone = undo();
    assert_ne!(undone.plan_id, plan_id);
    assert_eq!(undo().plan_id, undone.plan_id);
    let landed = shop.lifecycle.get_plan(plan_id).unwrap().plan;
    assert!(matches!(
        landed.stage(),
        PlanStage::Apply(ApplyState::Applied(_))
    ));
}

#[test]
fn workers_cannot_decide_for_a_person() {
    let shop = ShopFixture::new();
    let plan_id = create_result(&shop, RepositoryPolicy::default());
    let worker = lifecycle::Call::by(Caller::Worker("w".to_owned()));
    let refused = plans::approve_result(
        &shop.lifecycle,
        plan_id,
        &LandingRequest::default(),
        &worker,
    );
    assert!(
        matches!(
            refused,
            Err(LifecycleError::Refused(Refusal::NotAuthorized { .. }))
        ),
        "{refused:?}"
    );
}

fn stage_after_worker(shop: &ShopFixture, plan_id: PlanId) -> PlanStage {
    let worker = Worker::new(&shop.lifecycle);
    worker.drain(&Stop::default()).unwrap();
    let plan = shop.lifecycle.get_plan(plan_id).unwrap().plan;
    plan.stage().clone()
}

#[test]
fn a_worker_lands_what_a_person_asks_it_to_land() {
    let shop = ShopFixture::new();
    let plan_id = create_result(&shop, RepositoryPolicy::default());
    let request = LandingRequest::default();
    plans::approve_result(&shop.lifecycle, plan_id, &request, &call_as_ada()).unwrap();
    // An approval alone is not a request to land.
    assert_eq!(
        stage_after_worker(&shop, plan_id),
        PlanStage::Execute(WorkState::Complete)
    );
    let requested = plans::request_landing(&shop.lifecycle, plan_id, &request, &call_as_ada());
    assert!(!requested.unwrap().plan.needs_person());
    let landed = stage_after_worker(&shop, plan_id);
    assert!(
        matches!(landed, PlanStage::Apply(ApplyState::Applied(_))),
        "{landed:?}"
    );
    assert!(shop.path().join("notes.md").exists());
}

#[test]
fn a_landing_that_met_local_edits_is_queued_again() {
    let shop = ShopFixture::new();
    let plan_id = create_result(&shop, RepositoryPolicy::default());
    std::fs::write(shop.path().join("notes.md"), "mine\n").unwrap();
    let request = || {
        let request = LandingRequest::default();
        plans::request_landing(&shop.lifecycle, plan_id, &request, &call_as_ada()).unwrap()
    };
    request();
    let stage = stage_after_worker(&shop, plan_id);
    assert!(
        matches!(stage, PlanStage::Apply(ApplyState::Constrained(_))),
        "{stage:?}"
    );
    std::fs::remove_file(shop.path().join("notes.md")).unwrap();
    request();
    let stage = stage_after_worker(&shop, plan_id);
    assert!(
        matches!(stage, PlanStage::Apply(ApplyState::Applied(_))),
        "{stage:?}"
    );
}

#[test]
fn a_request_to_land_is_void_once_the_rules_change() {
    let shop = ShopFixture::new();
    let plan_id = create_result(&shop, RepositoryPolicy::default());
    let request = LandingRequest::default();
    plans::request_landing(&shop.lifecycle, plan_id, &request, &call_as_ada()).unwrap();
    let rule = samples::rule_draft("small", "totals.lines <= 400", &[Gate::Apply]);
    let rules = shop.lifecycle.rules();
    rules
        .add_rule(RuleScope::Global, rule, &call_as_ada())
        .unwrap();
    assert_eq!(
        stage_after_worker(&shop, plan_id),
        PlanStage::Execute(WorkState::Complete)
    );
}
