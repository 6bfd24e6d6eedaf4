//! Every command, by the name features give it: as the words of a process and as a call.
//! And every stage a plan can be taken to.

use plan::changeset::{ChangesetEntry, Node, PathOperation, TreePath};
use plan::command::{
    AnswerQuestion, AskPerson, ChangesetSelector, CompleteApply, CompleteStrategize,
    ConstrainApply, FailRun, RecordChange, ReleaseLease, RenewLease, RevertPlan, SealChangeset,
    WithdrawApply,
};
use plan::invariant::{Gate, RuleCheck, RuleDraft, RuleScope};
use plan::stage::{ConstraintKind, FailureCategory, ResultContent};
use plan::{ChangesetId, Epoch, PlanId, QualifiedName};
use planwright::{Call, Lifecycle, LifecycleError, PlanActors, Span, UseRequest, plan, yaml};

use crate::world::{World, call_by_ada};

/// A lease that does not end while a scenario runs.
pub const LONG_LEASE: Span = Span::from_seconds(3600);
/// A lease that has ended when it begins.
pub const EXPIRED_LEASE: Span = Span::from_seconds(-60);

/// The action of the scenarios.
pub const SCENARIO_ACTION: &str = "\
name: tidy
description: Tidy one area
actor: bot
invariants:
  - name: calm
    expr: plan.attempt < 100
";

/// A plan where a scenario begins, with what its holder has.
pub struct PreparedPlan {
    pub plan_id: PlanId,
    pub epoch: Option<Epoch>,
    pub changeset: Option<ChangesetId>,
}

/// Makes the scenarios' action unless it is there.
pub fn create_action(engine: &Lifecycle) -> QualifiedName {
    let definition = yaml::parse_action(SCENARIO_ACTION, "action.yaml").unwrap();
    let name = definition.name.clone();
    if engine.actions().get_action(&name).is_err() {
        engine
            .actions()
            .create_action(definition, &call_by_ada())
            .unwrap();
    }
    name
}

/// What a plan is made of.
pub fn use_request(action: &QualifiedName) -> UseRequest {
    UseRequest {
        action: Some(action.clone()),
        ..UseRequest::default()
    }
}

/// What a plan without an action is made of.
pub fn goal_request(text: &str) -> UseRequest {
    UseRequest {
        goal: Some(text.to_owned()),
        fallback_actors: Some(PlanActors::for_both_phases("bot".parse().unwrap())),
        ..UseRequest::default()
    }
}

/// What a finished execute hands in.
pub fn result_content() -> ResultContent {
    ResultContent {
        report: Some("did it".into()),
        trees: Vec::new(),
    }
}

/// A new file.
pub fn created_entry(path: &str) -> ChangesetEntry {
    ChangesetEntry::new(TreePath::new(path).unwrap(), PathOperation::Create)
}

/// A rule that never holds, judged at one gate.
pub fn failing_rule(gate: Gate) -> RuleDraft {
    RuleDraft {
        name: "never".parse().unwrap(),
        check: RuleCheck::Expr("plan.attempt > 1000".to_owned()),
        at: vec![gate],
        advisory: false,
        non_overridable: false,
    }
}

/// Takes a new plan to a stage.
pub fn plan_at(engine: &Lifecycle, stage: &str) -> PreparedPlan {
    let action = create_action(engine);
    let plan = engine
        .use_action(use_request(&action), &call_by_ada())
        .unwrap()
        .plan
        .id();
    let mut ready = PreparedPlan {
        plan_id: plan,
        epoch: None,
        changeset: None,
    };
    advance_plan(engine, &mut ready, stage);
    let reached = engine.get_plan(plan).unwrap().plan.stage().to_string();
    assert_eq!(reached, stage, "the way to a stage leads there");
    ready
}

/// Takes a plan from `strategize/queued` to a stage, by way of the stages before it.
fn advance_plan(engine: &Lifecycle, ready: &mut PreparedPlan, stage: &str) {
    let (plan, call) = (ready.plan_id, call_by_ada());
    let epoch = |ready: &PreparedPlan| ready.epoch.unwrap();
    match stage {
        "strategize/queued" => {}
        "strategize/processing" | "execute/processing" | "apply/processing" => {
            let (phase, _) = stage.split_once('/').unwrap();
            advance_plan(engine, ready, &format!("{phase}/queued"));
            let claim = match phase {
                "strategize" => engine
                    .claims()
                    .start_strategize(plan, "first", LONG_LEASE, &call),
                "execute" => engine
                    .claims()
                    .start_execute(plan, "first", LONG_LEASE, &call),
                _ => engine
                    .claims()
                    .start_apply(plan, "first", LONG_LEASE, &call),
            };
            ready.epoch = Some(claim.unwrap().epoch());
            if phase == "execute" {
                let node = Node::main();
                let opened = engine.open_changeset(plan, epoch(ready), node, &call);
                ready.changeset = opened.unwrap().receipt.changeset;
            }
        }
        "strategize/complete" => {
            advance_plan(engine, ready, "strategize/processing");
            engine
                .submit_command(
                    plan,
                    CompleteStrategize::new(epoch(ready), Vec::new()),
                    &call,
                )
                .unwrap();
        }
        "execute/queued" => {
            advance_plan(engine, ready, "strategize/complete");
            engine.execute_plan(plan, &call).unwrap();
        }
        "execute/complete" => {
            advance_plan(engine, ready, "execute/processing");
            engine
                .complete_execute(plan, epoch(ready), &result_content(), &call)
                .unwrap();
        }
        "apply/queued" => {
            advance_plan(engine, ready, "execute/complete");
            engine.apply_plan(plan, &call).unwrap();
        }
        "apply/processing, prepared" => {
            advance_plan(engine, ready, "apply/processing");
            engine
                .landing()
                .prepare_apply(plan, epoch(ready), &[], &call)
                .unwrap();
        }
        "apply/constrained" => {
            advance_plan(engine, ready, "apply/processing");
            let kind = ConstraintKind::Conflict;
            engine
                .submit_command(
                    plan,
                    ConstrainApply {
                        epoch: epoch(ready),
                        kind,
                        message: "both changed it".to_owned(),
                        paths: vec![],
                        commits: Vec::new(),
                    },
                    &call,
                )
                .unwrap();
        }
        "apply/applied" => {
            advance_plan(engine, ready, "apply/processing");
            engine
                .submit_command(
                    plan,
                    CompleteApply::new(epoch(ready), Vec::new(), None),
                    &call,
                )
                .unwrap();
        }
        other => {
            let (phase, state) = other.split_once('/').unwrap();
            advance_plan(engine, ready, &format!("{phase}/processing"));
            let holder = epoch(ready);
            match state {
                "errored" => engine.submit_command(
                    plan,
                    FailRun::new(holder, FailureCategory::Actor, "it broke"),
                    &call,
                ),
                "awaiting_input" => {
                    engine.submit_command(plan, AskPerson::new(holder, "Which way?", None), &call)
                }
                "cancelled" => engine.cancel_plan(plan, None, &call),
                _ => panic!("nobody knows the way to {other}"),
            }
            .unwrap();
        }
    }
}

/// The words a process is given for a command, from `planwright` on.
pub fn command_words(world: &World, command: &str) -> Vec<String> {
    let plan = world.plan_id().to_string();
    let plain = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let epoch = || world.epoch().to_string();
    let changeset = || world.changeset.expect("a changeset is open").to_string();
    match command {
        "create-action" => {
            let file = world.program.home().join("new.yaml");
            std::fs::write(&file, SCENARIO_ACTION.replace("tidy", "new")).unwrap();
            plain(&["action", "create", "--config", file.to_str().unwrap()])
        }
        "archive-action" => plain(&["action", "archive", "tidy"]),
        "add-rule" => plain(&["rule", "add", "short", "--expr", "plan.attempt < 9"]),
        "remove-rule" => plain(&["rule", "remove", "calm", "--action", "tidy"]),
        "use" => plain(&["use", "tidy"]),
        "start-strategize" | "start-execute" | "start-apply" => {
            plain(&["plumbing", command, &plan, "--owner", "second"])
        }
        "execute-plan" | "apply-plan" | "approve" | "reclaim" | "retry" | "cancel" => {
            plain(&["plumbing", command, &plan])
        }
        "complete-strategize"
        | "complete-execute"
        | "complete-apply"
        | "prepare-apply"
        | "withdraw-apply"
        | "renew"
        | "release"
        | "constrain" => plain(&["plumbing", command, &plan, "--epoch", &epoch()]),
        "open-changeset" => plain(&[
            "plumbing",
            command,
            &plan,
            "--epoch",
            &epoch(),
            "--node",
            "other",
        ]),
        "record-change" => plain(&[
            "plumbing",
            command,
            &plan,
            "--epoch",
            &epoch(),
            "--path",
            "a",
            "--operation",
            "create",
        ]),
        "seal-changeset" => plain(&[
            "plumbing",
            command,
            &plan,
            "--epoch",
            &epoch(),
            "--changeset",
            &changeset(),
        ]),
        "fail" => plain(&[
            "plumbing",
            command,
            &plan,
            "--epoch",
            &epoch(),
            "--category",
            "actor",
            "--message",
            "broke",
        ]),
        "ask" => plain(&[
            "plumbing",
            command,
            &plan,
            "--epoch",
            &epoch(),
            "--question",
            "Which?",
        ]),
        "answer" => plain(&["plumbing", command, &plan, "That way"]),
        "revise" => plain(&["plumbing", command, &plan, "Better"]),
        "revert" => plain(&["plumbing", command, &plan, "--reason", "wrong way"]),
        "waive" => plain(&["waive", &plan, "calm", "--reason", "today only"]),
        other => panic!("nobody knows the command `{other}`"),
    }
}

/// The same as a call in this process.
pub fn run_call(
    engine: &Lifecycle,
    world: &World,
    command: &str,
    call: &Call,
) -> Result<(), LifecycleError> {
    let plan = world.plan_id();
    let epoch = || world.epoch();
    let action: QualifiedName = "tidy".parse().unwrap();
    match command {
        "create-action" => {
            let definition =
                yaml::parse_action(&SCENARIO_ACTION.replace("tidy", "new"), "new.yaml").unwrap();
            engine.actions().create_action(definition, call).map(drop)
        }
        "archive-action" => engine.actions().archive_action(&action, call).map(drop),
        "add-rule" => engine
            .rules()
            .add_rule(RuleScope::Global, failing_rule(Gate::Result), call),
        "remove-rule" => {
            engine
                .rules()
                .remove_rule(RuleScope::Action(action), "calm".parse().unwrap(), call)
        }
        "use" => engine.use_action(use_request(&action), call).map(drop),
        "start-strategize" => engine
            .claims()
            .start_strategize(plan, "second", LONG_LEASE, call)
            .map(drop),
        "start-execute" => engine
            .claims()
            .start_execute(plan, "second", LONG_LEASE, call)
            .map(drop),
        "start-apply" => engine
            .claims()
            .start_apply(plan, "second", LONG_LEASE, call)
            .map(drop),
        "execute-plan" => engine.execute_plan(plan, call).map(drop),
        "apply-plan" => engine.apply_plan(plan, call).map(drop),
        "approve" => engine
            .landing()
            .approve_result(plan, &plan::LandingOptions::default(), call)
            .map(drop),
        "reclaim" => engine.leases().reclaim_lease(plan, call).map(drop),
        "retry" => engine.retry_phase(plan, false, None, call).map(drop),
        "cancel" => engine.cancel_plan(plan, None, call).map(drop),
        "complete-strategize" => engine
            .submit_command(plan, CompleteStrategize::new(epoch(), Vec::new()), call)
            .map(drop),
        "complete-execute" => engine
            .complete_execute(plan, epoch(), &result_content(), call)
            .map(drop),
        "complete-apply" => engine
            .submit_command(plan, CompleteApply::new(epoch(), Vec::new(), None), call)
            .map(drop),
        "prepare-apply" => engine
            .landing()
            .prepare_apply(plan, epoch(), &[], call)
            .map(drop),
        "withdraw-apply" => engine
            .submit_command(plan, WithdrawApply { epoch: epoch() }, call)
            .map(drop),
        "renew" => engine
            .submit_command(plan, RenewLease::new(epoch(), LONG_LEASE), call)
            .map(drop),
        "release" => engine
            .submit_command(plan, ReleaseLease { epoch: epoch() }, call)
            .map(drop),
        "constrain" => engine
            .submit_command(
                plan,
                ConstrainApply {
                    epoch: epoch(),
                    kind: ConstraintKind::Conflict,
                    message: "no".to_owned(),
                    paths: vec![],
                    commits: Vec::new(),
                },
                call,
            )
            .map(drop),
        "open-changeset" => engine
            .open_changeset(plan, epoch(), "other".parse().unwrap(), call)
            .map(drop),
        "record-change" => engine
            .submit_command(
                plan,
                RecordChange::new(epoch(), ChangesetSelector::OnlyOpen, created_entry("a")),
                call,
            )
            .map(drop),
        "seal-changeset" => {
            let changeset = world.changeset.expect("a changeset is open");
            engine
                .submit_command(plan, SealChangeset::new(epoch(), changeset), call)
                .map(drop)
        }
        "fail" => engine
            .submit_command(
                plan,
                FailRun::new(epoch(), FailureCategory::Actor, "broke"),
                call,
            )
            .map(drop),
        "ask" => engine
            .submit_command(plan, AskPerson::new(epoch(), "Which?", None), call)
            .map(drop),
        "answer" => engine
            .submit_command(plan, AnswerQuestion::new("That way"), call)
            .map(drop),
        "revise" => engine
            .revise_plan(plan, "Better", Vec::new(), call)
            .map(drop),
        "revert" => engine
            .submit_command(plan, RevertPlan::new("wrong way"), call)
            .map(drop),
        "waive" => engine
            .rules()
            .waive_rule(plan, "calm".parse().unwrap(), "today only", call)
            .map(drop),
        other => panic!("nobody knows the command `{other}`"),
    }
}
